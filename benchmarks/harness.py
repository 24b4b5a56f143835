"""What all benchmarks share: times taken in turn in one process, and rows that know their target.

A benchmark is a file of this folder with a function ``rows(*, quick)`` that yields a `Row` for each
ratio it measured; the first line of its docstring is the question it answers. ``quick`` asks for
smaller sizes and fewer repetitions, to see that it runs. A peer that is not installed is left out
by `peer`, and the run says so.
"""

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

__all__ = ["PeerMissing", "Row", "Target", "Timed", "peer", "repeated", "taken_in_turn", "versions"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a ratio must reach: at most or at least a limit.

    Example:
        >>> Target("at most", 0.4).is_met(0.35)
        True
    """

    sense: str
    limit: float

    def __post_init__(self) -> None:
        """Refuse a sense that is neither."""
        if self.sense not in ("at most", "at least"):
            raise ValueError(f"sense must be 'at most' or 'at least', got {self.sense!r}.")

    def is_met(self, ratio: float) -> bool:
        """Tell whether the ratio reaches the limit."""
        return ratio <= self.limit if self.sense == "at most" else ratio >= self.limit


@dataclass(frozen=True, slots=True)
class Row:
    """One ratio, and everything needed to read it.

    Attributes:
        what: What we do, e.g. "certified clamped Laplace, C kernel".
        against: The peer or limit by name, e.g. "numpy Generator.laplace (unsafe)".
        size: How much work, e.g. "1e6 reports".
        ratio: The figure.
        means: How it was divided, e.g. "our time / its time".
        target: What it should reach; none where the row only informs.
        ours_s: Our time in seconds, where the ratio is one of times.
        theirs_s: The peer's.
        repeats: How often both were measured; the best of each counts.
        packages: Names and versions of what was measured.
        note: Why a target is missed, or what to know when reading the figure.
    """

    what: str
    against: str
    size: str
    ratio: float
    means: str = "our time / its time"
    target: Target | None = None
    ours_s: float | None = None
    theirs_s: float | None = None
    repeats: int = 1
    packages: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Timed:
    """Best times of two ways of doing the same, taken in turn."""

    ours_s: float
    theirs_s: float
    repeats: int

    @property
    def ratio(self) -> float:
        """Our time divided by the peer's."""
        return self.ours_s / self.theirs_s

    @property
    def speedup(self) -> float:
        """The peer's time divided by ours."""
        return self.theirs_s / self.ours_s


class PeerMissing(Exception):
    """A peer is not installed here; the rows that need it are left out."""


def taken_in_turn(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    repeats: int = 9,
    clock: Callable[[], float] = time.process_time,
) -> Timed:
    """Run both in turn and keep the best time of each.

    CPU time is the default, so that other work on the machine counts little; both are run once
    before, so that neither pays for a first time.
    """
    ours()
    theirs()
    best_ours = best_theirs = float("inf")
    for _ in range(repeats):
        best_ours = min(best_ours, _seconds(ours, clock))
        best_theirs = min(best_theirs, _seconds(theirs, clock))
    return Timed(best_ours, best_theirs, repeats)


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def repeated(work: Callable[[], object], times: int) -> None:
    """Do the same several times, where once is too short to be timed."""
    for _ in range(times):
        work()


def peer(module: str) -> ModuleType:
    """Import a peer, or raise PeerMissing by its name."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PeerMissing(f"{module} is not installed here: run make bench") from error


def versions(*packages: str) -> tuple[str, ...]:
    """Return name and version of the packages that are installed."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return tuple(found)
