"""The README's pictures come from here: ``RASE_SCREENSHOTS=docs/images pytest -m slow`` this file.

Without the variable they are made all the same, looked at, and thrown away.
"""

import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page, expect
from tests.browser.conftest import Opens, Site
from tests.browser.test_owner import Place
from tests.device.owning import QUARTERS, owned

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
MOST_BYTES = 150_000
WIDTH, HEIGHT = 1280, 820
_COLOURS = 256

Takes = Callable[[Page, str], None]


@pytest.fixture
def take(tmp_path: Path) -> Takes:
    """Take a picture of what is in sight, in few colours so that it is small."""
    folder = Path(os.environ.get("RASE_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)

    def taken(page: Page, name: str) -> None:
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.mouse.move(0, 0)
        picture = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
        assert picture.size == (WIDTH, HEIGHT)
        shown = picture.convert("RGB").quantize(
            _COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        assert len(shown.getcolors() or []) > 20
        shown.save(folder / f"{name}.png", optimize=True)
        assert (folder / f"{name}.png").stat().st_size <= MOST_BYTES

    return taken


@pytest.mark.slow
def test_the_pages_of_the_fusion_centre(site: Site, opened: Opens, take: Takes) -> None:
    """Live in light, the Explorer in dark, and a finished run of the attack lab."""
    page = opened(site, site.operator)
    page.goto("/live?range=1d")
    page.wait_for_selector(".plot canvas")
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    take(page, "live")
    page.goto("/attack")
    page.fill("#f-devices", "12")
    page.fill("#f-days", "5")
    page.uncheck("#attacks-value")
    page.get_by_role("button", name="Attack", exact=True).click()
    expect(page.get_by_role("heading", name="Device by device")).to_be_visible(timeout=300_000)
    page.wait_for_selector("#plot canvas")
    take(page, "attack-lab")
    page.get_by_role("button", name="Erase").click()
    page.wait_for_url("**/attack")
    dark = opened(site, scheme="dark")
    dark.goto("/explorer")
    dark.wait_for_selector("#plot canvas")
    dark.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    dark.evaluate("scrollTo(0, document.querySelector('#curve-title').offsetTop - 40)")
    take(dark, "explorer")


@pytest.mark.slow
def test_the_owners_page(quick_folder: Path, opened: Opens, take: Takes) -> None:
    """A day of a household that shares."""
    with owned(quick_folder / "device", QUARTERS, span_epsilon=96.0) as device:
        device.folder.switch(is_on=True)
        device.run(40.6)
        page = opened(Place(f"http://127.0.0.1:{device.page.port}"))
        page.goto(device.page.address)
        page.wait_for_selector("svg circle")
        take(page, "owner")


def test_the_readme_shows_pictures_that_are_small() -> None:
    """Each that it names is there, says in words what it shows, and weighs little."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"!\[([^\]]*)\]\(docs/images/([\w-]+)\.png\)", text)
    assert {name for _, name in named} == {"live", "explorer", "owner", "attack-lab"}
    for words, name in named:
        assert len(words) > 20
        with Image.open(IMAGES / f"{name}.png") as picture:
            assert picture.size == (WIDTH, HEIGHT)
        assert (IMAGES / f"{name}.png").stat().st_size <= MOST_BYTES
