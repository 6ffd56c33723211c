"""A page of the demo, and browsers to look at it; without chromium all of this is skipped, and says so."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.browser import installed
from tests.browser.chromium import chromium
from tests.web.running import Page, running

Browser = Callable[..., webdriver.Chrome]


@pytest.fixture(autouse=True, scope="session")
def _browser_is_here() -> None:
    if absent := installed.missing():
        pytest.skip(absent)  # where a browser is required, the whole run has failed by now


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page for all tests of a file, each of which clicks on posts of its own."""
    with running(tmp_path_factory.mktemp("page") / "log") as page:
        yield page


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Start browsers: ``browser(size, javascript=False, dark=True)``; they end with the test."""
    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> webdriver.Chrome:
            # Not below pytest's own folder: sockets of the browser need a short path.
            profile = stack.enter_context(tempfile.TemporaryDirectory(prefix="rc-", ignore_cleanup_errors=True))
            return stack.enter_context(chromium(Path(profile), *arguments, **options))

        yield start
