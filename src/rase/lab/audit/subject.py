"""What is audited, and how: two inputs, many samples of each, a claim, and a lower bound."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rase.kernels.words import Random, SecureRandom, SeededRandom
from rase.lab.audit.bounds import Counts, chosen_event, departure_bound, loss_bound

__all__ = [
    "CONFIDENCE",
    "AnySubject",
    "Cells",
    "Finding",
    "LawSubject",
    "ProvenSubject",
    "ReportProgress",
    "Subject",
    "audit_claims",
]

Cells = NDArray[np.int64]
ReportProgress = Callable[[str, float], None]
"""Called with the name of the subject, and which share of all samples is drawn."""

# That no bound of a whole audit is above the true loss.
CONFIDENCE: Final = 1 - 1e-6

_AT_ONCE = 1 << 16
_LEAST = 100
# A pilot below this many samples chooses poorly, whatever share of the whole it is.
_LEAST_PILOT = 100_000
_PILOT_SHARE = 10


@dataclass(frozen=True, slots=True)
class Subject:
    """The claim that two inputs cannot be distinguished better than e^claim.

    Args:
        name: What it is called in tables.
        kind: What is claimed of: "report", "certificate", "device", "pair", "order" or "channel".
        inputs: The two inputs, in words.
        claim: The epsilon (for orders: alpha) that is claimed.
        cells: How many outcomes are told apart.
        draw: Draws outcomes: for the second input rather than the first, how many, and from which
            source. Outcomes are numbers from 0 to ``cells`` - 1.
        delta: The delta that is claimed with epsilon.
        share: Which share of the samples asked for is drawn, where each is slow.

    Raises:
        ValueError: If ``claim`` or ``delta`` is negative, ``cells`` below 2, or ``share`` not in
            (0, 1].
    """

    name: str
    kind: str
    inputs: str
    claim: float
    cells: int
    draw: Callable[[bool, int, Random], Cells] = field(repr=False)
    delta: float = 0.0
    share: float = 1.0

    def __post_init__(self) -> None:
        """Check the numbers once."""
        for name, is_met, condition in (
            ("claim", self.claim >= 0, "0 or more"),
            ("delta", 0 <= self.delta < 1, "0 or more and below 1"),
            ("cells", self.cells >= 2, "at least 2"),
            ("share", 0 < self.share <= 1, "above 0 and at most 1"),
        ):
            if not is_met:
                raise ValueError(f"{name} must be {condition}, got {getattr(self, name)}.")

    def samples_of(self, samples: int) -> int:
        """Return how many samples of each input are counted when so many are asked for."""
        return max(int(samples * self.share), _LEAST)

    def pilot_of(self, samples: int) -> int:
        """Return how many samples of each input choose the event, before any is counted."""
        counted = self.samples_of(samples)
        return min(counted, max(counted // _PILOT_SHARE, _LEAST_PILOT))

    def draws_of(self, samples: int) -> int:
        """Return how many samples are drawn in all."""
        return 2 * (self.samples_of(samples) + self.pilot_of(samples))


@dataclass(frozen=True, slots=True)
class LawSubject:
    """The claim that a number is drawn by a law that is known exactly.

    What is bounded from below is how much likelier an event is than the law says; the claim is 0.
    Events are the tails of the law at fixed levels, so no pilot is needed.

    Args:
        name: What it is called in tables.
        inputs: Which number, in words.
        law: How likely each value 0, 1, 2, ... is.
        draw: Draws so many of the numbers from a source.
        share: Which share of the samples asked for is drawn, where each is slow.

    Raises:
        ValueError: If ``law`` is not a distribution, or ``share`` not in (0, 1].
    """

    name: str
    inputs: str
    law: NDArray[np.float64] = field(repr=False)
    draw: Callable[[int, Random], Cells] = field(repr=False)
    share: float = 1.0

    kind: ClassVar[str] = "law"
    claim: ClassVar[float] = 0.0
    delta: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Check the numbers once."""
        if not (self.law.min() >= 0 and abs(self.law.sum() - 1) < 1e-9):
            raise ValueError("law must hold probabilities that add up to 1.")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share}.")

    def samples_of(self, samples: int) -> int:
        """Return how many samples are counted when so many are asked for."""
        return max(int(samples * self.share), _LEAST)

    def draws_of(self, samples: int) -> int:
        """Return how many samples are drawn in all."""
        return self.samples_of(samples)


@dataclass(frozen=True, slots=True)
class ProvenSubject:
    """A claim that is compared with a number by computation, without samples.

    Args:
        name: What it is called in tables.
        inputs: The two inputs, in words.
        claim: The epsilon that is claimed, or for a "recount" the number that is stated.
        delta: The delta that is claimed with it.
        bound: Computes what the claim must be at least: an epsilon that an observer achieves at
            this delta, or for a "recount" what the theorem gives.
        kind: "promise" or "recount".
    """

    name: str
    inputs: str
    claim: float
    delta: float
    bound: Callable[[], float] = field(repr=False)
    kind: str = "promise"

    share: ClassVar[float] = 1.0

    def samples_of(self, _samples: int, /) -> int:
        """Return that none of so many samples is drawn."""
        return 0

    def draws_of(self, _samples: int, /) -> int:
        """Return that nothing is drawn."""
        return 0


