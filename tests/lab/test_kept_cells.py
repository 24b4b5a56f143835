"""Cells that outlive a run: found under the same code alone, and removed when nobody uses them."""

import os
from pathlib import Path

import pytest
from tests.lab import kept_cells
from tests.lab.kept_cells import KeptCells, cells_version, kept_folder, remove_unused

import rase
from rase.lab.cache import code_version

DAY_S = 86_400


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that RASE_TEST_CACHE names."""
    monkeypatch.setenv("RASE_TEST_CACHE", str(tmp_path / "root"))
    return tmp_path / "root"


def test_the_same_code_finds_its_cells(root: Path, tmp_path: Path) -> None:
    """A second run of the same code finds what the first one kept, in the folder named."""
    folder = kept_folder(tmp_path / "otherwise")
    assert folder.is_relative_to(root)
    KeptCells(folder, checksum="readings").keep("cell", {"recall": 0.5})
    again = kept_folder(tmp_path / "otherwise")
    assert KeptCells(again, checksum="readings").find("cell") == {"recall": 0.5}


@pytest.mark.uncovered
@pytest.mark.parametrize("changed", ["lab/schemes.py", "kernels/native_draws.c"])
def test_a_changed_source_finds_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """One byte more in a source that measures, in Python or C, and all is measured again."""
    source = Path(rase.__file__).parent
    copy = tmp_path / "rase"
    for path in [*source.rglob("*.py"), *source.rglob("*.c"), *source.rglob("*.h")]:
        place = copy / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    try:
        monkeypatch.setattr("rase.__file__", str(copy / "__init__.py"))
        code_version.cache_clear()
        before = kept_folder(tmp_path / "otherwise")
        KeptCells(before, checksum="readings").keep("cell", {"recall": 0.5})
        with (copy / changed).open("ab") as file:
            file.write(b"\n")
        code_version.cache_clear()
        after = kept_folder(tmp_path / "otherwise")
        assert after.is_relative_to(root)
        assert KeptCells(after, checksum="readings").find("cell") is None
    finally:
        code_version.cache_clear()


def test_other_packages_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another release of a package that computes is another version."""
    before = cells_version()
    monkeypatch.setattr(kept_cells, "version", lambda name: f"another {name}")
    assert cells_version() != before


def test_where_caches_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name of our own it is where XDG puts caches, or in the home."""
    monkeypatch.delenv("RASE_TEST_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert kept_folder(tmp_path).is_relative_to(tmp_path / "xdg/rase-tests")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert kept_folder(tmp_path).is_relative_to(tmp_path / "home/.cache/rase-tests")


def test_where_nothing_can_be_written(root: Path, tmp_path: Path) -> None:
    """The folder given instead is taken, and a cell that cannot be kept is no failure."""
    root.write_text("a file where the folder should be")
    assert kept_folder(tmp_path / "otherwise") == tmp_path / "otherwise"
    KeptCells(root, checksum="readings").keep("cell", {"recall": 0.5})


def test_what_nobody_uses_is_removed(tmp_path: Path) -> None:
    """Versions not used for 30 days go, and all but the 20 used last."""
    now_s = 1_800_000_000.0
    for number in range(25):
        folder = tmp_path / f"{number:02}"
        folder.mkdir()
        (folder / "cell.json").write_text("{}")
        os.utime(folder, (now_s - number * DAY_S, now_s - number * DAY_S))
    remove_unused(tmp_path, now_s=now_s)
    assert {folder.name for folder in tmp_path.iterdir()} == {f"{n:02}" for n in range(20)}
    remove_unused(tmp_path, now_s=now_s + 25.5 * DAY_S)
    assert {folder.name for folder in tmp_path.iterdir()} == {f"{n:02}" for n in range(5)}


def test_a_version_in_use_is_not_forgotten(root: Path, tmp_path: Path) -> None:
    """Asking for a folder counts as use, however old it is."""
    folder = kept_folder(tmp_path)
    os.utime(folder, (0, 0))
    assert kept_folder(tmp_path) == folder
    assert folder.is_dir()
    assert folder.stat().st_mtime > 0
