"""What a device remembers, in one file that is whole or refused."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rase.device.state import Cover, DeviceState, StateFile, StateUnusable

STATE = DeviceState(
    campaigns=(b"one", b"two"), keyset=b"keys", covers={7: Cover(b"abc"), 8: Cover(b"d", True)}
)

EMPTY = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
DAMAGES: dict[str, Callable[[str], str]] = {
    "empty": lambda text: "",
    "half": lambda text: text[: len(text) // 2],
    "one letter": lambda text: text.replace("YWJj", "YWJk"),
    "other shape": lambda text: "[]",
    "deep": lambda text: "[" * 100_000,
    "no text": lambda text: "\xff",
    "no fields": lambda text: json.dumps({**json.loads(text), "state": {}, "sha256": EMPTY}),
}


@pytest.fixture
def file(tmp_path: Path) -> StateFile:
    """A state file with something in it."""
    made = StateFile(tmp_path / "state.json")
    made.save(STATE)
    return made


def test_what_is_saved_is_loaded(file: StateFile, tmp_path: Path) -> None:
    """All fields come back, the file is for its owner only, and nothing lies beside it."""
    assert file.load() == STATE
    file.save(DeviceState())
    assert file.load() == DeviceState()
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600
    assert "abc" not in repr(STATE)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    """Without state a device could be led back, so it must be enrolled anew."""
    with pytest.raises(StateUnusable, match="enrolment makes it") as caught:
        StateFile(tmp_path / "none.json").load()
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed(file: StateFile, tmp_path: Path, damage: str) -> None:
    """Any change to the bytes is refused with the way out, never half read."""
    path = tmp_path / "state.json"
    path.write_bytes(DAMAGES[damage](path.read_text()).encode("latin-1"))
    with pytest.raises(StateUnusable, match=r"is damaged. Keep ledger.db"):
        file.load()


def test_another_version_is_named(file: StateFile, tmp_path: Path) -> None:
    """A newer program's file is not guessed at."""
    path = tmp_path / "state.json"
    path.write_text(path.read_text().replace("device-state/1", "device-state/2"))
    with pytest.raises(StateUnusable, match="must be of rase/device-state/1"):
        file.load()


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    """A folder in its place is no state."""
    (tmp_path / "state.json").mkdir()
    with pytest.raises(StateUnusable, match="cannot be read: Is a directory"):
        StateFile(tmp_path / "state.json").load()


def test_a_full_disk_keeps_the_old_state(
    file: StateFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If writing fails nothing changes, and no half file stays."""

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StateUnusable, match="No space left"):
        file.save(DeviceState())
    assert file.load() == STATE
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
