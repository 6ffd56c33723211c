"""The panel in a real browser: the crowd, the link that loses replies, and three numbers."""

from __future__ import annotations

from tests.browser.chromium import NARROW, Tab, opened
from tests.browser.conftest import Browser
from tests.browser.test_clicks import live
from tests.waiting import until
from tests.web.running import Page


def checked(tab: Tab, name: str) -> bool:
    return tab.attribute(f"#switch-{name}", "aria-checked") == "true"


def test_the_crowd_and_the_link(page: Page, browser: Browser) -> None:
    """Switched in one browser, seen in the other; INCR goes wrong and redis-counters does not, as one looks on."""
    ann, bob = live(opened(browser(), page.url)), live(opened(browser(NARROW), page.url))
    for post in (1, 4, 6):
        ann.button(post).click()
    ann.find("#switch-crowd").click()
    assert checked(ann, "crowd")
    until(lambda: checked(bob, "crowd"), "the switch is on in the other browser")
    until(lambda: bob.number("issued") > 1000, "the crowd likes")
    bob.find("#switch-losses").click()
    until(lambda: checked(ann, "losses"), "the switch is on in the other browser")
    until(lambda: ann.number("lost") >= 40, "replies are lost")
    until(lambda: ann.text("#plain-error").startswith("+"), "INCR counts too much")
    until(lambda: ann.text("#ours-error") == "exact", "redis-counters is exact")
    assert ann.number("rate") > 0
    # Numbers stand beside each other as of one moment; the page may change between two questions, but not within one.
    for tab in (ann, bob):
        for _ in range(20):
            numbers = tab.ask("return ['issued', 'plain', 'ours'].map(id => document.getElementById(id).textContent)")
            issued, plain, ours = (int(number.replace(",", "")) for number in numbers)
            assert ours == issued
            assert plain > issued
    assert len(ann.find(".plain-line").get_attribute("d") or "") > 50
    ann.ask("scrollTo(0, 0)")
    ann.keep_picture("wide")
    bob.keep_picture("phone")
    bob.ask("document.getElementById('post-3').scrollIntoView()")
    bob.keep_picture("phone-posts")
    for name in ("losses", "crowd"):
        ann.find(f"#switch-{name}").click()
        until(lambda name=name: not checked(bob, name), "the switch is off in the other browser")  # type: ignore[misc]
    until(lambda: page.facts()["rate"] == 0, "nobody likes any more")
    until(lambda: ann.number("ours") == bob.number("ours") == page.facts()["ours"], "all show the end")
