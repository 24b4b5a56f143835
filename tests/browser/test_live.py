"""The Live page as time goes on: new rounds, pauses, cut lines, killed servers, ended sessions."""

import os
import signal

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import Opens, Relay, Seen, Site
from tests.browser.serving import CAMPAIGN

BEGAN = "section:has(#last-title) dd >> nth=0"


def newest(page: Page) -> int:
    """Return the number of the newest round shown."""
    return int(page.locator(BEGAN).inner_text().split("round ")[1].strip(")").replace(",", ""))


def is_live(page: Page) -> None:
    """Wait until the page listens."""
    expect(page.locator("#live")).to_have_attribute("data-state", "on")


def shows(page: Page, round: int) -> None:
    """Wait until a round is the newest."""
    expect(page.locator(BEGAN)).to_contain_text(f"round {round:,}")


def test_rounds_appear_as_they_come(own_site: Site, opened: Opens, seen: Seen) -> None:
    """With their words for screen readers; the open table stays open, and pausing pauses."""
    page = opened(own_site, own_site.reader)
    is_live(page)
    page.get_by_text("Show as a table").click()
    first = newest(page)
    own_site.say("round")
    shows(page, first + 1)
    expect(page.locator("figure tbody tr").first).to_be_visible()
    expect(page.locator("#spoken")).to_contain_text("reports.")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#connection-words")).to_have_text("Paused")
    own_site.say("withheld")
    resume = page.get_by_role("button", name="Resume")
    expect(resume).to_have_attribute("aria-pressed", "true")
    assert newest(page) == first + 1
    resume.click()
    shows(page, first + 2)
    expect(page.get_by_text("The newest round was withheld")).to_be_visible()
    is_live(page)
    assert seen.errors == []


def test_a_cut_line_is_mended_by_the_page_itself(
    own_site: Site, opened: Opens, relay: Relay
) -> None:
    """The page says that the connection is lost, and shows what it missed once it is back."""
    page = opened(own_site, own_site.reader, address=relay.address)
    is_live(page)
    first = newest(page)
    relay.cut()
    expect(page.locator("#connection-words")).to_contain_text("Connection lost")
    own_site.say("round")
    relay.mend()
    shows(page, first + 1)
    is_live(page)


def test_after_a_killed_server_the_page_goes_on(own_site: Site, opened: Opens) -> None:
    """The page notices, and shows what comes once the server is back: nobody logs in again."""
    page = opened(own_site, own_site.reader)
    page.goto("/live?range=1d")
    is_live(page)
    first = newest(page)
    own_site.kill()
    expect(page.locator("#connection-words")).to_contain_text("Connection lost")
    own_site.start()
    is_live(page)
    own_site.say("round")
    shows(page, first + 1)
    assert page.url.endswith("/live?range=1d")


def test_a_session_that_ended_elsewhere_leads_to_the_login(own_site: Site, opened: Opens) -> None:
    """The open page says so by itself, and the login leads back to where one was."""
    page = opened(own_site, own_site.reader)
    page.goto("/live?range=1d")
    is_live(page)
    other = page.context.new_page()
    other.goto("/campaign")
    other.get_by_role("button", name="Log out").click()
    expect(other.get_by_text("You are logged out.")).to_be_visible()
    own_site.say("round")
    page.get_by_role("link", name="log in again").click()
    page.fill("#token", own_site.reader)
    page.press("#token", "Enter")
    page.wait_for_url("**/live?range=1d")
    is_live(page)


def test_negative_estimates_and_units_are_readable(site: Site, opened: Opens) -> None:
    """A mean below zero has a real minus sign and its unit."""
    page = opened(site, site.reader)
    page.goto("/live?range=1d")
    page.get_by_text("Show as a table").click()
    table = page.locator("figure table")
    assert CAMPAIGN.unit in table.locator("thead").inner_text()
    assert "−" in table.locator("tbody").inner_text()


def test_a_shuffler_that_died_is_seen_on_an_open_page(own_site: Site, opened: Opens) -> None:
    """No event comes any more: the page itself turns red and says since when, and recovers."""
    page = opened(own_site, own_site.reader)
    page.clock.install()
    page.goto("/live?range=1d")
    is_live(page)
    expect(page.get_by_text("No round became final")).to_have_count(0)
    own_site.say("silence")
    page.clock.fast_forward("01:00:00")
    expect(page.locator("#live")).to_have_attribute("data-state", "late")
    expect(page.locator("#connection-words")).to_have_text("Connected, but rounds are late")
    expect(page.get_by_text("No round became final for 1 hour")).to_be_visible()
    own_site.say("silence")
    # It goes on asking while rounds are late: what it says of it grows old.
    page.clock.fast_forward("00:30")
    expect(page.get_by_text("No round became final for 2 hours")).to_be_visible()
    own_site.say("round")
    page.clock.fast_forward("00:30")
    is_live(page)


def test_a_server_that_hangs_is_seen(own_site: Site, opened: Opens) -> None:
    """The stream lives by its heartbeat: without one the page says that the connection is lost."""
    page = opened(own_site, own_site.reader)
    page.clock.install()
    page.goto("/live?range=1d")
    is_live(page)
    os.kill(own_site.pid, signal.SIGSTOP)
    try:
        page.clock.fast_forward("01:00")
        expect(page.locator("#connection-words")).to_contain_text("Connection lost")
    finally:
        os.kill(own_site.pid, signal.SIGCONT)


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_charts_keep_their_width(own_site: Site, opened: Opens, width: int) -> None:
    """After a round, after a change of the system's colours, and after any change of a control."""
    page = opened(own_site, own_site.operator, width=width)
    page.goto("/live?range=1d")
    is_live(page)
    first = drawn_width(page, "figure .plot")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert drawn_width(page, "figure .plot") == first
    shown = newest(page)
    own_site.say("round")
    shows(page, shown + 1)
    assert drawn_width(page, "figure .plot") == first


def drawn_width(page: Page, place: str) -> int:
    """Return the width of a chart, which fills the place it stands in."""
    page.wait_for_selector(f"{place} canvas")
    page.wait_for_function(
        f"""() => {{
          const place = document.querySelector({place!r});
          const canvas = place.querySelector("canvas");
          return place.clientWidth > 200 &&
            Math.abs(canvas.getBoundingClientRect().width - place.clientWidth) < 2;
        }}"""
    )
    return int(page.evaluate(f"document.querySelector({place!r}).clientWidth"))
