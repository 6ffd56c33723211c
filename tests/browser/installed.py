"""Whether there is a browser for the tests, and its driver: those of the system, nothing is fetched."""

from __future__ import annotations

import shutil

REQUIRED = "REDIS_COUNTERS_REQUIRE_BROWSER"
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


def missing() -> str:
    """Return what is not here, empty if browser tests can run."""
    found = {"chromium": BROWSER, "chromedriver (in Debian: the package chromium-driver)": DRIVER}
    absent = [name for name, path in found.items() if not path]
    return f"not on PATH: {' and '.join(absent)}" if absent else ""
