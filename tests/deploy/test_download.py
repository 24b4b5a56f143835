"""Before anything large is downloaded its size is said, and the table of sizes fits the locks."""

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripts import sbom, sizes

ROOT = Path(__file__).parents[2]
SIZES: dict[str, int] = json.loads(sizes.TABLE.read_text("utf-8"))


def bootstrap(monkeypatch: pytest.MonkeyPatch, venv: Path) -> dict[str, Any]:
    """Load the script as it would run for an environment in another place."""
    monkeypatch.setattr("sys.argv", ["bootstrap.py", "spark"])
    loaded: dict[str, Any] = runpy.run_path(str(ROOT / "scripts/bootstrap.py"))
    loaded["download_mb"].__globals__.update({"VENV": venv})
    return loaded


@pytest.mark.parametrize("profile", sizes.PROFILES)
def test_every_locked_package_has_a_size(profile: str) -> None:
    """A version that was locked without `make lock` having measured it is found."""
    versions: dict[str, list[str]] = {}
    for name, version, _ in sbom.locked(profile):
        versions.setdefault(sizes.normal(name), []).append(f"{sizes.normal(name)}=={version}")
    text = (ROOT / f"requirements/{profile}.txt").read_text("utf-8")
    for name, pinned in versions.items():
        # Packages for other systems or versions of Python are not downloaded where it was measured.
        is_conditional = all(
            re.search(rf"^{re.escape(one)} ;", text, re.MULTILINE | re.IGNORECASE) for one in pinned
        )
        assert is_conditional or any(one in SIZES for one in pinned), name


def test_no_size_is_of_what_is_locked_no_longer() -> None:
    """Each line of the table is a package of some lock."""
    pinned = {
        f"{sizes.normal(name)}=={version}"
        for profile in sizes.PROFILES
        for name, version, _ in sbom.locked(profile)
    }
    assert set(SIZES) <= pinned
    assert all(size > 0 for size in SIZES.values())


def test_the_size_is_said_before_the_download(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark's several hundred megabytes stand in the line before pip is started."""
    script = bootstrap(monkeypatch, tmp_path / ".venv")
    said: list[str] = []

    def start_pip(arguments: list[str], total: int) -> None:
        said.append(capsys.readouterr().out)
        raise script["SetupError"]("stopped by the test")

    changes: dict[str, Any] = {"pip": start_pip, "make_venv": lambda: None, "works": lambda: False}
    changes |= {"STAMP": tmp_path / "stamp", "PYTHON": tmp_path / "python"}
    script["prepare"].__globals__.update(changes)
    with pytest.raises(script["SetupError"], match="stopped"):
        script["prepare"]("spark")
    found = re.search(r"To download: about (\d+) MB", said[0])
    assert found is not None, said
    assert int(found[1]) == round(script["download_mb"]("spark")) > 300


def test_what_is_there_is_not_downloaded_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A package in the environment counts only in another version than the locked one."""
    download_mb: Callable[[str], float] = bootstrap(monkeypatch, tmp_path)["download_mb"]
    whole = download_mb("demo")
    pinned = next(one for one in SIZES if one.startswith("pyarrow=="))
    site = tmp_path / "lib/python3.11/site-packages"
    (site / "pyarrow-1.0.dist-info").mkdir(parents=True)
    assert download_mb("demo") == whole
    (site / f"{pinned.replace('==', '-')}.dist-info").mkdir()
    assert download_mb("demo") == pytest.approx(whole - SIZES[pinned] / 1e6)


@pytest.mark.parametrize("page", ["docs/start/install.md", "CONTRIBUTING.md"])
def test_pages_name_the_sizes_that_are_downloaded(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Wherever a page gives the download of a target, it is the table's, to ten megabytes."""
    download_mb = bootstrap(monkeypatch, tmp_path)["download_mb"]
    real = {"make demo": "demo", "make test": "dev", "make test SPARK=1": "spark"}
    text = (ROOT / page).read_text("utf-8")
    found = re.findall(r"`(make [a-z]+(?: SPARK=1)?)` downloads about (\d+) MB", text)
    assert found
    for target, told in found:
        assert abs(int(told) - download_mb(real[target])) < 10, target


def test_the_page_on_the_first_start_has_each_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its table adds up to what the three profiles download, to two megabytes."""
    download_mb = bootstrap(monkeypatch, tmp_path)["download_mb"]
    text = (ROOT / "docs/start/live-demo.md").read_text("utf-8")
    rows = [int(size) for size in re.findall(r"^\| first `make .*?\| (\d+) MB", text, re.MULTILINE)]
    for count, profile in enumerate(("demo", "dev", "spark"), 1):
        assert abs(sum(rows[:count]) - download_mb(profile)) < 2, profile


def test_sizes_are_asked_of_what_pip_would_install(tmp_path: Path) -> None:
    """Each file of pip's reports is measured once, under the name that locks use."""
    file = tmp_path / "a b-1.0.whl"
    file.write_bytes(b"x" * 37)
    entry = {
        "metadata": {"name": "Ruamel.Yaml_x", "version": "1.0"},
        "download_info": {"url": file.as_uri()},
    }
    found = sizes.sizes_of([{"install": [entry]}, {"install": [entry]}], sizes.size_at)
    assert found == {"ruamel-yaml-x==1.0": 37}
    sizes.write(found, tmp_path / "sizes.json")
    assert json.loads((tmp_path / "sizes.json").read_text("utf-8")) == found
