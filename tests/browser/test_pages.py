"""Every page in a real browser: for everybody, in both colours, on a phone, within its weight."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import AXE, ROUNDS, Opens, Seen, Site
from tests.browser.serving import CAMPAIGN, LATER_S

PAGES = {
    "live": "/live",
    "live-30-days": "/live?range=30d",
    "live-compared": "/live?range=7d&compare=week",
    "overview": "/overview",
    "round": f"/round?number={CAMPAIGN.not_before + 1}",
    "round-withheld": f"/round?number={CAMPAIGN.not_before + 20}",
    "round-missing": "/round?number=1",
    "rounds": "/rounds",
    "campaign": "/campaign?beta=0.3&rho=0.5&n=100",
    "subscribers": "/subscribers",
    "health": "/health",
    "problem": "/nowhere",
}
_AXE = AXE.read_text(encoding="utf-8") if AXE.exists() else ""
MOST_BYTES = 90 * 1024


def violations(page: Page) -> list[str]:
    """Return what axe finds on a page, each with its places."""
    page.evaluate(_AXE)
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {[node['html'][:120] for node in one['nodes']]}"
        for one in found["violations"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_for_everybody(site: Site, opened: Opens, seen: Seen, scheme: str) -> None:
    """No violation, no error, no other host, and no sideways scrolling at 390 px."""
    page = opened(site, site.operator, scheme=scheme)
    for name, path in PAGES.items():
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(path)
        if name == "live":
            page.get_by_text("Show as a table").click()
        assert violations(page) == [], name
        page.set_viewport_size({"width": 390, "height": 844})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"{name} is {wide} px wide"
    page.context.clear_cookies()
    page.goto("/login")
    assert violations(page) == []
    # The page that is not there says 404, and so does the browser.
    assert [text for text in seen.errors if "404" not in text] == []
    assert seen.elsewhere(site) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_states_and_alarms_are_for_everybody(
    states_site: Site, opened: Opens, seen: Seen, scheme: str
) -> None:
    """As all pages; their differences and their timelines, too."""
    page = opened(states_site, states_site.operator, scheme=scheme)
    heat = "campaign=heat-pumps&range=7d"
    for path in (
        f"/parts?{heat}&first=north/heating&second=south/heating",
        f"/live?{heat}&category=idle",
        f"/round?{heat}&number={CAMPAIGN.not_before + 690}",
        "/alarms",
    ):
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(path)
        assert violations(page) == [], path
        page.set_viewport_size({"width": 390, "height": 844})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"{path} is {wide} px wide"
    assert seen.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_site_without_rounds_is_for_everybody(
    new_site: Site, opened: Opens, seen: Seen, scheme: str
) -> None:
    """Empty pages too, and the switch of colours goes against the system."""
    page = opened(new_site, new_site.operator, scheme=scheme, width=390)
    for path in ("/live", "/rounds", "/parts", "/alarms", "/health"):
        page.goto(path)
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for theme in ("light", "dark") if scheme == "light" else ("light",):
        page.get_by_role("button", name="Colours").click()
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    assert violations(page) == []
    assert seen.errors == []


def test_the_charts_table_equals_the_interface(site: Site, opened: Opens) -> None:
    """What is drawn is what /v1/trace tells, to the last digit."""
    page = opened(site, site.operator)
    page.goto("/live?range=30d")
    page.wait_for_selector(".plot canvas")
    drawn = page.evaluate(
        """[...document.querySelectorAll("figure tbody tr")].map((row) =>
            [...row.querySelectorAll("[data-v]")].map((cell) => cell.dataset.v))"""
    )
    last = CAMPAIGN.not_before + ROUNDS - 1
    begin_ms = 1000 * (CAMPAIGN.closes_s(last) + LATER_S - 30 * 86400)
    answer = page.request.get(
        "/v1/trace",
        params={"from": str(begin_ms), "points": "300"},
        headers={"Authorization": f"Bearer {site.reader}"},
    )
    names = ("time", "value", "low", "high", "n_low")
    told = json.loads(answer.text())["points"]
    # Compared as numbers: JavaScript and Python write the same float differently.
    assert [[row[0], *(map(float_or_none, row[1:]))] for row in drawn] == [
        [one[name] for name in names] for one in told
    ]
    assert len(drawn) > 200
    assert {"ok", "too_few"} >= {one["status"] for one in told}


def test_pages_say_the_same_without_scripts(site: Site, opened: Opens) -> None:
    """Tables and forms are there; buttons that need scripts are not."""
    page = opened(site, site.operator, scripts=False)
    page.goto("/live")
    assert page.locator("figure tbody tr").count() > 20
    assert not page.get_by_role("button", name="Pause").is_visible()
    expect(page.get_by_role("link", name="Reload")).to_be_visible()
    page.get_by_text("Choose dates, compare").click()
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", level=2, name="95 % interval")).to_be_visible()
    assert page.locator("button[data-copy]:visible").count() == 0


def test_the_first_load_is_light(site: Site, opened: Opens) -> None:
    """The timeline of 30 days with all it needs stays below 90 KiB on the wire."""
    page = opened(site, site.operator)
    page.goto("/campaign")
    fresh = page.context.new_page()
    session = page.context.new_cdp_session(fresh)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    fresh.goto("/live?range=30d")
    fresh.wait_for_selector(".plot canvas")
    # The page, its styles, its scripts and its numbers.
    assert len(sizes) >= 5
    assert sum(sizes) < MOST_BYTES


def float_or_none(text: str) -> float | None:
    """Return the number of a cell; an empty one has none."""
    return float(text) if text else None
