"""Attack runs: one at a time in a separate process, with a short queue.

Data, results and reports lie in a private folder that ends with the run or with the studio.
"""

import json
import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal

from rase.studio.attack_worker import JOB_FILE, RESULT_FILE

__all__ = ["MOST_RUNS", "Run", "Runs", "TooManyRuns"]

State = Literal["queued", "running", "done", "failed", "cancelled"]

# Results that are kept included.
MOST_RUNS: Final = 8
_MOST_WAITING: Final = 4
_LONGEST_S: Final = 900.0
_KEPT_S: Final = 3600.0
_SWEEP_S: Final = 15.0
# What a child may know of our surroundings: no token, no key.
_KEPT_NAMES: Final = (
    "PATH",
    "PYTHONPATH",
    "LANG",
    "LC_ALL",
    "VIRTUAL_ENV",
    "COVERAGE_PROCESS_START",
    "COVERAGE_PROCESS_CONFIG",
)


class TooManyRuns(Exception):
    """The queue is full; wait, or erase a run."""


@dataclass(slots=True, eq=False)
class Run:
    """One run.

    Args:
        id: Its name in addresses; cannot be guessed.
        job: What it does.
        folder: Where its files are.
        begun_s: When it was asked for, by a clock that only passes.
    """

    id: str
    job: dict[str, Any]
    folder: Path
    begun_s: float
    state: State = "queued"
    done: int = 0
    total: int = 1
    doing: str = "waiting for its turn"
    error: str = ""
    ended_s: float | None = None
    process: "subprocess.Popen[str] | None" = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")

    def study(self) -> dict[str, Any]:
        """Return the result of a finished run."""
        found: dict[str, Any] = json.loads((self.folder / RESULT_FILE).read_text("utf-8"))
        return found

    def progress(self) -> dict[str, Any]:
        """Return the progress."""
        return {
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "doing": self.doing,
            "error": self.error,
        }


