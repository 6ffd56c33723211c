"""One running page for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.web.running import Page, running


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page on which other tests may have clicked."""
    with running(tmp_path_factory.mktemp("page") / "log") as page:
        yield page


@pytest.fixture
def browser(page: Page) -> Iterator[httpx.Client]:
    """A browser that has never been there, and opens the page."""
    with page.browser() as client:
        yield client
