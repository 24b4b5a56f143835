"""A real browser, and fusion centres with dashboards that it visits."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import pytest
from benchmarks.loading.ports import held_port
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)
from tests.browser import serving
from tests.browser.nursery import Nursery
from tests.patience import PATIENCE_S
from tests.programs import program

HERE = Path(__file__).parent
AXE = HERE / "node_modules/axe-core/axe.min.js"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
ROUNDS = 10_000


@dataclass
class Site:
    """A fusion centre with a dashboard, in a process of its own."""

    nursery: Nursery
    folder: Path
    port: int
    reader: str
    operator: str
    pid: int = 0
    orders: TextIO = field(init=False)

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.pid, self.orders = self.nursery.start(self.folder, self.port)

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        self.nursery.kill(self.pid)
        self.orders.close()

    def say(self, word: str) -> None:
        """Let the next round become final (``round``, ``withheld``), or nothing (``silence``).

        Returns once it is so.
        """
        print(word, file=self.orders, flush=True)
        assert self.orders.readline() == "done\n"


def made(nursery: Nursery, folder: Path, rounds: int, *, shares: int = 0) -> Site:
    """Make a site with some rounds, among them withheld ones; of states, too, if asked for."""
    centre, _ = serving.make(folder / "fusion.sqlite")
    if shares:
        serving.add_shares(centre, shares)
    if rounds:
        withheld = frozenset({*range(20, rounds, 37), rounds - 9, rounds - 8})
        serving.add_rounds(centre.database, rounds, withheld=withheld)
    reader, operator = serving.tokens(centre.database)
    centre.database.close()
    return Site(nursery, folder, held_port(), reader, operator)


@dataclass
class Studio:
    """The studio, in a process of its own; pages are named without a slash: they lie below it."""

    address: str


@pytest.fixture(scope="session")
def studio() -> Iterator[Studio]:
    """A studio that tests only look at, or whose runs they erase."""
    typed = [sys.executable, "-m", "rase", "studio", "--no-browser"]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Studio(process.stdout.readline().strip())
        process.terminate()


@contextlib.contextmanager
def running(nursery: Nursery, folder: Path, rounds: int, *, shares: int = 0) -> Iterator[Site]:
    """Run a site until the block ends."""
    site = made(nursery, folder, rounds, shares=shares)
    site.start()
    try:
        yield site
    finally:
        site.kill()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where sites come from."""
    one = Nursery()
    yield one
    one.close()


@pytest.fixture(scope="session")
def site(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with ten thousand rounds, which tests only read."""
    with running(nursery, tmp_path_factory.mktemp("site"), ROUNDS) as one:
        yield one


@pytest.fixture(scope="session")
def states_site(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with a campaign of numbers and one of states with labels, which tests only read."""
    with running(nursery, tmp_path_factory.mktemp("states"), 700, shares=700) as one:
        yield one


@pytest.fixture
def own_site(nursery: Nursery, tmp_path: Path) -> Iterator[Site]:
    """A site with thirty rounds that a test may change and kill."""
    with running(nursery, tmp_path, 30) as one:
        yield one


@pytest.fixture
def new_site(nursery: Nursery, tmp_path: Path) -> Iterator[Site]:
    """A site without any round."""
    with running(nursery, tmp_path, 0) as one:
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for the tests of a file.

    Not for longer: while it runs, tests of other files could not run loops of their own.
    """
    # Without the windows of the whole browser, for half of the processor time.
    chosen = program("chromium-headless-shell")
    # What the browser is told to do without.
    os.environ["PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD"] = "1"
    expect.set_options(timeout=1000 * PATIENCE_S)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=chosen, args=ARGUMENTS)
        yield chromium
        chromium.close()


@dataclass
class Seen:
    """What a browser said and asked for while a test ran."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Write down what a page says and asks for."""

        def said(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                self.errors.append(message.text)

        page.on("console", said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def elsewhere(self, site: Site | Studio) -> list[str]:
        """Return requests to other places than a site."""
        ours = (f"{site.address.rstrip('/')}/", "data:")
        return [url for url in self.requests if not url.startswith(ours)]


Opens = Callable[..., Page]


@pytest.fixture
def seen() -> Seen:
    """What the browser of this test says and asks for."""
    return Seen()


@pytest.fixture
def opened(browser: Browser, seen: Seen) -> Iterator[Opens]:
    """Open a site in a browser without any past, logged in if a token is given."""
    contexts: list[BrowserContext] = []

    def open_(
        site: Site | Studio,
        token: str = "",
        *,
        scheme: str = "light",
        width: int = 1280,
        **more: object,
    ) -> Page:
        context = browser.new_context(
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport={"width": width, "height": 900},
            base_url=str(more.get("address", site.address)),
            java_script_enabled=bool(more.get("scripts", True)),
            reduced_motion="reduce",
        )
        context.set_default_timeout(1000 * PATIENCE_S)
        contexts.append(context)
        page = context.new_page()
        seen.watch(page)
        if token:
            page.goto("/login")
            page.fill("#token", token)
            page.press("#token", "Enter")
            page.wait_for_url("**/live")
        return page

    yield open_
    for context in contexts:
        context.close()


class Relay:
    """A line to a site that can be cut and mended, at an address of its own."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._pairs: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_cut = False
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self.is_cut = True
        for one in self._pairs:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let connections through again."""
        self.is_cut = False

    def close(self) -> None:
        """End, with nothing left open for a later test to find."""
        self.is_cut = True
        # A shutdown wakes the thread that accepts, a close would not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(PATIENCE_S)
        self.cut()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for one in (self._listener, *self._pairs):
            one.close()

    def _start(self, target: Callable[..., None], *given: socket.socket) -> None:
        thread = threading.Thread(target=target, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.is_cut:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._to))
            self._pairs += [near, far]
            for one, other in ((near, far), (far, near)):
                self._start(self._carry, one, other)

    @staticmethod
    def _carry(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def relay(own_site: Site) -> Iterator[Relay]:
    """A line to the site that a test may cut."""
    made = Relay(own_site.port)
    yield made
    made.close()