class Runs:
    """Keep runs in memory, their files in a private folder, and one worker process at a time.

    Args:
        longest_s: After how long a run is ended.
        kept_s: After how long its result is erased.
        sweep_s: How often is looked for what must be erased, while nobody asks.
    """

    def __init__(
        self, *, longest_s: float = _LONGEST_S, kept_s: float = _KEPT_S, sweep_s: float = _SWEEP_S
    ) -> None:
        self._longest_s, self._kept_s, self._sweep_s = longest_s, kept_s, sweep_s
        self._lock = threading.RLock()
        # Woken whenever a run goes on.
        self.changed = threading.Condition(self._lock)
        self._runs: dict[str, Run] = {}
        self._queue: queue.Queue[Run | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._folder: Path | None = None

    def start(self, job: dict[str, Any], *, upload: IO[bytes] | None = None) -> Run:
        """Queue a run.

        Args:
            job: What the worker reads.
            upload: The data; kept under the name in the job until the run is over.

        Raises:
            TooManyRuns: If too many wait or are kept.
        """
        self.sweep()
        with self._lock:
            waiting = sum(run.state == "queued" for run in self._runs.values())
            if waiting >= _MOST_WAITING or len(self._runs) >= MOST_RUNS:
                raise TooManyRuns("Too many runs wait or are kept. Erase one, or try again later.")
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="rase-attack-"))
            made = secrets.token_urlsafe(16)
            folder = self._folder / made
            folder.mkdir(mode=0o700)
            run = Run(made, job, folder, time.monotonic())
            self._runs[made] = run
        try:
            (folder / JOB_FILE).write_text(json.dumps(job), "utf-8")
            if upload is not None:
                with (folder / job["file"]).open("wb") as file:
                    shutil.copyfileobj(upload, file)
        except BaseException:
            # A run that never begins would keep its place among the few for ever.
            self.erase(run)
            raise
        self._queue.put(run)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="attacks", daemon=True)
                self._thread.start()
        return run

    def newest_first(self) -> list[Run]:
        """Return all runs, the newest first."""
        self.sweep()
        with self._lock:
            return sorted(self._runs.values(), key=lambda run: -run.begun_s)

    def find(self, run_id: str) -> Run | None:
        """Return a run by its id."""
        self.sweep()
        return self._runs.get(run_id)

    def cancel(self, run: Run) -> None:
        """Cancel a run that has not finished."""
        with self._lock:
            if run.is_over:
                return
            run.state, run.doing, run.ended_s = "cancelled", "cancelled", time.monotonic()
            process = run.process
            self.changed.notify_all()
        if process is not None:
            _kill(process)
        self._forget_data(run)

    def erase(self, run: Run) -> None:
        """End a run and remove its files."""
        self.cancel(run)
        shutil.rmtree(run.folder, ignore_errors=True)
        with self._lock:
            self._runs.pop(run.id, None)
            self.changed.notify_all()

    def sweep(self) -> None:
        """Erase runs that are old."""
        now = time.monotonic()
        with self._lock:
            over = [
                run
                for run in self._runs.values()
                if run.ended_s is not None and now - run.ended_s >= self._kept_s
            ]
        for run in over:
            self.erase(run)

    def close(self) -> None:
        """Stop all runs and remove their files; the object can be used again."""
        with self._lock:
            runs, thread, folder = list(self._runs.values()), self._thread, self._folder
            self._thread = self._folder = None
        for run in runs:
            self.erase(run)
        if thread is not None:
            self._queue.put(None)
            thread.join()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _work(self) -> None:
        while True:
            try:
                run = self._queue.get(timeout=self._sweep_s)
            except queue.Empty:
                self.sweep()
                continue
            if run is None:
                return
            self._attack(run)

    def _attack(self, run: Run) -> None:
        with self._lock:
            if run.is_over:
                return
            try:
                run.process = process = _worker(run.folder)
            except OSError as error:
                # For want of memory, say; the runs behind it still get their turn.
                self._end(run, f"The run could not be started: {error.strerror}.")
                self._forget_data(run)
                return
            run.state = "running"
            self.changed.notify_all()
        limit = threading.Timer(self._longest_s, _kill, (process,))
        limit.daemon = True
        limit.start()
        with process:
            assert process.stdout is not None  # noqa: S101 - it is a pipe, as asked
            for line in process.stdout:
                self._note(run, line)
        limit.cancel()
        limit.join()
        self._forget_data(run)
        with self._lock:
            run.process = None
            if process.returncode == 0 and (run.folder / RESULT_FILE).is_file():
                self._end(run, None)
            else:
                self._end(
                    run,
                    run.error
                    or f"The run ended early; it may take {self._longest_s / 60:g} minutes and "
                    "some memory. Take fewer devices, days or attacks.",
                )

    def _end(self, run: Run, error: str | None) -> None:
        """Record the outcome of a run unless it was cancelled; the lock must be held."""
        if run.is_over:
            return
        run.ended_s = time.monotonic()
        if error is None:
            run.state, run.doing, run.done = "done", "done", run.total
        else:
            run.state, run.doing, run.error = "failed", "failed", error
        self.changed.notify_all()

    def _note(self, run: Run, line: str) -> None:
        try:
            step = json.loads(line)
        except ValueError:
            return
        with self._lock:
            if run.is_over or not isinstance(step, dict):
                return
            run.error = str(step.get("error", run.error))
            run.done, run.total = int(step.get("done", run.done)), int(step.get("total", run.total))
            run.doing = str(step.get("doing", run.doing))

    @staticmethod
    def _forget_data(run: Run) -> None:
        """Remove the readings; only the findings are kept."""
        if run.job.get("file"):
            (run.folder / run.job["file"]).unlink(missing_ok=True)


def _worker(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(  # noqa: S603 - our own module, a folder of ours
        [sys.executable, "-m", "rase.studio.attack_worker", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=_surroundings(folder),
        start_new_session=True,
    )


def _kill(process: "subprocess.Popen[str]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _surroundings(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_NAMES if name in os.environ}
    # One core leaves the other ones to the browser; matplotlib keeps a cache where it may write.
    return {**kept, "OMP_NUM_THREADS": "1", "MPLCONFIGDIR": str(folder), "HOME": str(folder)}
