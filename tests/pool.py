"""Run tests in several processes that are forked once all tests are collected.

``--workers N`` starts them. Tests are collected and their modules imported once, not once a
process, and the tests of a file stay together in one process, so that its fixtures are made once.
All Spark tests are one group, because they share one Java, and their process runs no others: what
PySpark leaves behind would be theirs. Groups that mostly wait and groups that compute are handed
out side by side, so that no processor is idle while there is something to compute. A process that
dies fails the test it ran; another one goes on with the rest. A plugin of tests/conftest.py;
docs/decisions says why it is not pytest-xdist.
"""

import atexit
import gc
import os
import signal
import sys
import weakref
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from coverage import Coverage
from tests.tiers import group_of, runs_alone, waits

__all__ = ["Gateway", "Node", "pytest_addoption", "pytest_collection", "pytest_runtestloop"]

_ROOT = Path(__file__).parents[1]
# So many processes compute at a time, if there are more; the rest may wait.
_COMPUTING = (os.cpu_count() or 1) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the number of processes be chosen."""
    parser.addoption(
        "--workers", type=int, default=0, help="run tests in so many processes (0: in this one)"
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while thousands of tests are made: they stay, and it takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> object:
    """Hand groups of tests to forked processes, and replay what they report."""
    count = session.config.getoption("--workers")
    if not count or session.config.option.collectonly:
        return None
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} error(s) during collection")
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    _Pool(session).run(count)
    return True


class Gateway:
    """The name of a process, as the terminal asks for it."""

    def __init__(self, number: int) -> None:
        self.id = f"worker {number}"


class Node:
    """Where a report comes from; with it the terminal does not print the path of each file.

    Args:
        number: Of the process.
    """

    _workerinfocache = ""  # the terminal's line about another Python: it is the same

    def __init__(self, number: int) -> None:
        self.gateway = Gateway(number)


@dataclass(slots=True)
class _Worker:
    """A process, which tests it was given and has not reported, and whether they mostly wait."""

    pid: int
    pipe: Connection
    node: Node
    waiting: deque[int] = field(default_factory=deque)
    is_idle: bool = False


class _Pool:
    """The side of the process that collected the tests."""

    def __init__(self, session: pytest.Session) -> None:
        self._session, self._config = session, session.config
        computing, waiting = _groups(session.items)
        self._computing, self._waiting = deque(computing), deque(waiting)
        self._most_waiting = 1
        self._workers: list[_Worker] = []
        self._started = 0

    def run(self, count: int) -> None:
        """Run all groups; return when each process has ended."""
        # Hundreds of megabytes of tests and modules, which no search for garbage need read again:
        # that would take time in each process, and a copy of each page that they share.
        gc.freeze()
        # Looking so often as Python does by itself takes a twentieth of the processor's time.
        gc.set_threshold(50_000, 20, 20)
        self._most_waiting = max(count - _COMPUTING, 1)
        try:
            for _ in range(min(count, len(self._computing) + len(self._waiting))):
                self._start()
            while self._workers:
                for ready in wait([worker.pipe for worker in self._workers]):
                    self._hear(next(one for one in self._workers if one.pipe is ready))
        except BaseException:
            for worker in self._workers:
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGTERM)
            raise

    def _start(self) -> None:
        ours, theirs = Pipe()
        self._started += 1
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for other in self._workers:
                other.pipe.close()
            _work(self._session, theirs, self._started)
        theirs.close()
        self._workers.append(_Worker(pid, ours, Node(self._started)))

    def _hear(self, worker: _Worker) -> None:
        """Take one message of a process, or note its end."""
        try:
            kind, content = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._bury(worker)
            return
        if kind == "group":
            worker.pipe.send(self._hand_out(worker))
        elif kind == "report":
            report = self._config.hook.pytest_report_from_serializable(
                config=self._config, data=content
            )
            self._show(report, worker)
        elif kind == "finished":
            item = self._session.items[worker.waiting.popleft()]
            self._config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _hand_out(self, worker: _Worker) -> list[int]:
        if not self._goes_on():
            return []
        idle = sum(one.is_idle for one in self._workers if one is not worker)
        may_wait = bool(self._waiting) and idle < self._most_waiting
        worker.is_idle = may_wait or not self._computing
        group = (self._waiting if worker.is_idle else self._computing).popleft()
        worker.waiting.extend(group)
        return group

    def _goes_on(self) -> bool:
        is_over = self._session.shouldfail or self._session.shouldstop
        return bool(self._computing or self._waiting) and not is_over

    def _show(self, report: Any, worker: _Worker) -> None:
        report.node = worker.node
        self._config.hook.pytest_runtest_logreport(report=report)

    def _bury(self, worker: _Worker) -> None:
        """Fail the test that a dead process ran, and let another one run those behind it."""
        self._workers.remove(worker)
        worker.pipe.close()
        status = os.waitpid(worker.pid, 0)[1]
        if not worker.waiting and status:
            raise RuntimeError(f"a process of tests ended ({_end_of(status)}) between tests.")
        if not worker.waiting:
            if self._goes_on():
                self._start()  # it ended after its group, or before it asked for one
            return
        item = self._session.items[worker.waiting.popleft()]
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=f"the process that ran this test ended ({_end_of(status)}).",
            when="call",
        )
        self._show(report, worker)
        if worker.waiting:
            self._computing.append(list(worker.waiting))
        if self._goes_on():
            self._start()


class _Reporting:
    """A plugin of the forked process: send reports to the one that collected."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config, self._pipe = config, pipe

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", data))


