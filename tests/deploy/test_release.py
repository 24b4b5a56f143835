"""A release is the same bytes each time, signed, and installs where there is only a Python."""

import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from scripts import floors, release
from tests.deploy.conftest import DebianRoot
from tests.patience import PATIENCE_S
from tests.programs import find, program

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-release/bin/python"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the last commit, signed with a key of this test."""
    folder = tmp_path_factory.mktemp("released")
    key = folder / "key"
    make_key = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "test"]
    subprocess.run([*make_key, "-f", str(key)], check=True)
    words = ["scripts/release.py", str(folder / "dist"), "--twice", "--sign-with", str(key)]
    done = subprocess.run(
        [PYTHON, *words], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Built twice, with the same digests." in done.stderr
    return folder


@pytest.mark.packaging
@pytest.mark.needs("ssh-keygen")
def test_a_release_is_whole_and_signed(released: Path) -> None:
    """Every file is listed with its digest, and a changed list is not what the key signed."""
    dist = released / "dist"
    sums = (dist / "SHA256SUMS").read_text("ascii")
    listed = {line.split("  ")[1]: line.split("  ")[0] for line in sums.splitlines()}
    assert set(listed) | {"SHA256SUMS", "SHA256SUMS.sig"} == {one.name for one in dist.iterdir()}
    for name, digest in listed.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    kinds = [".tar.gz", ".whl", "rase-device.pyz", "sbom.cdx.json", "provenance.intoto.json"]
    kinds += ["_all.deb"] if find("dpkg-deb") else []
    assert all(any(name.endswith(kind) for name in listed) for kind in kinds)
    allowed = released / "allowed"
    public = (released / "key.pub").read_text("ascii")
    allowed.write_text(f"releases {public}", "ascii")
    verify = [program("ssh-keygen"), "-Y", "verify", "-f", str(allowed)]
    verify += ["-I", "releases", "-n", "rase-release", "-s", str(dist / "SHA256SUMS.sig")]
    for text, is_good in ((sums, True), (sums.replace("0", "1", 1), False)):
        done = subprocess.run(verify, input=text.encode(), capture_output=True, check=False)
        assert (done.returncode == 0) is is_good


@pytest.mark.packaging
@pytest.mark.needs("ssh-keygen")
def test_the_provenance_names_what_was_built_from_what(released: Path) -> None:
    """Commit, locks and digests, and no address, time or machine."""
    dist = released / "dist"
    text = (dist / "provenance.intoto.json").read_text("utf-8")
    statement = json.loads(text)
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    for name, digest in subjects.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    assert {"sbom.cdx.json", "rase-device.pyz"} < set(subjects)
    assert set(re.findall(r"https?://([^/\"]+)", text)) == {"in-toto.io", "slsa.dev"}
    assert str(ROOT) not in text


@pytest.mark.packaging
@pytest.mark.needs("ssh-keygen")
def test_the_source_builds_a_wheel_without_a_compiler(released: Path, tmp_path: Path) -> None:
    """Whoever has only the source distribution and no compiler gets the NumPy kernels."""
    [archive] = (released / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
        owners = {(one.uid, one.gid, one.uname) for one in packed.getmembers()}
    assert owners == {(0, 0, "")}
    [source] = tmp_path.iterdir()
    command = [str(PYTHON), "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    variables = {**os.environ, "CC": "/bin/false"}
    subprocess.run(
        [*command, str(source)], cwd=tmp_path, env=variables, capture_output=True, check=True
    )
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed_wheel:
        assert not [name for name in packed_wheel.namelist() if name.endswith(".so")]


@pytest.mark.packaging
@pytest.mark.needs("ssh-keygen")
def test_the_wheel_runs_in_an_empty_debian(released: Path, debian_root: DebianRoot) -> None:
    """One command installs it, one estimates means with the compiled kernels."""
    [wheel] = (released / "dist").glob("*.whl")
    assert "-cp311-abi3-manylinux" in wheel.name
    inside = debian_root.path / "opt/wheels"
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir()
    shutil.copy(wheel, inside)
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
    fetch += ["--dest", str(inside), f"{wheel}[tables]"]
    subprocess.run(fetch, check=True, timeout=PATIENCE_S)
    shutil.rmtree(debian_root.path / "opt/rase", ignore_errors=True)
    debian_root.run("python3", "-m", "venv", "/opt/rase")
    pip = ["/opt/rase/bin/pip", "install", "--quiet", "--no-index", "--find-links=/opt/wheels"]
    debian_root.run(*pip, "rase-iot[tables]")
    shutil.copy(ROOT / "scripts/try_wheel.py", debian_root.path / "opt")
    told = debian_root.run("/opt/rase/bin/python", "/opt/try_wheel.py").stdout
    assert "kernels: compiled" in told
    assert "1970-01-01T02:00:00Z" in told


def test_two_builds_that_differ_are_refused(tmp_path: Path) -> None:
    """The file that is not the same is named."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("aa  x.whl\nbb  y.pyz\n", "ascii")
    other.write_text("aa  x.whl\ncc  y.pyz\n", "ascii")
    with pytest.raises(SystemExit, match=r"got other \['y.pyz'\]"):
        release.check_same(one, other)


def test_floors_are_the_lower_bounds() -> None:
    """Library and tables have lower bounds alone, and those versions are what is tried."""
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["tables"]]
    assert [one.replace(">=", "==") for one in wanted] == floors.floors()
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", one) for one in floors.floors())
    for place in floors.TESTS:
        assert (ROOT / place).exists()


@pytest.mark.parametrize("address", ["", "https://forge.example/owner/rase/"])
def test_the_page_of_an_index_has_no_broken_link(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links lead to the address of whoever publishes; without one only their texts remain."""
    given: dict[str, Any] = {}
    monkeypatch.setenv("RASE_REPOSITORY_URL", address)
    monkeypatch.setattr("setuptools.setup", lambda **words: given.update(words))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    page = given["long_description"]
    targets = re.findall(r"\]\(([^)]*)\)", page)
    assert all(one.startswith(("https://", "http://", "#")) for one in targets)
    own = [one for one in targets if "forge.example" in one]
    base = f"https://forge.example/owner/rase/{{}}/v{PROJECT['version']}/"
    if address:
        paths = {re.sub(r".*/v[\d.]+/|#.*", "", one) for one in own}
        assert len(paths) > 15
        assert all((ROOT / path).exists() for path in paths)
        pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", page)
        assert pictures
        assert all(one.startswith(base.format("raw")) for one in pictures)
        assert given["project_urls"]["Source"] == address.rstrip("/")
    else:
        assert own == []
        assert given["project_urls"] == {}
        assert "](docs" not in page
