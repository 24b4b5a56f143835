"""The agent as a program of its own, against a shuffler behind a real socket."""

import base64
import json
import os
import re
import signal
import ssl
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.registering import keep_tokens

from rase.cli import main
from rase.device.folder import DeviceFolder
from rase.device.journal import EVENTS
from rase.device.program import run_device
from rase.device.settings import settings_of
from rase.device.sources import open_source
from rase.device.terms import TermsRefused
from rase.device.ways import transport_of
from rase.errors import ConfigurationError

READING = 1234.5678
CSV = 'kind = "csv"\npath = "../power.csv"\ncolumn = "power_w"\nevery_s = 0.2'


@pytest.fixture
def folder(http_shuffler: Any, tmp_path: Path) -> Path:
    """A device that is enrolled at the shuffler and reads a file."""
    path = tmp_path / "device"
    token, approval = tmp_path / "token", tmp_path / "approval"
    token.write_text("a1.token\n", encoding="ascii")
    approval.write_text("b2.approval\n", encoding="ascii")
    pinned = http_shuffler.shuffler.pinned
    code = main(
        [
            "device",
            "enrol",
            f"--folder={path}",
            f"--token-file={token}",
            f"--approval-file={approval}",
            f"--shuffler={http_shuffler.url}",
            f"--registrar={http_shuffler.url}",
            f"--registrar-key={pinned.registrar.hex()}",
            "--campaign=street-power",
            f"--fusion-key={base64.b64encode(pinned.fusion).decode()}",
            f"--shuffler-key={base64.urlsafe_b64encode(pinned.shuffler).decode()}",
            "--report-epsilon=1",
            "--span-epsilon=10000",
            "--total-epsilon=100000",
            "--range",
            "0",
            "3000",
            "--least-k=20",
        ]
    )
    assert code == 0
    (tmp_path / "power.csv").write_text("power_w\n" + f"{READING}\n" * 2000, encoding="ascii")
    settings = path / "device.toml"
    text = settings.read_text(encoding="utf-8").replace('kind = "stdin"', CSV)
    settings.write_text(text, encoding="utf-8")
    place = DeviceFolder(path)
    with place.ledger(place.settings({})) as ledger:
        keep_tokens(ledger, "street-power")
    return path


def plain_environment() -> dict[str, str]:
    """Return an environment in which nothing measures the child."""
    return {name: text for name, text in os.environ.items() if not name.startswith("COV")}


def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "rase", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **more,
    )


