"""The device as a Debian package: the same bytes each time, installed, upgraded and purged."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.pack_debian import NAME, OPTIONS, PROGRAM, STATE, UNIT, device_unit, pack_debian
from tests.deploy.conftest import DebianRoot
from tests.patience import PATIENCE_S
from tests.programs import program

import rase

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.needs("dpkg-deb")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built here."""
    return pack_debian(tmp_path_factory.mktemp("package"))


def test_two_builds_are_the_same_package(package: Path, tmp_path: Path) -> None:
    """Another process builds the same bytes into another folder."""
    command = [sys.executable, "-m", "scripts.pack_debian", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / package.name).read_bytes() == package.read_bytes()
    assert f"{package.stat().st_size:,} bytes, SHA-256 " in done.stdout


def test_the_package_holds_the_file_and_runs_it(package: Path, tmp_path: Path) -> None:
    """It asks for Python alone; what it unpacks belongs to root, and the file runs."""
    tool = program("dpkg-deb")
    fields = output([tool, "--field", package])
    assert f"Package: {NAME}\nVersion: {rase.__version__}\n" in fields
    assert "\nDepends: python3 (>= 3.11), init-system-helpers, passwd\n" in fields
    assert "Homepage" not in fields  # no address but that of whoever publishes
    listed = [line.split() for line in output([tool, "--contents", package]).splitlines()]
    assert {line[1] for line in listed} == {"root/root"}
    assert not [line for line in listed if "w" in line[0][4:]]
    subprocess.run([tool, "--raw-extract", package, tmp_path], check=True)
    assert (tmp_path / "DEBIAN/conffiles").read_text() == f"{OPTIONS}\n"
    for script in ("postinst", "prerm", "postrm"):
        subprocess.run(["/bin/sh", "-n", tmp_path / "DEBIAN" / script], check=True)
    found = output([sys.executable, "-I", "-S", tmp_path / PROGRAM[1:], "--version"])
    assert found == f"rase-device.pyz {rase.__version__}\n"
    assert (tmp_path / UNIT[1:]).read_text("utf-8") == device_unit()


@pytest.mark.needs("systemd-analyze")
def test_the_unit_of_the_package_is_sound_and_little_exposed(tmp_path: Path) -> None:
    """It runs the packaged file within the limits of the unit it is made from."""
    analyze = program("systemd-analyze")
    unit = tmp_path / f"{NAME}.service"
    text = device_unit()
    assert "/opt/rase" not in text
    unit.write_text(text.replace(PROGRAM, sys.executable))
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.split("\n") if NAME in line] == []
    output([analyze, "security", "--offline=true", "--threshold=15", "--no-pager", unit])


@pytest.mark.packaging
def test_an_empty_debian_installs_upgrades_and_purges_it(
    package: Path, debian_root: DebianRoot
) -> None:
    """It has a user of its own, keeps edited options, and never deletes what counts a budget."""
    shutil.copy(package, debian_root.path / "root")
    dpkg = ("env", "DEBIAN_FRONTEND=noninteractive", "dpkg")
    install = (*dpkg, "--install", f"/root/{package.name}")
    assert "not enrolled yet" in debian_root.run(*install).stdout
    try:
        assert debian_root.run("dpkg", "--verify", NAME).stdout == ""
        state = debian_root.path / STATE[1:]
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        owned = debian_root.run("stat", "--format=%U:%G", STATE).stdout
        assert owned == f"{NAME}:{NAME}\n"
        wanted = f"etc/systemd/system/multi-user.target.wants/{NAME}.service"
        assert (debian_root.path / wanted).is_symlink()
        as_user = ("runuser", "-u", NAME, "--", f"{NAME}.pyz")
        assert rase.__version__ in debian_root.run(*as_user, "--version").stdout
        options = debian_root.path / OPTIONS[1:]
        options.write_text('RASE_DEVICE_OPTIONS="--page"\n')
        (state / "ledger.db").write_text("spent")
        debian_root.run(*install)
        assert options.read_text() == 'RASE_DEVICE_OPTIONS="--page"\n'
        debian_root.run(*dpkg, "--remove", NAME)
        assert options.exists()
        assert not (debian_root.path / PROGRAM[1:]).exists()
    finally:
        purged = debian_root.run(*dpkg, "--purge", NAME).stdout
    assert f"{STATE} is kept" in purged
    assert not options.exists()
    assert not (debian_root.path / wanted).is_symlink()
    assert (state / "ledger.db").read_text() == "spent"
    shutil.rmtree(state)


def output(command: list[str | Path]) -> str:
    """Run a command that must succeed, and return what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
    return done.stdout
