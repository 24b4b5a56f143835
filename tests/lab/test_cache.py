"""Measured cells on disk."""

from pathlib import Path

import pytest

import rase
from rase.atomic_files import write_atomic
from rase.lab import cache as cache_module
from rase.lab.cache import CellCache, code_version

OUTCOME = {"recall": 0.25, "by_device": [1.0, None]}


def test_kept_cells_are_found(tmp_path: Path) -> None:
    """What was kept is found again, also by another object."""
    CellCache(tmp_path, checksum="a").keep("cell", OUTCOME)
    assert CellCache(tmp_path, checksum="a").find("cell") == OUTCOME


@pytest.mark.parametrize(
    ("checksum", "code", "key"),
    [("other", "code", "cell"), ("data", "other", "cell"), ("data", "code", "other")],
)
def test_another_cell_is_not_found(tmp_path: Path, checksum: str, code: str, key: str) -> None:
    """Other readings, other code or other settings are another cell."""
    CellCache(tmp_path, checksum="data", code="code").keep("cell", OUTCOME)
    assert CellCache(tmp_path, checksum=checksum, code=code).find(key) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"key": "another", "outcome": {}}', "7"])
def test_damaged_cells_count_as_missing(tmp_path: Path, content: str) -> None:
    """A file that is not a cell is measured again."""
    cache = CellCache(tmp_path, checksum="data")
    cache.keep("cell", OUTCOME)
    (file,) = tmp_path.rglob("*.json")
    file.write_text(content)
    assert cache.find("cell") is None
    cache.keep("cell", OUTCOME)
    assert cache.find("cell") == OUTCOME


def test_files_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails leaves the old file and nothing beside it."""
    target = tmp_path / "file"
    write_atomic(target, "old")

    def full(self: Path, other: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(target, b"new")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert target.read_text() == "old"


def test_code_version_follows_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version changes with a source that measurements use, and with no other."""

    def version() -> str:
        code_version.cache_clear()
        return code_version()

    now = version()
    package = tmp_path / "rase"
    (package / "lab").mkdir(parents=True)
    (package / "lab/roots.py").write_text("import numpy\nimport rase.domain\n")
    (package / "domain.py").write_text("def f():\n    from rase.lab import deep, f\n")
    for name in ("deep.py", "plots.py"):
        (package / "lab" / name).write_text("1")
    monkeypatch.setattr(cache_module, "_ROOTS", ("lab/roots.py",))
    monkeypatch.setattr("rase.__file__", str(package / "__init__.py"))
    first = version()
    (package / "lab/plots.py").write_text("2")
    assert version() == first
    (package / "lab/deep.py").write_text("2")
    assert version() != first
    monkeypatch.undo()
    assert version() == now


def test_measurements_use_what_they_should() -> None:
    """Mechanisms, shuffles, estimators and attacks count; pictures and the command line do not."""
    root = Path(rase.__file__).parent
    used = {path.relative_to(root).as_posix() for path in cache_module._sources(root)}
    assert {
        "laws/geometric.py",
        "shuffle/mallows.py",
        "counts/mean.py",
        "kernels/words.py",
        "lab/attacks/linkage.py",
        "lab/schemes.py",
        "lab/experiments/measure.py",
    } <= used
    assert not {name for name in used if name.startswith("cli/")}
    assert not {"lab/plots.py", "lab/report.py", "lab/experiments/attack_figures.py"} & used
