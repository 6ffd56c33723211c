"""The module of one framework imports no other framework, and the library imports none."""

from __future__ import annotations

import pytest

from tests.lifecycle.children import program

FRAMEWORKS = {"asgiref", "celery", "django", "fastapi", "flask", "litestar", "starlette", "pytest", "fakeredis"}
NEEDS = {
    "redis_counters": "",
    "redis_counters.asyncio": "",
    "redis_counters.testing": "",
    "redis_counters.contrib": "",
    "redis_counters.contrib.celery": "from celery import Celery",
    "redis_counters.contrib.django": "import django.conf, django.core.cache",
    "redis_counters.contrib.fastapi": "import fastapi",
    "redis_counters.contrib.flask": "import flask",
    "redis_counters.contrib.litestar": "import litestar",
    "redis_counters.contrib.starlette": "import starlette",
}


@pytest.mark.every(3, "a process each")
@pytest.mark.parametrize("module", NEEDS)
def test_what_is_imported(module: str) -> None:
    """Besides the framework, and what that imports by itself."""
    begin = f"import sys\n{NEEDS[module]}\nbefore = set(sys.modules)\nimport {module}\n"
    done = program(f"{begin}print(*sorted(({FRAMEWORKS!r} & sys.modules.keys()) - before))")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
