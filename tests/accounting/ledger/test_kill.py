"""The ledger under kill -9, under two processes at once, and on a disk that is really full.

The tests start this file as a program that forks children, so that every death is a real one.
"""

import ctypes
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S
from tests.promising import claims_of
from tests.spending import spend

from rase.accounting.ledger import (
    CampaignLimits,
    Ledger,
    LedgerUnusable,
    OwnerLimits,
    create_ledger,
)
from rase.errors import BudgetSpent

# Room for three of every four rounds by what they spend, and for six of ten by what they give away
# to the fusion centre, so that refusals happen all the time and for either reason.
OWNER = OwnerLimits(
    report_epsilon=1,
    span_epsilon=1000,
    total_epsilon=10_000,
    span_s=36_000,
    span_shuffled_epsilon=0.6,
)
LIMITS = CampaignLimits("power", 3600, window=4, window_epsilon=1.0)
CLAIMS = claims_of(*(0.1 * count for count in range(1, 9)), local=0.3)
EPSILON = 0.3
NANO = 300_000_000
# Processes that are killed must not be measured: they would leave torn coverage files.
QUIET = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}

ROOT = Path(__file__).parents[3]
PROGRAM = [sys.executable, "-m", "tests.accounting.ledger.test_kill"]

# A killed process leaves the same files on any disk; only a power cut would not.
MEMORY = Path("/dev/shm")  # noqa: S108 - each death gets a folder of its own in it

_TRACE_ME, _SYSCALL, _SET_OPTIONS, _EXIT_KILL = 0, 24, 0x4200, 0x100000


def test_kills_at_random_moments(tmp_path: Path) -> None:
    """Sixty kills of a reporting process: what was sent is stored, nothing is spent twice."""
    found = run("random", tmp_path, 60)
    assert found["kills"] == 60
    assert found["sent"] > 10
    assert found["refused"] > 0


@pytest.mark.slow
def test_many_kills_at_random_moments(tmp_path: Path) -> None:
    """Five hundred kills of the same kind."""
    assert run("random", tmp_path, 500)["kills"] == 500


@pytest.mark.skipif(sys.platform != "linux", reason="system calls are counted with Linux's ptrace")
def test_kills_at_every_system_call(tmp_path: Path) -> None:
    """Killed at each call to the kernel, a report is there whole or not at all; recovery, too."""
    found = run("stepped", tmp_path, 0)
    assert found["absent"] > 10
    assert found["present"] > 0
    # Some deaths leave a journal that the next opening must play back; it dies at each step, too.
    assert found["hot"] > 3
    assert found["recoveries"] > 20