AnySubject: TypeAlias = Subject | LawSubject | ProvenSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of the audit of one claim.

    Args:
        name: The subject's.
        kind: What is claimed of.
        inputs: The two inputs, in words.
        claim: The epsilon that is claimed.
        delta: The delta that goes with it.
        lower_bound: The loss is at least this, at the confidence of the whole audit; 0 where the
            samples prove nothing.
        samples: How many samples of each input were counted.
        seconds: How long it took.
    """

    name: str
    kind: str
    inputs: str
    claim: float
    delta: float
    lower_bound: float
    samples: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the claim holds: the lower bound is not above it."""
        return self.lower_bound <= self.claim

    def as_row(self) -> dict[str, Any]:
        """Return plain values by name."""
        return {**asdict(self), "holds": self.holds}


def audit_claims(
    subjects: Sequence[AnySubject],
    *,
    samples: int,
    rng: Random | None = None,
    confidence: float = CONFIDENCE,
    report_progress: ReportProgress | None = None,
) -> list[Finding]:
    """Audit claims at one simultaneous confidence.

    Each of the four bounds of a subject (two probabilities, two directions) may be wrong with an
    equal share of ``1 - confidence`` (Bonferroni), so that with probability ``confidence`` no bound
    of the whole audit is above the true loss, and no true claim is called broken.

    Args:
        subjects: What to audit.
        samples: How many samples of each input are counted.
        rng: None for secure randomness, as in production; a `SeededRandom` for study.
        confidence: Of all bounds together.
        report_progress: Called after each piece of work.

    Returns:
        One finding for each subject, in sequence.

    Raises:
        ValueError: If ``samples`` is below 100, ``confidence`` not between 0 and 1, or there is
            no subject.
    """
    if not subjects:
        raise ValueError("subjects must hold at least one claim, got none.")
    if samples < _LEAST:
        raise ValueError(f"samples must be at least {_LEAST}, got {samples}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}.")
    error = (1 - confidence) / (4 * len(subjects))
    work = _Work(subjects, samples, report_progress)
    return [_finding(subject, samples, error, _source(rng, subject), work) for subject in subjects]


def _finding(
    subject: AnySubject, samples: int, error: float, rng: Random, work: "_Work"
) -> Finding:
    begin = time.perf_counter()
    trials = subject.samples_of(samples)
    if isinstance(subject, ProvenSubject):
        lower_bound = subject.bound()
    elif isinstance(subject, LawSubject):
        counts = _counts(
            lambda size: subject.draw(size, rng), subject, trials, work, cells=subject.law.size
        )
        # One number instead of two inputs and two directions: it may err as often as all four.
        lower_bound = departure_bound(counts, subject.law, error=4 * error)
    else:
        lower_bound = _loss(subject, samples, error, rng, work)
    return Finding(
        name=subject.name,
        kind=subject.kind,
        inputs=subject.inputs,
        claim=subject.claim,
        delta=subject.delta,
        lower_bound=lower_bound,
        samples=trials,
        seconds=time.perf_counter() - begin,
    )


def _loss(subject: Subject, samples: int, error: float, rng: Random, work: "_Work") -> float:
    """Return a lower bound on how well two inputs can be distinguished."""
    trials = subject.samples_of(samples)

    def count_events(count: int) -> tuple[Counts, Counts]:
        def of(is_second: bool) -> Counts:
            return _counts(
                lambda size: subject.draw(is_second, size, rng),
                subject,
                count,
                work,
                cells=subject.cells,
            )

        return of(is_second=False), of(is_second=True)

    pilot = count_events(subject.pilot_of(samples))
    events = [
        chosen_event(one, other, trials=trials, delta=subject.delta, error=error)
        for one, other in (pilot, pilot[::-1])
    ]
    # Fresh samples: what chose the event must not judge it.
    fresh = count_events(trials)
    bounds = [
        loss_bound(
            int(one[event].sum()), int(other[event].sum()), trials, delta=subject.delta, error=error
        )
        for (one, other), event in zip((fresh, fresh[::-1]), events, strict=True)
    ]
    return max(*bounds, 0.0)


def _counts(
    draw: Callable[[int], Cells],
    subject: Subject | LawSubject,
    count: int,
    work: "_Work",
    *,
    cells: int,
) -> Counts:
    total = np.zeros(cells, dtype=np.int64)
    for start in range(0, count, _AT_ONCE):
        size = min(_AT_ONCE, count - start)
        total += np.bincount(draw(size), minlength=cells)
        work.add_work(subject, size)
    return total


def _source(rng: Random | None, subject: AnySubject) -> Random:
    """Return a separate source for each subject, so that leaving one out does not change others."""
    if isinstance(rng, SeededRandom):
        return rng.child(subject.name)
    return SecureRandom() if rng is None else rng


class _Work:
    """Report the progress of the sampling."""

    def __init__(
        self,
        subjects: Sequence[AnySubject],
        samples: int,
        report_progress: ReportProgress | None,
    ) -> None:
        self._total = sum(one.draws_of(samples) / one.share for one in subjects)
        self._done = 0.0
        self._report_progress = report_progress

    def add_work(self, subject: Subject | LawSubject, size: int) -> None:
        # A slow sample counts as so many quick ones.
        self._done += size / subject.share
        if self._report_progress is not None:
            self._report_progress(subject.name, self._done / self._total)
