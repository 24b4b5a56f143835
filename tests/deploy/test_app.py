"""The app of Home Assistant: its form, the settings it writes, and the page it shows."""

import http.client
import importlib.util
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.device.owning import Owned, owned
from tests.patience import PATIENCE_S

import rase
from rase.accounting.ledger.limits import UNASKED_DAY_EPSILON
from rase.device.__main__ import main
from rase.device.folder import DeviceFolder

FOLDER = Path(__file__).parents[2] / "deploy/homeassistant/rase_device"
CONFIG = (FOLDER / "config.yaml").read_text("utf-8")
OPTIONS: dict[str, object] = {
    "entity": "sensor.house_power",
    "unit": "W",
    "shuffler": "http://127.0.0.1:9",
    "campaign": "power",
    "fusion_key": "A" * 43,
    "shuffler_key": "A" * 42 + "E",
    "registrar": "http://127.0.0.1:9",
    "registrar_key": "B" * 42 + "E",
    "enrolment_token": "a1.made-up-token",
    "registrar_approval": "b2.made-up-approval",
    "report_epsilon": 1,
    "span_epsilon": 24,
    "total_epsilon": 1000,
    "low": 0,
    "high": 3000,
    "least_k": 20,
}


@pytest.fixture(scope="module")
def app() -> ModuleType:
    """The program of the app, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("app", FOLDER / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def device(quick_folder: Path) -> Iterator[Owned]:
    """A device with a page, whose owner has said nothing yet."""
    with owned(quick_folder / "device") as one:
        yield one


def block(name: str) -> dict[str, str]:
    """Return the lines of one map of the configuration."""
    text = CONFIG.split(f"\n{name}:\n")[1]
    return dict(re.findall(r"^  (\w+): (.*)$", re.split(r"^\S", text, flags=re.M)[0], re.M))


def test_the_form_asks_for_what_the_program_reads(app: ModuleType) -> None:
    """Every option has a type and is used; version, port and processors agree with the others."""
    assert set(block("options")) == set(block("schema")) == set(OPTIONS)
    assert f'\nversion: "{rase.__version__}"\n' in CONFIG
    # The form begins with what owners who say nothing allow.
    caps = {"span_epsilon": UNASKED_DAY_EPSILON, "total_epsilon": 30 * UNASKED_DAY_EPSILON}
    assert {name: float(block("options")[name]) for name in caps} == caps
    assert f"\ningress_port: {app.PORT}\n" in CONFIG
    processors = re.findall(r"^  - (\w+)$", CONFIG.split("\narch:\n")[1].split("startup")[0], re.M)
    built = re.findall(r"^  (\w+): \S+$", (FOLDER / "build.yaml").read_text("utf-8"), re.M)
    assert processors == built
    copied = re.findall(r"^COPY (.*) /opt/$", (FOLDER / "Dockerfile").read_text("utf-8"), re.M)
    assert copied == ["rase-device.pyz app.py"]


def test_options_become_settings_that_the_agent_reads(app: ModuleType, tmp_path: Path) -> None:
    """Enrolling takes them all; the entity is the source, and can be changed at a later start."""
    folder, token, approval = (tmp_path / name for name in ("device", "token", "approval"))
    app.write_secret(token, "a1.made-up-token")
    app.write_secret(approval, "b2.made-up-approval")
    assert token.stat().st_mode & 0o777 == 0o600
    words = app.enrol_arguments(OPTIONS, folder, token, approval)
    assert "a1.made-up-token" not in " ".join(words)
    assert main(words) == 4  # all is well but for the network
    settings = folder / "device.toml"
    for entity in ("sensor.house_power", "sensor.garage"):
        text = app.write_source(settings.read_text("utf-8"), {**OPTIONS, "entity": entity})
        settings.write_text(text, "utf-8")
        found = DeviceFolder(folder).settings({})
        assert found.source.kind == "homeassistant"
        assert found.source.entity == entity
        assert found.source.unit == "W"
        assert text.count("kind = ") == settings.read_text("utf-8").count("kind = ")
    assert (found.rules.low, found.rules.high, found.rules.least_k) == (0.0, 3000.0, 20)


def test_home_assistant_shows_the_page_and_its_forms_work(app: ModuleType, device: Owned) -> None:
    """The owner switches sharing on through it; the secret of the page never gets out."""
    device.folder.keep_page(device.page.address)
    with served(app, device.folder.page_file, only="127.0.0.1") as ask:
        status, headers, text = ask("GET", "/")
        assert status == 200
        assert "Sharing is off" in text
        assert device.page.token not in text + str(headers)
        assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]
        assert ask("GET", "/rase.css")[0] == 200
        (proof,) = set(re.findall(r'name="proof" value="([^"]+)"', text))
        assert ask("POST", "/share", {"proof": "wrong"})[0] == 403
        assert device.folder.is_off
        status, headers, _ = ask("POST", "/share", {"proof": proof})
        assert status == 303
        assert headers["Location"] == "/api/hassio_ingress/made-up/"
        assert not device.folder.is_off


def test_nobody_else_gets_through(app: ModuleType, device: Owned, tmp_path: Path) -> None:
    """Another machine of the network is refused, and without an agent the page says so."""
    device.folder.keep_page(device.page.address)
    with served(app, device.folder.page_file, only="172.30.32.2") as ask:
        status, _, text = ask("GET", "/")
        assert (status, text) == (403, "Only Home Assistant may ask.\n")
    with served(app, tmp_path / "absent", only="127.0.0.1") as ask:
        assert ask("GET", "/")[0] == 503
        assert ask("POST", "/share", {"x": "y" * 2_000_000})[0] == 413


@contextmanager
def served(app: ModuleType, page_file: Path, *, only: str) -> Iterator[Any]:
    """Run the forwarder, and yield a function that asks it as the Supervisor does."""
    server = app.Forwarder(("127.0.0.1", 0), page_file, only=only)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def ask(
        method: str, path: str, form: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], str]:
        way = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE_S)
        headers = {
            "X-Ingress-Path": "/api/hassio_ingress/made-up",
            "Origin": "http://ha.local:8123",
        }
        body = None
        if form is not None:
            body = urlencode(form)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            way.request(method, path, body, headers)
            answer = way.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            way.close()

    try:
        yield ask
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
