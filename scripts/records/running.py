"""Run the parts of the evidence one after the other, and keep each record as soon as it is done."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

from scripts.records.pages import Place, violations
from scripts.records.parts import ROOT, Part

from rase.atomic_files import write_atomic
from rase.lab.provenance import HEADER

__all__ = ["Display", "NoRecord", "measure"]

_REFRESH_S: Final = 1.0
_PLAIN_REFRESH_S: Final = 60.0
_GRACE_S: Final = 60.0
_END_BYTES: Final = 4096


class NoRecord(Exception):
    """A part ended without a record that can be kept."""


class Display:
    """Show which part is running, for how long, and what it printed last.

    On a terminal one line is rewritten; elsewhere a line is printed now and then.

    Args:
        stream: Where it is shown.
        total: How many parts there are.
    """

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream = stream
        self._total = total
        self._is_terminal = stream.isatty()
        self._label = ""
        self._start_s = self._next_s = 0.0

    def begin(self, number: int, name: str, command: str) -> None:
        """Show that a part begins."""
        self._label = f"[{number} of {self._total}] {name}"
        self._start_s = time.monotonic()
        self._next_s = self._start_s + (0.0 if self._is_terminal else _PLAIN_REFRESH_S)
        self.say(command)

    def refresh(self, last: str) -> None:
        """Show how long it has been running and its last line, if it is time for that."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + (_REFRESH_S if self._is_terminal else _PLAIN_REFRESH_S)
        line = f"{self._label} {_clock(now_s - self._start_s)} {last}"
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{line[:width]}")
            self._stream.flush()
        else:
            print(line, file=self._stream, flush=True)

    def say(self, words: str) -> None:
        """Print a line that stays."""
        start = "\r\x1b[K" if self._is_terminal else ""
        print(f"{start}{self._label}: {words}", file=self._stream, flush=True)

    def end(self, words: str) -> None:
        """Print how a part ended, and after how long."""
        self.say(f"{words} ({_clock(time.monotonic() - self._start_s)})")


def measure(parts: Sequence[Part], place: Place, *, is_quick: bool, stream: TextIO) -> list[str]:
    """Run parts one after the other; a part that fails leaves the others.

    Args:
        parts: What to run, in this order.
        place: Where records and logs go.
        is_quick: Whether each takes its short form.
        stream: Where progress is shown.

    Returns:
        What went wrong, in a line for each part that found a violation or left no record.
    """
    place.logs.mkdir(parents=True, exist_ok=True)
    display = Display(stream, len(parts))
    wrong = []
    for number, part in enumerate(parts, start=1):
        file = place.logs / f"{part.name}.json"
        file.unlink(missing_ok=True)
        command = part.command(file, is_quick=is_quick)
        display.begin(number, part.name, " ".join(command[1:]))
        try:
            text, count = _recorded(part, command, file, display.refresh)
        except NoRecord as reason:
            display.end(f"no record: {reason}")
            wrong.append(f"{part.name}: no record: {reason}")
            continue
        write_atomic(place.folder / f"{part.name}.json", text)
        display.end(f"recorded, violations: {count}")
        if count:
            wrong.append(f"{part.name}: violations: {count}")
    return wrong


def _recorded(
    part: Part, command: list[str], file: Path, refresh: Callable[[str], None]
) -> tuple[str, int]:
    """Run a part; return its record as text, and how many violations it names.

    Raises:
        NoRecord: If it ended without one, or failed for another reason than a violation.
    """
    log = file.with_suffix(".log")
    log.unlink(missing_ok=True)
    setup = part.setup_command()
    if setup and (code := _run(setup, log, refresh)):
        raise NoRecord(f"its setup ended with {code}: {_tail(log)}")
    code = _run(command, log, refresh)
    try:
        text = file.read_text(encoding="utf-8")
        record: Mapping[str, Any] = json.loads(text)
    except FileNotFoundError:
        raise NoRecord(f"it ended with {code}: {_tail(log)}") from None
    except ValueError:
        raise NoRecord(f"what it wrote is not JSON; it ended with {code}.") from None
    missing = [name for name in HEADER if name not in record]
    if missing:
        raise NoRecord(f"its record lacks {', '.join(missing)}.")
    count = violations(record)
    if code and not count:
        raise NoRecord(f"it ended with {code}, and its record names no violation: {_tail(log)}")
    return text, count


def _run(command: list[str], log: Path, refresh: Callable[[str], None]) -> int:
    """Run a command whose output is added to a log; return its exit code."""
    # Into a file, not a pipe: what a part leaves running cannot keep us waiting for its output.
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise NoRecord(f"{command[0]} cannot be run: {error.strerror}.") from None
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_REFRESH_S)
            refresh(_last_line(log))
    except BaseException:
        _end(process)
        raise


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Interrupt a part, so that it stops what it started; kill it if it does not."""
    for kind, patience_s in ((signal.SIGINT, _GRACE_S), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            return


def _tail(log: Path) -> str:
    """Return the last line of a log, and where the whole of it is."""
    place = log.relative_to(ROOT) if log.is_relative_to(ROOT) else log
    return f"{_last_line(log) or 'it printed nothing'} (all of it: {place})"


def _last_line(log: Path) -> str:
    """Return the last line of a log that is not empty, without reading all of it."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _END_BYTES))
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
