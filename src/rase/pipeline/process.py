"""The pipeline: readings, rounds of readings, or a table of them, to estimates."""

from collections.abc import Sequence
from typing import Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.clock import parse_duration_s
from rase.estimate.estimate import Estimate
from rase.estimate.named import Estimator, estimator_named
from rase.estimate.rounds import RoundMeans, unbiased_means
from rase.estimate.series import Rounds
from rase.estimate.tracker import Tracker, spread_of
from rase.kernels.keyed import RunKey
from rase.kernels.words import Random, source_of
from rase.pipeline.keyed import DeviceTags, drawn_reports, round_result, rounds_of
from rase.pipeline.result import RoundResult
from rase.pipeline.table import contributions_of, is_table
from rase.randomize.choice import auto
from rase.randomize.grid import as_readings
from rase.randomize.protocol import Floats, Randomizer
from rase.shuffle.release import RoundShuffler
from rase.shuffle.shufflers import Manifest, Shuffler, Uniform
from rase.stream import ValueRange

__all__ = ["Pipeline", "aggregate"]

# Readings that go through all steps together; their reports stay in the processor's cache.
_READINGS_AT_ONCE = 1 << 18


class Pipeline:
    """Run readings through randomizer, shuffler and estimator (Algorithm 3).

    Guarantee: each report is epsilon-LDP by its randomizer; each released round has what the
    shuffler's manifest says. Both are tested where they are made; the pipeline adds that every
    reading is randomized once (tests/pipeline/test_process.py).

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
        budgets = self.budgets_of(contributors)
        values = as_readings(readings)
        source = source_of(rng)
        reports = np.empty(values.shape)
        for budget in np.unique(budgets):
            chosen = budgets == budget
            some = cast(Any, self.randomizer).for_contributors(contributors[chosen])
            reports[chosen] = some.randomize(values[chosen], rng=source.part(chosen))
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
                np.column_stack([values, self.budgets_of(places)]), rng=source
            )
            shuffled, budgets = release.values[:, 0], release.values[:, 1]
        else:
            release = self.shuffler.shuffle(values, rng=source)
            shuffled = release.values
        estimates = {
            name: estimator(shuffled, randomizer=self.randomizer, epsilon=budgets, rng=source)
            for name, estimator in self.estimators.items()
        }
        spread = None
        if "auto" in estimates and tracker is not None and start_ms is not None:
            spread = spread_of(shuffled, randomizer=self.randomizer, epsilon=budgets)
        result = RoundResult(
            n=len(values),
            estimates=estimates,
            manifest=release.manifest,
            round=round,
            start_ms=start_ms,
            truth=truth,
            alone=estimates.get("auto", estimates.get("unbiased_mean")),
            spread=spread,
        )
        return result if tracker is None else result.tracked(tracker)

    def run_round(self, readings: ArrayLike, *, rng: Random | None = None) -> RoundResult:
        """Run one round of readings, one for each contributor.

        Args:
            readings: At least one finite reading.
            rng: None for secure randomness; a `SeededRandom` for study.
        """
        source = source_of(rng)
        values = as_readings(readings)
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
        values = as_readings(readings)
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
            self.randomizer.value_range,
        )
        return means, release.manifest

    def run(
        self, table: Any, *, every: str | None = None, rng: Random | None = None
    ) -> Rounds[RoundResult]:
        """Run a table of readings, round by round.

        Several readings of a device in one round are averaged before any noise; of rows with the
        same time and device the first counts. Noise and order follow from a run key, the round and
        the device (`rase.kernels.keyed`), as on every engine: with the same seed ``rase run`` gives
        the same numbers, however it is run.

        Args:
            table: Columns ``time``, ``device`` and ``value``: a mapping of sequences, a pandas or
                Polars frame, an Arrow table. Times are datetimes or whole seconds since 1970. A
                value that is missing or NaN does not report.
            every: The length of a round, such as ``15min``; None makes each time a round.
            rng: None for secure randomness; a `SeededRandom` for study.

        Returns:
            One result per round that has a report, in the order of time; a notebook shows them as
            a table, and they can `.plot()` themselves.

        Raises:
            DataError: If a column is missing, or there is no reading.
        """
        key = RunKey.drawn(rng)
        interval_ms = None if every is None else 1000 * parse_duration_s(every)
        some, names = contributions_of(table, interval_ms, value_range=self.randomizer.value_range)
        reports = drawn_reports(self, some, key=key, devices=DeviceTags.of_names(key, names))
        order = reports.order()
        reports = reports.chosen(order)
        budgets = None
        if isinstance(self.randomizer.epsilon, tuple):
            budgets = self.budgets_of(some.contributor)[order]
        tracker = Tracker(self.randomizer.value_range)
        return Rounds(
            round_result(
                self,
                number,
                reports=reports.report[part],
                key=key,
                start_ms=number * (interval_ms or 1),
                budgets=None if budgets is None else budgets[part],
            ).tracked(tracker)
            for number, part in rounds_of(reports.round)
        )

    def budgets_of(self, contributors: NDArray[np.int64]) -> Floats:
        """Return the budget of each of some contributors, where they differ in it.

        Raises:
            ValueError: If there are fewer budgets than contributors.
        """
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
) -> Rounds[RoundResult]: ...


def aggregate(
    data: Any,
    value_range: ValueRange | tuple[float, float],
    *,
    epsilon: float | Sequence[float],
    every: str | None = None,
    shuffler: Shuffler | None = None,
    estimator: str | Estimator = "auto",
    rng: Random | None = None,
) -> Estimate | Rounds[RoundResult]:
    """Estimate the mean of readings privately, in one line.

    Reports are drawn by `rase.randomize.choice.auto`, the best mechanism for a mean at this
    epsilon, as `plan`, ``rase run`` and ``rase init`` have it; `Pipeline` takes any other.

    Args:
        data: Readings of one round, or a table as for `Pipeline.run`.
        value_range: The public range, chosen without looking at the readings.
        epsilon: The budget of one report, or one for each contributor.
        every: The length of a round, for tables.
        shuffler: `Uniform` unless given.
        estimator: A name or a function.
        rng: None for secure randomness; a `SeededRandom` for study.

    Returns:
        An `Estimate` for readings of one round, `Rounds` of `RoundResult` for a table.

    Example:
        >>> from rase import SeededRandom, aggregate
        >>> print(aggregate([12.5, 80.0, 43.0] * 40, (0, 100), epsilon=2, rng=SeededRandom(7)))
        44.7 ± 4.2 (95 %: 36.3 to 53.0, n = 120)
    """
    pipeline = Pipeline(auto(epsilon, _public_range(value_range)), shuffler, estimator)
    if is_table(data):
        return pipeline.run(data, every=every, rng=rng)
    return pipeline.run_round(data, rng=rng).estimate


def _public_range(value_range: ValueRange | tuple[float, float]) -> ValueRange:
    if isinstance(value_range, ValueRange):
        return value_range
    try:
        low, high = value_range
    except (TypeError, ValueError):
        raise TypeError(
            f"value_range must be a pair of numbers or a ValueRange, got {value_range!r}."
        ) from None
    return ValueRange(low, high)


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
