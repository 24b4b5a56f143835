"""The device in one file: the same bytes each time, and all it needs is a Python."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest
from scripts.pack_device import ENTRIES, FOREIGN, foreign_imports, modules_of, pack_device
from tests.deploy.conftest import DebianRoot
from tests.live.installed import K_MIN, Installed
from tests.patience import PATIENCE_S, until

from rase.laws.registry import MECHANISMS
from rase.wire.keys import Role

# The file runs with nothing but the standard library: no site-packages, no variables.
BARE = [sys.executable, "-I", "-S"]
SOURCE = 'kind = "csv"\npath = "power.csv"\ncolumn = "power_w"\nevery_s = 0.2'
Command: TypeAlias = Callable[..., Sequence[str]]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file, packed here."""
    path = tmp_path_factory.mktemp("packed") / "rase-device.pyz"
    path.write_bytes(pack_device())
    path.chmod(0o755)
    return path


def test_two_builds_are_the_same_bytes(packed: Path) -> None:
    """Times, order and bytecode do not enter, and another process packs the same."""
    again = packed.with_name("again.pyz")
    command = [sys.executable, "scripts/pack_device.py", str(again)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert again.read_bytes() == packed.read_bytes()
    assert f"{packed.stat().st_size:,} bytes, SHA-256 " in done.stdout


def test_it_holds_no_server_and_needs_no_package(packed: Path) -> None:
    """Only packages that the agent works without are imported, and no room of the servers."""
    modules = modules_of(ENTRIES)
    assert foreign_imports(modules) <= FOREIGN | {"paho"}
    rooms = {name.split(".")[1] for name in modules if "." in name}
    servers = {"cli", "dashboard", "fusion", "lab", "service", "shuffler", "storage", "subscriber"}
    assert not rooms & {*servers, "tables", "testing"}
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert names == sorted(names)
    assert "rase/laws/optimal.jsonl" in names
    assert any("/licenses/" in name for name in names)


def test_every_module_loads_and_every_law_draws_in_a_bare_python(packed: Path) -> None:
    """Nothing that was packed lacks a module but for NumPy, which no law of a device draws with."""
    done = subprocess.run(
        [*BARE, "-c", LOADS_AND_DRAWS, str(packed)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["laws"] == list(MECHANISMS)
    assert told["loaded"] > 90
    assert set(told["absent"].values()) <= FOREIGN
    assert all(name.startswith("rase.kernels.") for name in told["absent"])


LOADS_AND_DRAWS = """
import importlib, json, sys, zipfile
sys.path.insert(0, sys.argv[1])
files = [name for name in zipfile.ZipFile(sys.argv[1]).namelist() if "/" in name]
names = [name[:-3].replace("/", ".") for name in files if name.endswith(".py")]
names = [name.removesuffix(".__init__") for name in names if "__main__" not in name]
absent = {}
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        absent[name] = error.name.partition(".")[0]
from rase.domain import Range
from rase.kernels.entropy import SecureEntropy
from rase.laws.registry import MECHANISMS, randomizer_named
for name in MECHANISMS:
    law = randomizer_named(name, 1.0, domain=Range(0.0, 3000.0))
    assert type(law.draw_one(1000.0, SecureEntropy())) is int
loaded = len(names) - len(absent)
print(json.dumps({"laws": list(MECHANISMS), "loaded": loaded, "absent": absent}))
"""


def test_an_old_python_is_refused_in_one_line(packed: Path) -> None:
    """The first lines run on any Python 3 and name the version that is needed."""
    with zipfile.ZipFile(packed) as archive:
        start = archive.read("__main__.py").decode()
    code = f"import sys\nsys.version_info = (3, 9, 2)\nexec({start!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "rase-device.pyz: error: Python must be 3.11 or newer, got 3.9.\n"


def test_a_bare_python_enrols_and_reports(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any package: real servers enrol the devices and estimate from what they send."""

    def command(*words: object) -> list[str]:
        return [*BARE, str(packed), *map(str, words)]

    check_enrolment_and_reports(command, tmp_path, tmp_path, capsys)


@pytest.mark.packaging
def test_an_empty_debian_enrols_and_reports(
    packed: Path,
    debian_root: DebianRoot,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same with Debian's Python in a root that holds nothing else."""
    found = "from importlib.util import find_spec as f; print(f('click'), f('cryptography'))"
    assert debian_root.run("python3", "-c", found).stdout == "None None\n"
    inside = debian_root.path / "srv"
    shutil.rmtree(inside)
    inside.mkdir()
    shutil.copy(packed, inside)

    def command(*words: object) -> list[str]:
        shown = [str(word).replace(str(debian_root.path), "") for word in words]
        return debian_root.command(f"/srv/{packed.name}", *shown)

    check_enrolment_and_reports(command, inside, tmp_path, capsys)


def check_enrolment_and_reports(
    command: Command, place: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Enrol devices with the file, run them, and wait for an estimate from all of them.

    Args:
        command: Makes the words that start the file with some arguments.
        place: Where the devices' folders go.
        folder: Where the servers' go.
        capsys: Takes what commands print.
    """
    installed = Installed(folder, capsys)
    with ExitStack() as running:
        running.callback(installed.kill)
        installed.publish()
        agents = []
        for number, given in enumerate(installed.admissions(K_MIN)):
            device = place / f"device-{number}"
            shutil.copytree(folder / "installed/device", device)
            (device / "power.csv").write_text("power_w\n" + "1000\n" * 5000)
            settings = device / "device.toml"
            settings.write_text(settings.read_text().replace('kind = "stdin"', SOURCE))
            words: list[object] = ["enrol", "--folder", device]
            for name, text in zip(("token", "approval"), given, strict=True):
                (place / name).write_text(text)
                (place / name).chmod(0o600)
                words += [f"--{name}-file", place / name]
            enrol = command(*words)
            done = subprocess.run(
                enrol, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
            assert done.returncode == 0, done.stderr
            assert "enrolled as " in done.stderr
            log = running.enter_context((folder / f"device-{number}.log").open("wb"))
            agent = subprocess.Popen(command("run", "--folder", device), stderr=log)
            running.enter_context(agent)
            running.callback(agent.kill)
            agents.append(agent)

        def is_estimated() -> bool:
            assert all(agent.poll() is None for agent in agents)
            counts = installed.rows(Role.FUSION, "SELECT n FROM answers")
            return any(n >= K_MIN for (n,) in counts)

        until(is_estimated, logs=folder)
        for agent in agents:
            agent.terminate()
        assert [agent.wait(PATIENCE_S) for agent in agents] == [0] * K_MIN
        budget = subprocess.run(
            command("budget", "--folder", place / "device-0"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        assert "spent ever" in budget.stdout
