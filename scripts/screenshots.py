"""Take the pictures of the README and the docs, of real runs: make screenshots.

Called as screenshots.py [NAME ...], for all or for some of the pictures. Each one is of the product
itself, started by the command that stands in its caption: nothing here writes a number into a
database or a page. What was run, and the sum of each picture, is kept in docs/images/pictures.json,
which a test holds to the pictures and their captions.

Needs Chromium, and mosquitto for the owner's page (.ci/setup installs both).
"""

import hashlib
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from PIL import Image, PngImagePlugin
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/images"
DRAWN = ROOT / "docs/start/demo.png"
LIST = IMAGES / "pictures.json"
TUTORIAL = ROOT / "docs/start/first-device.md"
BIN = Path(sys.executable).parent
MOST_BYTES = 150_000
WIDTH, HEIGHT = 1280, 820
# What is run. The demonstration serves its dashboard on until it is interrupted.
DEMO = "rase demo --seed 1"
STUDIO = "rase studio"
OWNER = "rase device run --page"
COMMANDS = {
    "live": DEMO,
    "explorer": STUDIO,
    "attack-lab": STUDIO,
    "demo": DEMO,
    "owner": OWNER,
}
_PATIENCE_S = 900
_OWNER_ROUNDS = 24
_CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def main(names: list[str]) -> int:
    """Take the pictures that are named, or all."""
    wanted = set(names or COMMANDS)
    unknown = sorted(wanted - set(COMMANDS))
    chromium = shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if unknown or chromium is None:
        why = f"no such picture: {', '.join(unknown)}" if unknown else "chromium is missing"
        print(f"{why}; there are {', '.join(COMMANDS)}. Run .ci/setup for programs.")
        return 2
    os.environ["PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_CHROMIUM)
        if wanted & {"demo", "live"}:
            take_demo(browser, wanted)
        if wanted & {"explorer", "attack-lab"}:
            take_studio(browser, wanted)
        if "owner" in wanted:
            take_owner(browser)
        browser.close()
    return 0


def take_demo(browser: Browser, wanted: set[str]) -> None:
    """Run the demonstration, and take its pages and the picture that it draws."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "rase-demo.png"
        with demonstration(picture) as address:
            if "live" in wanted:
                page = opened(browser, address("live"))
                page.goto("/live?range=7d")
                page.wait_for_selector(".plot canvas")
                page.wait_for_selector("#live[data-state='on'], #live[data-state='late']")
                taken(page, "live")
        if "demo" in wanted:
            kept(Image.open(picture), DRAWN, "demo")


def take_studio(browser: Browser, wanted: set[str]) -> None:
    """Run the studio, and take its pages."""
    with subprocess.Popen(
        [str(BIN / "rase"), *STUDIO.split()[1:], "--no-browser"], stdout=subprocess.PIPE, text=True
    ) as studio:
        assert studio.stdout is not None  # noqa: S101 - it is a pipe, as asked
        address = studio.stdout.readline().strip()
        if "explorer" in wanted:
            page = new_page(browser, address, scheme="dark")
            page.goto("explorer")
            page.wait_for_selector("#plot canvas")
            page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            page.evaluate("scrollTo(0, document.querySelector('#curve-title').offsetTop - 40)")
            taken(page, "explorer")
        if "attack-lab" in wanted:
            page = new_page(browser, address)
            page.goto("attack")
            page.get_by_role("button", name="Attack", exact=True).click()
            expect(page.get_by_role("heading", name="Device by device")).to_be_visible(
                timeout=600_000
            )
            page.wait_for_selector("#plot canvas")
            taken(page, "attack-lab")
        studio.terminate()


def take_owner(browser: Browser) -> None:
    """Follow the tutorial of the first device, with pages, and take that of one."""
    blocks = re.findall(r"^```sh\n(.*?)^```", TUTORIAL.read_text("utf-8"), re.M | re.S)
    script = "\n".join(block for block in blocks if "kill $(jobs" not in block)
    begun = "do rase device run --folder plug-$i > plug-$i.log 2>&1 & done"
    if begun not in script:
        raise RuntimeError(f"{TUTORIAL.name} no longer starts its devices as this script expects.")
    # With a page nothing is sent before its owner says so.
    script = script.replace(
        begun,
        begun.replace("rase device run", "rase device run --page 0")
        + "\nfor i in 1 2 3; do until [ -e plug-$i/page ]; do sleep 1; done\n"
        "rase device resume --folder plug-$i; done",
    )
    # Servers of one's own may run at the ports of the page.
    broker, shuffler, fusion = (free_port() for _ in range(3))
    script = script.replace("18830", str(broker)).replace(":8702", f":{fusion}")
    servers = f"--shuffler-url http://127.0.0.1:{shuffler} --fusion-url http://127.0.0.1:{fusion}"
    script = script.replace("rase init try", f"rase init try {servers}")
    script += f"sleep {10 * _OWNER_ROUNDS}\nrase device page --folder plug-1\necho ready\nwait\n"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.txt"
        with out.open("w") as stream:
            run = subprocess.Popen(
                ["/bin/bash", "-c", script],
                cwd=folder,
                env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": folder},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            text = waited(lambda: found if "\nready" in (found := out.read_text()) else None)
            address = re.findall(r"(http://127\.0\.0\.1:\d+/\S*)", text)[-1]
            page = browser.new_context().new_page()
            page.goto(address)
            page.wait_for_selector("svg circle")
            taken(page, "owner")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()


@contextmanager
def demonstration(picture: Path) -> "Iterator[Logins]":
    """Run ``rase demo`` at a terminal until it is done and serves on."""
    command = [str(BIN / "rase"), *DEMO.split()[1:], "--out", str(picture)]
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command[0], command)  # noqa: S606 - the program that was installed here
    logins = Logins(terminal)
    try:
        yield logins
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGINT)
        os.waitpid(child, 0)
        os.close(terminal)


class Logins:
    """Wait for the address under which the demonstration serves; it logs in once.

    Args:
        terminal: Where the demonstration writes.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._text = ""
        self._address = ""
        self._cookies: list[dict[str, object]] = []

    def __call__(self, name: str) -> "Logins":
        """Wait until it is there."""
        while not self._address:
            if not select.select([self._terminal], [], [], _PATIENCE_S)[0]:
                raise RuntimeError(f"the demonstration did not end, so there is no {name}.")
            self._text += os.read(self._terminal, 65536).decode("utf-8", "replace")
            served = re.findall(r"Dashboard (http\S+) is still served", self._text)
            self._address = served[-1] if served else ""
        return self

    @property
    def base(self) -> str:
        """Where the dashboard is."""
        return self._address.split("/login/")[0]

    def log_in(self, page: Page) -> None:
        """Log in, by the address that works once or with what it gave."""
        if self._cookies:
            page.context.add_cookies(self._cookies)  # type: ignore[arg-type]
            return
        page.goto(self._address)
        page.wait_for_url("**/live")
        self._cookies = [dict(cookie) for cookie in page.context.cookies()]


def opened(browser: Browser, logins: Logins) -> Page:
    """Open the dashboard, logged in."""
    page = new_page(browser, logins.base)
    logins.log_in(page)
    return page


def new_page(browser: Browser, address: str, *, scheme: str = "light") -> Page:
    """Return a page of a browser without any past, which knows where it is to go."""
    context = browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]
        viewport={"width": WIDTH, "height": HEIGHT},
        base_url=address,
        reduced_motion="reduce",
    )
    context.set_default_timeout(60_000)
    return context.new_page()