def test_a_real_agent_reports_and_keeps_its_secrets(
    http_shuffler: Any, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rounds arrive; neither log nor folder holds the reading, the log no noisy value."""
    shuffler, log = http_shuffler.shuffler, ""

    def places() -> list[int]:
        contents = [shuffler.content(report) for report in shuffler.stored.values()]
        return [content.place for content in contents if not content.is_cover]

    # On a busy machine a round of a second may end before anything was read, and is a cover report.
    while len(places()) < 2:
        done = run("device", "run", f"--folder={folder}", "--rounds=3")
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        log += done.stderr
    assert {len(report) for report in shuffler.received} == {437}
    # The log holds listed events and fields only, and none of them can hold a value.
    for line in log.splitlines():
        fields = dict(word.split("=", 1) for word in line.split())
        assert fields.keys() - {"time", "event"} <= set(EVENTS[fields["event"]])
    logged = set(log.replace("=", " ").split())
    assert str(READING) not in log
    # Smaller numbers are versions and attempts; a place is at most 4096, no round is so early.
    assert not logged & {str(place) for place in places() if place > 100}
    raw = (str(READING).encode(), struct.pack(">d", READING), struct.pack("<d", READING))
    for file in folder.rglob("*"):
        data = file.read_bytes()
        assert not any(text in data for text in raw), file
        assert file.stat().st_mode & 0o077 == 0, file
    status = json.loads(run("budget", f"--folder={folder}", "--json", "--history=9").stdout)
    assert status["schema"] == "rase/budget/1"
    assert status["total"]["spent"] == len(status["history"]) == status["reports"]
    capfd.readouterr()


def test_a_killed_agent_goes_on(http_shuffler: Any, folder: Path) -> None:
    """After kill -9 in the middle of its work, a new agent sends no second envelope for a round."""
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-m", "rase", "device", "run", f"--folder={folder}"],
            stderr=subprocess.PIPE,
            text=True,
        ) as agent:
            assert agent.stderr is not None
            for line in agent.stderr:
                if "event=sealed" in line:
                    agent.send_signal(signal.SIGKILL)
                    break
            agent.stderr.read()
    done = run("device", "run", f"--folder={folder}", "--rounds=1")
    assert done.returncode == 0, done.stderr
    assert http_shuffler.shuffler.counts["different"] == 0
    assert http_shuffler.shuffler.stored


def test_sigterm_ends_an_agent_gently(folder: Path) -> None:
    """It stops between two steps with exit code 0."""
    with subprocess.Popen(
        [sys.executable, "-m", "rase", "device", "run", f"--folder={folder}"],
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stderr is not None
        for line in agent.stderr:
            if "event=keys-accepted" in line:
                agent.terminate()
                break
        assert "event=stopped" in agent.stderr.read()
    assert agent.returncode == 0


MEASURE = """
import os, sys
sys.argv = ["rase"]
from rase.cli import main
code = main(["device", "run", "--rounds=2", "--folder", os.environ["FOLDER"]])
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
# Pages of libraries are shared, and counted by what else keeps them in memory.
print(code, int(status["VmHWM"].split()[0]) - int(status["RssFile"].split()[0]), *sys.modules)
"""
# Packages of servers, and parts of the standard library that cost a start milliseconds each.
HEAVY = """
asyncio click concurrent.futures csv email fastapi fractions http http.client httpx
importlib.metadata importlib.resources jinja2 logging multiprocessing numpy paho platform psycopg
pydantic queue random scipy secrets shutil socketserver sqlite3.dump ssl starlette statistics
subprocess tempfile traceback unittest urllib.request uuid uvicorn xml zoneinfo
"""
# The owner's page, brokers and meters in the network are for those who have them.
OPTIONAL = (
    "rase.device.home",
    "rase.device.comparison",
    "rase.device.page",
    "rase.service",
    "rase.transport.broker",
    "rase.transport.mqtt",
)


def test_an_agent_stays_below_twenty_five_megabytes(folder: Path) -> None:
    """Memory of its own stays below 25 MB in two rounds, and no heavy package is loaded."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        env={**plain_environment(), "FOLDER": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    code, peak_kb, *modules = done.stdout.split()
    # A table of readings and exact noise come after the start, and need what it does without.
    later = {"csv", "fractions", "random", "secrets"}
    assert (code, set(HEAVY.split()) & set(modules) - later) == ("0", set())
    assert not [module for module in modules if module.startswith(OPTIONAL)]
    assert int(peak_kb) < 25 * 1024


START = """
import os, signal, sys
from rase.cli import main
from rase.transport.http import HttpTransport
ask = HttpTransport.get
def get(*arguments, **options):
    os.kill(os.getpid(), signal.SIGTERM)  # ends the agent after its first step
    return ask(*arguments, **options)
HttpTransport.get = get
code = main(["device", "run", "--folder", os.environ["FOLDER"]])
print(*sys.modules)
sys.exit(code)
"""


# The same, and prints how many functions were called; what runs in C counts as one call.
COUNTED = """
import sys
calls = 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
""" + START.replace("print(*sys.modules)", "sys.setprofile(None); print(calls)")


def at_start(folder: Path) -> dict[str, str]:
    """Return the environment of an agent that has nothing to send: no round has ended yet."""
    return plain_environment() | {"FOLDER": str(folder), "RASE_DEVICE__COVER": "false"}


def start(environment: dict[str, str], code: str = START) -> set[str]:
    """Start an agent that ends after its first step; return the modules it has imported."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_agent_starts_without_heavy_modules(
    http_shuffler: Any, folder: Path, scheme: str
) -> None:
    """Up to its first fetch it imports no server's package and no costly part of the library."""
    run_device(DeviceFolder(folder), {}, wait=lambda seconds: True)
    settings = folder / "device.toml"
    text = settings.read_text(encoding="utf-8").replace(CSV, 'kind = "stdin"')
    settings.write_text(text, encoding="utf-8")
    if scheme == "https":
        behind_tls(http_shuffler, folder)
    modules = start(at_start(folder))
    assert "rase.transport.http" in modules  # it did ask
    assert set(HEAVY.split()) & modules == ({"ssl"} if scheme == "https" else set())
    assert not [module for module in modules if module.startswith(OPTIONAL)]


def behind_tls(http_shuffler: Any, folder: Path) -> None:
    """Let a shuffler speak TLS, and its device know the authority."""
    certificate, key = folder.parent / "ca.pem", folder.parent / "ca.key"
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    names = "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(
        [*request.split(), *names.split(), "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    plain = http_shuffler.url
    http_shuffler.socket = context.wrap_socket(http_shuffler.socket, server_side=True)
    settings = folder / "device.toml"
    text = settings.read_text(encoding="utf-8")
    text = text.replace(plain, f"https://localhost:{http_shuffler.server_port}")
    settings.write_text(text.replace("[device]", '[device]\ntls_ca_file = "../ca.pem"', 1), "utf-8")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all modules are compiled to, once for all starts whose work is counted."""
    return tmp_path_factory.mktemp("compiled")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_agent_starts_with_little_work(
    http_shuffler: Any, folder: Path, compiled: Path, scheme: str
) -> None:
    """The whole command: imports, settings, ledger, verified terms, first step, its fetch included.

    Work is counted in calls, which the load of the machine does not change; seconds are measured by
    benchmarks/startup.py. Counted with Python 3.11: 91,341 by http, 97,701 by https with an
    authority of its own, the same in each of four starts. Held to 120,000.
    """
    run_device(DeviceFolder(folder), {}, wait=lambda seconds: True)
    if scheme == "https":
        behind_tls(http_shuffler, folder)
    # As installed: compiled once, not at every start.
    environment = at_start(folder) | {"PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start(environment)  # compiles
    (count,) = start(environment, COUNTED)
    assert int(count) < 120_000


def test_refused_terms_end_an_agent_that_has_none(http_shuffler: Any, folder: Path) -> None:
    """Without any accepted campaign there is nothing to do: exit code 5, or 6 for signatures."""
    environment = {"RASE_OWNER__REPORT_EPSILON": "0.5"}
    with pytest.raises(TermsRefused, match="epsilon-above-limit"):
        run_device(DeviceFolder(folder), environment, wait=lambda seconds: True)
    done = run("device", "run", f"--folder={folder}", env={**os.environ, **environment})
    assert done.returncode == 5
    assert done.stderr.splitlines()[-1].startswith("rase: error: epsilon-above-limit")
    other = base64.b64encode(bytes(31) + b"\x01").decode()
    done = run(
        "device", "run", f"--folder={folder}", env={**os.environ, "RASE_DEVICE__FUSION_KEY": other}
    )
    assert done.returncode == 6


def test_a_second_agent_and_a_damaged_state_are_refused(folder: Path) -> None:
    """Both end with exit code 3 and one clear line."""
    with DeviceFolder(folder).lock():
        done = run("device", "run", f"--folder={folder}")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "another agent works" in done.stderr
    (folder / "state.json").write_text("{}")
    done = run("device", "run", f"--folder={folder}")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "is damaged" in done.stderr


def test_rotating_agents_start_from_settings(folder: Path) -> None:
    """The schedule of the settings is used."""
    stops = iter([False, True])
    run_device(
        DeviceFolder(folder),
        {"RASE_DEVICE__SCHEDULE": "rotate"},
        wait=lambda seconds: next(stops),
    )


def test_sources_and_transports_come_from_the_settings(tmp_path: Path) -> None:
    """Each kind makes its own source; a pinned authority is looked for in the folder."""
    tables: dict[str, dict[str, Any]] = {
        "device": {
            "shuffler": "https://localhost",
            "campaign": "power",
            "fusion_key": "A" * 43,
            "shuffler_key": "A" * 42 + "E",
            "registrar": "https://registrar.example",
            "registrar_key": "B" * 42 + "E",
            "tls_ca_file": "none.pem",
        },
        "owner": {"report_epsilon": 1, "span_epsilon": 24, "total_epsilon": 100},
    }
    (tmp_path / "x.csv").write_text("a\n1\n")
    kinds: dict[str, dict[str, Any]] = {
        "csv": {"path": "x.csv", "column": "a"},
        "stdin": {},
        "exec": {"command": ["true"]},
        "http": {"url": "http://192.168.1.20/"},
        "python": {"function": "time:monotonic"},
    }
    for kind, values in kinds.items():
        settings = settings_of({**tables, "source": {"kind": kind, **values}}, {})
        source = open_source(settings.source, tmp_path)
        assert kind == source.KIND  # type: ignore[attr-defined]
        source.close()
    with pytest.raises(ConfigurationError, match=r"none\.pem"):
        transport_of(settings, tmp_path)


def page_of(folder: Path, agent: "subprocess.Popen[str]") -> str:
    """Return the address of the page of an agent that is starting."""
    assert agent.stderr is not None
    for line in agent.stderr:
        if "event=page" in line:
            return DeviceFolder(folder).page_address()
    raise AssertionError("the agent ended without a page.")


def asked(address: str, fields: dict[str, str] | None = None) -> str:
    """Ask a page for a view, or send it a form with the proof it gave."""
    from urllib.parse import urlencode
    from urllib.request import urlopen

    data = None
    if fields is not None:
        home = address.rsplit("/", 1)[0] + "/"
        proof = re.findall(r'name="proof" value="(\w+)"', asked(home))[0]
        data = urlencode({"proof": proof, **fields}).encode()
    with urlopen(address, data, timeout=PATIENCE_S) as answer:  # noqa: S310 - an address of our own
        text: str = answer.read().decode()
        return text


def test_an_agent_with_a_page_forgets_when_told(http_shuffler: Any, folder: Path) -> None:
    """Nothing is sent before the switch, no log holds the page's address, forgetting ends it."""
    with subprocess.Popen(
        [sys.executable, "-m", "rase", "device", "run", f"--folder={folder}", "--page=0"],
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stderr is not None
        address = page_of(folder, agent)
        told = run("device", "page", f"--folder={folder}").stdout.strip()
        assert told == address
        assert "Sharing is off" in asked(address)
        assert http_shuffler.shuffler.received == []
        asked(address + "share", {})
        logged = []
        for line in agent.stderr:
            logged.append(line)
            if "event=sent" in line:
                break
        assert "Measured against sent" in asked(address)
        assert "are erased" in asked(address + "forget", {"sure": "yes"})
        logged += agent.stderr.readlines()
    assert agent.returncode == 0
    token = address.rstrip("/").rsplit("/", 1)[1]
    assert token not in "".join(logged)
    assert str(READING) not in "".join(logged)
    left = {file.name for file in folder.iterdir()}
    assert left == {"device.toml", "ledger.db", "lock"}
    assert run("device", "page", f"--folder={folder}").returncode == 3


def test_an_agent_with_a_page_stays_below_twenty_five_megabytes(folder: Path) -> None:
    """With the page looked at its own memory stays below 25 MB; no heavy package is loaded.

    A start that compiles what it loads takes some megabytes more, as the first one after an
    installation does: the least of a few starts counts.
    """
    peaks = []
    for _ in range(4):
        code, peak_kb, *heavy = watch_agent(folder)
        assert (code, heavy) == ("0", [])
        peaks.append(int(peak_kb))
        if peaks[-1] < 25 * 1024:
            break
    assert min(peaks) < 25 * 1024


def watch_agent(folder: Path) -> list[str]:
    """Run an agent whose page is looked at; return exit code, peak memory, and heavy packages."""
    environment = {**plain_environment(), "FOLDER": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(
        [sys.executable, "-c", WATCHED],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdout is not None
        assert agent.stderr is not None
        address = page_of(folder, agent)
        asked(address + "share", {})
        for line in agent.stderr:
            if "event=sent" in line:
                break
        # Each look ahead counts the 600,000 rounds of a week; real rounds are longer than a second.
        for _ in range(3):
            for name in ("", "payload", "ledger.csv", "rase.css", "owner.css"):
                asked(address + name)
        agent.terminate()
        return agent.communicate(timeout=PATIENCE_S)[0].split()


WATCHED = """
import os, sys
from rase.cli import main
code = main(["device", "run", "--page=0", "--folder", os.environ["FOLDER"]])
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
heavy = {"click", "numpy", "fastapi", "jinja2", "httpx", "starlette"} & set(sys.modules)
print(code, int(status["VmHWM"].split()[0]) - int(status["RssFile"].split()[0]), *sorted(heavy))
"""
