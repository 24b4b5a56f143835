"""The app of Home Assistant: enrols with its options, runs the agent, and shows the owner's page.

The page listens on the container's own loopback address under a secret path. Home Assistant's
Supervisor, which has checked who asks, is the only machine that is let through to it.
"""

import http.client
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

__all__ = ["Forwarder", "enrol_arguments", "main", "write_source"]

DATA = Path("/data")
PROGRAM = [sys.executable, "/opt/rase-device.pyz"]
SUPERVISOR = "172.30.32.2"
PORT = 8099
MOST_BYTES = 1 << 20
# Who sends more than this gets a reset connection instead of an answer.
MOST_DROPPED_BYTES = 8 * 1024 * 1024
_SETTINGS = (
    "shuffler",
    "campaign",
    "fusion_key",
    "shuffler_key",
    "registrar",
    "registrar_key",
)
_SECRETS = ("enrolment_token", "registrar_approval")
_NUMBERS = ("report_epsilon", "span_epsilon", "total_epsilon", "least_k")
_BEGIN, _END = "# of the app's options, written at each start:", "# end of the app's options"


def main() -> int:
    """Enrol if that was not done, then run until the agent ends."""
    options = json.loads((DATA / "options.json").read_text("utf-8"))
    folder = DATA / "device"
    if not (folder / "credential").exists():
        given = [DATA / name for name in _SECRETS]
        for path, name in zip(given, _SECRETS, strict=True):
            write_secret(path, str(options.get(name) or ""))
        try:
            done = subprocess.run(
                [*PROGRAM, *enrol_arguments(options, folder, *given)], check=False
            )
        finally:
            for path in given:
                path.unlink()
        if done.returncode:
            return done.returncode
    write_secret(folder / "home-assistant-token", os.environ.get("SUPERVISOR_TOKEN", ""))
    settings = folder / "device.toml"
    settings.write_text(write_source(settings.read_text("utf-8"), options), "utf-8")
    server = Forwarder(("", PORT), folder / "page")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with subprocess.Popen([*PROGRAM, "run", "--folder", str(folder), "--page"]) as agent:
        # The Supervisor ends the first process alone: the agent must hear of it, too.
        signal.signal(signal.SIGTERM, lambda number, frame: agent.terminate())
        return agent.wait()


def enrol_arguments(
    options: dict[str, object], folder: Path, token: Path, approval: Path
) -> list[str]:
    """Return the command that enrols with the options; none of them is a secret."""
    words = ["enrol", f"--folder={folder}", f"--token-file={token}", f"--approval-file={approval}"]
    words += [f"--{name.replace('_', '-')}={options[name]}" for name in (*_SETTINGS, *_NUMBERS)]
    return [*words, "--range", str(options["low"]), str(options["high"])]


def write_source(text: str, options: dict[str, object]) -> str:
    """Return settings in which the source is the entity of the options.

    Args:
        text: The settings, as enrolment or an earlier start left them.
        options: What the owner typed.
    """
    lines = [
        _BEGIN,
        'kind = "homeassistant"',
        'url = "http://supervisor/core"',
        f"entity = {json.dumps(options['entity'])}",
        'token_file = "home-assistant-token"',
        *([f"unit = {json.dumps(options['unit'])}"] if options.get("unit") else []),
        _END,
    ]
    block = "\n".join(lines)
    if _BEGIN in text:
        before, rest = text.split(_BEGIN, 1)
        return before + block + rest.split(_END, 1)[1]
    return text.replace('kind = "stdin"', block, 1)


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)


class Forwarder(http.server.ThreadingHTTPServer):
    """Hand what the Supervisor asks on to the owner's page, and the answers back.

    Args:
        address: Where to listen.
        page_file: Holds the page's secret address while an agent serves it.
        only: The address that may ask.
    """

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], page_file: Path, *, only: str = SUPERVISOR
    ) -> None:
        self.page_file = page_file
        self.only = only
        super().__init__(address, _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Forwarder
    timeout = 60

    def do_GET(self) -> None:
        """Show a part of the page."""
        self._forward(None)

    def do_POST(self) -> None:
        """Do what the owner asked for."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length[:20]) > MOST_BYTES:
            self._answer(413, b"The form is too large.\n", {})
            self._drop(int(length[:20]) if length.isdecimal() else 0)
            return
        self._forward(self.rfile.read(int(length)))

    def _drop(self, sent: int) -> None:
        """Read what is still coming: closing on a sender would take the answer from it."""
        left = min(sent, MOST_DROPPED_BYTES)
        while left > 0 and (piece := self.rfile.read1(min(left, 65536))):
            left -= len(piece)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: paths of the page say what its owner does."""

    def _forward(self, body: bytes | None) -> None:
        if self.client_address[0] != self.server.only:
            self._answer(403, b"Only Home Assistant may ask.\n", {})
            return
        try:
            address = self.server.page_file.read_text("ascii").strip()
            found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[\w-]+/)", address)
            if found is None:
                raise OSError("no address")
            port, secret = int(found.group(1)), found.group(2)
            way = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            # The page's own proof in each form shows that the form is its own; whose browser this
            # is the Supervisor has checked.
            kept = {
                name: self.headers[name]
                for name in ("Content-Type", "Cookie", "Accept-Language")
                if name in self.headers
            }
            way.request(self.command, secret + self.path.lstrip("/"), body, kept)
            answer = way.getresponse()
            data = answer.read()
        except OSError:
            self._answer(503, b"The agent does not show its page now; see its log.\n", {})
            return
        own = ("Content-Length", "Connection")
        headers = {name: value for name, value in answer.getheaders() if name not in own}
        # Home Assistant shows it in a frame of its own site; no other site may.
        for name, value in headers.items():
            if name == "Content-Security-Policy":
                headers[name] = value.replace("frame-ancestors 'none'", "frame-ancestors 'self'")
        if "X-Frame-Options" in headers:
            headers["X-Frame-Options"] = "SAMEORIGIN"
        if answer.getheader("Location") == secret:
            headers["Location"] = f"{self.headers.get('X-Ingress-Path', '')}/"
        self._answer(answer.status, data, headers)

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    sys.exit(main())
