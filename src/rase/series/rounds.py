"""Results of rounds: what each says, and a list of them that shows itself in a notebook."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, SupportsIndex, overload

from rase.answer import rounded_alike
from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.counts.moments import moments_of
from rase.counts.registry import TRACKED, Estimator
from rase.counts.shares import METHOD as SHARES
from rase.kernels.words import Random, Resampling
from rase.laws.randomizer import RangeRandomizer
from rase.series.notebook import axes_for, frame_of, table_html
from rase.series.smoother import smooth_record
from rase.series.tracker import Tracker
from rase.shuffle.release import Manifest

__all__ = ["Record", "RoundEstimates", "RoundResult", "Rounds", "estimate_round"]

# A notebook shows so many rows of a long table: some of the first, some of the last.
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What is known of a round at the end: estimates, and what the shuffler did.

    Args:
        n: How many contributors reported.
        estimates: By the name of the estimator.
        manifest: What the shuffler did, and what it promises.
        round: The round's number; None for readings without a time.
        start_ms: When it began, in milliseconds since 1970; None likewise.
        truth: The mean of the readings themselves; only in studies of data one holds anyway.
        alone: The mean of this round by itself, where it or ``tracked`` was asked for: long windows
            of ``tracked`` average it, because the errors of tracked rounds go together. None
            otherwise.
        spread: The variance of the readings, estimated from the reports, for a tracker; None if
            they do not reveal it, or nobody asked.
        window: What ``tracked`` says of the mean over the window that ends with this round, by the
            joint law of its rounds; None where no window was asked for, or it says nothing.
        label: Which part of the fleet it is about; None for all.
        known_then: What ``tracked`` said when the round came, where later rounds helped since; None
            where it still says so.
    """

    n: int
    estimates: Mapping[str, Estimate]
    manifest: Manifest
    round: int | None = None
    start_ms: int | None = None
    truth: float | None = None
    alone: Estimate | None = None
    spread: float | None = None
    window: Estimate | None = None
    label: str | None = None
    known_then: Estimate | None = None

    @property
    def estimate(self) -> Estimate:
        """The first estimator's answer."""
        return next(iter(self.estimates.values()))

    def tracked(self, tracker: Tracker) -> "RoundResult":
        """Return the result with ``tracked`` borrowing from the rounds the tracker has seen.

        Without ``tracked``, a time or a mean of the round it stays as it is.
        """
        if TRACKED not in self.estimates or self.alone is None or self.start_ms is None:
            return self
        followed = tracker.update(self.start_ms / 1000, self.alone, spread=self.spread)
        return self.as_tracked(followed, window=tracker.mean_of_last())

    def as_tracked(
        self, estimate: Estimate, *, window: Estimate | None, known_then: Estimate | None = None
    ) -> "RoundResult":
        """Return the result with what ``tracked`` says; `replace` takes three times as long."""
        return RoundResult(
            self.n,
            {**self.estimates, TRACKED: estimate},
            self.manifest,
            self.round,
            self.start_ms,
            self.truth,
            self.alone,
            self.spread,
            window,
            self.label,
            known_then,
        )

    def as_known_then(self) -> "RoundResult":
        """Return the result as it was known when the round came."""
        if self.known_then is None:
            return self
        estimates = {**self.estimates, TRACKED: self.known_then}
        return replace(self, estimates=estimates, known_then=None)


@dataclass(frozen=True, slots=True)
class RoundEstimates:
    """What the reports of a round say by themselves.

    Args:
        estimates: By the name of the estimator.
        alone: The mean of the round, where it or ``tracked`` was asked for; None otherwise.
        spread: The variance of the readings, for a tracker; None if reports hide it, or nobody
            asked.
    """

    estimates: Mapping[str, Estimate]
    alone: Estimate | None
    spread: float | None


