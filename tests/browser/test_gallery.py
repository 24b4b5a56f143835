"""Every page in every state, at two widths and in both colours, as pictures to look at.

``make gallery`` writes them all into ``build/gallery``; without ``RASE_GALLERY`` they are taken
all the same and thrown away. No state may scroll sideways, cut a text off or complain.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect
from tests.browser import serving
from tests.browser.conftest import Seen, Studio
from tests.device.owning import HOURS, QUARTERS, Owned, owned
from tests.patience import PATIENCE_S

from rase.campaign import Campaign
from rase.cli.pages import with_dashboard
from rase.clock import FakeClock
from rase.dashboard.sessions import Sessions
from rase.fusion.app import fusion_app
from rase.fusion.subscribers import add_subscriber

pytestmark = pytest.mark.slow

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
# Longest that they may be; nothing in a name gives a place to break.
LONG = replace(
    serving.CAMPAIGN,
    id="a-campaign-with-a-name-that-is-as-long-as-any-name-may-ever-bee",
    quantity="mean heat demand of all dwellings in a street, without hot water",
    unit="kWh/(m²·a)",
)
# A single device is always withheld (see one-device); two are the fewest that are told.
SMALL = replace(serving.CAMPAIGN, k_min=2)
# Text that does not fit: wider than its box where nothing scrolls and no dots say that it goes on.
_CUT = """() => [...document.querySelectorAll("main *, header *, .top *")].filter((node) => {
  if (!node.checkVisibility() || !node.childNodes.length) return false;
  const style = getComputedStyle(node);
  if (["auto", "scroll"].includes(style.overflowX) || style.display === "inline") return false;
  if (style.clipPath !== "none" || style.textOverflow === "ellipsis") return false;
  // Tables reach to the edges of their cards.
  if (node.closest("svg, .uplot") || node.querySelector(".table-box")) return false;
  return node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1;
}).map((node) => `${node.tagName}.${node.className}: ${node.textContent.trim().slice(0, 60)}`)"""


@dataclass
class Hall:
    """A fusion centre with its dashboard in this process, in one state."""

    address: str
    token: str
    sessions: Sessions
    clock: FakeClock


@contextlib.contextmanager
def hall(
    folder: Path,
    *,
    campaigns: Mapping[Campaign, Callable[..., None]] | None = None,
    late_s: float = serving.LATER_S,
) -> Iterator[Hall]:
    """Serve a fusion centre with these campaigns, and what fills their rounds."""
    folder.mkdir()
    centre, clock = serving.make(folder / "fusion.sqlite", campaign=None)
    now_s = clock.now_s()
    for campaign, fill in (campaigns or {}).items():
        assert centre.publisher is not None
        centre.publisher.publish(campaign)
        fill(centre.database, campaign)
        with centre.database.snapshot() as transaction:
            ((last,),) = transaction.execute("SELECT MAX(round) FROM rounds")
        if last is not None:
            now_s = max(now_s, campaign.closes_s(last))
    clock.jump(now_s + late_s - clock.now_s())
    _, token = serving.tokens(centre.database)
    for number in range(6):
        add_subscriber(centre.database, f"neighbour {number + 1}")
    app, sessions = with_dashboard(fusion_app(centre, tick_s=0.5), clock)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="error",
                access_log=False,
                timeout_graceful_shutdown=1,
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield Hall(address, token, sessions, clock)
        finally:
            server.should_exit = True
            thread.join()
            centre.database.close()


@dataclass
class Painter:
    """Take a state in all widths and colours."""

    browser: Browser
    folder: Path
    seen: Seen
    cookies: list[dict[str, str]] = field(default_factory=list)

    def paint(
        self, name: str, address: str, *, do: Callable[[Page], None] | None = None, **more: object
    ) -> None:
        """Take pictures of a whole page, named for state, width and colours."""
        for scheme in SCHEMES:
            context = self.browser.new_context(
                color_scheme=scheme,  # type: ignore[arg-type]
                viewport={"width": WIDTHS[0], "height": 800},
                reduced_motion="reduce",
                java_script_enabled=bool(more.get("scripts", True)),
            )
            context.set_default_timeout(1000 * PATIENCE_S)
            context.add_cookies(self.cookies)  # type: ignore[arg-type]
            page = context.new_page()
            self.seen.watch(page)
            page.goto(address)
            if do is not None:
                do(page)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                page.mouse.move(0, 0)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
                assert page.evaluate(_CUT) == [], (name, width)
                picture = self.folder / f"{name}-{width}-{scheme}.png"
                page.screenshot(path=picture, full_page=True, animations="disabled")
            context.close()

    def log_in(self, place: Hall) -> None:
        """Come in as the operator."""
        context = self.browser.new_context(base_url=place.address)
        page = context.new_page()
        page.goto("/login")
        page.fill("#token", place.token)
        page.press("#token", "Enter")
        page.wait_for_url("**/live")
        self.cookies = context.cookies()  # type: ignore[assignment]
        context.close()


@pytest.fixture
def painter(browser: Browser, seen: Seen, tmp_path: Path) -> Painter:
    """Who takes the pictures."""
    folder = Path(os.environ.get("RASE_GALLERY", tmp_path / "gallery"))
    folder.mkdir(parents=True, exist_ok=True)
    return Painter(browser, folder, seen)


def drawn(page: Page) -> None:
    """Wait for the chart."""
    page.wait_for_selector(".plot canvas")


def live(page: Page) -> None:
    """Wait for the chart and the stream."""
    drawn(page)
    expect(page.locator("#live")).to_have_attribute("data-state", "on")


def table(page: Page) -> None:
    """Open the table below the chart."""
    live(page)
    page.get_by_text("Show as a table").click()


def filled(
    count: int, *, shape: serving.Shape | None = None, withheld: str = "some"
) -> Callable[..., None]:
    """Return what fills a campaign's rounds."""
    gone = {
        "none": frozenset[int](),
        "some": frozenset({*range(20, count, 37), count - 9, count - 8}),
        "last": frozenset({count - 1}),
        "all": frozenset(range(count)),
    }[withheld]

    def fill(database: object, campaign: Campaign) -> None:
        if count:
            serving.add_rounds(database, count, withheld=gone, campaign=campaign, shape=shape)  # type: ignore[arg-type]

    return fill


