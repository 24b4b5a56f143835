"""Forms by keyboard alone: the way through them, what they do, and what they say to mistakes."""

import re

from playwright.sync_api import Page, expect
from tests.browser.conftest import Opens, Seen, Site

from rase.answer import FIELDS

# All that one can come to by the keyboard, in the order of the page.
_KINDS = "a[href], button, input, select, summary, [tabindex='0']"
_STOPS = f"""[...document.querySelectorAll("{_KINDS}")]
  .filter((node) => node.checkVisibility() && !node.disabled && node.type !== "hidden")
  .filter((node) => node.type !== "radio" || node.checked)"""
_FORMS = ("/campaign?beta=0.3&rho=0.5&n=", "/live?compare=week", "/subscribers")


def walked(page: Page) -> tuple[list[int], int, int]:
    """Press Tab through a page.

    Returns:
        The stops in order, how many there are, and how many showed no focus.
    """
    count = page.evaluate(f"(window.stops = {_STOPS}).length")
    seen: list[int] = []
    unmarked = 0
    # A field for a date has several stops inside.
    for _ in range(count + 12):
        page.keyboard.press("Tab")
        place, outline = page.evaluate(
            """[stops.indexOf(document.activeElement),
                getComputedStyle(document.activeElement).outlineStyle]"""
        )
        if place >= 0 and place not in seen:
            seen.append(place)
            unmarked += outline == "none"
    return seen, count, unmarked


def test_every_form_can_be_walked_through(site: Site, opened: Opens) -> None:
    """Tab reaches everything in the order of the page, and one sees where one is."""
    page = opened(site, site.operator)
    for path in _FORMS:
        page.goto(path)
        seen, count, unmarked = walked(page)
        assert sorted(seen) == list(range(count)), path
        assert seen == sorted(seen), path
        assert unmarked == 0, path


def test_a_wrong_token_is_told(site: Site, opened: Opens) -> None:
    """The field is marked and the reason announced; the right one then works, by keyboard."""
    page = opened(site)
    page.goto("/live?range=7d")
    expect(page).to_have_url(re.compile(r"/login\?next=%2Flive"))
    expect(page.locator("#token")).to_be_focused()
    page.keyboard.type("rase_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This token is not valid")
    expect(page.locator("#token")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#token")).to_be_focused()
    page.keyboard.type(site.reader)
    page.keyboard.press("Enter")
    page.wait_for_url("**/live?range=7d")
    expect(page.get_by_text("Mean of the last 7 days")).to_be_visible()


def test_asking_by_keyboard(site: Site, opened: Opens, seen: Seen) -> None:
    """An estimator is chosen, the question is copied, the file is saved; no token is in them."""
    page = opened(site, site.reader)
    page.get_by_text("Choose dates, compare").press("Enter")
    page.select_option("#method", "sample_mean")
    page.get_by_role("button", name="Show").press("Enter")
    page.wait_for_url("**/live?**method=sample_mean**")
    expect(page.locator("#last-title + dl")).to_contain_text("sample_mean")
    assert site.reader not in page.content()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_text("Use it in pandas, Grafana or elsewhere").press("Enter")
    page.locator("button[data-copy='copy-curl']").press("Enter")
    expect(page.locator("button[data-copy='copy-curl']")).to_have_text("Copied")
    assert "$RASE_TOKEN" in page.evaluate("navigator.clipboard.readText()")
    with page.expect_download() as saved:
        page.get_by_role("link", name="CSV").press("Enter")
    text = saved.value.path().read_text(encoding="utf-8")
    assert text.splitlines()[0] == ",".join(FIELDS)
    assert text.count("sample_mean") == text.count("\n") - 1
    assert seen.errors == []


def test_publishing_by_keyboard(own_site: Site, opened: Opens, seen: Seen) -> None:
    """The effect comes first; nothing is published without the tick."""
    page = opened(own_site, own_site.operator)
    page.goto("/campaign")
    page.fill("#beta", "0.25")
    page.press("#beta", "Enter")
    expect(page.get_by_text("Effect with")).to_be_visible()
    page.get_by_role("button", name="Publish").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("tick the box")
    page.locator("#confirmed").press("Space")
    page.get_by_role("button", name="Publish").press("Enter")
    expect(page.get_by_text("Version 2 is published")).to_be_visible()
    expect(page.get_by_text("beta 0.25, rho 0.9")).to_be_visible()
    # The page that refused says 400, and so does the browser.
    assert [text for text in seen.errors if "400" not in text] == []


def test_tokens_by_keyboard(own_site: Site, opened: Opens) -> None:
    """A new token is shown once, logs in, and does no more after it was taken back."""
    page = opened(own_site, own_site.operator)
    page.goto("/subscribers")
    page.fill("#name", "the neighbours")
    page.press("#name", "Enter")
    token = page.locator("#new-token").inner_text()
    other = opened(own_site, token)
    other.goto("/campaign")
    page.goto("/subscribers")
    row = page.get_by_role("row", name="the neighbours").first
    row.get_by_text("Revoke").first.press("Enter")
    row.get_by_role("checkbox").press("Space")
    row.get_by_role("button", name="Revoke").press("Enter")
    expect(page.get_by_text("opens nothing any more")).to_be_visible()
    other.goto("/rounds")
    expect(other).to_have_url(re.compile("/login"))
    expect(other.get_by_text("revoked or has expired")).to_be_visible()
