"""Debian's chromium without a window, steered by its own driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.browser.installed import BROWSER, DRIVER
from tests.waiting import until

T = TypeVar("T")

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, in containers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
SCREENSHOTS = Path(__file__).parent / "screenshots"  # not kept in the repository
WIDE, NARROW = (1360, 900), (390, 844)
GONE = "does not belong to the document"  # an element of the page before, as the driver says it now and then


class Tab:
    """One tab of a browser."""

    def __init__(self, driver: webdriver.Chrome, handle: str) -> None:
        self.driver, self._handle = driver, handle

    def here(self) -> webdriver.Chrome:
        """Return the driver, looking at this tab."""
        self.driver.switch_to.window(self._handle)
        return self.driver

    def find(self, selector: str) -> WebElement:
        return self.here().find_element(By.CSS_SELECTOR, selector)

    def ask(self, script: str, *arguments: object) -> Any:
        """Return what a script in the page returns."""
        return self.here().execute_script(script, *arguments)

    def read(self, selector: str, what: Callable[[WebElement], T]) -> T:
        """Return something of an element, though the page may just be loaded anew."""
        found: list[T] = []

        def there() -> bool:
            with suppress(StaleElementReferenceException, NoSuchElementException):
                try:
                    found.append(what(self.find(selector)))
                except WebDriverException as error:
                    if GONE not in str(error):
                        raise
            return bool(found)

        until(there, selector)
        return found[0]

    def text(self, selector: str) -> str:
        return self.read(selector, lambda element: element.text)

    def attribute(self, selector: str, name: str) -> str | None:
        return self.read(selector, lambda element: element.get_attribute(name))

    def likes(self, post: int) -> int:
        """Return what the card shows."""
        return int(self.text(f'[data-likes="{post}"]').replace(",", ""))

    def liked(self, post: int) -> bool:
        """Return whether the card's button is pressed."""
        return self.attribute(f"#post-{post} .like", "aria-pressed") == "true"

    def button(self, post: int) -> WebElement:
        return self.find(f"#post-{post} .like")

    def is_live(self) -> bool:
        """Return whether updates come in as they happen."""
        return self.attribute("#live", "data-state") == "live"

    def number(self, name: str) -> int:
        """Return a number of the panel."""
        return int(self.text(f"#{name}").replace(",", ""))

    def complaints(self) -> list[str]:
        """Return what the browser's console has: errors of scripts, violations of the page's policy."""
        return [entry["message"] for entry in self.here().get_log("browser")]  # type: ignore[no-untyped-call]

    def keep_picture(self, name: str) -> Path:
        """What is seen is kept, for whoever looks through the results."""
        SCREENSHOTS.mkdir(exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        assert self.here().save_screenshot(str(path))
        return path


@contextmanager
def chromium(
    profile: Path, size: tuple[int, int] = WIDE, *, javascript: bool = True, dark: bool = False
) -> Iterator[webdriver.Chrome]:
    """A browser with an empty profile: a user that nobody has seen before."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.add_argument(f"--window-size={size[0]},{size[1]}")
    if not javascript:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    environment = {**os.environ, "HOME": str(profile)}  # caches and the like stay with the test
    driver = webdriver.Chrome(options, Service(DRIVER, env=environment))
    try:
        if size == NARROW:  # windows have a least width, so the phone is emulated
            screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 2, "mobile": True}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        if dark:
            features = [{"name": "prefers-color-scheme", "value": "dark"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield driver
    finally:
        driver.quit()


def opened(driver: webdriver.Chrome, url: str) -> Tab:
    """Return the browser's first tab, at this address."""
    driver.get(url)
    return Tab(driver, driver.current_window_handle)


def another(tab: Tab, url: str, kind: str = "tab") -> Tab:
    """Return a new tab (or window) of the same browser, at this address."""
    driver = tab.here()
    driver.switch_to.new_window(kind)
    return opened(driver, url)
