"""Caddy as the example writes it, really run: what passes, and what it keeps to itself."""

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from benchmarks.loading.ports import held_port
from tests.live.running import answers
from tests.patience import PATIENCE_S, until
from tests.programs import program

EXAMPLE = (Path(__file__).parents[2] / "deploy/proxy/Caddyfile").read_text(encoding="utf-8")
pytestmark = pytest.mark.needs("caddy")
QUIET = "{\n\tadmin off\n\tauto_https off\n"


@contextmanager
def behind() -> Iterator[tuple[int, list[dict[str, str]]]]:
    """Run a server that answers everything; give its port and the headers it has seen."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/healthz":
                seen.append(dict(self.headers))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def proxied(text: str, folder: Path) -> Iterator[str]:
    """Run Caddy with an example on a port of this machine; give its address and keep its words."""
    port = held_port()
    text, count = re.subn(r"(?m)^\w+\.example \{", f"http://127.0.0.1:{port} {{", text)
    assert count
    settings, log = folder / "Caddyfile", folder / "caddy.log"
    # There is one block of options for all, and the shuffler's half of the example has it.
    text = text.replace("\n{\n", f"\n{QUIET}", 1) if "\n{\n" in text else f"{QUIET}}}\n{text}"
    settings.write_text(text, encoding="utf-8")
    command = [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(settings)]
    home = os.environ | {"HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with log.open("w") as words, subprocess.Popen(command, stderr=words, env=home) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: answers(url), logs=folder)
            yield url
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.mark.parametrize("role", ["shuffler", "fusion", "registrar"])
def test_the_example_passes_requests_on_and_nothing_else(role: str, tmp_path: Path) -> None:
    """No server that devices ask learns their address; nobody gets metrics, nothing is logged."""
    shuffler, others = EXAMPLE.split("# On the fusion centre's machine", 1)
    fusion, registrar = others.split("# A registrar likewise", 1)
    text = {"shuffler": shuffler, "fusion": fusion, "registrar": registrar}[role]
    if role != "shuffler":
        text = "\n".join(line.removeprefix("# ") for line in text.split("\n")[1:])
    with behind() as (port, seen):
        text, count = re.subn(
            r"reverse_proxy 127\.0\.0\.1:\d+", f"reverse_proxy 127.0.0.1:{port}", text
        )
        assert count == 1
        with proxied(text, tmp_path) as url:
            asked = Request(f"{url}/v1/reports", headers={"X-Forwarded-For": "192.0.2.7"})  # noqa: S310
            with urlopen(asked, timeout=PATIENCE_S) as answer:  # noqa: S310 - an address of our own
                assert answer.status == 200
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{url}/metrics", timeout=PATIENCE_S)  # noqa: S310 - an address of our own
    (headers,) = seen
    if role != "fusion":
        assert not {"X-Forwarded-For", "X-Real-Ip", "Forwarded"} & set(headers)
        assert "192.0.2.7" not in str(headers)
    assert "/v1/reports" not in (tmp_path / "caddy.log").read_text()


def test_the_example_is_valid_as_it_is(tmp_path: Path) -> None:
    """With the names, and the certificates, that an operator would use."""
    done = subprocess.run(
        [program("caddy"), "validate", "--adapter", "caddyfile", "--config", "-"],
        input=EXAMPLE,
        env=os.environ | {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert "Valid configuration" in done.stdout + done.stderr
