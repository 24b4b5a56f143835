"""``rase device run`` without click means what it means with click, or is left to click."""

import gc
from pathlib import Path
from typing import Any

import pytest

from rase.cli import agent_command, main
from rase.cli.group import run as run_by_click
from rase.device.commands import run_agent


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, int | None, int | None]]:
    """What agents would have run."""
    seen: list[tuple[Path, int | None, int | None]] = []

    def note(
        folder: Path, *, rounds: int | None, page_port: int | None, more: tuple[Path, ...] = ()
    ) -> None:
        assert not more
        seen.append((folder, rounds, page_port))

    monkeypatch.setattr("rase.cli.run_agent", note)
    monkeypatch.setattr("rase.cli.device.run_agent", note)
    return seen


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--folder", "here"],
        ["--folder=a=b"],
        ["--rounds", "3"],
        ["--page"],
        ["--page", "--rounds=2"],
        ["--page", "8123", "--folder", "here"],
        ["--page=0"],
        ["--rounds=003", "--folder", "x y"],
        ["--folder=one", "--rounds=1", "--folder=two", "--rounds", "2"],
    ],
)
def test_both_ways_read_the_same(
    options: list[str],
    ran: list[tuple[Path, int | None, int | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Folder, rounds and page are the same, typed as arguments or found in sys.argv."""
    typed = ["device", "run", *options]
    command = agent_command(typed)
    assert command is not None
    command()
    assert run_by_click(typed) == 0
    monkeypatch.setattr("sys.argv", ["rase", *typed])
    assert main() == 0
    assert len(ran) == 3
    assert len(set(ran)) == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--folder"],
        ["--folder="],
        ["--folder", "--rounds"],
        ["--rounds", "0"],
        ["--page", "65536"],
        ["--page=here"],
        ["--rounds=-1"],
        ["--rounds=1.5"],
        ["--rounds=٣x"],
        ["--fold=x"],
        ["here"],
        ["--rounds", "1", "--nose"],
    ],
)
def test_what_is_wrong_is_left_to_click(
    options: list[str],
    ran: list[tuple[Path, int | None, int | None]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is told in one line, with exit code 2, unless click can make sense of it."""
    assert agent_command(["device", "run", *options]) is None
    code = main(["device", "run", *options])
    told = capsys.readouterr().err
    assert (code, told.count("\n"), ran) == (2, 1, []) or (code, told) == (0, "")


def test_other_commands_help_and_completion_are_left_to_click(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only this one command is read without click, and not in a shell's question."""
    for typed in ([], ["device"], ["device", "pause"], ["run", "device"]):
        assert agent_command(typed) is None
    assert main(["device", "run", "--help"]) == 0
    assert "--rounds" in capsys.readouterr().out
    file = tmp_path / "file"
    file.touch()
    assert main(["device", "run", "--folder", str(file)]) == 2
    assert "is a file" in capsys.readouterr().err
    monkeypatch.setenv("_RASE_COMPLETE", "bash_complete")
    assert agent_command(["device", "run"]) is None


def test_garbage_is_looked_for_once_the_agent_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector rests during the start only, however it ends."""
    seen: list[bool] = []

    def device(folder: Any, environment: Any, *, wait: Any, **options: Any) -> None:
        seen.append(gc.isenabled())
        wait(0.0)
        seen.append(gc.isenabled())
        gc.disable()
        raise ZeroDivisionError

    monkeypatch.setattr("rase.device.program.run_device", device)
    with pytest.raises(ZeroDivisionError):
        run_agent(tmp_path, rounds=None)
    assert (seen, gc.isenabled()) == ([False, True], True)
