"""The attack lab in a real browser: a run with its progress, cancelling, and what it hands out."""

import csv
import io

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import Opens, Seen, Studio
from tests.browser.test_pages import violations


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_run_is_for_everybody(studio: Studio, opened: Opens, seen: Seen, scheme: str) -> None:
    """Form and result: no violation, no error, and no sideways scrolling; the files open."""
    page = opened(studio, scheme=scheme)
    page.goto("attack")
    assert violations(page) == []
    page.fill("#f-devices", "8")
    page.fill("#f-days", "5")
    page.uncheck("#attacks-value")
    page.get_by_role("button", name="Attack", exact=True).click()
    expect(page.get_by_role("heading", name="Device by device")).to_be_visible()
    page.wait_for_selector("#plot canvas")
    for summary in page.query_selector_all("details:not([open]) > summary"):
        summary.click()
    assert violations(page) == []
    page.select_option("#measure", "precision")
    assert page.locator("#legend li").all_inner_texts()[-1].strip() == "chance"
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert len(rows) == 8 * 2 * 4
    with page.expect_download() as download:
        page.get_by_role("link", name="HTML report").click()
    assert "<svg" in download.value.path().read_text()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Erase").click()
    page.wait_for_url("**/attack")
    assert seen.errors == []
    assert seen.elsewhere(studio) == []


def test_a_run_can_be_cancelled(studio: Studio, opened: Opens, seen: Seen) -> None:
    """Progress is shown while it lasts, and the button ends it."""
    page = opened(studio)
    page.goto("attack")
    page.fill("#f-devices", "64")
    page.fill("#f-days", "60")
    page.check("#attacks-value_time")
    page.get_by_role("button", name="Attack", exact=True).press("Enter")
    expect(page.locator("#progress")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Cancel").press("Enter")
    expect(page.get_by_text("This run was cancelled.")).to_be_visible()
    page.get_by_role("button", name="Erase").click()
    page.wait_for_url("**/attack")
    assert seen.errors == []


def test_a_mistake_stands_beside_its_field(studio: Studio, opened: Opens) -> None:
    """A form that cannot be run comes back with what was typed; it works without scripts."""
    page = opened(studio, scripts=False)
    page.goto("attack")
    page.fill("#f-epsilon", "-3")
    page.get_by_role("button", name="Attack", exact=True).click()
    expect(page.locator("#e-epsilon")).to_contain_text("epsilon must be a number")
    assert page.input_value("#f-epsilon") == "-3"
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
