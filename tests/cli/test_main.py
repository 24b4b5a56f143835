"""The command line's frame: help that costs nothing, and how failures end it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from tests.patience import PATIENCE_S

import rase
from rase.cli import COMMANDS, main
from rase.errors import PrivacyRefused, RaseError
from rase.kernels.backend import kernels_in_use


def rase_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "rase", *arguments], capture_output=True, text=True, check=False
    )


def test_help_imports_nothing_heavy() -> None:
    """Help needs neither NumPy nor any command."""
    code = (
        "import sys, rase.cli\n"
        "assert rase.cli.main(['--help']) == 0\n"
        "heavy = {'numpy', 'pyarrow', 'matplotlib', 'cryptography', 'rase.cli.run'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the overview says of a command is what the command says of itself."""
    assert main([name, "--help"]) == 0
    assert COMMANDS[name].help in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["help"], ["--help"]),
        (["help", "fusion", "subscribers"], ["fusion", "subscribers", "--help"]),
    ],
)
def test_help_is_a_word_too(
    words: list[str], option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """``rase help`` and ``rase help COMMAND`` show what ``--help`` shows."""
    assert main(words) == 0
    told = capsys.readouterr().out
    assert main(option) == 0
    assert told == capsys.readouterr().out
    assert told.startswith("Usage: rase ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The version is the package's; the kernels in use are told with it."""
    done = rase_command("--version")
    expected = f"rase {rase.__version__}\nkernels: {kernels_in_use()}\n"
    assert (done.returncode, done.stdout) == (0, expected)
    assert main(["version"]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.uncovered
def test_completion() -> None:
    """Shells that ask for completion are told the commands."""
    asked = {"_RASE_COMPLETE": "bash_complete", "COMP_WORDS": "rase ", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "rase"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **asked},
    )
    assert [line.split(",")[1] for line in done.stdout.split()] == list(COMMANDS)


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command there is help on stderr."""
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Commands:" in shown.err


@pytest.mark.parametrize("arguments", [["rum"], ["run", "x.csv", "--nose"], ["run"]])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command or option is one line and exit code 2."""
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("rase: error: ")
    assert shown.err.count("\n") == 1


UNEXPECTED = (
    "unexpected ZeroDivisionError; please report it, with what RASE_DEBUG=1 prints and without "
    "private data."
)


def raising(error: BaseException) -> Callable[[], None]:
    """Return a command that fails."""

    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        (PrivacyRefused("the budget\nis spent."), 5, "the budget is spent."),
        (KeyboardInterrupt(), 130, "interrupted."),
        (OSError(28, "No space left on device"), 1, "writing: No space left on device."),
        (PermissionError(13, "Permission denied", "x.csv"), 1, "x.csv: Permission denied."),
        (ZeroDivisionError("reading 12.5 of kettle"), 1, UNEXPECTED),
    ],
)
@pytest.mark.parametrize("is_debugging", [False, True])
def test_failures(
    error: BaseException,
    exit_code: int,
    message: str,
    *,
    is_debugging: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every failure is one line and its exit code; the traceback comes only when asked for."""
    monkeypatch.setenv("RASE_DEBUG", "1" if is_debugging else "0")
    command = click.Command("run", callback=raising(error))
    monkeypatch.setattr("rase.cli.run.command", command)
    assert main(["run"]) == exit_code
    shown = capsys.readouterr()
    assert shown.err.splitlines()[-1].endswith(f"rase: error: {message}")
    assert ("Traceback" in shown.err) == is_debugging
    assert "12.5" not in shown.err or is_debugging


@pytest.mark.uncovered
def test_closed_pipe(tmp_path: Path) -> None:
    """A reader who has seen enough ends the run without words."""
    path = tmp_path / "readings.csv"
    rows = "".join(f"{second},a,1\n" for second in range(3000))
    path.write_text(f"time,device,value\n{rows}")
    command = f"{sys.executable} -m rase run {path} --range 0 1 --epsilon 1 | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("time ")
    assert done.stderr == ""


@pytest.mark.uncovered
def test_interrupt(tmp_path: Path) -> None:
    """Control-C ends with 130 in one line, and leaves no file behind."""
    fifo = tmp_path / "readings.csv"
    os.mkfifo(fifo)
    out = tmp_path / "out.csv"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "rase", "run", str(fifo)),
            *("--range", "0", "1", "--epsilon", "1", "--out", str(out)),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    # Opening a pipe to write returns once the command reads from it.
    with fifo.open("w"):
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, told.strip()) == (130, "rase: error: interrupted.")
    assert list(tmp_path.iterdir()) == [fifo]


@pytest.mark.parametrize(
    ("module", "extra"),
    [("uvicorn", "service"), ("sklearn.ensemble", "lab"), ("pyarrow", "tables")],
)
def test_missing_packages_are_named_with_their_extra(
    module: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command whose packages are not installed says what to install."""

    @click.command()
    def lacking() -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("rase.cli.run.command", lacking)
    assert main(["run"]) == 3
    shown = capsys.readouterr().err
    assert f'pip install "rase-iot[{extra}]"' in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file", "a.csv"), "a.csv: No such file."),
        (PermissionError("a.key must be for its owner only."), "a.key must be for its owner only."),
        (TimeoutError(), "writing: TimeoutError."),
    ],
)
def test_failures_of_files_say_which_and_why(
    error: OSError, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those whose words stand where Python's own do not."""

    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr("rase.cli.run.command", failing)
    assert main(["run"]) == 1
    assert words in capsys.readouterr().err


def test_what_a_server_says_moves_nothing_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refusal may be in another machine's words."""

    @click.command()
    def refused() -> None:
        raise RaseError("the fusion centre refuses: \x1b[2Jall is well\x07 – ε.")

    monkeypatch.setattr("rase.cli.run.command", refused)
    assert main(["run"]) == 1
    shown = capsys.readouterr().err
    assert shown == "rase: error: the fusion centre refuses: \ufffd[2Jall is well\ufffd – ε.\n"


def test_packages_nobody_can_install_are_unexpected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module that no extra brings is a fault of the program."""

    @click.command()
    def lacking() -> None:
        raise ModuleNotFoundError("No module named 'nonsense'", name="nonsense")

    monkeypatch.setattr("rase.cli.run.command", lacking)
    assert main(["run"]) == 1
    assert "unexpected ModuleNotFoundError" in capsys.readouterr().err
