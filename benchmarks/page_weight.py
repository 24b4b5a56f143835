"""How light is the Live page, beside the same page in NiceGUI?

Both run as servers on this machine and are opened in the same Chromium, in turn, with an empty
cache: the same 672 rounds as the same 300 points with their band, the same figures and tables.
Bytes are those on the wire (WebSocket frames too) until the chart is drawn; first contentful paint
and the main thread's time are the browser's own, the best of several loads. Then several pages stay
open while rounds come.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import PeerMissing, Row, Target, peer, versions
from benchmarks.loading.ports import held_port

ROUNDS: Final = 672
SERVING: Final = Path(__file__).parents[1] / "tests/browser/serving.py"
CHROMIUM: Final = "/usr/bin/chromium"
_ARGUMENTS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_PATIENCE_MS: Final = 60_000
_TICK_MS: Final = 1500


@dataclass(frozen=True, slots=True)
class Load:
    """What one load cost: bytes on the wire, milliseconds to the first paint and of work."""

    wire: float
    paint_ms: float
    work_ms: float


def rows(*, quick: bool) -> Iterator[Row]:
    """Open both pages in turn, then leave several open."""
    peer("nicegui")
    api = peer("playwright.sync_api")
    if not Path(CHROMIUM).exists():
        raise PeerMissing(f"{CHROMIUM} is not installed here: run .ci/setup")
    repeats, clients, rounds = (2, 2, 3) if quick else (9, 10, 20)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        site = stack.enter_context(_ours(Path(name)))
        theirs = stack.enter_context(_theirs(Path(name), site))
        playwright = stack.enter_context(api.sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        stack.callback(browser.close)
        pages = {"ours": (site.url, "/live?range=7d", site), "theirs": (theirs.url, "/", theirs)}
        loads: dict[str, list[Load]] = {"ours": [], "theirs": []}
        for _ in range(repeats + 1):
            for who, (url, path, server) in pages.items():
                loads[who].append(_load(browser, url, path, token=server.token))
        cpu = {
            who: _following(browser, server, path, clients=clients, rounds=rounds)
            for who, (_, path, server) in pages.items()
        }
    # The first load of each fills caches of the servers.
    best = {
        who: Load(
            *(
                min(getattr(one, name) for one in found[1:])
                for name in ("wire", "paint_ms", "work_ms")
            )
        )
        for who, found in loads.items()
    }
    ours, other = best["ours"], best["theirs"]
    packages = versions("nicegui", "playwright")
    size = f"{ROUNDS} rounds as 300 points"
    yield Row(
        what="bytes on the wire of NiceGUI's first load",
        against="those of the Live page",
        size=size,
        ratio=other.wire / ours.wire,
        means="its bytes / our bytes",
        target=Target("at least", 5),
        repeats=repeats,
        packages=packages,
        note=f"{ours.wire / 1024:.0f} KiB, NiceGUI {other.wire / 1024:.0f} KiB",
    )
    yield Row(
        what="first contentful paint of NiceGUI's page",
        against="that of the Live page",
        size=size,
        ratio=other.paint_ms / ours.paint_ms,
        means="its time / our time",
        target=Target("at least", 3),
        ours_s=ours.paint_ms / 1000,
        theirs_s=other.paint_ms / 1000,
        repeats=repeats,
        packages=packages,
    )
    yield Row(
        what="main-thread time of NiceGUI's page until its chart is drawn",
        against="that of the Live page",
        size=size,
        ratio=other.work_ms / ours.work_ms,
        means="its time / our time",
        ours_s=ours.work_ms / 1000,
        theirs_s=other.work_ms / 1000,
        repeats=repeats,
        packages=packages,
    )
    yield Row(
        what="server CPU of NiceGUI for a round and a live page",
        against="that of the dashboard",
        size=f"{clients} pages, {rounds} rounds",
        ratio=cpu["theirs"] / cpu["ours"],
        means="its time / our time",
        ours_s=cpu["ours"],
        theirs_s=cpu["theirs"],
        packages=packages,
        note="pages of one token share an answer",
    )


@dataclass(frozen=True, slots=True)
class _Server:
    process: "subprocess.Popen[str]"
    url: str
    token: str = ""

    def say(self) -> None:
        """Let a round come."""
        print("round", file=self.process.stdin, flush=True)

    def cpu_s(self) -> float:
        """Return the processor time it has used."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _serving() -> Any:
    """Return the fusion centre of the browser tests; other packages may be called tests, too."""
    spec = importlib.util.spec_from_file_location("serving", SERVING)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{SERVING} cannot be loaded.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _ours(folder: Path) -> Iterator[_Server]:
    serving = _serving()
    centre, _ = serving.make(folder / "fusion.sqlite")
    serving.add_rounds(centre.database, ROUNDS)
    token, _ = serving.tokens(centre.database)
    centre.database.close()
    with _running([str(SERVING)], folder) as (process, port):
        yield _Server(process, f"http://127.0.0.1:{port}", token)


