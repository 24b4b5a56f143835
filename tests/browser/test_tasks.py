"""What people come for, done from the landing page by clicks and fields alone, counted."""

import contextlib
import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import Opens, Seen, Site, Studio
from tests.browser.serving import CAMPAIGN
from tests.device.owning import QUARTERS, owned


class Hand:
    """Somebody who clicks and types, and counts it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    def click(self, name: str, *, role: str = "link", within: str = "main") -> None:
        """Click on what has this name."""
        self.count += 1
        self.page.locator(within).get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]

    def fill(self, label: str, text: str) -> None:
        """Fill a field in."""
        self.count += 1
        self.page.get_by_label(label, exact=True).fill(text)

    def choose(self, label: str, option: str) -> None:
        """Choose from a list."""
        self.count += 1
        self.page.get_by_label(label, exact=True).select_option(label=option)


def test_yesterdays_mean_with_its_certainty(site: Site, opened: Opens, seen: Seen) -> None:
    """At most 2: a mean with its interval, and of how many rounds it is."""
    hand = Hand(opened(site, site.reader))
    hand.click("Yesterday")
    shown = hand.page.locator(".stat").filter(has_text="Mean of yesterday")
    expect(shown).to_contain_text("95 %:")
    expect(hand.page.locator(".stat").filter(has_text="Rounds")).to_contain_text("of 96")
    assert hand.count <= 2
    assert seen.errors == []


def test_last_week_as_a_table_for_pandas(site: Site, opened: Opens, tmp_path: Path) -> None:
    """At most 3: every round with its error, and the lines that read the same from Python."""
    hand = Hand(opened(site, site.reader))
    hand.click("7 days")
    expect(hand.page.locator("#chart-title")).to_contain_text("7 days")
    with hand.page.expect_download() as download:
        hand.click("CSV")
    download.value.save_as(tmp_path / "week.csv")
    rows = list(csv.DictReader((tmp_path / "week.csv").read_text().splitlines()))
    assert 660 <= len(rows) <= 672
    assert all(row["standard_error"] for row in rows if row["status"] == "ok")
    assert hand.count <= 3
    hand.page.get_by_text("Use it in pandas, Grafana or elsewhere").click()
    expect(hand.page.locator("#copy-pandas")).to_contain_text("pd.read_csv(")


def test_why_a_round_was_withheld(site: Site, opened: Opens) -> None:
    """At most 2: its page says why, what to look at, and that the number is not shown."""
    hand = Hand(opened(site, site.reader))
    hand.count += 1
    hand.page.get_by_role("row").filter(has_text="withheld").get_by_role("link").first.click()
    expect(hand.page.get_by_text("real reports came")).to_be_visible()
    expect(hand.page.get_by_text("How many came is not shown")).to_be_visible()
    assert hand.count <= 2


def test_two_weeks_are_compared(site: Site, opened: Opens) -> None:
    """At most 4: the difference with its interval, in one sentence, and both lines."""
    hand = Hand(opened(site, site.reader))
    hand.click("7 days")
    expect(hand.page.locator("#chart-title")).to_contain_text("7 days")
    hand.count += 1
    hand.page.get_by_text("Choose dates, compare").click()
    hand.choose("Compare with", "a week earlier")
    hand.click("Show", role="button")
    expect(hand.page.locator(".stat").filter(has_text="Difference")).to_contain_text("95 %:")
    expect(hand.page.get_by_text("Compared with a week earlier")).to_be_visible()
    assert hand.count <= 4


def test_two_labels_are_compared(states_site: Site, opened: Opens, seen: Seen) -> None:
    """At most 4: the difference of two labels with its interval, in a sentence."""
    hand = Hand(opened(states_site, states_site.reader))
    hand.click("Labels and states", within="nav[aria-label=Pages]")
    hand.choose("First", "idle, south")
    hand.choose("Less", "idle, north")
    hand.click("Compare", role="button")
    shown = hand.page.locator(".stat").filter(has_text="Difference")
    expect(shown).to_contain_text("idle, south less idle, north")
    assert hand.count <= 4
    assert seen.errors == []


def test_a_narrower_range_and_its_effect(site: Site, opened: Opens) -> None:
    """At most 6: what changes, both errors, and what is not known about clipping."""
    hand = Hand(opened(site, site.operator))
    hand.click("Campaign", within="nav[aria-label=Pages]")
    hand.fill("Range to", "1500")
    hand.click("Show the effect", role="button")
    expect(hand.page.get_by_role("heading", name="Effect with")).to_be_visible()
    expect(hand.page.get_by_role("group", name="What changes")).to_contain_text("1500")
    expect(hand.page.get_by_text("How far that moves the mean is not known")).to_be_visible()
    assert hand.count <= 6


@contextlib.contextmanager
def studio_at(site: Site) -> Iterator[Studio]:
    """Run a studio that begins with the campaign of a site."""
    typed = [sys.executable, "-m", "rase", "studio", "--no-browser"]
    typed += ["--fusion", site.address, "--campaign", CAMPAIGN.id]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Studio(process.stdout.readline().strip())
        finally:
            process.terminate()


def test_epsilon_from_a_question_is_published(own_site: Site, opened: Opens, seen: Seen) -> None:
    """At most 8: from 5,000 homes and an error of 20 W to a new version of the campaign."""
    # Whoever publishes is logged in at the fusion centre.
    page = opened(own_site, own_site.operator)
    with studio_at(own_site) as studio:
        page.goto(studio.address)
        hand = Hand(page)
        hand.click("Explore its parameters")
        hand.fill("Devices", "5000")
        hand.count += 1
        page.get_by_text("Wishes, if you have any").click()
        hand.fill("Error of the window's mean", "20")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Your wish: an error of 20")).to_be_visible()
        hand.count += 1
        link = page.get_by_role("link", name=re.compile("^Use epsilon 0[.]")).first
        text = link.inner_text()
        link.click()
    expect(page.get_by_role("heading", name="Effect with 5,000 reports")).to_be_visible()
    expect(page.get_by_role("heading", name="What owners are promised then")).to_be_visible()
    hand.count += 1
    page.locator("#confirmed").check()
    hand.click("Publish", role="button")
    expect(page.get_by_text("Version 2 is published")).to_be_visible()
    found = re.search(r"epsilon ([0-9.]+) a report", page.locator(".pairs").first.inner_text())
    assert found is not None
    assert float(found.group(1)) == pytest.approx(float(text.split()[2]), rel=0.01)
    assert hand.count <= 8
    assert seen.errors == []


def test_the_present_campaign_is_attacked(site: Site, opened: Opens, seen: Seen) -> None:
    """At most 2: with the campaign's own range and epsilon."""
    with studio_at(site) as studio:
        page = opened(studio)
        page.goto(studio.address)
        hand = Hand(page)
        hand.click("Attack it")
        expect(page.locator("#f-high")).to_have_value("3000")
        hand.click("Attack", role="button")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Attack")
        page.wait_for_url("**/attack/runs/**")
        cancel = page.get_by_role("button", name="Cancel")
        if cancel.is_visible():
            cancel.click()
        assert hand.count <= 2
    assert seen.errors == []