def taken(page: Page, name: str) -> None:
    """Take a picture of what is in sight."""
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    page.mouse.move(0, 0)
    shot = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
    kept(shot, IMAGES / f"{name}.png", name)


def kept(picture: Image.Image, path: Path, name: str) -> None:
    """Keep a picture in few colours, so that it is small, with the command that led to it."""
    few = picture.convert("RGB").quantize(
        256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    )
    note = PngImagePlugin.PngInfo()
    note.add_text("Source", COMMANDS[name])
    few.save(path, optimize=True, pnginfo=note)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size:,} bytes, {COMMANDS[name]}")
    if size > MOST_BYTES:
        raise RuntimeError(f"{path.name} must have at most {MOST_BYTES:,} bytes, got {size:,}.")
    rows = json.loads(LIST.read_text("utf-8")) if LIST.exists() else {}
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    rows[str(path.relative_to(ROOT))] = {"command": COMMANDS[name], "sha256": digest}
    LIST.write_text(json.dumps(rows, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def waited(look: Callable[[], str | None]) -> str:
    """Wait until something is there."""
    for _ in range(_PATIENCE_S):
        found = look()
        if found:
            return found
        time.sleep(1)  # noqa: TID251 - a script that waits for programs
    raise RuntimeError("the tutorial did not come to its end.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
