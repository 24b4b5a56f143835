"""nginx as the guides write it, really run: whom it lets through, and whom not."""

import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvicorn
from benchmarks.loading.ports import held_port
from tests.patience import PATIENCE_S, until
from tests.programs import program
from tests.registering import certify
from tests.shuffler.certificates import Authority, device_folder

from rase.device.enrolment import enrol
from rase.device.ways import transport_of
from rase.errors import RaseError
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.enrolment import make_tokens
from rase.transport.memory import MemoryTransport

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.needs("nginx")
# All that a packaged nginx.conf says around a server, with every file in the test's own folder.
AROUND = """
user root;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{server}
}}
"""


def nginx_of(text: str, folder: Path, **changes: str) -> Path:
    """Write the settings of nginx around those of a guide, with other files and ports."""
    for old, new in changes.items():
        text, count = re.subn(rf"(?m)^(\s*{old}\s+).*?;", rf"\g<1>{new};", text)
        assert count, f"the guide has no {old}"
    path = folder / "nginx.conf"
    path.write_text(AROUND.format(folder=folder, server=text), encoding="utf-8")
    checked = subprocess.run(
        [program("nginx"), "-t", "-c", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert checked.returncode == 0, checked.stderr
    return path


@contextmanager
def running(settings: Path, port: int) -> Iterator[None]:
    """Run nginx until the block ends."""
    with subprocess.Popen([program("nginx"), "-c", settings], stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: _answers(port), logs=settings.parent)
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@contextmanager
def upstream(app: object) -> Iterator[int]:
    """Serve the shuffler's app on a port of its own, as its operator does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))  # type: ignore[arg-type]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
    except OSError:
        return False
    return True


@pytest.mark.any_store
def test_the_guide_for_certificates_lets_in_whom_it_says(world: "World", tmp_path: Path) -> None:
    """A device with a certificate enrols and reports; without, foreign or revoked, it does not."""
    page = (ROOT / "docs/guides/mutual-tls.md").read_text(encoding="utf-8")
    (guide,) = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    servers, devices = Authority(tmp_path, "servers"), Authority(tmp_path, "devices")
    certificate, key = servers.issue("shuffler")
    known, lost, foreign = (
        devices.issue("device"),
        devices.issue("lost"),
        servers.issue("stranger"),
    )
    world.upload_time(100)
    (token,) = make_tokens(world.database, 1, expires_s=2**40)
    app = create_shuffler_app(
        world.database,
        world.clock,
        countersigner=world.countersigner,
        pinned=world.pinned,
        telemetry=world.telemetry,
    )
    port = held_port()
    with upstream(app) as behind:
        settings = nginx_of(
            guide,
            tmp_path,
            listen=f"127.0.0.1:{port} ssl",
            ssl_certificate=str(certificate),
            ssl_certificate_key=str(key),
            ssl_client_certificate=str(devices.file),
            ssl_crl=str(devices.revoking(lost[0])),
            proxy_pass=f"http://127.0.0.1:{behind}",
        )
        with running(settings, port):
            for name, shown in (("bare", None), ("lost", lost), ("foreign", foreign)):
                tls = {"tls_ca_file": servers.file}
                if shown is not None:
                    tls |= {"tls_certificate_file": shown[0], "tls_key_file": shown[1]}
                folder = device_folder(
                    tmp_path / name, url=f"https://127.0.0.1:{port}", pinned=world.pinned, tls=tls
                )
                transport = transport_of(folder.settings({}), folder.path)
                with pytest.raises(RaseError):
                    enrol(
                        folder,
                        token,
                        transport=transport,
                        approval="b2.words",
                        registrar=MemoryTransport(certify),
                    )
                assert transport.get("/v1/keyset").status == 400
            assert world.counters() == {}
            folder = device_folder(
                tmp_path / "known",
                url=f"https://127.0.0.1:{port}",
                pinned=world.pinned,
                tls={
                    "tls_ca_file": servers.file,
                    "tls_certificate_file": known[0],
                    "tls_key_file": known[1],
                },
            )
            transport = transport_of(folder.settings({}), folder.path)
            enrol(
                folder,
                token,
                transport=transport,
                approval="b2.words",
                registrar=MemoryTransport(certify),
            )
            assert transport.get("/v1/campaigns/homes/versions").status == 200
            # Beyond /v1/ nothing is passed on, metrics neither.
            assert transport.get("/metrics").status == 404
            answer = transport.post(
                "/v1/reports",
                world.seal(100),
                content_type="application/rase-report",
                credential=folder.credential(),
            )
            assert answer.status == 201
    assert len(world.rows("SELECT * FROM report")) == 1


@pytest.mark.any_store
def test_the_example_for_a_plain_proxy_is_run(world: "World", tmp_path: Path) -> None:
    """Without certificates of devices everybody reaches the shuffler, but not its metrics."""
    servers = Authority(tmp_path, "servers")
    certificate, key = servers.issue("shuffler")
    app = create_shuffler_app(
        world.database,
        world.clock,
        countersigner=world.countersigner,
        pinned=world.pinned,
        telemetry=world.telemetry,
    )
    port = held_port()
    example = (ROOT / "deploy/proxy/nginx.conf").read_text(encoding="utf-8")
    example = example.replace("    listen [::]:443 ssl;\n", "")
    # A slow machine must not get through what a fast one may not.
    example, count = re.subn(r"rate=\d+r/s;", "rate=1r/m;", example)
    assert count == 1
    with upstream(app) as behind:
        settings = nginx_of(
            example,
            tmp_path,
            listen=f"127.0.0.1:{port} ssl",
            ssl_certificate=str(certificate),
            ssl_certificate_key=str(key),
            error_log=f"{tmp_path}/server.log crit",
            proxy_pass=f"http://127.0.0.1:{behind}",
        )
        with running(settings, port):
            folder = device_folder(
                tmp_path / "device",
                url=f"https://127.0.0.1:{port}",
                pinned=world.pinned,
                tls={"tls_ca_file": servers.file},
            )
            transport = transport_of(folder.settings({}), folder.path)
            assert transport.get("/v1/keyset").status == 200
            assert transport.get("/metrics").status == 404
            context = ssl.create_default_context(cafile=str(servers.file))
            # Far more at once than one address may ask: nginx answers the rest itself.
            with (
                socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as flood,
            ):
                flood.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 300)
                heard = b""
                while b"HTTP/1.1 429" not in heard:
                    piece = flood.recv(65536)
                    assert piece, "all were passed on"
                    heard += piece
            assert heard.startswith(b"HTTP/1.1 200")
