"""Plant a fault into a copy of the repository, and say whether its tests notice."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Final

from faults.fault import Fault, FaultOutdated, plant

__all__ = ["Outcome", "Runner"]

_COPIED: Final = ("src", "tests")
# Neither needed by a test nor small.
_LEFT_OUT: Final = frozenset({"build", "dist", "htmlcov"})
_NOT_COPIED: Final = ("node_modules", ".hypothesis", ".pytest_cache", "*.orig", "*.rej")
# With CI set a skipped test fails, which would pass for a fault that was noticed.
_UNSET: Final = ("CI", "PYTEST_ADDOPTS", "RASE_SKIPPED", "COVERAGE_PROCESS_START")
_CHOSEN: Final = "not slow and not homeassistant"
_FAILED: Final = re.compile(r"^FAILED (\S+)", re.MULTILINE)
# Of these a test fails whatever the fault says: what was planted is no fault, but broken code.
_BROKEN: Final = re.compile(
    r"^E .*?\b((?:Name|UnboundLocal|Attribute|Syntax|Indentation|Import|ModuleNotFound)Error: .*)",
    re.MULTILINE,
)
_LINES_SHOWN: Final = 12
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Say what came of one fault.

    Args:
        fault: The fault.
        verdict: "caught", "not caught", or "error" if the run says neither.
        test: The first test that failed; None unless caught.
        seconds: How long the tests took.
        detail: For an error, what happened.
    """

    fault: Fault
    verdict: str
    test: str | None
    seconds: float
    detail: str = ""

    @property
    def is_caught(self) -> bool:
        """Whether a test noticed."""
        return self.verdict == "caught"


class Runner:
    """Run the tests of planted faults.

    Args:
        root: The repository.
        limit_s: How long the tests of one fault may take.
    """

    def __init__(self, root: Path, *, limit_s: float = 300.0) -> None:
        self._root = root
        self._limit_s = limit_s
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = threading.Event()

    def run(self, fault: Fault) -> Outcome:
        """Plant a fault into a copy, and run its tests there.

        A fault counts as caught only if a test ran and failed. A test that cannot be collected, an
        unknown name in it or in what was planted, or a failing fixture is an error.
        """
        try:
            with _copied(self._root) as copy:
                plant(fault, copy / "src")
                environment = _environment(copy)
                stray = self._stray(fault, copy, environment)
                if stray:
                    return Outcome(fault, "error", None, 0.0, stray)
                return self._tested(fault, copy, environment)
        except FaultOutdated as error:
            return Outcome(fault, "error", None, 0.0, str(error))

    def stop(self) -> None:
        """End all tests that run; those that wait do not begin."""
        self._is_stopped.set()
        for process in list(self._running):
            _interrupt(process)

    def _stray(self, fault: Fault, copy: Path, environment: dict[str, str]) -> str:
        """Return what is wrong if the tests would import other sources than the copy."""
        package = Path(fault.file).parts[0].removesuffix(".py")
        code = f"import {package}; print({package}.__file__)"
        _, output, _ = self._finished([sys.executable, "-c", code], copy, environment)
        lines = output.strip().splitlines()
        if lines and Path(lines[-1]).is_relative_to(copy / "src"):
            return ""
        return f"{package} is not imported from the copy with the fault, but: {output.strip()}"

    def _tested(self, fault: Fault, copy: Path, environment: dict[str, str]) -> Outcome:
        options = ["-x", "-q", "-rf", "--tb=short", "-p", "no:cacheprovider", "-m", _CHOSEN]
        command = [sys.executable, "-m", "pytest", *options, *fault.tests]
        code, output, seconds = self._finished(command, copy, environment)
        failed = _FAILED.search(output)
        if code == 1 and failed:
            if broken := _BROKEN.search(output):
                detail = f"the test fails because the code does not run: {broken[1]}"
                return Outcome(fault, "error", None, seconds, detail)
            return Outcome(fault, "caught", failed[1], seconds)
        if code == 0:
            return Outcome(fault, "not caught", None, seconds)
        shown = "\n".join(output.strip().splitlines()[-_LINES_SHOWN:])
        reason = (
            f"the tests took longer than {self._limit_s:g} s"
            if code is None
            else f"pytest ended with {code} and no failed test"
        )
        return Outcome(fault, "error", None, seconds, f"{reason}:\n{shown}")

    def _finished(
        self, command: list[str], copy: Path, environment: dict[str, str]
    ) -> tuple[int | None, str, float]:
        """Return the exit code, None if it took too long, the output and the seconds."""
        if self._is_stopped.is_set():
            raise KeyboardInterrupt
        began_s = time.monotonic()
        # Into a file: a pipe would stay open as long as anything that a test started.
        with TemporaryFile() as written:
            process = subprocess.Popen(
                command,
                cwd=copy,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
            code: int | None = None
            try:
                code = process.wait(timeout=self._limit_s)
            except subprocess.TimeoutExpired:
                _interrupt(process)
            finally:
                # What a test started and forgot ends with it.
                _kill(process)
                process.wait()
                self._running.discard(process)
            if self._is_stopped.is_set():
                raise KeyboardInterrupt
            written.seek(0)
            output = written.read().decode(errors="replace")
        return code, output, time.monotonic() - began_s


@contextmanager
def _copied(root: Path) -> Iterator[Path]:
    """Copy what a fault or a test may change, and link to the rest."""
    with TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        # Resolved: elsewhere than here a temporary folder may be reached through a link.
        copy = Path(name).resolve()
        for entry in sorted(root.iterdir()):
            if entry.name in _COPIED:
                ignored = shutil.ignore_patterns(*_NOT_COPIED)
                shutil.copytree(entry, copy / entry.name, ignore=ignored, symlinks=True)
            elif not entry.name.startswith(".") and entry.name not in _LEFT_OUT:
                (copy / entry.name).symlink_to(entry)
        yield copy


def _environment(copy: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    # Before the editable install, in the tests' own process and in all that they start.
    paths = [str(copy / "src"), str(copy), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    return environment


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    """Let pytest end what its fixtures started, such as databases, and end it if it does not."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_PATIENCE_S)
    _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it started; nothing happens if they have ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