def _work(session: pytest.Session, pipe: Connection, number: int) -> NoReturn:
    """Run groups of tests until there are none left, then end this process."""
    status = 1
    try:
        _be_a_process_of_its_own(session.config, number)
        session.config.pluginmanager.register(_Reporting(session.config, pipe))
        group = _ask(pipe)
        while group:
            group = _run_group(session, group, pipe)
        status = 0
    except KeyboardInterrupt:
        status = 130
    finally:
        running = Coverage.current()
        if running is not None:
            running.stop()
            running.save()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run_group(session: pytest.Session, group: Sequence[int], pipe: Connection) -> list[int]:
    """Run one group and return the next, asked for early: it decides what is torn down."""
    following: list[int] = []
    for place, number in enumerate(group):
        item = session.items[number]
        if place + 1 < len(group):
            after: pytest.Item | None = session.items[group[place + 1]]
        else:
            following = [] if runs_alone(item.path, _ROOT) else _ask(pipe)
            after = session.items[following[0]] if following else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        pipe.send(("finished", None))
    return following


def _ask(pipe: Connection) -> list[int]:
    pipe.send(("group", None))
    answer: list[int] = pipe.recv()
    return answer


def _be_a_process_of_its_own(config: pytest.Config, number: int) -> None:
    """Share no terminal, no captured output, no temporary folder and no clearing up."""
    manager = config.pluginmanager
    terminal = manager.getplugin("terminalreporter")
    if terminal is not None:
        manager.unregister(terminal)
    capturing = manager.getplugin("capturemanager")
    if capturing is not None:
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
    folders: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._given_basetemp = Path(folders.getbasetemp(), f"worker-{number}")
    folders._basetemp = None
    for kept in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        kept.atexit = False


def _groups(items: Sequence[pytest.Item]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the places of tests by group, as they should begin: that compute, and that wait."""
    found: dict[tuple[int, str], list[int]] = {}
    for place, item in enumerate(items):
        found.setdefault(group_of(item.path, _ROOT), []).append(place)
    groups = [found[key] for key in sorted(found)]
    idle = [group for group in groups if waits(items[group[0]].path, _ROOT)]
    return [group for group in groups if group not in idle], idle


def _end_of(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"exit status {os.WEXITSTATUS(status)}"