@contextmanager
def _theirs(folder: Path, site: _Server) -> Iterator[_Server]:
    """Run the peer with the answers that our page shows."""
    campaign = _asked(site, "/v1/campaigns")["campaigns"][0]
    rounds = _asked(site, "/v1/rounds?limit=24")["rounds"]
    trace = _asked(site, "/v1/trace?points=300")
    file = folder / "data.json"
    data = {"points": trace["points"], "rounds": rounds, "unit": campaign["unit"]}
    file.write_text(json.dumps(data), encoding="utf-8")
    with _running(["-m", "benchmarks.pages.nicegui_page"], file) as (process, port):
        yield _Server(process, f"http://127.0.0.1:{port}")


def _asked(site: _Server, path: str) -> Any:
    asked = urllib.request.Request(  # noqa: S310 - our own server
        site.url + path, headers={"Authorization": f"Bearer {site.token}"}
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - our own server
        return json.loads(answer.read())


@contextmanager
def _running(program: list[str], place: Path) -> "Iterator[tuple[subprocess.Popen[str], int]]":
    port = held_port()
    with subprocess.Popen(
        [sys.executable, *program, str(place), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "listening\n":
                raise RuntimeError(f"{program[-1]} did not start.")
            _wait_for(port)
            yield process, port
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    """Wait until somebody listens; a server may say so a moment too early."""
    end_s = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end_s:
                raise
            threading.Event().wait(0.1)


def _load(browser: Any, url: str, path: str, *, token: str) -> Load:
    """Open a page with an empty cache, until its chart is drawn."""
    context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 900})
    try:
        _log_in(context, token)
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        session.send("Performance.enable")
        wire: list[float] = []
        session.on("Network.loadingFinished", lambda event: wire.append(event["encodedDataLength"]))
        for name in ("webSocketFrameReceived", "webSocketFrameSent"):
            session.on(
                f"Network.{name}",
                lambda event: wire.append(len(event["response"]["payloadData"])),
            )
        page.goto(path, timeout=_PATIENCE_MS)
        page.wait_for_selector("canvas", timeout=_PATIENCE_MS)
        page.wait_for_timeout(500)
        paint_ms = page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        metrics = {
            one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]
        }
        return Load(sum(wire), paint_ms, 1000 * metrics["TaskDuration"])
    finally:
        context.close()


def _following(browser: Any, server: _Server, path: str, *, clients: int, rounds: int) -> float:
    """Return the server's CPU seconds for one round and one page that follows it."""
    # Each has a context of its own: a browser keeps six connections to a server, pages are more.
    contexts = [
        browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 900})
        for _ in range(clients)
    ]
    try:
        pages = []
        for context in contexts:
            _log_in(context, server.token)
            page = context.new_page()
            pages.append(page)
            page.goto(path, timeout=_PATIENCE_MS)
            page.wait_for_selector("canvas", timeout=_PATIENCE_MS)
        pages[0].wait_for_timeout(_TICK_MS)
        before_s = server.cpu_s()
        for _ in range(rounds):
            server.say()
            pages[0].wait_for_timeout(_TICK_MS)
        pages[0].wait_for_timeout(_TICK_MS)
        return (server.cpu_s() - before_s) / rounds / clients
    finally:
        for context in contexts:
            context.close()


def _log_in(context: Any, token: str) -> None:
    if not token:
        return
    page = context.new_page()
    page.goto("/login", timeout=_PATIENCE_MS)
    page.fill("#token", token)
    page.press("#token", "Enter")
    page.wait_for_url("**/live", timeout=_PATIENCE_MS)
    page.close()
