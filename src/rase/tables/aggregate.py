"""The one-line call: readings of one round, or a table of many, to estimates."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, cast, overload

from rase.counts.counts import Counts
from rase.counts.registry import TRACKED
from rase.counts.shares import shares
from rase.domain import Categories, Range
from rase.errors import DataError, TooFew
from rase.kernels.words import source_of
from rase.laws.checks import as_readings
from rase.laws.registry import auto
from rase.laws.response import CategoryRandomizer
from rase.series.rounds import RoundResult, Rounds, estimate_round
from rase.shuffle.release import Shuffler
from rase.shuffle.uniform import Uniform
from rase.tables.layouts import Columns
from rase.tables.plan import RunPlan, ShuffledPromise, named_estimators

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from rase.counts.estimate import Estimate
    from rase.counts.registry import Estimator
    from rase.domain import Domain
    from rase.kernels.words import Random
    from rase.laws.randomizer import RangeRandomizer
    from rase.tables.columns import Hints
    from rase.tables.quantities import Quantities, QuantityRuns

__all__ = ["aggregate", "run_round", "run_table"]


@overload
def aggregate(
    data: Sequence[float] | NDArray[Any],
    domain: Range | tuple[float, float],
    *,
    epsilon: float | Sequence[float] | None = None,
    promise: ShuffledPromise | None = None,
    every: None = None,
    estimator: str | Estimator = TRACKED,
    rng: Random | None = None,
) -> Estimate: ...


@overload
def aggregate(
    data: Sequence[str],
    domain: Categories,
    *,
    epsilon: float | Sequence[float] | None = None,
    promise: ShuffledPromise | None = None,
    every: None = None,
    rng: Random | None = None,
) -> dict[str, Estimate]: ...


@overload
def aggregate(
    data: Any,
    domain: Domain | tuple[float, float],
    *,
    epsilon: float | Sequence[float] | None = None,
    promise: ShuffledPromise | None = None,
    every: str | None = None,
    estimator: str | Estimator = TRACKED,
    rng: Random | None = None,
    columns: Sequence[str] | None = None,
    hints: Hints | None = None,
) -> Rounds: ...


def aggregate(
    data: Any,
    domain: Domain | tuple[float, float],
    *,
    epsilon: float | Sequence[float] | None = None,
    promise: ShuffledPromise | None = None,
    every: str | None = None,
    estimator: str | Estimator = TRACKED,
    rng: Random | None = None,
    columns: Sequence[str] | None = None,
    hints: Hints | None = None,
) -> Estimate | dict[str, Estimate] | Rounds:
    """Estimate the mean of readings, or the shares of their categories, privately, in one line.

    Reports are drawn by `auto`, the best mechanism for a mean at this epsilon, as `plan`, ``rase
    run`` and ``rase init`` have it; `RunPlan` takes any other.

    Args:
        data: Readings of one round, or a table as for `run_table`.
        domain: The public range, or the public categories, chosen without looking at the readings.
        epsilon: The budget of one report; for one round also one budget for each contributor. May
            be left out where ``promise`` has a ``shuffled_epsilon``, to which it is then fitted.
        promise: What is promised of shuffled reports. Rounds of a table that are too small for it
            are left out; readings of one round that are too few are refused.
        every: The length of a round, for tables.
        estimator: A name or a function.
        rng: None for secure randomness; a `SeededRandom` for study.
        columns: What the columns of a table are called; see `run_table`.
        hints: What is known about the way a table is written.

    Returns:
        An `Estimate` for readings of one round, one for each category where they are names;
        `Rounds` of `RoundResult` for a table.

    Example:
        >>> from rase import SeededRandom, aggregate
        >>> print(aggregate([12.5, 80.0, 43.0] * 40, (0, 100), epsilon=2, rng=SeededRandom(7)))
        44.7 ± 4.2 (95 %: 36.3 to 53.0, n = 120)
        >>> from rase import Categories
        >>> states = aggregate(["on", "off"] * 200, Categories(("on", "off")), epsilon=2)
        >>> list(states)
        ['on', 'off']
    """
    public = domain if isinstance(domain, Categories) else _as_range(domain)
    if promise is None:
        if epsilon is None:
            raise TypeError("epsilon must be given where no shuffled promise is.")
        randomizer = auto(epsilon, public)
    elif isinstance(epsilon, Sequence):
        raise TypeError("epsilon must be one number for a shuffled promise.")
    else:
        randomizer = promise.randomizer(public, epsilon=epsilon)
    if _is_table(data):
        plan = RunPlan(randomizer=randomizer, estimator=estimator, every=every, promise=promise)
        return run_table(data, plan, rng=rng, columns=columns, hints=hints)
    if promise is not None and len(data) < promise.k_min:
        raise TooFew(f"{len(data)} reports are too few: the promise is for {promise.k_min} on.")
    result = run_round(data, randomizer=randomizer, estimator=estimator, rng=rng)
    return dict(result.estimates) if isinstance(public, Categories) else result.estimate


def run_round(
    readings: ArrayLike | Sequence[str],
    *,
    randomizer: RangeRandomizer | CategoryRandomizer,
    shuffler: Shuffler | None = None,
    estimator: str | Estimator | Sequence[str | Estimator] = TRACKED,
    rng: Random | None = None,
) -> RoundResult:
    """Run one round of readings, one for each contributor (Algorithm 3, without a network).

    Guarantee: each report is epsilon-LDP by its randomizer, and every reading is randomized once
    (tests/tables/test_aggregate.py).

    Args:
        readings: At least one finite reading, or name of a category.
        randomizer: What each device does.
        shuffler: What stands between devices and estimates; `Uniform` unless given.
        estimator: A name, a function, or several of them; categories have shares instead.
        rng: None for secure randomness; a `SeededRandom` for study.

    Example:
        >>> from rase import BudgetAware, Precision, Range, SeededRandom, run_round
        >>> br = BudgetAware(4.0, Range(0, 100), Precision(beta=0.5, rho=0.9))
        >>> result = run_round(range(100), randomizer=br, rng=SeededRandom(1))
        >>> low, high = result.estimate.interval(0.95)
        >>> low < 49.5 < high
        True
    """
    source = source_of(rng)
    if isinstance(randomizer, CategoryRandomizer):
        places = randomizer.draw_names(cast("Sequence[str]", readings), rng=source)
        budgets = randomizer.epsilon if isinstance(randomizer.epsilon, tuple) else None
        found_shares = shares(Counts.of(places, epsilon=budgets), randomizer=randomizer)
        manifest = (shuffler or Uniform()).manifest_for(len(places))
        return RoundResult(n=len(places), estimates=found_shares, manifest=manifest)
    values = as_readings(readings)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"readings must be one row of numbers, got shape {values.shape}.")
    epsilon = randomizer.epsilon if isinstance(randomizer.epsilon, tuple) else None
    counts = Counts.of(randomizer.draw_many(values, rng=source), epsilon=epsilon)
    found = estimate_round(counts, randomizer, named_estimators(estimator), rng=source)
    return RoundResult(
        n=len(values),
        estimates=found.estimates,
        manifest=(shuffler or Uniform()).manifest_for(len(values)),
        alone=found.alone,
    )


@overload
def run_table(
    table: Any,
    plan: RunPlan,
    *,
    rng: Random | None = None,
    columns: Sequence[str] | None = None,
    hints: Hints | None = None,
) -> Rounds: ...


@overload
def run_table(
    table: Any,
    plan: Quantities,
    *,
    rng: Random | None = None,
    columns: Sequence[str] | None = None,
    hints: Hints | None = None,
) -> QuantityRuns: ...


def run_table(
    table: Any,
    plan: RunPlan | Quantities,
    *,
    rng: Random | None = None,
    columns: Sequence[str] | None = None,
    hints: Hints | None = None,
) -> Rounds | QuantityRuns:
    """Run a table of readings and return all its rounds.

    Several readings of a device in one round are averaged before any noise; of rows with the same
    time and device the first counts. With the same seed ``rase run`` gives the same numbers, on
    this machine or on a cluster.

    Args:
        table: Columns ``time``, ``device`` and ``value``, or a column for each device: a path, a
            mapping of sequences, a pandas or Polars frame (also a LazyFrame), an Arrow table. Times
            are datetimes or numbers since 1970. A value that is missing or NaN does not report.
        plan: What to do; `Quantities` for several columns under one budget.
        rng: None for secure randomness; a `SeededRandom` for study.
        columns: What the columns of times, devices and readings are called; ``"-"`` for one that
            the table does not have: it is one round then, or each row is a device of its own.
            `Quantities` name those of readings themselves.
        hints: What is known about the way it is written, as a `rase.tables.columns.Hints`.

    Returns:
        One result for each round that has a report, in the order of time; a notebook shows them as
        a table, and they can `.plot()` themselves. Of several quantities these by their column,
        and as ``spent`` what all of them cost.

    Raises:
        DataError: If a column is missing, there is no reading, or pyarrow is not installed.
    """
    try:
        from rase.tables.run import run
        from rase.tables.source import open_source
    except ModuleNotFoundError as error:
        raise DataError(
            'tables need pyarrow; install it with: pip install "rase-iot[tables]".'
        ) from error
    named = None if columns is None else Columns(*columns)
    if isinstance(plan, RunPlan):
        return Rounds(run(open_source(table, columns=named, hints=hints), plan, rng=rng))
    from rase.tables.quantities import QuantityRuns

    sources = {
        name: open_source(table, columns=(named or Columns())._replace(value=name), hints=hints)
        for name in plan.plans
    }
    return QuantityRuns(plan, lambda name, one, own: run(sources[name], one, rng=own), rng=rng)


def _is_table(data: Any) -> bool:
    """Return whether data has named columns, or is a path to some."""
    # A LazyFrame is asked first: what its columns are takes it work, of which it warns.
    named = ("collect_schema", "columns", "column_names", "keys", "batches", "chunks")
    return isinstance(data, str | PathLike) or any(hasattr(data, name) for name in named)


def _as_range(domain: Range | tuple[float, float]) -> Range:
    if isinstance(domain, Range):
        return domain
    try:
        low, high = domain
    except (TypeError, ValueError):
        raise TypeError(f"domain must be a pair of numbers or a Range, got {domain!r}.") from None
    return Range(low, high)
