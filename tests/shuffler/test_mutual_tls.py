"""Certificates on both sides: who has none of the right authority does not reach the shuffler."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.patience import until
from tests.registering import certify
from tests.shuffler.certificates import Authority, device_folder, pem_of

from rase.device.enrolment import enrol
from rase.device.ways import transport_of
from rase.errors import ConfigurationError
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.enrolment import make_tokens
from rase.transport.http import ClientTls
from rase.transport.interface import Unreachable
from rase.transport.memory import MemoryTransport

if TYPE_CHECKING:
    from tests.shuffler.conftest import World


@contextmanager
def served(app: Any, *, certificate: tuple[Path, Path], clients: Path) -> Iterator[str]:
    """Serve an app with TLS, to clients with a certificate only; give its address."""
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        log_config=None,
        ssl_certfile=certificate[0],
        ssl_keyfile=certificate[1],
        ssl_ca_certs=str(clients),
        ssl_cert_reqs=ssl.CERT_REQUIRED,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"https://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.any_store
def test_a_device_with_a_certificate_reports_and_one_without_is_refused(
    world: "World", tmp_path: Path
) -> None:
    """Enrolment, documents and reports pass with it; without it, or with a foreign one, nothing."""
    world.upload_time(100)
    app = create_shuffler_app(
        world.database,
        world.clock,
        countersigner=world.countersigner,
        pinned=world.pinned,
        telemetry=world.telemetry,
    )
    (token,) = make_tokens(world.database, 1, expires_s=2**40)
    servers, devices = Authority(tmp_path, "servers"), Authority(tmp_path, "devices")
    certificate, key = devices.issue("device")
    foreign, foreign_key = servers.issue("stranger")
    own = {"tls_certificate_file": certificate, "tls_key_file": key}
    settings: dict[str, dict[str, Path]] = {
        "bare": {"tls_ca_file": servers.file},
        "foreign": {
            "tls_ca_file": servers.file,
            "tls_certificate_file": foreign,
            "tls_key_file": foreign_key,
        },
        # The certificate of the server is checked as well.
        "misled": {"tls_ca_file": devices.file, **own},
        "known": {"tls_ca_file": servers.file, **own},
    }
    with served(app, certificate=servers.issue("shuffler"), clients=devices.file) as url:
        for name, tls in settings.items():
            folder = device_folder(tmp_path / name, url=url, pinned=world.pinned, tls=tls)
            transport = transport_of(folder.settings({}), folder.path)
            if name != "known":
                with pytest.raises(Unreachable):
                    enrol(
                        folder,
                        token,
                        transport=transport,
                        approval="b2.words",
                        registrar=MemoryTransport(certify),
                    )
                continue
            enrol(
                folder,
                token,
                transport=transport,
                approval="b2.words",
                registrar=MemoryTransport(certify),
            )
            assert transport.get("/v1/campaigns/homes/versions").status == 200
            answer = transport.post(
                "/v1/reports",
                world.seal(100),
                content_type="application/rase-report",
                credential=folder.credential(),
            )
            assert answer.status == 201
    assert len(world.rows("SELECT * FROM report")) == 1


def test_bad_files_are_told_before_anything_is_sent(tmp_path: Path) -> None:
    """Missing, readable by others, of another certificate, with a password, or no certificate."""
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("one")
    _, other_key = authority.issue("two")
    assert ClientTls(authority.file, certificate, key).context().check_hostname
    locked = tmp_path / "locked.key"
    locked.touch(mode=0o600)
    secret = ec.generate_private_key(ec.SECP256R1())
    locked.write_bytes(pem_of(secret, serialization.BestAvailableEncryption(b"word")))
    for files, part in (
        ((tmp_path / "none.pem", key), "No such file"),
        ((certificate, tmp_path / "none.key"), "No such file"),
        ((certificate, other_key), "MISMATCH"),
        ((certificate, locked), "must be a certificate and its private key"),
        ((key, key), "must be a certificate and its private key"),
    ):
        with pytest.raises(ConfigurationError, match=part):
            ClientTls(authority.file, *files).context()
    key.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        ClientTls(authority.file, certificate, key).context()
    with pytest.raises(ConfigurationError, match="chmod 600"):
        ClientTls(authority.file, certificate).context()
    both = tmp_path / "both.pem"
    both.touch(mode=0o600)
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    ClientTls(authority.file, both).context()
