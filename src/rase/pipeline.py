"""Algorithm 3 in one process, without a network: randomize, shuffle, estimate.

The quickstart, the lab and the batch engine call this. In the live system the three steps run on
the device, at the shuffler and at the fusion centre; here they only take the same path.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.clock import parse_duration_s
from rase.collect import Collector, Contributions
from rase.errors import DataError
from rase.estimate.estimate import Estimate
from rase.estimate.mean import Estimator, estimator_named
from rase.estimate.rounds import RoundMeans, unbiased_means
from rase.estimate.tracker import Tracker, spread_of
from rase.kernels.words import Random, source_of
from rase.randomize.budget_aware import BudgetAware
from rase.randomize.protocol import Floats, Randomizer
from rase.shuffle.release import RoundShuffler
from rase.shuffle.shufflers import Manifest, Shuffler, Uniform
from rase.stream import Precision, ValueRange

__all__ = ["Pipeline", "RoundResult", "aggregate"]

# Readings that go through all steps together; their reports stay in the processor's cache.
_READINGS_AT_ONCE = 1 << 18
PAPER_PRECISION = Precision(beta=0.5, rho=0.9)


@dataclass(frozen=True, slots=True)
class RoundResult:
    """Hold what the fusion centre knows of a round: estimates, and what the shuffler did.

    Args:
        n: How many contributors reported.
        estimates: By the name of the estimator.
        manifest: What the shuffler did, and what it promises.
        round: The round's number; None for readings without a time.
        start_ms: When it began, in milliseconds since 1970; None likewise.
        truth: The mean of the readings themselves; only in studies of data one holds anyway.
        alone: The unbiased mean of this round by itself, where it or ``auto`` was asked: windows of
            ``auto`` average it, because the errors of tracked rounds go together. None otherwise.
    """

    n: int
    estimates: Mapping[str, Estimate]
    manifest: Manifest
    round: int | None = None
    start_ms: int | None = None
    truth: float | None = None
    alone: Estimate | None = None

    @property
    def estimate(self) -> Estimate:
        """The first estimator's answer."""
        return next(iter(self.estimates.values()))


