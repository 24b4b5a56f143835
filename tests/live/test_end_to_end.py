"""What ``rase init`` wrote, run by operating-system processes over real sockets."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rase.cli import main
from rase.clock import SystemClock
from rase.service.doctor import fetch

DEVICES = 3
DEADLINE_S = 35.0


@contextmanager
def program(log: Path, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``rase`` as a process of its own; it ends with the block."""
    command = [sys.executable, "-m", "rase", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def free_ports() -> tuple[int, int]:
    """Return two ports that nobody listens on."""
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        return one.getsockname()[1], other.getsockname()[1]


class Patience:
    """Ask again until something holds, at most until one deadline for all."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._end_s = self._clock.monotonic_s() + DEADLINE_S
        self._never = threading.Event()

    def until(self, is_so: Callable[[], bool], *, logs: Path) -> None:
        """Return once it is so; fail with the programs' logs otherwise."""
        while not is_so():
            if self._clock.monotonic_s() > self._end_s:
                texts = [f"{path.name}:\n{path.read_text()}" for path in logs.glob("*.log")]
                pytest.fail("too late.\n" + "\n".join(texts))
            self._never.wait(0.1)


def answers(url: str) -> bool:
    """Return whether a server is up."""
    try:
        return fetch(url, "/healthz").status == 200
    except OSError:
        return False


def rase(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command in this process that must succeed; return what it printed."""
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert code == 0, printed
    return printed.out


def read_csv_of(device: Path) -> None:
    """Let a device read a file of ever the same reading."""
    (device / "power.csv").write_text("power_w\n" + "1000\n" * 5000)
    settings = device / "device.toml"
    source = 'kind = "csv"\npath = "power.csv"\ncolumn = "power_w"\nevery_s = 0.2'
    settings.write_text(settings.read_text().replace('kind = "stdin"', source))


def test_an_estimate_comes_out_of_what_init_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shuffler, fusion centre and devices, each a process, answer a query within the deadline."""
    patience = Patience()
    shuffler_url, fusion_url = (f"http://127.0.0.1:{port}" for port in free_ports())
    folder = tmp_path / "installed"
    options = ["--range", 0, 3000, "--epsilon", 2, "--round", "2s", "--upload", "1s"]
    options += ["--grace", "2s", "--k-min", DEVICES, "--window", 100]
    options += ["--shuffler-url", shuffler_url, "--fusion-url", fusion_url]
    rase(capsys, "init", folder, *options)
    shuffler, fusion = folder / "shuffler/rase.toml", folder / "fusion/rase.toml"
    with ExitStack() as running:

        def start(name: str, *arguments: object) -> subprocess.Popen[bytes]:
            return running.enter_context(program(tmp_path / f"{name}.log", *arguments))

        servers = [
            start("shuffler", "shuffler", "run", "--config", shuffler),
            start("fusion", "fusion", "run", "--config", fusion),
        ]
        patience.until(lambda: answers(shuffler_url) and answers(fusion_url), logs=tmp_path)
        at_fusion = ("--config", fusion)
        keyset, campaign = folder / "fusion/keyset.json", folder / "fusion/campaign.toml"
        rase(capsys, "fusion", "publish-keys", keyset, *at_fusion)
        rase(capsys, "campaign", "publish", campaign, *at_fusion)
        tokens = rase(capsys, "shuffler", "enrol", "--config", shuffler, "--count", DEVICES)
        devices = []
        for number, token in enumerate(tokens.split()):
            device = tmp_path / f"device-{number}"
            shutil.copytree(folder / "device", device)
            read_csv_of(device)
            (tmp_path / "token").write_text(token)
            where = ("--folder", device)
            rase(capsys, "device", "enrol", *where, "--token-file", tmp_path / "token")
            devices.append(start(device.name, "device", "run", *where))
        token = rase(capsys, "fusion", "subscribers", "add", "me", *at_fusion)
        (tmp_path / "subscriber").write_text(token)
        question = ("query", "avg", "--url", fusion_url, "--token-file", tmp_path / "subscriber")
        answer: dict[str, object] = {}

        def is_estimated() -> bool:
            assert all(process.poll() is None for process in (*servers, *devices))
            capsys.readouterr()
            if main([*map(str, question), "--json"]) == 0:
                answer.update(json.loads(capsys.readouterr().out))
            # In its first round a device may have no reading yet, and sends a cover report.
            return answer.get("n") == DEVICES

        patience.until(is_estimated, logs=tmp_path)
        assert answer["status"] == "ok"
        rase(capsys, "doctor", folder)
        rase(capsys, "doctor", tmp_path / "device-0")
    assert [process.returncode for process in (*servers, *devices)] == [0] * (2 + DEVICES)