def test_processes_at_once(tmp_path: Path) -> None:
    """Four processes report the same rounds: one draws, all get its bytes, windows hold."""
    path = made(tmp_path)
    command = [*PROGRAM, "race", str(path), "24"]
    pipe = subprocess.PIPE
    racers = [
        subprocess.Popen(command, text=True, env=QUIET, cwd=ROOT, stdin=pipe, stdout=pipe)
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    answers = []
    # All wait for their input to end; the first to be asked starts with the others at its heels.
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
        racer.stdin = None
    for racer in racers:
        output, _ = racer.communicate(timeout=PATIENCE_S)
        assert racer.returncode == 0
        answers.append(json.loads(output))
    with Ledger(path, OWNER) as ledger:
        stored = {each.round: each.envelope.hex() for each in ledger.unsent()}
        assert ledger.status(0).total_spent == len(stored) * NANO / 10**9
    for round in range(24):
        bytes_got = [answer[str(round)][0] for answer in answers]
        assert set(bytes_got) == {stored.get(round)}
        assert sum(answer[str(round)][1] for answer in answers) == (round in stored)
    check_windows(set(stored))


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A write that the kernel refuses spends nothing, and the ledger stays whole."""
    path = made(tmp_path)
    done = subprocess.run(
        [*PROGRAM, "full", str(path), "0"],
        capture_output=True,
        text=True,
        check=True,
        env=QUIET,
        cwd=ROOT,
    )
    assert done.stdout == "refused\n"
    with Ledger(path, OWNER) as ledger:
        assert ledger.history() == []
        assert spend(ledger, "power", 1, epsilon=EPSILON, draw=b"fits").found is None


def run(mode: str, folder: Path, count: int) -> dict[str, int]:
    """Run this file as a program and return its findings."""
    done = subprocess.run(
        [*PROGRAM, mode, str(made(folder)), str(count)],
        capture_output=True,
        text=True,
        check=False,
        env=QUIET,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def made(folder: Path) -> Path:
    """Make a ledger that has joined the campaign."""
    path = folder / "ledger.db"
    create_ledger(path)
    with Ledger(path, OWNER) as ledger:
        ledger.join(LIMITS)
    return path


def check_windows(rounds: set[int]) -> None:
    """Look at every window and span."""
    for begin in range(min(rounds, default=0) - 9, max(rounds, default=0) + 1):
        held = len(rounds & set(range(begin, begin + LIMITS.window)))
        assert held * NANO <= LIMITS.window_nano
        day = len(rounds & set(range(begin, begin + 10)))
        assert day == 0 or CLAIMS[day - 1].epsilon <= 0.6


def kill_at_random(path: Path, count: int) -> dict[str, int]:
    """Kill a process that reports round after round, again and again.

    It dies some lines after it began, and a moment later: how far it gets in that moment depends on
    the machine, what it has told before does not.
    """
    sent: dict[int, str] = {}
    refused: set[int] = set()
    first = 0
    for kill in range(count):
        reader, writer = os.pipe()
        child = fork(partial(report_for_ever, path, first, writer=writer))
        os.close(writer)
        # 1 to 8 lines and 0 to 65 ms, different each time and the same in every run.
        digest = hashlib.sha256(str(kill).encode()).digest()
        with os.fdopen(reader, "rb") as pipe:
            told = b"".join(pipe.readline() for _ in range(1 + digest[1] % 8))
            threading.Event().wait(digest[0] / 4000)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lines = (told + pipe.read()).decode().split("\n")[:-1]
        for line in lines:
            number, envelope = line.split(" ")
            if envelope == "refused":
                refused.add(int(number))
            else:
                assert sent.setdefault(int(number), envelope) == envelope
        with Ledger(path, OWNER) as ledger:
            stored = {each.round: each.envelope.hex() for each in ledger.unsent()}
            assert ledger.status(0).total_spent == len(stored) * NANO / 10**9
        assert sent.items() <= stored.items()
        assert len(stored) <= len(sent) + kill + 1
        assert not refused & set(stored)
        check_windows(set(stored))
        # The clock goes back by a few rounds, into what was reported before.
        first = max(max(stored, default=0) - 3, 0)
    return {"kills": count, "sent": len(sent), "refused": len(refused)}


def report_for_ever(path: Path, begin: int, *, writer: int) -> None:
    """Report rounds until killed, telling each envelope only after it was stored."""
    with Ledger(path, OWNER) as ledger:
        for round in range(begin, begin + 10_000):
            os.write(writer, f"{round} {report(ledger, round)[0] or 'refused'}\n".encode())


def report(ledger: Ledger, round: int) -> tuple[str | None, bool]:
    """Report one round; return the envelope, None if refused, and whether it is new."""
    try:
        spending = spend(
            ledger,
            "power",
            round,
            epsilon=EPSILON,
            draw=lambda: os.urandom(143),
            claims=CLAIMS,
        )
    except BudgetSpent:
        return None, False
    return spending.stored_report.envelope.hex(), spending.found is None


def kill_at_each_step(path: Path) -> dict[str, int]:
    """Kill a report at its first system call, its second, and so on until it gets through."""
    found = {"absent": 0, "present": 0, "hot": 0, "recoveries": 0}
    with Ledger(path, OWNER) as ledger:
        report(ledger, 0)
    hot = path.parent / "hot"
    # The kernel stops a child when it enters a call and when it leaves: every second stop will do.
    for step in range(1, 10_000, 2):
        grave = fresh_copy(path.parent, "grave")
        has_ended = killed_after(step, grave, is_open=True)
        if (grave / "ledger.db-journal").exists():
            found["hot"] += 1
            # The latest death with a journal: pages may be half written.
            shutil.rmtree(hot, ignore_errors=True)
            shutil.copytree(grave, hot)
        found["present" if check_grave(grave) else "absent"] += 1
        if has_ended:
            break
    for step in range(1, 10_000, 2):
        grave = fresh_copy(hot, "recovery")
        has_ended = killed_after(step, grave, is_open=False)
        check_grave(grave)
        found["recoveries"] += 1
        if has_ended:
            break
    return found


def fresh_copy(folder: Path, name: str) -> Path:
    """Copy the ledger's files into a new folder, in memory where there is such a disk."""
    grave = Path(tempfile.mkdtemp(prefix=name, dir=MEMORY if MEMORY.is_dir() else None))
    for file in folder.glob("ledger.db*"):
        shutil.copy(file, grave)
    return grave


def check_grave(grave: Path) -> bool:
    """Open what a death left; return whether the report of round 1 is there."""
    with Ledger(grave / "ledger.db", OWNER) as ledger:
        before = {each.round: each.envelope for each in ledger.unsent()}
        assert set(before) in ({0}, {0, 1})
        assert ledger.status(0).total_spent == len(before) * NANO / 10**9
        again = spend(ledger, "power", 1, epsilon=EPSILON, draw=b"drawn again", claims=CLAIMS)
        assert again.stored_report.envelope == before.get(1, b"drawn again")
        assert ledger.status(0).reports == 2
    shutil.rmtree(grave)
    return 1 in before


def killed_after(step: int, folder: Path, *, is_open: bool) -> bool:
    """Kill a child at a system call of its report; return whether it was through before."""
    libc = ctypes.CDLL(None, use_errno=True)

    def live() -> None:
        ledger = Ledger(folder / "ledger.db", OWNER) if is_open else None
        assert libc.ptrace(_TRACE_ME, 0, None, None) == 0
        os.kill(os.getpid(), signal.SIGSTOP)
        report(ledger or Ledger(folder / "ledger.db", OWNER), 1)

    child = fork(live)
    os.waitpid(child, 0)
    assert libc.ptrace(_SET_OPTIONS, child, None, ctypes.c_void_p(_EXIT_KILL)) == 0
    for _ in range(step):
        assert libc.ptrace(_SYSCALL, child, None, None) == 0
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            return True
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def fork(live: Callable[[], None]) -> int:
    """Start a child that does something and ends; return its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            live()
            code = 0
        finally:
            os._exit(code)
    return child


def race(path: Path, count: int) -> dict[int, tuple[str | None, bool]]:
    """Report some rounds against others who do the same."""
    with Ledger(path, OWNER, busy_s=PATIENCE_S) as ledger:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        return {round: report(ledger, round) for round in range(count)}


def fill(path: Path) -> str:
    """Report more than the kernel lets this process write."""
    with Ledger(path, OWNER) as ledger:
        size = path.stat().st_size + 8192
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            spend(ledger, "power", 1, epsilon=EPSILON, draw=bytes(10**6))
        except LedgerUnusable:
            return "refused"
    return "accepted"


if __name__ == "__main__":
    place, amount = Path(sys.argv[2]), int(sys.argv[3])
    match sys.argv[1]:
        case "random":
            answer = json.dumps(kill_at_random(place, amount))
        case "stepped":
            answer = json.dumps(kill_at_each_step(place))
        case "race":
            answer = json.dumps(race(place, amount))
        case _:
            answer = fill(place)
    sys.stdout.write(f"{answer}\n")