def test_the_usual_fleet(painter: Painter, tmp_path: Path) -> None:
    """Ten thousand rounds, among them withheld ones; every page, its answers and its mistakes."""
    with hall(tmp_path / "usual", campaigns={serving.CAMPAIGN: filled(10_000)}) as place:
        painter.log_in(place)
        at = place.address
        painter.paint("live-1d", f"{at}/live?range=1d", do=live)
        painter.paint("live-table", f"{at}/live?range=1d", do=table)
        painter.paint("live-25d-10000-rounds", f"{at}/live?range=30d", do=live)
        painter.paint("live-1h", f"{at}/live?range=1h", do=live)
        painter.paint("live-5m-nothing", f"{at}/live?range=5m")
        painter.paint("live-no-scripts", f"{at}/live?range=6h", scripts=False)
        painter.paint("rounds", f"{at}/rounds")
        painter.paint("rounds-end", f"{at}/rounds?before=1980003")
        painter.paint("rounds-beyond", f"{at}/rounds?before=10")
        painter.paint("campaign", f"{at}/campaign")
        painter.paint("campaign-effect", f"{at}/campaign?beta=0.3&rho=0.5&n=100")
        painter.paint("campaign-mistake", f"{at}/campaign?beta=7&rho=0.5&n=")
        painter.paint("live-compared", f"{at}/live?range=7d&compare=week", do=live)
        painter.paint("overview", f"{at}/overview")
        painter.paint("round", f"{at}/round?number=1989995")
        painter.paint("parts-none", f"{at}/parts")
        painter.paint("alarms-none", f"{at}/alarms")
        painter.paint("subscribers", f"{at}/subscribers")
        painter.paint("subscribers-new-token", f"{at}/subscribers", do=token_made)
        painter.paint("subscribers-revoke", f"{at}/subscribers", do=revoking)
        painter.paint("health", f"{at}/health")
        painter.paint("not-found", f"{at}/nowhere")
        painter.cookies = []
        painter.paint("login", f"{at}/login")
        painter.paint("login-expired", f"{at}/login?next=%2Flive")
        painter.paint("login-revoked", f"{at}/login?why=ended")
        painter.paint("login-wrong", f"{at}/login", do=wrong_token)
    assert [text for text in painter.seen.errors if "status of 4" not in text] == []


