"""A whole fleet is certified and admitted by two operators, all of it or nothing."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

from rase.cli import main

KEYS = [f"{number:064x}" for number in range(1, 21)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with a registrar, and a list of keys."""
    monkeypatch.chdir(tmp_path)
    made = ["--range", "0", "1", "--devices", "200", "--registrar-url", "http://127.0.0.1:8704"]
    assert main(["init", "ours", *made]) == 0
    Path("keys.txt").write_text("\n".join(KEYS) + "\n")
    return tmp_path


def certify(keys: str = "keys.txt") -> int:
    """Have the registrar's operator certify a list."""
    at = ["--config", "ours/registrar/rase.toml", "--out", "list.certificate"]
    return main(["registrar", "certify", keys, *at])


def admit(out: str = "credentials.csv", *more: str, keys: str = "keys.txt") -> int:
    """Have the shuffler's operator admit one."""
    at = ["--config", "ours/shuffler/rase.toml", "--out", out]
    return main(["shuffler", "enrol-list", keys, *at, *more])


CERTIFICATE: Sequence[str] = ("--certificate", "list.certificate")


def test_both_operators_admit_a_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each key gets a credential of its own, in a file for its owner only; once."""
    assert certify() == 0
    assert admit("credentials.csv", *CERTIFICATE, "--group", "north") == 0
    assert "enrolled 20 devices." in capsys.readouterr().err
    assert (folder / "credentials.csv").stat().st_mode & 0o777 == 0o600
    with (folder / "credentials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["device_key"] for row in rows] == KEYS
    assert len({row["credential"] for row in rows}) == 20
    assert main(["shuffler", "devices", "--config", "ours/shuffler/rase.toml"]) == 0
    assert capsys.readouterr().out.count(" north\n") == 20
    assert admit("again.csv", *CERTIFICATE) == 2
    assert "none was enrolled" in capsys.readouterr().err
    assert not (folder / "again.csv").exists()


def test_neither_operator_admits_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the registrar's word for exactly this list nobody is enrolled or has a file."""
    assert admit() == 2
    assert "--certificate must be the registrar's" in capsys.readouterr().err
    assert certify() == 0
    Path("more.txt").write_text("\n".join([*KEYS, f"{99:064x}"]))
    assert admit("credentials.csv", *CERTIFICATE, keys="more.txt") == 2
    Path("list.certificate").write_text("no digits")
    assert admit("credentials.csv", *CERTIFICATE) == 2
    assert "must be what rase registrar certify wrote" in capsys.readouterr().err
    assert not (folder / "credentials.csv").exists()
    assert main(["shuffler", "devices", "--config", "ours/shuffler/rase.toml"]) == 0
    assert capsys.readouterr().err.startswith("0 enrolled")


def test_nothing_is_lost_where_credentials_cannot_be_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the file is there already it stays as it was, and nobody is enrolled."""
    assert certify() == 0
    (folder / "credentials.csv").write_text("of yesterday")
    assert admit("credentials.csv", *CERTIFICATE) == 2
    assert "nothing was enrolled" in capsys.readouterr().err
    assert (folder / "credentials.csv").read_text() == "of yesterday"
    assert admit("new.csv", *CERTIFICATE) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must hold at least one key"),
        ("abc", "line 1 must be a key of 64 hexadecimal digits"),
        (f"{KEYS[0]}\n\n{KEYS[1]}0", "line 3 must be"),
        (f"{KEYS[0]}\n{KEYS[1]}\n{KEYS[0]}", "line 3 has the key of line 1 again"),
    ],
)
def test_what_is_no_list_is_refused(
    folder: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line that is wrong is named, and nothing is certified."""
    (folder / "keys.txt").write_text(text)
    assert certify() == 2
    assert words in capsys.readouterr().err
    assert not (folder / "list.certificate").exists()
