"""The Explorer in a real browser: sliders, boxes, address, keyboard, both colours, a phone."""

import re
import tomllib

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import Opens, Seen, Studio
from tests.browser.test_forms import walked
from tests.browser.test_live import drawn_width
from tests.browser.test_pages import violations

from rase.accounting.plan import plan
from rase.campaign import Campaign
from rase.domain import Range


def settled(page: Page) -> None:
    """Wait until what is shown is the answer to what is asked."""
    expect(page.locator("#results.stale, #results[aria-busy]")).to_have_count(0)


def answered(page: Page, name: str, text: str) -> None:
    """Type into a box and wait for the answer."""
    with page.expect_response("**/explorer/plan.json?**"):
        page.fill(f"#f-{name}", text)
    settled(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_for_everybody(studio: Studio, opened: Opens, seen: Seen, scheme: str) -> None:
    """No violation, no error, no other host, no sideways scrolling at 390 px, without a login."""
    page = opened(studio, scheme=scheme)
    for query in ("", "?shuffle=robust&alpha=1&groups=1&devices=64&error=5&attacker_cap=3"):
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(f"explorer{query}")
        page.wait_for_selector("#plot canvas")
        for summary in page.query_selector_all("details:not([open]) > summary"):
            summary.click()
        assert violations(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert seen.errors == []
    page.goto("explorer?epsilon=nonsense")
    assert violations(page) == []
    assert seen.elsewhere(studio) == []


def test_sliders_and_boxes_agree(studio: Studio, opened: Opens) -> None:
    """Moving a slider writes the box, typing moves the slider, and the answer follows both."""
    page = opened(studio)
    page.goto("explorer")
    slider = page.locator("#s-epsilon")
    before = int(slider.input_value())
    with page.expect_response("**/explorer/plan.json?**"):
        slider.press("ArrowRight")
    settled(page)
    moved = float(page.input_value("#f-epsilon"))
    assert moved > 1 or int(slider.input_value()) == before + 1
    answered(page, "epsilon", "4")
    assert int(slider.input_value()) > before
    assert slider.get_attribute("aria-valuetext") == "4"
    made = plan(Range(0, 3000), 4.0, devices=1000, interval_s=3600, window=24, detail="quick")
    total = made.error("unbiased_mean").round.total
    expect(page.locator("[data-part=summary] .value").first).to_have_text(f"±{total:.1f}")
    page.click("summary:has-text('Shuffler')")
    page.select_option("#f-shuffle", "robust")
    expect(page.locator("#s-alpha")).to_be_enabled()
    page.focus("#s-every")
    with page.expect_response("**/explorer/plan.json?**"):
        page.keyboard.press("End")
    assert page.input_value("#f-every") == "7d"


def test_the_address_restores_everything(studio: Studio, opened: Opens) -> None:
    """A link opens the same question with the same answer, in a browser without any past."""
    page = opened(studio)
    page.goto("explorer")
    answered(page, "devices", "250")
    answered(page, "epsilon", "0.7")
    answered(page, "window", "7")
    with page.expect_response("**/explorer/plan.json?**"):
        page.select_option("#f-mechanism", "laplace")
    settled(page)
    assert set(page.url.split("?")[1].split("&")) == {
        "devices=250",
        "epsilon=0.7",
        "window=7",
        "mechanism=laplace",
    }
    other = opened(studio)
    other.goto(page.url)
    for part in ("summary", "errors", "guarantees", "shuffler"):
        place = f"[data-part={part}]"
        assert other.inner_text(place) == page.inner_text(place)
    assert other.input_value("#f-mechanism") == "laplace"
    assert other.input_value("#s-devices") == page.input_value("#s-devices")


def test_one_change_is_one_call(studio: Studio, opened: Opens, seen: Seen) -> None:
    """Typing a number asks the server once, after the last key."""
    page = opened(studio)
    page.goto("explorer")
    seen.requests.clear()
    page.focus("#f-devices")
    page.keyboard.press("Control+a")
    with page.expect_response("**/explorer/plan.json?**"):
        page.keyboard.type("12345")
    settled(page)
    assert len([url for url in seen.requests if "plan.json" in url]) == 1
    assert "devices=12345" in page.url


def test_a_mistake_stands_beside_its_field(studio: Studio, opened: Opens) -> None:
    """A bad number is told, what was shown stays and fades, and mending it brings the answer."""
    page = opened(studio)
    page.goto("explorer")
    page.click("summary:has-text('Precision')")
    with page.expect_response("**/explorer/plan.json?**"):
        page.fill("#f-rho", "7")
    expect(page.locator("#e-rho")).to_have_text("rho must be a number from 0 to 1, got '7'.")
    assert page.get_attribute("#f-rho", "aria-invalid") == "true"
    assert "stale" in (page.get_attribute("#results", "class") or "")
    answered(page, "rho", "0.5")
    expect(page.locator("#e-rho")).to_be_hidden()
    assert page.get_attribute("#f-rho", "aria-invalid") is None


def test_the_keyboard_reaches_every_control(studio: Studio, opened: Opens) -> None:
    """Walking by Tab passes every box and slider in the order in which they stand."""
    page = opened(studio)
    page.goto("explorer")
    wanted = page.evaluate(
        """[...document.querySelectorAll("#controls input, #controls select")]
            .filter((one) => one.checkVisibility() && !one.disabled).map((one) => one.id)"""
    )
    page.focus("#controls summary")
    walked: list[str] = []
    for _ in range(3 * len(wanted)):
        page.keyboard.press("Tab")
        walked.append(page.evaluate("document.activeElement.id"))
    assert [one for one in walked if one in wanted][: len(wanted)] == wanted


def test_the_table_is_what_is_drawn(studio: Studio, opened: Opens) -> None:
    """The table follows the chosen lines, and the file has the same numbers."""
    page = opened(studio)
    page.goto("explorer?mechanism=hybrid")
    page.wait_for_selector("#plot canvas")
    page.click("#points > summary")
    heads = page.locator("#point-table thead th")
    assert heads.all_inner_texts()[:3] == ["Epsilon", "budget-aware", "laplace"]
    page.select_option("#view", "parts")
    page.select_option("#estimator", "sample_mean")
    assert heads.all_inner_texts() == ["Epsilon", "error", "bias", "noise"]
    page.select_option("#view", "estimators")
    assert "median" in heads.all_inner_texts()
    with page.expect_download() as download:
        page.click("#csv")
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "epsilon,mechanism,estimator,bias,noise,error"
    row = page.locator("#point-table tbody tr").nth(9).locator("td").first.inner_text()
    shown = float(re.sub(",", "", row))
    found = [line.split(",") for line in lines if ",hybrid,unbiased_mean," in line][9]
    assert float(found[5]) == pytest.approx(shown, rel=1e-3)


def test_texts_follow_and_can_be_copied(studio: Studio, opened: Opens) -> None:
    """After a change the command, the file and the paragraph are new, and a button copies them."""
    page = opened(studio)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("explorer")
    answered(page, "epsilon", "0.25")
    assert "--epsilon 0.25" in page.inner_text("#text-cli")
    assert "0.25-locally" in page.inner_text("#text-dpia")
    page.click("[data-copy=text-toml]")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert Campaign.from_fields(tomllib.loads(copied)["campaign"]).epsilon == (0.25,)


def test_it_works_without_scripts(studio: Studio, opened: Opens) -> None:
    """The form is sent by its button, and everything is in tables."""
    page = opened(studio, scripts=False)
    page.goto("explorer")
    assert not page.locator("#s-epsilon").is_visible()
    page.fill("#f-epsilon", "3")
    page.get_by_role("button", name="Show").click()
    assert "epsilon=3" in page.url
    assert "--epsilon 3" in page.inner_text("#text-cli")
    page.click("#points > summary")
    assert page.locator("#point-table tbody tr").count() > 25


def test_the_chart_keeps_its_width(studio: Studio, opened: Opens) -> None:
    """Another view and other colours draw it again where it stands."""
    page = opened(studio)
    page.goto("explorer")
    first = drawn_width(page, "#plot")
    page.select_option("#view", index=1)
    assert drawn_width(page, "#plot") == first
    page.emulate_media(color_scheme="dark")
    assert drawn_width(page, "#plot") == first


def test_colours_change_and_the_question_stays(studio: Studio, opened: Opens) -> None:
    """The form for colours leads back below the secret, to the same question."""
    page = opened(studio)
    page.goto("explorer?epsilon=2")
    page.get_by_role("button", name=re.compile("Colours: auto")).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.url == f"{studio.address}explorer?epsilon=2"


def test_the_attack_form_can_be_walked_through(studio: Studio, opened: Opens) -> None:
    """Tab reaches everything in the order of the page, and one sees where one is."""
    page = opened(studio)
    page.goto("attack")
    seen, count, unmarked = walked(page)
    assert (seen, unmarked) == (list(range(count)), 0)
