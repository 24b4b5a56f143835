"""The owner's page in a real browser: for everybody, by keyboard, on a phone, without scripts."""

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import Opens, Seen
from tests.browser.test_forms import walked
from tests.browser.test_pages import violations
from tests.device.owning import QUARTERS, Owned, owned
from tests.patience import PATIENCE_S


@dataclass
class Place:
    """Where a page is, as a site."""

    address: str


@pytest.fixture
def device(quick_folder: Path) -> Iterator[Owned]:
    """A household that shares for a day and a half, with a pause and a spent budget."""
    with owned(quick_folder / "device", QUARTERS, span_epsilon=40.0) as one:
        one.run(1.5)
        one.folder.switch(is_on=True)
        one.run(20)
        one.folder.pause()
        one.run(3)
        one.folder.resume()
        one.run(30)
        yield one


def visit(device: Owned, opened: Opens, **more: object) -> Page:
    """Open the page."""
    page = opened(Place(f"http://127.0.0.1:{device.page.port}"), **more)
    page.goto(device.page.address)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_for_everybody(device: Owned, opened: Opens, seen: Seen, scheme: str) -> None:
    """No violation, no error, no other host, no sideways scrolling; sharing, paused and off."""
    page = visit(device, opened, scheme=scheme)
    for state in ("on", "paused", "off"):
        if state == "paused":
            device.folder.pause()
        elif state == "off":
            device.folder.switch(is_on=False)
        for name in ("", "payload", "nowhere"):
            page.set_viewport_size({"width": 1280, "height": 900})
            page.goto(device.page.address + name)
            assert violations(page) == [], (state, name)
            page.set_viewport_size({"width": 390, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, (state, name)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.goto(device.page.address)
    for _ in range(2 if scheme == "light" else 1):
        page.get_by_role("button", name="Colours").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    assert [text for text in seen.errors if "404" not in text] == []
    ours = f"http://127.0.0.1:{device.page.port}/{device.page.token}/"
    assert [url for url in seen.requests if not url.startswith(ours)] == []


def test_a_device_that_has_just_started_is_for_everybody(
    quick_folder: Path, opened: Opens, seen: Seen
) -> None:
    """Without terms, without a round, and with a single round there is something to read."""
    with owned(quick_folder / "device") as device:
        page = visit(device, opened, width=390)
        for words in ("its terms have not been accepted yet", "No round has ended yet", "off"):
            expect(page.locator("body")).to_contain_text(words)
            assert violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            device.run(0.4 if "terms" in words else 1)
            page.reload()
    assert seen.errors == []


def test_switching_on_by_keyboard_comes_after_the_bytes(
    quick_folder: Path, opened: Opens, seen: Seen
) -> None:
    """The switch stands below the bytes; every stop of the way shows where one is."""
    with owned(quick_folder / "device", QUARTERS) as device:
        device.run(0.5)
        page = visit(device, opened)
        # On a busy machine the page would renew itself, and the focus with it, in mid-walk.
        page.clock.install(time=0)
        page.clock.pause_at(1000)
        page.get_by_role("link", name="See what would be sent").press("Enter")
        page.wait_for_url("**/payload")
        expect(page.locator("body")).to_contain_text("A report, 437 bytes")
        stops, count, unmarked = walked(page)
        assert (stops, unmarked) == (list(range(count)), 0)
        page.get_by_role("button", name="Switch sharing on").press("Enter")
        expect(page.get_by_role("heading", name="Your device")).to_contain_text("Sharing")
        stops, count, unmarked = walked(page)
        assert (stops, unmarked) == (list(range(count)), 0)
        page.get_by_role("button", name="Pause").press("Enter")
        expect(page.get_by_role("heading", name="Your device")).to_contain_text("Paused")
        page.get_by_role("button", name="Resume").press("Enter")
        page.get_by_role("button", name="Switch off").press("Enter")
        expect(page.get_by_role("heading", name="Your device")).to_contain_text("Off")
    assert seen.errors == []


def test_it_keeps_itself_up_to_date(device: Owned, opened: Opens, seen: Seen) -> None:
    """A round that ends appears by itself; focus stays, a ticked box holds it, and so one can."""
    page = visit(device, opened)
    page.clock.install()
    page.goto(device.page.address)
    first = page.locator("section:has(#compared-title) tbody td").first
    before = first.inner_text()
    page.get_by_role("link", name="See the bytes").focus()
    device.run(1)
    page.clock.run_for(6000)
    expect(first).not_to_have_text(before)
    expect(page.get_by_role("link", name="See the bytes")).to_be_focused()
    device.folder.pause()
    page.clock.run_for(6000)
    expect(page.locator("#state")).to_have_text("Paused")
    newest = first.inner_text()
    page.locator("#sure").check()
    device.run(1)
    with page.expect_response(device.page.address):
        page.clock.run_for(6000)
    assert first.inner_text() == newest
    page.locator("#sure").uncheck()
    page.clock.run_for(6000)
    expect(first).not_to_have_text(newest)
    follow = page.get_by_role("button", name="Keep up to date")
    follow.click()
    expect(follow).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#follow-words")).to_have_text("Not updated")
    seen.requests.clear()
    page.clock.run_for(60_000)
    assert seen.requests == []
    assert violations(page) == []
    assert seen.errors == []


def test_an_agent_that_has_gone_is_told(quick_folder: Path, opened: Opens) -> None:
    """The open page says that nobody answers, and keeps what it showed."""
    with owned(quick_folder / "device", QUARTERS) as device:
        device.run(0.5)
        page = visit(device, opened)
        page.clock.install()
        page.goto(device.page.address)
        expect(page.locator("#follow-words")).to_have_text("Live")
    page.clock.run_for(6000)
    expect(page.locator("#follow-words")).to_have_text("The agent does not answer")
    expect(page.get_by_role("heading", name="Your budget")).to_be_visible()


def test_it_says_the_same_without_scripts(device: Owned, opened: Opens) -> None:
    """Everything works with scripts forbidden, to the saved ledger."""
    page = visit(device, opened, scripts=False)
    expect(page.get_by_role("link", name="Reload")).to_be_visible()
    assert not page.get_by_role("button", name="Keep up to date").is_visible()
    assert page.locator("svg.wide circle").count() > 60
    assert page.locator("section:has(#compared-title) tbody tr").count() == 24
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save all as CSV").click()
    text = saved.value.path().read_text(encoding="utf-8")
    assert text.count("\n") == 1 + len(device.ledger.history(-1))


def test_forgetting_by_keyboard(device: Owned, opened: Opens) -> None:
    """The tick is needed; the last page says that the agent has stopped."""
    page = visit(device, opened)

    def agent() -> None:
        if device.page.is_to_forget.wait(PATIENCE_S):
            device.page.is_forgotten.set()

    waiting = threading.Thread(target=agent)
    waiting.start()
    page.get_by_role("button", name="Forget").press("Enter")
    assert not device.page.is_to_forget.is_set()
    page.locator("#sure").press("Space")
    page.get_by_role("button", name="Forget").press("Enter")
    expect(page.get_by_role("heading", name="Forgotten")).to_be_visible()
    assert re.search("agent has stopped", page.content())
    waiting.join()
