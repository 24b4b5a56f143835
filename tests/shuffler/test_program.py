"""The shuffler as real processes with real sockets, and its end."""

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.enrolling import asked, credential_of
from tests.patience import PATIENCE_S
from tests.storage.engines import NewAddress, setting_of

from rase.campaign import Campaign
from rase.cli import main
from rase.clock import SystemClock
from rase.errors import BadSignature, WireError
from rase.service.keyring import PublicKeys
from rase.service.telemetry import Telemetry
from rase.shuffler.program import keep_running
from rase.wire.frames import authorization_of
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.messages import Batch, BatchManifest
from rase.wire.parcel import MANIFEST_HEADER, manifest_of
from rase.wire.private_files import write_private
from rase.wire.signed import SignedKeyset, SignedManifest, signature_of

if TYPE_CHECKING:
    from tests.shuffler.conftest import World


@contextmanager
def fusion_centre() -> Iterator[tuple[str, "queue.Queue[tuple[bytes, bytes]]"]]:
    """Listen for batches."""
    received: queue.Queue[tuple[bytes, bytes]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.put((body, manifest_of(self.headers[MANIFEST_HEADER])))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def shuffler(
    config: Path, *options: str
) -> Iterator[tuple["subprocess.Popen[str]", str, list[str]]]:
    """Start the program and wait until it listens; yield it, its address and its log."""
    command = [sys.executable, "-m", "rase", "shuffler", "run", "--config", str(config)]
    process = subprocess.Popen(
        [*command, "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    log: list[str] = []
    for line in process.stderr:
        log.append(line)
        if "listening" in line:
            break
    else:
        pytest.fail(f"the shuffler did not start: {log}")
    reader = threading.Thread(target=lambda: log.extend(process.stderr or ()))
    reader.start()
    try:
        yield process, f"http://127.0.0.1:{log[-1].rpartition('port=')[2].strip()}", log
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


def made_tokens(config: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the tokens of four devices that an operator enrols, before anything listens."""
    capsys.readouterr()
    assert main(["shuffler", "enrol", "--count", "4", "--config", str(config)]) == 0
    return capsys.readouterr().out.split()


@pytest.mark.any_store
def test_reports_go_through_real_processes(
    world: "World", new_address: NewAddress, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Enrol, countersign, report, close, forward: with three processes' worth of sockets.

    Then SIGTERM ends intake and closer, with exit code 0 and nothing lost.
    """
    folder = tmp_path / "real"
    folder.mkdir()
    write_private(folder / "signing.key", world.signers[Role.SHUFFLER].to_text())
    write_private(folder / "opening.key", world.openers["shuffler"].to_text())
    (folder / "public.json").write_text(world.public_text())
    config = folder / "rase.toml"
    database = setting_of(new_address("real.db"))
    with fusion_centre() as (url, received):
        config.write_text(
            f'[shuffler]\ndatabase = "{database}"\nsigning_key_file = "signing.key"\n'
            f'opening_key_files = ["opening.key"]\nfusion_url = "{url}"\n'
            f'fusion_key = "{world.pinned.fusion.hex()}"\n'
            f'registrar_key = "{world.pinned.registrar.hex()}"\n'
            "[shuffler.policy]\nmax_epsilon = 2\nmax_window_budget = 20\nmin_k_min = 3\n"
        )
        tokens = made_tokens(config, capsys)
        campaign = world.campaign_of(round_s=1, upload_s=3, grace_s=3, not_after=2**32 - 1)
        times = {"not_before_s": 0, "not_after_s": 2**39}
        configs = tuple(world.openers[name].config(**times) for name in ("shuffler", "fusion"))
        keyset = Keyset(version=1, cache_s=60, configs=configs)
        with (
            shuffler(config) as (process, address, log),
            httpx.Client(base_url=address, timeout=PATIENCE_S) as client,
        ):
            for path, document in (("campaigns/homes/1", campaign), ("keyset", keyset)):
                signed = client.put(f"/v1/{path}", content=world.proposal_of(document))
                assert signed.status_code == 201
            credentials = []
            for number, token in enumerate(tokens):
                answer = client.post("/v1/enrolments", json=asked(token, number))
                credentials.append(credential_of(token, answer.json(), number))
            round = report_in_one_round(world, campaign, client, credentials)
            while True:
                body, manifest = received.get(timeout=PATIENCE_S)
                batch = Batch.from_bytes(body)
                said = SignedManifest.from_bytes(manifest, world.pinned).manifest
                if batch.round == round:
                    break
                assert (said.method, batch.inner) == ("withheld", ()) or said.n >= 3
            assert (said.n, said.method, len(batch.inner)) == (4, "uniform", 4)
            assert client.get("/readyz").status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
    told = "".join(log)
    assert told.count("shuffler stopped") == 2
    assert f"round_released campaign=homes round={round} n=4 batches=1" in told
    assert not any(credential[:16] in told for credential in credentials)


def report_in_one_round(
    world: "World", campaign: Campaign, client: httpx.Client, credentials: list[str]
) -> int:
    """Send a report of each device for a round that just ended; return the round."""
    pause = threading.Event()
    for _ in range(PATIENCE_S):
        round = int(SystemClock().now_s()) - 1
        statuses = [
            client.post(
                "/v1/reports",
                content=wire,
                headers={
                    "Content-Type": "application/rase-report",
                    "Authorization": authorization_of(wire, credential),
                },
            ).status_code
            for credential in credentials
            for wire in [world.seal(round, campaign=campaign)]
        ]
        if statuses == [201] * len(credentials):
            return round
        # Its upload ended meanwhile: try the round after it.
        pause.wait(1.0)
    return pytest.fail("no round took all reports")


def begun(started: Path, code: str) -> list[str]:
    """Return a command that makes a file as soon as it runs, and then runs the code."""
    return [sys.executable, "-c", f"open({str(started)!r}, 'x').close(); {code}"]


async def until_there(path: Path) -> None:
    """Return once there is such a file."""
    while not path.exists():
        await asyncio.sleep(0.005)


def test_the_closer_is_started_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A process beside the server that ends is told and started anew; at the end it is stopped."""

    async def main() -> None:
        async with keep_running([sys.executable, "-c", "raise SystemExit(3)"], Telemetry("t")):
            told = ""
            while told.count("closer_ended status=3") < 2:
                await asyncio.sleep(0.01)
                told += capsys.readouterr().err
        async with keep_running([sys.executable, "-c", "pass"], Telemetry("t")):
            await asyncio.sleep(0)
        capsys.readouterr()
        started = tmp_path / "started"
        async with keep_running(begun(started, "import sys; sys.stdin.read()"), Telemetry("t")):
            await until_there(started)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    # That it ended because it was told to is no news.
    assert "closer_ended" not in capsys.readouterr().err


def test_a_stubborn_closer_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What does not end in time is ended."""
    monkeypatch.setattr("rase.shuffler.program._PATIENCE_S", 0.05)
    started = tmp_path / "started"
    command = begun(started, "import threading; threading.Event().wait()")

    async def main() -> None:
        async with keep_running(command, Telemetry("t")):
            await until_there(started)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


# Python tells of every file that it opens; the recorder writes the process's number and the file.
RECORDER = """
import os, sys
_file = os.open(os.environ["RASE_TEST_OPENED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def _note(event, arguments):
    if event == "open":
        os.write(_file, f"{os.getpid()} {arguments[0]}\\n".encode())
sys.addaudithook(_note)
"""


@contextmanager
def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have every Python process that starts in the block record what it opens, in a file."""
    (folder / "recorder").mkdir()
    (folder / "recorder/sitecustomize.py").write_text(RECORDER)
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder / "recorder"))
        patch.setenv("RASE_TEST_OPENED", str(folder / "opened"))
        yield folder / "opened"


def installed_shuffler(world: "World", folder: Path, url: str) -> Path:
    """Make a shuffler's folder as rase init lays it out; return its settings file."""
    (folder / "keys").mkdir(parents=True)
    write_private(folder / "keys/signing.key", world.signers[Role.SHUFFLER].to_text())
    write_private(folder / "keys/opening-7.key", world.openers["shuffler"].to_text())
    (folder / "public.json").write_text(world.public_text())
    config = folder / "rase.toml"
    config.write_text(
        '[shuffler]\ndatabase = "shuffler.db"\nsigning_key_file = "keys/signing.key"\n'
        f'opening_key_files = ["keys/opening-7.key"]\nfusion_url = "{url}"\n'
        f'fusion_key = "{world.pinned.fusion.hex()}"\n'
        f'registrar_key = "{world.pinned.registrar.hex()}"\n'
        "[shuffler.policy]\nmax_epsilon = 2\nmax_window_budget = 20\nmin_k_min = 3\n"
    )
    return config


def forged_batches(world: "World", files: list[Path]) -> list[SignedManifest]:
    """Return the manifests of an invented batch that the fusion centre believes, by files read.

    Everything in them is tried: texts of keys, and the bytes of the one that would do.
    """
    said = BatchManifest(
        batch_id=bytes(32),
        shuffler="forged",
        n=1000,
        k_min=3,
        method="uniform",
        theta=None,
        alpha=0.0,
        real_loss=0.0,
        attacker_success=0.001,
    )
    secret, found = world.signers[Role.SHUFFLER].secret, []
    for file in dict.fromkeys(files):
        data = file.read_bytes()
        keys = [SigningKey(role=Role.SHUFFLER, secret=secret)] if secret in data else []
        with suppress(WireError, UnicodeDecodeError):
            keys.append(SigningKey.from_text(data.decode("ascii")))
        for key in keys:
            forged = SignedManifest(said, signature_of(said, key)).to_bytes()
            with suppress(BadSignature):
                found.append(SignedManifest.from_bytes(forged, world.pinned))
    return found


@pytest.mark.sqlite
def test_the_intake_opens_no_private_key(
    world: "World",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All that the listening process opens is listed: no private key, whatever it is asked to do.

    The closer beside it opens both keys, which shows that the list would have them. Afterwards an
    intake of its own runs where there is no folder of keys at all.
    """
    folder = tmp_path / "shuffler"
    with fusion_centre() as (url, received):
        config = installed_shuffler(world, folder, url)
        tokens = made_tokens(config, capsys)
        campaign = world.campaign_of(round_s=1, upload_s=3, grace_s=3, not_after=2**32 - 1)
        times = {"not_before_s": 0, "not_after_s": 2**39}
        configs = tuple(world.openers[name].config(**times) for name in ("shuffler", "fusion"))
        keyset = Keyset(version=1, cache_s=60, configs=configs)
        with (
            recorded(tmp_path, monkeypatch) as opened,
            shuffler(config) as (process, address, _),
            httpx.Client(base_url=address, timeout=PATIENCE_S) as client,
        ):
            for path, document in (("campaigns/homes/1", campaign), ("keyset", keyset)):
                signed = client.put(f"/v1/{path}", content=world.proposal_of(document))
                assert signed.status_code == 201
            credentials = []
            for number, token in enumerate(tokens):
                answer = client.post("/v1/enrolments", json=asked(token, number))
                credentials.append(credential_of(token, answer.json(), number))
            report_in_one_round(world, campaign, client, credentials)
            assert received.get(timeout=PATIENCE_S)
            held = {str(one.readlink()) for one in Path(f"/proc/{process.pid}/fd").iterdir()}
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
    lines = [line.partition(" ") for line in opened.read_text().splitlines()]
    intake = {path for number, _, path in lines if int(number) == process.pid}
    others = {path for number, _, path in lines if int(number) != process.pid}
    keys = {str(path) for path in (folder / "keys").iterdir()}
    assert len(keys) == 2
    assert str(config) in intake
    assert keys <= others
    assert not keys & intake
    assert not any(path.endswith(".key") for path in intake | held)
    # An attacker with all these files signs no batch; with those of the closer it would.
    readable = [Path(name) for name in intake | held if Path(name).is_file()]
    readable += [path for path in folder.iterdir() if path.is_file()]
    assert folder / "shuffler.db" in readable
    assert forged_batches(world, readable) == []
    assert len(forged_batches(world, [*readable, folder / "keys/signing.key"])) == 1
    for key_file in (folder / "keys").iterdir():
        key_file.unlink()
    (folder / "keys").rmdir()
    with shuffler(config, "--part", "intake") as (process, address, _):
        assert httpx.get(f"{address}/readyz", timeout=PATIENCE_S).status_code == 200
        known = httpx.get(f"{address}/v1/keyset", timeout=PATIENCE_S)
        assert SignedKeyset.from_bytes(known.content, world.pinned).keyset == keyset


@pytest.mark.sqlite
def test_public_keys_must_be_those_of_the_signing_key(
    world: "World", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A closer whose signatures the intake would refuse does not start; nor does an intake."""
    config = installed_shuffler(world, tmp_path / "shuffler", "http://127.0.0.1:1")
    public = config.parent / "public.json"
    own = world.signers[Role.SHUFFLER].public_bytes().hex()
    public.write_text(world.public_text().replace(own, bytes(range(32)).hex()))
    run = ["shuffler", "run", "--config", str(config), "--part"]
    assert main([*run, "closer"]) == 3
    assert "must hold the public side of" in capsys.readouterr().err
    config_of_fusion = OpeningKey.generate(Role.FUSION, 1).config(not_before_s=0, not_after_s=10)
    foreign = PublicKeys(
        role=Role.FUSION, signing_key=bytes(range(32)), cache_s=60, configs=(config_of_fusion,)
    )
    public.write_text(foreign.to_text())
    assert main([*run, "intake"]) == 3
    assert "public.json is of the fusion." in capsys.readouterr().err
    public.unlink()
    assert main([*run, "intake"]) == 3
    assert "rase init makes it" in capsys.readouterr().err
