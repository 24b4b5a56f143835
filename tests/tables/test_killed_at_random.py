"""Killed by kill -9 at any moment, a run on one machine is resumed as if nothing had been."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.patience import PATIENCE_S
from tests.tables.tables import skewed, sorted_by, write_parts

from rase.tables.release_log import PartResult

# A run in a process of its own, which writes a byte for everything that its code calls:
# reading, drawing, spilling, and every step of writing the log.
RUN = """
import os, sys, threading
from rase import SeededRandom
from pathlib import Path
from rase.tables import parts, run as runs
from tests.tables.test_release_log import PLAN
parts._USUAL_ROWS = runs.FEWEST_ROWS = runs._ONE_PART_ROWS = 150
place, work, seed, pipe = sys.argv[1:]

def tell(frame, event, argument):
    if frame.f_globals.get("__name__", "").startswith("rase.tables"):
        os.write(int(pipe), b".")

threading.setprofile(tell)
sys.setprofile(tell)
rng = SeededRandom(int(seed)) if seed else None
done = runs.run(place, PLAN, rng=rng, workers=2, work=Path(work))
lines = [str(result) for result in done]
sys.setprofile(None)
print(*lines, done.summary, sep="\\n")
"""


def ran(place: Path, work: Path, seed: str, *, moment: int | None) -> tuple[int, list[str]]:
    """Run, and kill when so many things have been done; return how many were seen, and the lines.

    A run that was killed has no lines. It goes on while the signal is under way, so that it ends
    at no particular place of its code.
    """
    out, into = os.pipe()
    command = [sys.executable, "-c", RUN, str(place), str(work), seed, str(into)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[into],
        cwd=Path(__file__).parents[2],
    ) as process:
        os.close(into)
        seen = 0
        while (moment is None or seen < moment) and (some := len(os.read(out, 4096))):
            seen += some
        if moment is not None and seen >= moment:
            process.kill()
        lines, _ = process.communicate(timeout=PATIENCE_S)
        os.close(out)
    assert process.returncode in (0, -signal.SIGKILL)
    return seen, lines.splitlines() if process.returncode == 0 else []


def moments(total: int) -> Iterator[int]:
    """Yield moments of a run at random, each as likely as any other."""
    rng = np.random.default_rng(2026)
    while True:
        yield int(rng.integers(1, total))


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A table, how much a run of it does, and the lines of a seeded one."""

    place: Path
    total: int
    lines: list[str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """A run that nobody killed: its counts are those of every other run."""
    folder = tmp_path_factory.mktemp("whole")
    place = write_parts(sorted_by(skewed(rounds=12, crowd=300), "time"), folder / "t", parts=2)
    return Undisturbed(place, *ran(place, folder / "work", "3", moment=None))


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", ["3", ""], ids=["seeded", "production"])
def test_killed_at_random(seed: str, kills: int, whole: Undisturbed, tmp_path: Path) -> None:
    """What was released stays to the last bit, nothing half-written counts, and the end is whole.

    Runs are resumed until they come to their end, and then begun anew, until all kills are spent.
    """
    place, expected = whole.place, whole.lines
    assert len(expected) == 13
    when, killed, attempt = moments(whole.total), 0, 0
    while killed < kills:
        attempt += 1
        work = tmp_path / f"torn-{attempt}"
        released: dict[str, bytes] = {}
        lines: list[str] = []
        while not lines:
            moment = next(when) if killed < kills else None
            _, lines = ran(place, work, seed, moment=moment)
            killed += not lines
            check_released(work, released)
        if seed:
            assert lines == expected
        assert len(lines) == len(expected)
        assert lines[-1] == expected[-1]
        check_shown(released, lines)
    assert killed == kills


def check_released(work: Path, released: dict[str, bytes]) -> None:
    """Check that every part in the log can be read, and is what it was when first seen."""
    for path in work.glob("part*.npz"):
        assert path.read_bytes() == released.setdefault(path.name, path.read_bytes())
        PartResult.from_bytes(path.read_bytes())


def check_shown(released: dict[str, bytes], lines: list[str]) -> None:
    """Check that the results are those of the log."""
    for content in released.values():
        for result in PartResult.from_bytes(content).results:
            assert any(repr(result.alone) in line for line in lines)