def test_sharing_is_paused(quick_folder: Path, opened: Opens, seen: Seen) -> None:
    """At most 1: on the owner's page, which then says since when nothing is shared."""
    with owned(quick_folder / "device", QUARTERS) as device:
        device.run(1)
        device.folder.switch(is_on=True)
        device.run(2)
        page = opened(Studio(device.page.address))
        page.goto(device.page.address)
        hand = Hand(page)
        hand.click("Pause", role="button")
        expect(page.get_by_role("heading", name="Your device")).to_contain_text("Paused")
    assert hand.count <= 1
    assert seen.errors == []


def test_three_months_ago(site: Site, opened: Opens) -> None:
    """At most 3: an earlier time by its dates."""
    hand = Hand(opened(site, site.reader))
    hand.count += 1
    hand.page.get_by_text("Choose dates, compare").click()
    hand.fill("From", "2026-07-01T00:00")
    hand.click("Show", role="button")
    expect(hand.page.locator("#chart-title")).to_contain_text("2026-07-01 00:00")
    assert hand.count <= 3


def test_a_dragged_time_is_an_address_and_a_click_opens_a_round(
    site: Site, opened: Opens, seen: Seen
) -> None:
    """Both charts keep their width; going back shows what was shown before."""
    page = opened(site, site.reader)
    page.goto("/live?range=1d")
    over = page.locator(".plot .u-over").first
    expect(over).to_be_visible()
    widths = [box.bounding_box() for box in page.locator(".plot .u-over").all()]
    assert len(widths) == 2
    assert widths[0] is not None
    assert widths[1] is not None
    assert abs(widths[0]["x"] - widths[1]["x"]) <= 1
    assert abs(widths[0]["width"] - widths[1]["width"]) <= 1
    box = widths[0]
    page.mouse.move(box["x"] + 100, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 260, box["y"] + 50, steps=4)
    page.mouse.up()
    page.wait_for_url("**/live?*from=*")
    expect(page.locator(".plot .u-over").first).to_be_visible()
    page.locator(".plot .u-over").first.click(position={"x": 120, "y": 40})
    page.wait_for_url("**/round?*number=*")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Round of")
    page.go_back()
    page.go_back()
    page.wait_for_url("**/live?range=1d")
    assert seen.errors == []


def test_times_are_those_of_the_readers_wall(site: Site, opened: Opens) -> None:
    """The browser's zone is taken from the second page on, and an address may name another."""
    page = opened(site, site.reader)
    page.context.clear_cookies(name="rase_zone")
    page.context.add_cookies(
        [{"name": "rase_zone", "value": "Asia%2FKolkata", "url": site.address}]
    )
    page.goto("/live?range=yesterday")
    expect(page.locator(".legend")).to_contain_text("times: Asia/Kolkata")
    page.goto("/live?range=yesterday&zone=UTC")
    expect(page.locator(".legend")).to_contain_text("times: UTC")