def token_made(page: Page) -> None:
    """Make a token; each visit a new name."""
    page.fill("#name", f"a visitor {len(page.locator('tbody tr').all())}")
    page.press("#name", "Enter")
    page.wait_for_selector("#new-token")


def revoking(page: Page) -> None:
    """Open the form that takes a token back."""
    page.get_by_text("Revoke").first.click()


def wrong_token(page: Page) -> None:
    """Try a token that is none."""
    page.fill("#token", "rase_wrong")
    page.press("#token", "Enter")
    page.wait_for_selector("[role=alert]")


STATES: dict[str, tuple[dict[Campaign, Callable[..., None]], float]] = {
    "no-campaign": ({}, 30),
    "no-rounds": ({serving.CAMPAIGN: filled(0)}, 30),
    "one-round": ({serving.CAMPAIGN: filled(1, withheld="none")}, 30),
    "one-device": ({SMALL: filled(60, withheld="all")}, 30),
    "two-devices": (
        {SMALL: filled(60, shape=serving.Shape(reports=2, error=2200.0), withheld="none")},
        30,
    ),
    "negative": (
        {serving.CAMPAIGN: filled(200, shape=serving.Shape(middle=-400.0, swing=80.0))},
        30,
    ),
    "alerts": ({serving.CAMPAIGN: filled(200, withheld="last")}, 86400),
    "long-names": (
        {LONG: filled(200, shape=serving.Shape(0.28, 0.09, 0.02, 0.03, 123_456))},
        30,
    ),
    "large-numbers": (
        {
            replace(serving.CAMPAIGN, high=5e6): filled(
                200, shape=serving.Shape(2.1e6, 9e5, 3e5, 1.2e5, 1_234_567)
            )
        },
        30,
    ),
    "two-campaigns": (
        {
            serving.CAMPAIGN: filled(200),
            LONG: filled(50, shape=serving.Shape(0.28, 0.09, 0.02, 0.03, 456)),
        },
        30,
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_unusual_fleets(painter: Painter, tmp_path: Path, name: str) -> None:
    """The main pages of fleets that are empty, tiny, silent or strange."""
    campaigns, late_s = STATES[name]
    with hall(tmp_path / "site", campaigns=campaigns, late_s=late_s) as place:
        painter.log_in(place)
        for page in ("live", "rounds", "campaign", "overview", "health"):
            painter.paint(f"{name}-{page.partition('?')[0]}", f"{place.address}/{page}", do=quiet)
    assert [text for text in painter.seen.errors if "status of 4" not in text] == []


def plotted(page: Page) -> None:
    """Wait for the Explorer's chart."""
    page.wait_for_selector("#plot canvas")


def quiet(page: Page) -> None:
    """Wait for a chart if the page has one."""
    if page.locator("figure[data-chart]").count():
        drawn(page)


def test_a_session_that_ended(painter: Painter, tmp_path: Path) -> None:
    """The open page says so, and the server that is gone too."""
    with hall(tmp_path / "site", campaigns={serving.CAMPAIGN: filled(200)}) as place:

        def forgotten(page: Page) -> None:
            live(page)
            for session in list(place.sessions._sessions):
                del place.sessions._sessions[session]
            page.get_by_role("button", name="Pause").click()
            page.get_by_role("button", name="Resume").click()
            expect(page.get_by_role("link", name="log in again")).to_be_visible()
            painter.log_in(place)

        painter.log_in(place)
        painter.paint("live-session-ended", f"{place.address}/live?range=1d", do=forgotten)

        def lost(page: Page) -> None:
            live(page)
            page.route("**/live/events**", lambda route: route.abort())
            page.get_by_role("button", name="Pause").click()
            page.get_by_role("button", name="Resume").click()
            expect(page.locator("#connection-words")).to_contain_text("Connection lost")

        painter.paint("live-connection-lost", f"{place.address}/live?range=1d", do=lost)


def test_the_explorer(painter: Painter, studio: Studio) -> None:
    """Its usual question, a mistake, and a robust shuffle with targets."""
    at = studio.address
    painter.paint("explorer", f"{at}explorer", do=plotted)
    painter.paint("explorer-mistake", f"{at}explorer?epsilon=nonsense")
    painter.paint(
        "explorer-robust",
        f"{at}explorer?shuffle=robust&alpha=1&groups=4&devices=64&error=5&attacker_cap=3",
        do=plotted,
    )


def test_the_attack_lab(painter: Painter, studio: Studio, tmp_path: Path) -> None:
    """Its form, a mistake, and runs that last, end, fail and were cancelled."""
    at = studio.address
    painter.paint("attack", f"{at}attack")
    painter.paint("attack-mistake", f"{at}attack", do=mistaken)
    addresses = attacked(painter, at, tmp_path)
    for state, address in addresses.items():
        painter.paint(f"attack-{state}", address, do=quiet)
    painter.paint("attack-runs", f"{at}attack")


def mistaken(page: Page) -> None:
    """Send a form with mistakes."""
    page.fill("#f-epsilon", "-3")
    page.uncheck("#attacks-value")
    page.uncheck("#attacks-bayes")
    page.uncheck("#attacks-mallows_aware")
    page.get_by_role("button", name="Attack", exact=True).click()
    page.wait_for_selector("#e-epsilon")


def attacked(painter: Painter, at: str, folder: Path) -> dict[str, str]:
    """Start runs of all fates; return where they are."""
    context = painter.browser.new_context(base_url=at)
    context.set_default_timeout(1000 * PATIENCE_S)
    page = context.new_page()
    found: dict[str, str] = {}

    def begun(**fields: str) -> None:
        page.goto("attack")
        for name, text in fields.items():
            page.fill(f"#f-{name}", text)

    begun(devices="12", days="5")
    page.get_by_role("button", name="Attack", exact=True).click()
    page.get_by_role("heading", name="Device by device").wait_for()
    found["done"] = page.url
    begun()
    (folder / "nothing-but-words-in-a-file-with-a-long-name.csv").write_text("a,b\nc,d\n")
    page.check("#data-file")
    page.set_input_files("#f-file", folder / "nothing-but-words-in-a-file-with-a-long-name.csv")
    page.get_by_role("button", name="Attack", exact=True).click()
    page.get_by_role("alert").wait_for()
    found["failed"] = page.url
    begun(devices="64", days="60")
    page.get_by_role("button", name="Attack", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("This run was cancelled.").wait_for()
    found["cancelled"] = page.url
    begun(devices="64", days="60")
    page.get_by_role("button", name="Attack", exact=True).click()
    page.wait_for_selector("#progress")
    found["running"] = page.url
    begun()
    page.get_by_role("button", name="Attack", exact=True).click()
    page.wait_for_selector("#progress")
    found["queued"] = page.url
    context.close()
    return found


def test_the_owners_page(painter: Painter, quick_folder: Path) -> None:
    """From the first minute to a budget that is used up, and what it says when something fails."""
    with owned(quick_folder / "new", QUARTERS) as device:
        shown(painter, "owner-no-terms", device)
        device.run(0.4)
        shown(painter, "owner-off-empty-ledger", device)
        shown(painter, "owner-payload", device, "payload")
        device.folder.switch(is_on=True)
        shown(painter, "owner-on-empty-ledger", device)
        device.run(2)
        shown(painter, "owner-two-rounds", device)
        device.folder.pause()
        device.run(1)
        shown(painter, "owner-paused", device)
        shown(painter, "owner-not-found", device, "nowhere")
        device.source.is_there = False
        device.folder.resume()
        device.run(2)
        shown(painter, "owner-no-readings", device)
    with owned(quick_folder / "spent", QUARTERS, span_epsilon=40.0) as device:
        device.folder.switch(is_on=True)
        device.run(60)
        shown(painter, "owner-budget-spent", device)
    long = replace(HOURS, id=LONG.id, quantity=LONG.quantity, unit=LONG.unit)
    with owned(quick_folder / "full", long, span_epsilon=24.0) as device:
        device.folder.switch(is_on=True)
        device.run(200)
        shown(painter, "owner-full-ledger-long-names", device)
        shown(painter, "owner-payload-sharing", device, "payload")
    assert [text for text in painter.seen.errors if "404" not in text] == []


def shown(painter: Painter, name: str, device: Owned, view: str = "") -> None:
    """Take a view of the owner's page."""
    painter.paint(name, device.page.address + view)