class Pipeline:
    """Run readings through randomizer, shuffler and estimator (Algorithm 3).

    Guarantee: each report is epsilon-LDP by its randomizer; each released round has what the
    shuffler's manifest says. Both are tested where they are made; the pipeline adds that every
    reading is randomized once (tests/test_pipeline.py).

    Args:
        randomizer: What each device does.
        shuffler: What stands between devices and fusion centre; `Uniform` unless given.
        estimator: A name, a function, or several of them. ``auto`` follows the mean through the
            rounds of a table (`rase.estimate.tracker`); one round by itself gets its unbiased mean.

    Example:
        >>> from rase import BudgetAware, Pipeline, Precision, SeededRandom, ValueRange
        >>> br = BudgetAware(4.0, ValueRange(0, 100), Precision(beta=0.5, rho=0.9))
        >>> result = Pipeline(br).run_round(range(100), rng=SeededRandom(1))
        >>> low, high = result.estimate.interval(0.95)
        >>> low < 49.5 < high
        True
    """

    def __init__(
        self,
        randomizer: Randomizer,
        shuffler: Shuffler | None = None,
        estimator: str | Estimator | Sequence[str | Estimator] = "auto",
    ) -> None:
        """Look the estimators up by name."""
        self.randomizer = randomizer
        self.shuffler: Shuffler = Uniform() if shuffler is None else shuffler
        self.estimators = _named_estimators(estimator)

    def randomize(
        self,
        readings: ArrayLike,
        *,
        contributors: NDArray[np.int64] | None = None,
        rng: Random | None = None,
    ) -> Floats:
        """Draw the reports of some readings: the devices' step, once for each reading.

        Args:
            readings: The readings.
            contributors: Who measured each, where contributors differ in epsilon.
            rng: None for secure noise; a `SeededRandom` for study.
        """
        if contributors is None or not isinstance(self.randomizer.epsilon, tuple):
            return self.randomizer.randomize(readings, rng=rng)
        budgets = self._budgets(contributors)
        values = np.asarray(readings, dtype=np.float64)
        reports = np.empty(values.shape)
        for budget in np.unique(budgets):
            chosen = budgets == budget
            some = cast(Any, self.randomizer).for_contributors(contributors[chosen])
            reports[chosen] = some.randomize(values[chosen], rng=rng)
        return reports

    def release(
        self,
        reports: ArrayLike,
        *,
        contributors: NDArray[np.int64] | None = None,
        round: int | None = None,
        start_ms: int | None = None,
        truth: float | None = None,
        tracker: Tracker | None = None,
        rng: Random | None = None,
    ) -> RoundResult:
        """Shuffle the reports of one round and estimate: the two servers' steps.

        Where contributors differ in epsilon, each report travels with its budget, as it does on
        the wire; the budget is public, whose it is is not. With a ``tracker``, ``auto`` borrows
        from the rounds it has seen; those need a ``start_ms``.
        """
        source = source_of(rng)
        values = np.asarray(reports, dtype=np.float64)
        budgets: Floats | None = None
        if isinstance(self.randomizer.epsilon, tuple):
            places = np.arange(len(values)) if contributors is None else contributors
            release = self.shuffler.shuffle(
                np.column_stack([values, self._budgets(places)]), rng=source
            )
            shuffled, budgets = release.values[:, 0], release.values[:, 1]
        else:
            release = self.shuffler.shuffle(values, rng=source)
            shuffled = release.values
        estimates = {
            name: estimator(shuffled, randomizer=self.randomizer, epsilon=budgets, rng=source)
            for name, estimator in self.estimators.items()
        }
        alone = estimates.get("auto", estimates.get("unbiased_mean"))
        if "auto" in estimates and alone and tracker is not None and start_ms is not None:
            spread = spread_of(shuffled, randomizer=self.randomizer, epsilon=budgets)
            estimates["auto"] = tracker.update(start_ms / 1000, alone, spread=spread)
        return RoundResult(
            n=len(values),
            estimates=estimates,
            manifest=release.manifest,
            round=round,
            start_ms=start_ms,
            truth=truth,
            alone=alone,
        )

    def run_round(self, readings: ArrayLike, *, rng: Random | None = None) -> RoundResult:
        """Run one round of readings, one for each contributor.

        Args:
            readings: At least one finite reading.
            rng: None for secure randomness; a `SeededRandom` for study.
        """
        source = source_of(rng)
        values = np.asarray(readings, dtype=np.float64)
        if values.ndim != 1 or not len(values):
            raise ValueError(f"readings must be one row of numbers, got shape {values.shape}.")
        return self.release(self.randomize(values, rng=source), rng=source)

    def run_rounds(
        self, readings: ArrayLike, *, rng: Random | None = None
    ) -> tuple[RoundMeans, Manifest]:
        """Run many rounds of the same contributors, for their unbiased means alone.

        Rounds are taken in pieces, so that memory holds little more than the readings.

        Args:
            readings: One round a row, one contributor a column.
            rng: None for secure randomness; a `SeededRandom` for study.

        Returns:
            The estimates as columns, and the manifest that every round has.

        Raises:
            ValueError: If there are no readings, contributors differ in epsilon, the estimator is
                another, or the shuffler takes one round at a time; use `run` for these.

        Example:
            >>> from rase import BudgetAware, Pipeline, Precision, SeededRandom, ValueRange
            >>> br = BudgetAware(4.0, ValueRange(0, 100), Precision(beta=0.5, rho=0.9))
            >>> days = np.linspace(20, 80, 365)[:, None] + np.zeros(64)
            >>> means, manifest = Pipeline(br).run_rounds(days, rng=SeededRandom(1))
            >>> len(means), manifest.method, means[0].n
            (365, 'uniform', 64)
        """
        source = source_of(rng)
        values = np.asarray(readings, dtype=np.float64)
        if values.ndim != 2 or not values.size:
            raise ValueError(f"readings must have one round a row, got shape {values.shape}.")
        shuffler = self.shuffler
        if (
            not isinstance(shuffler, RoundShuffler)
            or isinstance(self.randomizer.epsilon, tuple)
            or list(self.estimators) not in (["auto"], ["unbiased_mean"])
        ):
            raise ValueError(
                "run_rounds must have one epsilon, the estimator auto or unbiased_mean and a "
                "shuffler of many rounds (Uniform, Robust); use run or run_round for others."
            )
        parts: list[RoundMeans] = []
        at_once = max(_READINGS_AT_ONCE // values.shape[1], 1)
        for start in range(0, len(values), at_once):
            reports = self.randomizer.randomize(values[start : start + at_once], rng=source)
            release = shuffler.shuffle_rounds(reports, rng=source)
            parts.append(unbiased_means(release.values, randomizer=self.randomizer))
        means = RoundMeans(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.standard_errors for part in parts]),
            values.shape[1],
            parts[0].degrees_of_freedom,
        )
        return means, release.manifest

    def run(
        self, table: Any, *, every: str | None = None, rng: Random | None = None
    ) -> list[RoundResult]:
        """Run a table of readings, round by round.

        Args:
            table: Columns ``time``, ``device`` and ``value``: a mapping of sequences, a pandas or
                Polars frame, an Arrow table. Times are datetimes or whole seconds since 1970. A
                value that is missing or NaN does not report.
            every: The length of a round, such as ``15min``; None makes each time a round.
            rng: None for secure randomness; a `SeededRandom` for study.

        Returns:
            One result per round that has a report, in the order of time.

        Raises:
            DataError: If a column is missing, there is no reading, or rows repeat or go back in
                time.
        """
        source = source_of(rng)
        interval_ms = None if every is None else 1000 * parse_duration_s(every)
        rows = _contributions(table, interval_ms)
        reports = self.randomize(rows.reading, contributors=rows.contributor, rng=source)
        order = np.lexsort((rows.contributor, rows.round))
        rounds, starts = np.unique(rows.round[order], return_index=True)
        tracker = Tracker(self.randomizer.value_range)
        return [
            self.release(
                reports[part],
                contributors=rows.contributor[part],
                round=int(number),
                start_ms=int(number) * (interval_ms or 1),
                tracker=tracker,
                rng=source,
            )
            for number, part in zip(rounds, np.split(order, starts[1:]), strict=True)
        ]

    def _budgets(self, contributors: NDArray[np.int64]) -> Floats:
        budgets = np.asarray(self.randomizer.epsilon, dtype=np.float64)
        if contributors.size and int(contributors.max()) >= len(budgets):
            raise ValueError(
                f"epsilon must hold a budget for each of the contributors, got {len(budgets)} "
                f"budgets for contributor number {int(contributors.max()) + 1}."
            )
        return budgets[contributors]


