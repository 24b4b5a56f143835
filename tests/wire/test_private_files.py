"""Files of secrets: for their owner only when written, and judged by who can read them."""

import io
import os
from pathlib import Path

import pytest

from rase.wire.private_files import (
    is_open_to_others,
    read_private,
    read_secret,
    replace_private,
    secret_of,
    write_private,
)


def test_private_files_are_never_overwritten_and_never_open_to_others(tmp_path: Path) -> None:
    """A second key of that name is refused, and so is a file that others can read."""
    path = tmp_path / "key"
    write_private(path, "first")
    with pytest.raises(FileExistsError):
        write_private(path, "second")
    path.chmod(0o640)
    with pytest.raises(PermissionError, match=r"owner only \(chmod 600\), got 640"):
        read_private(path)


def test_a_private_file_that_could_not_be_written_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a key must not keep a whole one from being written; an old file stays as it was."""

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    path, old = tmp_path / "key", tmp_path / "old"
    write_private(old, "before")
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_private(path, "half")
        with pytest.raises(OSError, match="No space"):
            replace_private(old, "after")
    assert [file.name for file in tmp_path.iterdir()] == ["old"]
    assert read_private(old) == "before"
    write_private(path, "whole")
    assert read_private(path) == "whole"


def test_a_private_file_is_replaced_as_a_whole_and_stays_private(tmp_path: Path) -> None:
    """What another try left beside it is in nobody's way."""
    path = tmp_path / "key"
    (tmp_path / ".key.new").write_text("left")
    replace_private(path, "first")
    replace_private(path, "second")
    assert read_private(path) == "second"
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_a_token_that_others_can_read_is_read_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The warning names the file and what to do, never the secret; a private file has none."""
    path = tmp_path / "token.txt"
    write_private(path, " s3cret\n")
    assert read_secret(path) == "s3cret"
    assert capsys.readouterr().err == ""
    for mode in (0o640, 0o604):
        path.chmod(mode)
        assert read_secret(path) == "s3cret"
        told = capsys.readouterr().err
        assert told == (
            f"rase: warning: {path} holds a secret and must be for its owner only, got {mode:o}: "
            f"chmod 600 {path}\n"
        )


def test_pipes_and_texts_in_memory_are_nobody_elses(capsys: pytest.CaptureFixture[str]) -> None:
    """A secret that comes through a pipe or is typed has no file that others could open."""
    reader, writer = os.pipe()
    os.write(writer, b"s3cret\n")
    os.close(writer)
    os.fchmod(reader, 0o644)
    with os.fdopen(reader, encoding="utf-8") as file:
        assert secret_of(file) == "s3cret"
    assert secret_of(io.StringIO("s3cret")) == "s3cret"
    assert capsys.readouterr().err == ""


def test_credentials_of_systemd_may_show_the_mask_of_their_access_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Group's bit to read is allowed in the folder that systemd names, and nothing else is."""
    path = tmp_path / "signing.key"
    assert is_open_to_others(path, 0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert not is_open_to_others(path, 0o440)
    assert is_open_to_others(path, 0o444)
    assert is_open_to_others(path, 0o460)
    assert is_open_to_others(tmp_path / "deeper/signing.key", 0o440)
