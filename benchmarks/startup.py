"""How long does it take to import rase, and to be told what the command can do?"""

import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Row, Target, taken_in_turn

__all__ = ["rows"]

BARE = [sys.executable, "-c", "pass"]


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare both with a bare interpreter."""
    cases = (
        ("import rase", [sys.executable, "-c", "import rase"], 3.0),
        ("rase --help", [sys.executable, "-m", "rase", "--help"], 8.0),
    )
    for what, command, limit in cases:
        timed = taken_in_turn(
            partial(_run, command),
            partial(_run, BARE),
            repeats=3 if quick else 25,
            clock=_children_s,
        )
        yield Row(
            what=what,
            against="bare interpreter",
            size="1 process",
            ratio=timed.ratio,
            means="its CPU time / that of python -c pass",
            target=Target("at most", limit),
            ours_s=timed.ours_s,
            theirs_s=timed.theirs_s,
            repeats=timed.repeats,
        )


def _run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