@overload
def aggregate(
    data: Sequence[float] | NDArray[Any],
    value_range: ValueRange | tuple[float, float],
    *,
    epsilon: float | Sequence[float],
    every: None = None,
    shuffler: Shuffler | None = None,
    estimator: str | Estimator = "auto",
    rng: Random | None = None,
) -> Estimate: ...


@overload
def aggregate(
    data: Any,
    value_range: ValueRange | tuple[float, float],
    *,
    epsilon: float | Sequence[float],
    every: str | None = None,
    shuffler: Shuffler | None = None,
    estimator: str | Estimator = "auto",
    rng: Random | None = None,
) -> list[RoundResult]: ...


def aggregate(
    data: Any,
    value_range: ValueRange | tuple[float, float],
    *,
    epsilon: float | Sequence[float],
    every: str | None = None,
    shuffler: Shuffler | None = None,
    estimator: str | Estimator = "auto",
    rng: Random | None = None,
) -> Estimate | list[RoundResult]:
    """Estimate the mean of readings privately, in one line.

    Args:
        data: Readings of one round, or a table as for `Pipeline.run`.
        value_range: The public range, chosen without looking at the readings.
        epsilon: The budget of one report, or one for each contributor.
        every: The length of a round, for tables.
        shuffler: `Uniform` unless given.
        estimator: A name or a function.
        rng: None for secure randomness; a `SeededRandom` for study.

    Returns:
        An `Estimate` for readings of one round, a list of `RoundResult` for a table.

    Example:
        >>> from rase import SeededRandom, aggregate
        >>> print(aggregate([12.5, 80.0, 43.0] * 40, (0, 100), epsilon=2, rng=SeededRandom(7)))
        46.4 ± 5.6 (95 %: 35.4 to 57.3, n = 120)
    """
    public = value_range if isinstance(value_range, ValueRange) else ValueRange(*value_range)
    budget = cast("float | tuple[float, ...]", epsilon)
    pipeline = Pipeline(BudgetAware(budget, public, PAPER_PRECISION), shuffler, estimator)
    if _is_table(data):
        return pipeline.run(data, every=every, rng=rng)
    return pipeline.run_round(data, rng=rng).estimate


def _named_estimators(
    estimator: str | Estimator | Sequence[str | Estimator],
) -> dict[str, Estimator]:
    listed = [estimator] if isinstance(estimator, str) or callable(estimator) else list(estimator)
    if not listed:
        raise ValueError("estimator must name at least one estimator, got none.")
    return {
        item if isinstance(item, str) else getattr(item, "__name__", repr(item)): (
            estimator_named(item) if isinstance(item, str) else item
        )
        for item in listed
    }


def _is_table(data: Any) -> bool:
    return isinstance(data, Mapping) or hasattr(data, "columns") or hasattr(data, "column_names")


def _contributions(table: Any, interval_ms: int | None) -> Contributions:
    time, device, value = (_column(table, name) for name in ("time", "device", "value"))
    if not len(time) == len(device) == len(value):
        raise DataError("the columns time, device and value must have one length.")
    numbers = np.array([np.nan if item is None else item for item in value], dtype=np.float64)
    if np.isinf(numbers).any():
        raise DataError("value must hold finite numbers, got infinity among them.")
    collector = Collector(interval_ms)
    codes = np.unique(device.astype(str), return_inverse=True)[1]
    parts = (
        collector.add(_time_ms(time), codes, value=numbers, is_valid=~np.isnan(numbers)),
        collector.finish(),
    )
    joined = Contributions(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("round", "contributor", "reading")
        )
    )
    if not len(joined):
        raise DataError("the table must hold at least one reading, got none.")
    return joined


def _column(table: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(table[name])
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"the table must have a column {name!r}.") from error


def _time_ms(time: NDArray[Any]) -> NDArray[np.int64]:
    if time.dtype.kind in "iuf":
        return (time * 1000).astype(np.int64)
    try:
        return time.astype("datetime64[ms]").astype(np.int64)
    except (ValueError, TypeError) as error:
        raise DataError("time must hold datetimes or whole seconds since 1970.") from error
