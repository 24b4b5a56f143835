"""Files and folders that are there whole or not at all."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from rase.atomic_files import replacing, replacing_folder, write_atomic


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """The old content stays until the new one is complete, and nothing else is left."""
    path = tmp_path / "file"
    write_atomic(path, "old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    """What goes wrong while a file is written leaves no trace of it."""
    path = tmp_path / "file"
    write_atomic(path, b"old")
    with suppress(RuntimeError), replacing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_part_that_a_dead_process_left_is_no_obstacle(tmp_path: Path) -> None:
    """Process numbers come again, after a restart of the machine for example."""
    (tmp_path / f".file.{os.getpid()}.part").write_text("half")
    write_atomic(tmp_path / "file", "whole")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_the_mode_is_there_from_the_first_moment(tmp_path: Path, mode: int) -> None:
    """Not even the part that is written is open to others; the process's mask has no say."""
    path = tmp_path / "secret"
    before = os.umask(0o077)
    try:
        with replacing(path, mode=mode) as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    """Nobody has heard of the part beside it."""
    with pytest.raises(FileNotFoundError) as caught:
        write_atomic(tmp_path / "none" / "file", "text")
    assert caught.value.filename == str(tmp_path / "none" / "file")


def test_a_folder_gets_its_name_at_the_end(tmp_path: Path) -> None:
    """Half a folder is not there, and one that failed is gone."""
    with replacing_folder(tmp_path / "made") as part:
        (part / "file").write_text("text")
        assert not (tmp_path / "made").exists()
    assert (tmp_path / "made/file").read_text() == "text"
    with pytest.raises(RuntimeError), replacing_folder(tmp_path / "failed"):
        raise RuntimeError
    assert [one.name for one in tmp_path.iterdir()] == ["made"]
