"""The page in a real browser: workers that die, streams that do not get through, no script, small screens."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.by import By

from tests.browser.chromium import NARROW, WIDE, opened
from tests.browser.conftest import Browser
from tests.browser.test_clicks import live, server_says, shows
from tests.browser.test_crowd import checked
from tests.waiting import until
from tests.web.running import JSON, Page


def test_the_worker_that_serves_the_page_dies(page: Page, browser: Browser) -> None:
    """The page connects to the other, later both are there again; what is clicked meanwhile is not lost."""
    tab = live(opened(browser(), page.url))
    for turn in range(4):
        gone = tab.number("worker")
        if gone not in page.facts()["workers"]:
            until(lambda: tab.number("worker") in page.facts()["workers"], "a worker that lives")
            gone = tab.number("worker")
        likes, liked = (turn + 1) % 2, turn % 2 == 0
        page.kill_worker(gone)
        tab.button(10).click()
        assert (tab.likes(10), tab.liked(10)) == (likes, liked)
        until(lambda gone=gone: tab.is_live() and tab.number("worker") != gone, "served by another")  # type: ignore[misc]
        server_says(page, 10, likes)
        shows(tab, 10, likes, liked)
        page.await_workers(gone)


def test_all_workers_die(page: Page, browser: Browser) -> None:
    """Then nobody answers for a moment: the page says so, and goes on by itself."""
    tab = live(opened(browser(), page.url))
    for pid in page.facts()["workers"]:
        page.kill_worker(pid)
    tab.button(11).click()
    server_says(page, 11, 1)
    until(tab.is_live, "live again")
    shows(tab, 11, 1, True)
    with page.browser() as other:
        other.post("/posts/11/like", data={"liked": "yes"}, headers=JSON).raise_for_status()
    shows(tab, 11, 2, True)


def test_streams_that_do_not_get_through(page: Page, browser: Browser) -> None:
    """It asks every two seconds instead."""
    driver = browser()
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/events"]})
    tab = opened(driver, page.url)
    until(lambda: tab.text("#live-text") == "live, every 2 seconds", "it polls")
    with page.browser() as other:
        other.post("/posts/12/like", data={"liked": "yes"}, headers=JSON).raise_for_status()
    shows(tab, 12, 1, False)
    tab.button(12).click()
    shows(tab, 12, 2, True)


def test_without_javascript(page: Page, browser: Browser) -> None:
    """Counts are there, a button posts its form and leads back to its card, and so do the switches."""
    tab = opened(browser(javascript=False), page.url)
    assert not tab.find(".chart").is_displayed()
    assert (tab.likes(13), tab.liked(13), tab.text("#post-13 .like")) == (0, False, "Like")
    tab.button(13).click()
    until(lambda: tab.here().current_url == f"{page.url}/#post-13", "back at the card")
    assert (tab.likes(13), tab.liked(13), tab.text("#post-13 .like")) == (1, True, "Liked")
    server_says(page, 13, 1)
    tab.here().refresh()
    assert (tab.likes(13), tab.liked(13)) == (1, True)
    tab.keep_picture("no-javascript")
    tab.button(13).click()
    until(lambda: not tab.liked(13), "taken back")
    assert tab.likes(13) == 0
    assert "Load it again" in tab.text(".panel")
    for on in (True, False):
        tab.find("#switch-losses").click()
        until(lambda on=on: checked(tab, "losses") is on, "the switch")  # type: ignore[misc]
    assert tab.here().current_url == f"{page.url}/"


@pytest.mark.parametrize("size", [NARROW, WIDE, (320, 640), (375, 667), (820, 1180)], ids=lambda size: str(size[0]))
def test_it_fits(page: Page, browser: Browser, size: tuple[int, int]) -> None:
    """Nothing is wider than the screen, what is to be touched is large enough for a finger, and a post can be liked
    before anything is scrolled: on a phone the panel comes after the first post."""
    driver = browser(NARROW)
    screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    tab = live(opened(driver, page.url))
    assert tab.ask("return innerWidth") == size[0]
    assert tab.ask("return document.documentElement.scrollWidth") <= size[0]
    heights = tab.ask("return [...document.querySelectorAll('button')].map(b => b.getBoundingClientRect().height)")
    assert len(heights) == 22
    assert min(heights) >= 44
    tab.keep_picture(f"width-{size[0]}")
    foot = tab.button(1).rect["y"] + tab.button(1).rect["height"]
    assert foot <= size[1], "the first like button is on the first screen"
    order = "return [...arguments].map(id => document.getElementById(id).getBoundingClientRect().top)"
    first, panel, second = tab.ask(order, "post-1", "panel", "post-2")
    assert first < panel < second if size[0] < 500 else panel <= first == second
    tab.ask("location.hash = 'posts'")
    assert tab.ask("return document.activeElement.id") == "posts", "the posts can be skipped to"


CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
  }
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  if (!own || !element.checkVisibility() || element.closest("svg, .axis, noscript")) continue;
  const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
  found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.className + " " + element.textContent.trim()]);
}
return found;
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_are_readable(page: Page, browser: Browser, dark: bool) -> None:
    """Every text has the contrast that WCAG asks for (4.5), in both schemes, pressed and not."""
    tab = live(opened(browser(dark=dark), page.url))
    post = 15 if dark else 14
    tab.button(post).click()
    shows(tab, post, 1, True)
    tab.ask("document.activeElement.blur()")
    contrasts = tab.ask(CONTRAST)
    assert len(contrasts) > 100
    assert [(round(ratio, 2), what) for ratio, what in contrasts if ratio < 4.5] == []
    tab.keep_picture("dark" if dark else "light")


def test_it_says_what_it_is_to_those_who_do_not_see_it(page: Page, browser: Browser) -> None:
    """Names and roles as the browser's accessibility tree has them; counts are not called out as they change."""
    tab = live(opened(browser(), page.url))
    driver = tab.here()
    nodes = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    told = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    assert told.count(("button", "Like")) == 20
    assert {("switch", "A crowd"), ("switch", "A bad link"), ("heading", "Likes that add up")} <= set(told)
    assert ("complementary", "Every like, counted two ways") in told
    assert ("article", "The harbour before six") in told
    tab.button(17).click()
    shows(tab, 17, 1, True)
    nodes = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    buttons = [node["name"]["value"] for node in nodes if not node["ignored"] and node["role"]["value"] == "button"]
    assert (buttons.count("Like"), buttons.count("Liked")) == (19, 1)
    assert len({name for role, name in told if role == "article"}) == 20
    assert driver.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
    areas = driver.find_elements(By.CSS_SELECTOR, "[aria-live], [role=status]")
    assert [area.get_attribute("id") for area in areas] == ["live", "toast"]
