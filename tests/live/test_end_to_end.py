"""What ``rase init`` wrote, run by operating-system processes over real sockets."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from benchmarks.loading.ports import held_port
from tests.live.running import answers, enrol, free_ports, program, rase, shorten_windows
from tests.patience import PATIENCE_S, until

from rase.cli import main

DEVICES = 3
# What notes each module that a program loads, in processes that it starts as well.
LISTING = """
import os, sys
class Noted:
    def find_spec(name, path=None, target=None):
        if name.startswith("rase.") or "." not in name:
            with open(os.environ["LISTED"], "a") as file:
                file.write(f"{name}\\n")
sys.meta_path.insert(0, Noted)
"""
_BOTH = {
    "__main__",
    "address",
    "atomic_files",
    "campaign",
    "cli",
    "clock",
    "counts",
    "device",
    "domain",
    "errors",
    "kernels",
    "laws",
    "lazy",
    "privacy",
    "promise",
    "service",
    "shuffle",
    "storage",
    "toml",
    "validation",
    "version",
    "wire",
}
_PAGES = {"dashboard", "subscriber", "theme"}
ROOMS = {
    "shuffler": {*_BOTH, "shuffler"},
    "fusion": {*_BOTH, *_PAGES, "accounting", "answer", "arrays", "fusion", "series", "transport"},
}
# All that a uniform order needs.
UNIFORM = {f"rase.shuffle.{name}" for name in ("attacker", "checks", "release", "uniform")}


def copied(installed: Path, devices: Sequence[Path]) -> None:
    """Make devices that read a file of ever the same reading."""
    for device in devices:
        shutil.copytree(installed / "device", device)
        _read_csv(device)


def _read_csv(device: Path) -> None:
    (device / "power.csv").write_text("power_w\n" + "1000\n" * 5000)
    settings = device / "device.toml"
    source = 'kind = "csv"\npath = "power.csv"\ncolumn = "power_w"\nevery_s = 0.2'
    settings.write_text(settings.read_text().replace('kind = "stdin"', source))


def test_an_estimate_comes_out_of_what_init_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shuffler, fusion centre and devices, each a process, answer a query.

    No server loads the lab, the studio, the planner, or a law of order that its campaign does not
    ask for.
    """
    monkeypatch.setattr("rase.service.doctor._TIMEOUT_S", PATIENCE_S)
    ports = (*free_ports(), held_port())
    shuffler_url, fusion_url, registrar_url = (f"http://127.0.0.1:{port}" for port in ports)
    folder = tmp_path / "installed"
    options = ["--range", 0, 3000, "--epsilon", 2, "--round", "2s", "--upload", "1s"]
    options += ["--grace", "2s", "--k-min", DEVICES, "--window", 100]
    # Rounds of seconds are for tests: owners must allow them, and the operator accept them.
    options += ["--schedule", "every-round", "--owner-day", 100_000, "--accept-weak"]
    options += ["--shuffler-url", shuffler_url, "--fusion-url", fusion_url]
    options += ["--registrar-url", registrar_url]
    rase(capsys, "init", folder, *options)
    shuffler, fusion = folder / "shuffler/rase.toml", folder / "fusion/rase.toml"
    registrar = folder / "registrar/rase.toml"
    shorten_windows(registrar)
    listing = tmp_path / "listing"
    listing.mkdir()
    (listing / "sitecustomize.py").write_text(LISTING)
    with ExitStack() as running:

        def start(name: str, *arguments: object) -> subprocess.Popen[bytes]:
            log = tmp_path / f"{name}.log"
            noting = {"PYTHONPATH": str(listing), "LISTED": str(listing / name)}
            return running.enter_context(program(log, *arguments, variables=noting))

        servers = [
            start("shuffler", "shuffler", "run", "--config", shuffler),
            start("fusion", "fusion", "run", "--config", fusion),
            start("registrar", "registrar", "run", "--config", registrar),
        ]
        until(lambda: all(map(answers, (shuffler_url, fusion_url, registrar_url))), logs=tmp_path)
        # The shuffler countersigns no keyset before its closer has told which keys it has.
        closing = (tmp_path / "shuffler.log").read_text
        until(lambda: "shuffler closing" in closing(), logs=tmp_path)
        at_fusion = ("--config", fusion)
        keyset, campaign = folder / "fusion/keyset.json", folder / "fusion/campaign.toml"
        rase(capsys, "fusion", "publish-keys", keyset, *at_fusion)
        rase(capsys, "campaign", "publish", campaign, *at_fusion)
        folders = [tmp_path / f"device-{number}" for number in range(DEVICES)]
        copied(folder, folders)
        enrol(capsys, folder, folders)
        devices = [start(device.name, "device", "run", "--folder", device) for device in folders]
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

        until(is_estimated, logs=tmp_path)
        assert answer["status"] == "ok"
        rase(capsys, "doctor", folder)
        rase(capsys, "doctor", tmp_path / "device-0")
    assert [process.returncode for process in (*servers, *devices)] == [0] * (3 + DEVICES)
    check_loaded(listing)


def check_loaded(listing: Path) -> None:
    """No server has loaded the lab, the studio, the planner, or a law of order it does not need."""
    planner = tuple(f"rase.accounting.{name}" for name in ("plan", "forecast", "synth", "error_"))
    for name, rooms in ROOMS.items():
        loaded = set((listing / name).read_text().split())
        assert {module.split(".")[1] for module in loaded if "." in module} <= rooms, name
        assert not {"matplotlib", "pandas", "pyarrow", "scipy", "sklearn"} & loaded, name
        assert {module for module in loaded if module.startswith("rase.shuffle.")} <= UNIFORM, name
        assert not [module for module in loaded if module.startswith(planner)], name