def estimate_round(
    counts: Counts,
    randomizer: RangeRandomizer,
    estimators: Mapping[str, Estimator],
    *,
    rng: Random | Resampling | None = None,
) -> RoundEstimates:
    """Estimate a round from its counts: the same for tables and for live rounds.

    Args:
        counts: The reports.
        randomizer: The mechanism they come from.
        estimators: What is asked for, by name.
        rng: For estimators that resample.

    Raises:
        ValueError: If there are no reports, or they cannot come from ``randomizer``.
    """
    estimates = {
        name: estimator(counts, randomizer=randomizer, rng=rng)
        for name, estimator in estimators.items()
    }
    spread = None
    if TRACKED in estimates:
        spreads = moments_of(counts, randomizer).spread
        spread = None if spreads is None else float(spreads[0])
    alone = estimates.get(TRACKED, estimates.get("unbiased_mean"))
    return RoundEstimates(estimates, alone, spread)


class Record:
    """Follow rounds in the order of time, and look back once all are there.

    Args:
        tracker: Has seen no round yet.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._rounds: list[RoundResult] = []
        # Of those that were followed: the place, and how far it is off by who reported.
        self._places: list[int] = []
        self._sampling: list[float] = []

    def follow(self, results: Sequence[RoundResult]) -> list[RoundResult]:
        """Return the next rounds, each with ``tracked`` borrowing from those before."""
        first = len(self._rounds)
        self._rounds.extend(results)
        places, times, means = [], [], []
        for place, one in enumerate(results, first):
            if TRACKED in one.estimates and one.alone is not None and one.start_ms is not None:
                places.append(place)
                times.append(one.start_ms / 1000)
                means.append(one.alone)
        spreads = [self._rounds[place].spread for place in places]
        said = self._tracker.follow(times, means, spreads=spreads)
        for place, law in zip(places, said, strict=True):
            self._rounds[place] = self._rounds[place].as_tracked(law.estimate, window=law.window)
        self._places += places
        self._sampling += [law.sampling for law in said]
        return self._rounds[len(self._rounds) - len(results) :]

    def look_back(self) -> Iterator[RoundResult]:
        """Yield all rounds, each with the help of all others.

        Estimates that later rounds helped have the method ``smoothed``. Where looking back is not
        better than what was known then, at jumps and spikes, the estimate stays as it is. It costs
        no privacy.
        """
        known = [self._rounds[place] for place in self._places]
        revised = smooth_record(
            [(one.start_ms or 0) / 1000 for one in known],
            [one.alone for one in known if one.alone is not None],
            filtered=[one.estimates[TRACKED] for one in known],
            evidence=self._tracker.evidence,
            sampling=self._sampling,
        )
        now = dict(zip(self._places, revised, strict=True))
        rounds, self._rounds = self._rounds[::-1], []
        # Each round goes as soon as it was taken: there may be a million.
        for place in range(len(rounds)):
            one = rounds.pop()
            then = one.estimates.get(TRACKED)
            estimate = now.pop(place, then)
            if estimate is None or estimate is then:
                yield one
            else:
                yield one.as_tracked(estimate, window=one.window, known_then=then)


class Rounds(list[RoundResult]):
    """Rounds in the order of time: a list that a notebook shows as a table.

    `rase.run_table` returns one.

    Example:
        >>> from rase import BudgetAware, Precision, Range, RunPlan, SeededRandom, run_table
        >>> br = BudgetAware(2.0, Range(0, 40), Precision(beta=0.5, rho=0.9))
        >>> table = {"time": [0, 0, 60, 60], "device": ["a", "b"] * 2, "value": [18, 20, 19, 21]}
        >>> rounds = run_table(table, RunPlan(randomizer=br), rng=SeededRandom(1))
        >>> rounds
        Rounds(2 rounds, 1970-01-01 00:00 to 1970-01-01 00:01 UTC)
        >>> list(rounds.to_frame().columns)
        ['time', 'value', 'standard_error', 'low', 'high', 'n', 'method']
    """

    __slots__ = ()

    @overload
    def __getitem__(self, place: SupportsIndex) -> RoundResult: ...

    @overload
    def __getitem__(self, place: slice) -> "Rounds": ...

    def __getitem__(self, place: SupportsIndex | slice) -> "RoundResult | Rounds":
        if isinstance(place, slice):
            return Rounds(super().__getitem__(place))
        return super().__getitem__(place)

    def __repr__(self) -> str:
        if not self or self[0].start_ms is None:
            return f"Rounds({self._count})"
        return f"Rounds({self._count}, {_when(self[0])} to {_when(self[-1])} UTC)"

    def as_known_then(self) -> "Rounds":
        """Return each round as it was known when it came, without the help of later ones."""
        return Rounds(one.as_known_then() for one in self)

    def to_frame(self) -> Any:
        """Return a pandas data frame, one round a row; ``truth`` only where it is known.

        Shares have a row for each round and ``category``.

        Raises:
            DataError: If pandas is not installed.
        """
        if any(result.estimate.method == SHARES for result in self):
            return self._shares_frame()
        ends = [result.estimate.interval() for result in self]
        columns: dict[str, list[Any]] = {
            "time": self._times(),
            "value": [result.estimate.value for result in self],
            "standard_error": [result.estimate.standard_error for result in self],
            "low": [low for low, _ in ends],
            "high": [high for _, high in ends],
            "n": [result.n for result in self],
            "method": [result.estimate.method for result in self],
        }
        if any(result.truth is not None for result in self):
            columns["truth"] = [result.truth for result in self]
        return frame_of(columns | self._labels(self))

    def _shares_frame(self) -> Any:
        rows = [
            (time, name, share)
            for time, result in zip(self._times(), self, strict=True)
            for name, share in result.estimates.items()
        ]
        ends = [share.interval() for _, _, share in rows]
        return frame_of(
            {
                "time": [time for time, _, _ in rows],
                **self._labels([one for one in self for _ in one.estimates]),
                "category": [name for _, name, _ in rows],
                "value": [share.value for _, _, share in rows],
                "standard_error": [share.standard_error for _, _, share in rows],
                "low": [low for low, _ in ends],
                "high": [high for _, high in ends],
                "n": [share.n for _, _, share in rows],
                "method": [share.method for _, _, share in rows],
            }
        )

    def _labels(self, results: list[RoundResult]) -> dict[str, list[Any]]:
        is_labelled = any(one.label is not None for one in self)
        return {"label": [one.label for one in results]} if is_labelled else {}

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimates with their 95 % intervals, and the truth where it is known.

        Args:
            ax: Where to draw; None makes a figure.

        Returns:
            The axes.

        Raises:
            DataError: If a figure is wanted and matplotlib is not installed.
        """
        axes = axes_for(ax)
        times = self._times()
        ends = [result.estimate.interval() for result in self]
        lows, highs = [low for low, _ in ends], [high for _, high in ends]
        axes.fill_between(times, lows, highs, alpha=0.2, linewidth=0, label="95 % interval")
        axes.plot(times, [result.estimate.value for result in self], label="estimate")
        if any(result.truth is not None for result in self):
            axes.plot(times, [result.truth for result in self], "k:", label="truth")
        axes.set_xlabel("round" if self and self[0].start_ms is None else "start of the round, UTC")
        axes.legend()
        return axes

    @property
    def _count(self) -> str:
        return f"{len(self):,} round{'' if len(self) == 1 else 's'}"

    def _times(self) -> list[Any]:
        return [
            place if result.start_ms is None else _time(result.start_ms)
            for place, result in enumerate(self)
        ]

    def _repr_html_(self) -> str:
        shown = list(self)
        if len(self) > _SHOWN:
            shown = [*self[: _SHOWN // 2], *self[-_SHOWN // 2 :]]
        rows = [[_when(one), *_cells(one.estimate), f"{one.n:,}"] for one in shown]
        if len(self) > _SHOWN:
            rows.insert(_SHOWN // 2, ["…"] * 5)
        method = self[0].estimate.method if self else "no estimate"
        return table_html(
            ["round (UTC)", "estimate", "± error", "95 % interval", "n"],
            rows,
            caption=f"{self._count}, {method}",
        )


def _cells(estimate: Estimate) -> list[str]:
    error = estimate.standard_error
    if error == float("inf"):
        return [f"{estimate.value:.4g}", "unknown", "unknown"]
    value, shown, low, high = rounded_alike(
        estimate.value, error, *estimate.interval(), error=error
    )
    return [value, shown, f"{low} to {high}"]


def _when(result: RoundResult) -> str:
    return "" if result.start_ms is None else f"{_time(result.start_ms):%Y-%m-%d %H:%M}"


def _time(start_ms: int) -> datetime:
    return datetime.fromtimestamp(start_ms / 1000, tz=UTC)
