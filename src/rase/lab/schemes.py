"""The schemes of the evaluation: from a panel of readings to what the fusion centre sees.

Noise first, then an order. Who sent which report is returned with the release and never inside
it, so that an attack cannot see it by accident.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rase.domain import PAPER_PRECISION, Precision, Range
from rase.errors import DataError
from rase.kernels.permute import Order, uniform_orders
from rase.kernels.words import Random, source_of
from rase.lab.order_law import OrderLaw
from rase.lab.panel import Panel
from rase.laws.geometric import BudgetAware, Laplace
from rase.laws.randomizer import RangeRandomizer
from rase.laws.windows import Hybrid
from rase.shuffle.paper import Line9, paper_plan
from rase.shuffle.partition import Partition, sensitivity
from rase.shuffle.robust import Robust

__all__ = [
    "SCHEME_NAMES",
    "Arrival",
    "Release",
    "Scheme",
    "Secret",
    "scheme_named",
]

Arrival = Literal["fixed", "random"]
SCHEME_NAMES = ("raw", "br", "laplace-fisher", "br-mallows", "rase-paper", "rase", "best")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release:
    """What the fusion centre sees of a panel, and what is public about the mechanism.

    Args:
        times_ms: When each round began.
        values: The reports, rounds x slots. Rounds with fewer reports than devices fill the first
            slots; the rest is NaN.
        randomizer: The mechanism behind the reports; None for raw readings.
        laws: The law of the order, for each round.
    """

    times_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    randomizer: RangeRandomizer | None
    laws: tuple[OrderLaw, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Secret:
    """What the fusion centre does not see; used for scoring and for training labels.

    Args:
        senders: The device behind each slot, rounds x slots; -1 behind empty ones.
        arrival: The device at each arrival place, rounds x places; -1 likewise.
    """

    senders: NDArray[np.int64]
    arrival: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scheme:
    """Sanitise a panel: randomize each reading, then put the reports of a round into an order.

    Guarantee: that of the randomizer for each report and of the order's law for each round, as
    stated where they are defined; "raw", "kept" orders and paper mode promise nothing.

    Args:
        name: The scheme's name in tables.
        randomizer: The mechanism on the device; None reports the reading itself.
        law_for: Gives the law of a round's order from its arrivals (devices by place).
        estimator: The estimator its fusion centre would use.
        is_arrival_bound: Whether the law depends on who arrived where, and not on how many alone.
    """

    name: str
    randomizer: RangeRandomizer | None
    law_for: Callable[[Order], OrderLaw]
    estimator: str
    is_arrival_bound: bool = False

    def release(
        self, panel: Panel, *, arrival: Arrival = "fixed", rng: Random | None = None
    ) -> tuple[Release, Secret]:
        """Return what the fusion centre sees of the panel, and separately who sent what.

        Args:
            panel: The readings.
            arrival: "fixed" if devices report in the same sequence every round, as the paper's
                set-up implies: its unshuffled BR can be told apart by position, and it plots
                results by device index. "random" draws a new sequence each round.
            rng: None for secure randomness; a `SeededRandom` for study.

        Raises:
            DataError: If there is no reading.
            ValueError: If ``arrival`` is unknown.
        """
        if arrival not in ("fixed", "random"):
            raise ValueError(f'arrival must be "fixed" or "random", got {arrival!r}.')
        source = source_of(rng)
        has_reading = ~np.isnan(panel.values)
        if not has_reading.any():
            raise DataError("the panel must hold at least one reading, got none.")
        reports = panel.values.copy()
        if self.randomizer is not None:
            reports[has_reading] = self.randomizer.randomize(panel.values[has_reading], rng=source)
        arrivals = _arrivals(has_reading, arrival, source)
        senders = np.full(arrivals.shape, -1, dtype=np.int64)
        laws: list[OrderLaw] = [OrderLaw("kept")] * panel.rounds
        for rounds, come in self._alike(arrivals):
            law = self.law_for(come[0])
            orders = law.draw(len(rounds), come[0], source)
            senders[rounds, : come.shape[1]] = np.take_along_axis(come, orders, axis=1)
            for number in rounds.tolist():
                laws[number] = law
        released = np.take_along_axis(reports, np.maximum(senders, 0), axis=1)
        released[senders < 0] = np.nan
        return (
            Release(panel.times_ms, released, self.randomizer, tuple(laws)),
            Secret(senders, arrivals),
        )

    def _alike(self, arrivals: Order) -> Iterator[tuple[Order, Order]]:
        """Yield the rounds that share a law, with their arrivals."""
        counts = (arrivals >= 0).sum(axis=1)
        keys = arrivals if self.is_arrival_bound else counts[:, np.newaxis]
        _, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        by_kind = np.argsort(kind.reshape(-1), kind="stable")
        sizes = np.bincount(kind.reshape(-1))
        for place, rounds in zip(first, np.split(by_kind, np.cumsum(sizes)[:-1]), strict=True):
            if counts[place]:
                yield rounds, arrivals[rounds][:, : counts[place]]


def scheme_named(
    name: str,
    value_range: Range,
    *,
    epsilon: float = 1.0,
    alpha: float = 30.0,
    group_count: int = 8,
    partition: Partition | None = None,
    line9: Line9 = Line9.RIGHT_FIRST_BY_USER,
    precision: Precision = PAPER_PRECISION,
) -> Scheme:
    """Return one of the schemes that are compared.

    ========================  ====================================================================
    ``raw``                   readings as they are, in the order of arrival
    ``br``                    BR (Alg. 1), in the order of arrival
    ``laplace-fisher``        Laplace noise, true Fisher-Yates: the paper names Knuth's algorithm,
                              so this is uniform although its own loop (Alg. 2) is not
    ``br-mallows``            BR, Mallows with theta = alpha / Δ of fixed groups: ``group_count``
                              blocks of arrival places
    ``rase-paper``            BR, Algorithm 2 as printed, with the chosen reading of its line 9
    ``rase``                  BR, Algorithm 2 corrected
    ``best``                  the best published mechanism for means: Hybrid (Duchi's bit below
                              epsilon 0.61), uniform order, unbiased mean
    ========================  ====================================================================

    Args:
        name: One of `SCHEME_NAMES`.
        value_range: The public range; raw readings are not clipped to it.
        epsilon: The budget of one report.
        alpha: The loss allowed to a Mallows law.
        group_count: k, the number of groups.
        partition: The contributors' real groups, which decide the branch of ``rase-paper``; one
            group of all if not given, which at alpha 30 means its fallback from 26 devices on.
        line9: The reading of Alg. 2 l. 9 for ``rase-paper``.
        precision: The (beta, rho) for BR.

    Raises:
        ValueError: If the name is unknown or a number is out of range.

    Example:
        >>> scheme_named("best", Range(0, 3000), epsilon=4.0).law_for(np.arange(9)).method
        'uniform'
    """
    if name not in SCHEME_NAMES:
        raise ValueError(f"name must be one of {', '.join(SCHEME_NAMES)}, got {name!r}.")
    noise = BudgetAware(epsilon, value_range, precision)
    # The constructor checks alpha and group_count for the three that need them.
    robust = Robust(alpha=alpha, group_count=group_count)
    printed = _Printed(robust, partition, line9)
    schemes = (
        Scheme("raw", None, _kept_order, "sample_mean"),
        Scheme("br", noise, _kept_order, "sample_mean"),
        Scheme("laplace-fisher", Laplace(epsilon, value_range), _uniform, "sample_mean"),
        Scheme("br-mallows", noise, _FixedGroups(robust), "sample_mean"),
        Scheme("rase-paper", noise, printed, "sample_mean", is_arrival_bound=True),
        Scheme("rase", noise, _Corrected(robust), "unbiased_mean"),
        Scheme("best", Hybrid(epsilon, value_range), _uniform, "unbiased_mean"),
    )
    return next(scheme for scheme in schemes if scheme.name == name)


def _kept_order(arrival: Order) -> OrderLaw:
    return OrderLaw("kept")


def _uniform(arrival: Order) -> OrderLaw:
    return OrderLaw("uniform")


@dataclass(frozen=True, slots=True)
class _FixedGroups:
    """Choose theta by blocks of arrival places, without any guard."""

    robust: Robust

    def __call__(self, arrival: Order) -> OrderLaw:
        n = arrival.size
        groups = Partition.contiguous(n, min(self.robust.group_count, n))
        exact = sensitivity(groups)
        return OrderLaw("mallows", self.robust.alpha / exact if exact else math.inf)


@dataclass(frozen=True, slots=True)
class _Corrected:
    """Choose as `Robust` does; its groups are blocks of places, so only their number matters."""

    robust: Robust

    def __call__(self, arrival: Order) -> OrderLaw:
        manifest = self.robust.manifest_for(arrival.size)
        return OrderLaw("uniform" if manifest.theta is None else "mallows", manifest.theta)


@dataclass(frozen=True, slots=True)
class _Printed:
    """Decide lines 1 to 7 of Algorithm 2 for those who reported."""

    robust: Robust
    partition: Partition | None
    line9: Line9

    def __call__(self, arrival: Order) -> OrderLaw:
        reporting = np.sort(arrival)
        n = arrival.size
        groups = (
            Partition.contiguous(n, 1)
            if self.partition is None
            else self.partition.restrict(reporting)
        )
        manifest = paper_plan(
            np.searchsorted(reporting, arrival),
            alpha=self.robust.alpha,
            group_count=min(self.robust.group_count, n),
            partition=groups,
            line9=self.line9,
        ).manifest
        return OrderLaw(
            "cyclic" if manifest.theta is None else "mallows", manifest.theta, self.line9
        )


def _arrivals(has_reading: NDArray[np.bool_], arrival: Arrival, source: Random) -> Order:
    """Return the devices by arrival place, then -1 for those who do not report."""
    rounds, n = has_reading.shape
    come = (
        uniform_orders(rounds, n, source)
        if arrival == "random"
        else np.broadcast_to(np.arange(n), (rounds, n))
    )
    if has_reading.all():
        return come
    reports = np.take_along_axis(has_reading, come, axis=1)
    reporting_first = np.argsort(~reports, axis=1, kind="stable")
    come = np.take_along_axis(come, reporting_first, axis=1)
    return np.where(np.arange(n) < reports.sum(axis=1)[:, np.newaxis], come, -1)
