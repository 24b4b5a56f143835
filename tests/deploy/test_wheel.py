"""The package as others install it: built as a wheel, run where the source is not."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.deploy.building import compile_quickly

import rase

ROOT = Path(__file__).parents[2]
_NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as `python -m build` does."""
    return built(tmp_path_factory.mktemp("source"))


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    """Templates, styles, scripts, migrations and tables are shipped, and no file of the tests."""
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    compiled = {name for name in shipped if name.endswith(".so")}
    assert shipped - compiled == {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src/rase").rglob("*")
        if path.is_file() and path.suffix not in {".so", ".pyc"}
    }
    # One for every CPython from 3.11 on, or none where there is no compiler.
    assert "-cp311-abi3-" in wheel.name
    assert compiled <= {"rase/kernels/_native.abi3.so"}


def test_an_installed_wheel_runs_without_its_source(wheel: Path, tmp_path: Path) -> None:
    """With all extras at hand: the version, kernels, the data files, and a live demonstration."""
    python = installed(wheel, tmp_path, site_of("click"))
    first = tell([python.with_name("rase"), "--version"], cwd=tmp_path).splitlines()[0]
    assert first == f"rase {rase.__version__}"
    told = tell([python, "-c", WHERE], cwd=tmp_path)
    where, kernels = told.split()
    assert Path(where).is_relative_to(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        is_compiled = any(name.endswith(".so") for name in archive.namelist())
    assert kernels == ("compiled" if is_compiled else "NumPy")
    small = ("--homes", "300", "--days", "1", "--shuffled-epsilon", "3")
    told = tell([python.with_name("rase"), "demo", *small], cwd=tmp_path)
    assert "Who saw" in told, told


def test_without_a_compiler_the_wheel_serves_with_numpy(tmp_path: Path) -> None:
    """The compiled kernels are left out, nothing fails, and the program says which serve."""
    source = tmp_path / "source"
    source.mkdir()
    bare = built(source, CC="/bin/false")
    python = installed(bare, tmp_path, site_of("click"))
    told = tell([python.with_name("rase"), "--version"], cwd=tmp_path)
    assert "kernels: NumPy (not compiled here)" in told


def test_the_core_alone_runs_a_device_and_says_what_is_missing(wheel: Path, tmp_path: Path) -> None:
    """Without any extra the agent, planner and mathematics work; servers and tables name theirs."""
    python = installed(wheel, tmp_path, core_of(wheel, tmp_path / "core"))
    program = python.with_name("rase")
    assert "enrol" in tell([program, "device", "--help"], cwd=tmp_path)
    told = tell(
        [program, "plan", "--range", "0", "3000", "--epsilon", "1", "--devices", "1000"],
        cwd=tmp_path,
    )
    assert "an observer who was 50 % sure of a reading becomes at most 73.2 % sure" in told
    readings = tmp_path / "readings.csv"
    readings.write_text("time,device,value\n0,a,1\n", encoding="utf-8")
    for words, extra in (
        (["fusion", "run"], "service"),
        (["run", readings, "--range", "0", "1", "--epsilon", "1"], "tables"),
    ):
        refused = subprocess.run(
            [program, *words],
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode != 0
        assert f"rase-iot[{extra}]" in refused.stderr
        assert "Traceback" not in refused.stderr


WHERE = """
import rase
from rase.kernels.backend import kernels_in_use
print(rase.__file__, kernels_in_use().split()[0])
"""


def built(source: Path, **variables: str) -> Path:
    """Build the wheel in an empty folder, with some variables set, and return it."""
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=_NOT_SHIPPED)
    compile_quickly(source)
    # Without isolation: nothing is downloaded, the build tools are those of this environment.
    tell([sys.executable, "-m", "build", "--no-isolation"], cwd=source, variables=variables)
    [found] = (source / "dist").glob("*.whl")
    return found


def installed(wheel: Path, folder: Path, packages: Path) -> Path:
    """Install the wheel into an environment of its own; return its interpreter.

    Args:
        wheel: The wheel; nothing is downloaded for it.
        folder: Where the environment goes.
        packages: A folder whose packages it may use besides.
    """
    home = folder / "environment"
    tell([sys.executable, "-m", "venv", "--without-pip", home], cwd=folder)
    python = home / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    tell([*pip, "--no-deps", "--no-index", wheel], cwd=folder)
    [site] = home.glob("lib/python*/site-packages")
    # A plain path: files of paths in there, such as that of an editable rase, are not followed.
    (site / "packages.pth").write_text(f"{packages}\n", encoding="utf-8")
    return python


def core_of(wheel: Path, folder: Path) -> Path:
    """Link what the wheel needs without extras, and what that needs, into a folder."""
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        lines = archive.read(name).decode().splitlines()
    needed = [line.split(": ")[1] for line in lines if line.startswith("Requires-Dist: ")]
    seen: set[str] = set()
    while needed:
        wish = needed.pop()
        name = re.split(r"[^\w.-]", wish)[0]
        if ";" in wish or name in seen:
            continue  # extras, and what only other systems need
        seen.add(name)
        found = distribution(name)
        needed += found.requires or []
        tops = {file.parts[0] for file in found.files or [] if file.parts[0] not in {"..", "bin"}}
        for top in tops - {"__pycache__"}:
            (folder / top).symlink_to(site_of(name) / top)
    assert {"click", "cryptography", "numpy"} <= seen
    # cryptography names cffi with a condition that holds here.
    for top in ("cffi", "_cffi_backend*", "pycparser"):
        for path in site_of("cffi").glob(top):
            (folder / path.name).symlink_to(path)
    return folder


def site_of(name: str) -> Path:
    """Return the folder in which a package of this environment lies."""
    return Path(str(distribution(name).locate_file("")))


def tell(
    command: list[str | Path], *, cwd: Path, variables: Mapping[str, str] | None = None
) -> str:
    """Run a command that must succeed, far from the source; return what it prints."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**clean_environment(), **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def clean_environment() -> dict[str, str]:
    """Return the environment without what leads to the source."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_", "RASE_"))}
