"""Randomizers: a law for each budget, over a public domain.

A randomizer is what people name and configure; the laws behind it hold the whole numbers. The same
object draws one report on a device and a million in a batch run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rase.domain import Categories, Domain, Range
from rase.laws.certificate import Certificate
from rase.laws.checks import as_readings, check_budgets
from rase.laws.law import Law, RangeLaw
from rase.lazy import numpy as np
from rase.privacy import LocalDP

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rase.arrays import Floats, Indices, Places
    from rase.kernels.entropy import Entropy
    from rase.kernels.words import Random

__all__ = ["Randomizer", "RangeRandomizer"]

_GRID_TOLERANCE = 0.01
# Reports computed at once: so many stay in the processor's cache.
_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Randomizer(ABC):
    """Turn readings into reports, each epsilon-locally differentially private.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public domain of readings.

    Raises:
        TypeError: If the domain is of another kind.
        ValueError: If a budget lies outside [1e-4, 30].
    """

    epsilon: float | tuple[float, ...]
    domain: Domain

    name: ClassVar[str]
    """What campaigns and the command line call it."""
    summary: ClassVar[str]
    """One line for tables of mechanisms."""
    domain_kind: ClassVar[type[Range | Categories]]

    def __post_init__(self) -> None:
        """Check the budgets and the domain once."""
        object.__setattr__(self, "epsilon", check_budgets(self.epsilon))
        if not isinstance(self.domain, self.domain_kind):
            raise TypeError(
                f"domain must be of type {self.domain_kind.__name__} for {self.name}, "
                f"got {self.domain!r}."
            )

    @abstractmethod
    def law(self, epsilon: float) -> Law:
        """Return the law for one budget."""

    @property
    def budgets(self) -> tuple[float, ...]:
        """The different budgets that occur, ascending."""
        given = self.epsilon if isinstance(self.epsilon, tuple) else (self.epsilon,)
        return tuple(sorted(set(given)))

    @property
    def guarantee(self) -> LocalDP:
        """The guarantee of one report; with several budgets, that of the largest."""
        return LocalDP(self.budgets[-1])

    @property
    def effective_epsilon(self) -> float:
        """The largest log-ratio of the laws as they are drawn; never above ``epsilon``."""
        return max(self.law(budget).largest_ratio.effective_epsilon for budget in self.budgets)

    def certificate(self, *, epsilon: float | None = None) -> Certificate:
        """Return the epsilon of one report as it is drawn, and what it was computed from.

        Args:
            epsilon: One of the budgets; the largest unless given.

        Raises:
            ValueError: If no contributor has this budget.

        Example:
            >>> from rase import Duchi, Range
            >>> print(Duchi(1.0, Range(0, 10)).certificate())
            epsilon 1 per report, verified exactly from the noise table
        """
        budget = self.budgets[-1] if epsilon is None else float(epsilon)
        if budget not in self.budgets:
            raise ValueError(f"epsilon must be one of {self.budgets}, got {epsilon}.")
        drawn = self.law(budget).largest_ratio
        low, step, steps = self.domain.grid
        first, second = (low + step * index for index in drawn.indices)
        return Certificate(
            law=drawn.law,
            epsilon=budget,
            drawn_epsilon=drawn.epsilon,
            effective_epsilon=drawn.effective_epsilon,
            steps=steps,
            total=drawn.total,
            readings=(first, second),
            report=low + step * drawn.place,
            ratio=drawn.ratio,
            exponent=drawn.exponent,
        )

    def table_rows(self, *, epsilon: float | None = None) -> Iterator[Mapping[int, int]]:
        """Yield for each point of the domain the whole number with which each place is drawn.

        The weights of each row add up to the certificate's ``total``.

        Args:
            epsilon: One of the budgets; the largest unless given.

        Raises:
            ValueError: If reports have no end (unclamped noise), or no contributor has this budget.

        Example:
            >>> from rase import Duchi, Range
            >>> rows = list(Duchi(1.0, Range(0, 10, steps=2)).table_rows())
            >>> [sorted(row) for row in rows], len({sum(row.values()) for row in rows})
            ([[0, 2], [0, 2], [0, 2]], 1)
        """
        law = self.law(self.certificate(epsilon=epsilon).epsilon)
        for index in range(self.domain.steps + 1):
            yield law.weights(index)

    def for_contributors(self, contributors: Sequence[int] | Places) -> Self:
        """Return the randomizer of some of the contributors, by their places in ``epsilon``."""
        if not isinstance(self.epsilon, tuple):
            return self
        return replace(self, epsilon=tuple(self.epsilon[int(place)] for place in contributors))

    def draw_one(self, reading: Any, entropy: Entropy) -> int:
        """Draw the place of one report without NumPy, as a device does.

        Call it once for a reading: a second report of the same reading spends the budget again.

        Args:
            reading: A reading of the domain; numbers outside a range count at its nearest end.
            entropy: Where the random words come from.

        Raises:
            ValueError: If the reading is not one of the domain, or contributors differ in epsilon.

        Example:
            >>> from rase import BudgetAware, Precision, Range
            >>> from rase.kernels.entropy import SecureEntropy
            >>> br = BudgetAware(1.0, Range(0, 3000), Precision(beta=0.5, rho=0.9))
            >>> 0 <= br.draw_one(120, SecureEntropy()) <= 4096
            True
        """
        index, share = self.domain.spot(reading)
        return self.law(self._one_budget).draw(index, share, entropy)

    @property
    def _one_budget(self) -> float:
        if isinstance(self.epsilon, tuple):
            raise ValueError("epsilon must be one number here; ask for each budget on its own.")
        return self.epsilon

    def draw_many(self, readings: ArrayLike, *, rng: Random | None = None) -> Places:
        """Draw the place of a report for each reading.

        Call it once for a reading: a second report of the same reading spends the budget again.

        Args:
            readings: Numbers, or for categories their places. With a budget for each contributor
                the last axis must be the contributors.
            rng: None for secure noise; a `SeededRandom` for study.

        Raises:
            TypeError: If the readings are not numbers.
            ValueError: If a reading is not finite, or the number of contributors does not fit.
        """
        from rase.kernels.words import source_of

        source, values = source_of(rng), as_readings(readings)
        if isinstance(self.epsilon, tuple):
            budgets = self._align_budgets(values.shape, None, is_own=True)
            places = np.empty(values.shape, dtype=np.int64)
            for budget in np.unique(budgets).tolist():
                chosen, one = budgets == budget, replace(self, epsilon=budget)
                places[chosen] = one.draw_many(values[chosen], rng=source)
            return places
        drawn = self.law(self.epsilon).draw_many(values, self.domain.grid, source=source)
        if drawn is None:
            raise ValueError("readings must be finite numbers, got NaN or infinity among them.")
        return drawn

    def check_places(self, places: Places, *, epsilon: ArrayLike | None = None) -> None:
        """Refuse places that this randomizer cannot draw.

        Args:
            places: The places of reports.
            epsilon: Their budgets, aligned with them, where contributors differ.

        Raises:
            ValueError: If a place cannot be drawn.
        """
        is_drawn = self._by_budget(lambda law, part: law.is_place(part), places, epsilon)
        if not is_drawn.all():
            raise ValueError("reports must be such as this randomizer can draw; one is not.")

    def _align_budgets(
        self, shape: tuple[int, ...], epsilon: ArrayLike | None, *, is_own: bool = False
    ) -> Floats | float:
        """Return the budgets in the shape of the values, or one number where all share it."""
        if not isinstance(self.epsilon, tuple):
            if epsilon is not None and not (np.asarray(epsilon) == self.epsilon).all():
                raise ValueError(f"epsilon must be this randomizer's {self.epsilon:g} throughout.")
            return self.epsilon
        if epsilon is None and not is_own:
            raise ValueError(
                "epsilon must be given, aligned with the values, because contributors differ in it."
            )
        budgets = np.asarray(self.epsilon if epsilon is None else epsilon, dtype=np.float64)
        if not shape or budgets.shape[-1:] != shape[-1:]:
            raise ValueError(
                f"epsilon must hold one budget for each contributor, got {budgets.size} budgets "
                f"for values of shape {shape}."
            )
        if not np.isin(budgets, self.epsilon).all():
            raise ValueError("epsilon must hold budgets of this randomizer's contributors only.")
        return np.broadcast_to(budgets, shape)

    def _by_budget(
        self, function: Callable[[Any, Any], Any], values: Indices, epsilon: ArrayLike | None
    ) -> Any:
        """Apply a function of law and values, each value with the law of its budget."""
        if epsilon is None and not isinstance(self.epsilon, tuple):
            return function(self.law(self.epsilon), values)
        budget = self._align_budgets(values.shape, epsilon)
        if isinstance(budget, float):
            return function(self.law(budget), values)
        results: Any = None
        for value in np.unique(budget):
            chosen = budget == value
            part = function(self.law(float(value)), values[chosen])
            if results is None:
                results = np.empty(values.shape, dtype=part.dtype)
            results[chosen] = part
        return np.empty(values.shape) if results is None else results


@dataclass(frozen=True)
class RangeRandomizer(Randomizer):
    """Randomize numbers on the grid of a public range; subclasses choose the law.

    A reading is clipped into the range. Between two grid points the law of its report is mixed from
    theirs in whole numbers, so that the expectation stays.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public range.
    """

    domain: Range

    domain_kind: ClassVar[type[Range | Categories]] = Range
    has_proven_pair: ClassVar[bool] = False
    """Whether it is proven which two readings a shuffled round tells apart best
    (docs/explain/shuffling.md); if not, amplification uses the bound for any mechanism."""

    @abstractmethod
    def law(self, epsilon: float) -> RangeLaw:
        """Return the law for one budget."""

    @property
    def scale(self) -> float | tuple[float, ...]:
        """The noise scale λ = Δ(x) / ε (Alg. 1 l. 1), in the form of ``epsilon``."""
        if isinstance(self.epsilon, tuple):
            return tuple(self.domain.width / budget for budget in self.epsilon)
        return self.domain.width / self.epsilon

    @property
    def decoded_reach(self) -> tuple[float, float]:
        """The least and the greatest value that a report can be decoded to.

        A device that breaks the protocol may send any report, but none counts for more than these:
        m of n of them move an unbiased mean by at most m / n of the distance between the two.

        Example:
            >>> from rase import Duchi, Range
            >>> [round(end, 3) for end in Duchi(1.0, Range(0, 1)).decoded_reach]
            [-0.582, 1.582]
        """
        ends: list[float] = []
        for budget in self.budgets:
            law = self.law(budget)
            decoded = law.decode(np.array(law.extreme_places, dtype=np.int64))
            ends += [float(decoded.min()), float(decoded.max())]
        low, step, _ = self.domain.grid
        return low + step * min(ends), low + step * max(ends)

    def clamp(self) -> RangeRandomizer:
        """Return what reads these reports once they are clamped into the range.

        Clamping to public bounds is post-processing. Only mechanisms whose noise has no end change
        by it; all others return themselves.
        """
        return self

    def randomize(self, readings: ArrayLike, *, rng: Random | None = None) -> Floats:
        """Return one report for each reading, as points of the public grid.

        Call it once for a reading: a second report of the same reading spends the budget again.

        Args:
            readings: Finite numbers; those outside the range are clipped to it. With a budget for
                each contributor the last axis must be the contributors.
            rng: None for secure noise; a `SeededRandom` for study.

        Returns:
            Reports in the unit of the readings, in the same shape.

        Raises:
            TypeError: If the readings are not numbers.
            ValueError: If a reading is not finite, or the number of contributors does not fit.
        """
        places = self.draw_many(readings, rng=rng)
        if places.size <= _AT_ONCE:
            return self.values_of(places)
        # Nobody else has these places: reports take their memory, in pieces that fit the cache.
        reports = places.view(np.float64)
        taken, given = reports.reshape(-1), places.reshape(-1)
        for start in range(0, places.size, _AT_ONCE):
            piece = slice(start, start + _AT_ONCE)
            taken[piece] = self.values_of(given[piece])
        return reports

    def values_of(self, places: Places) -> Floats:
        """Return places as reports in the unit of the readings."""
        values = np.asarray(self.domain.step * places, dtype=np.float64)
        values += self.domain.low
        return values

    def places_of(self, reports: ArrayLike) -> Places:
        """Return the grid place of each report.

        Raises:
            ValueError: If a report is not a point of the grid.
        """
        values = np.asarray(reports, dtype=np.float64)
        exact = (values - self.domain.low) / self.domain.step
        places = np.rint(exact)
        if not (np.abs(exact - places) < _GRID_TOLERANCE).all():
            raise ValueError(
                f"reports must be points of the grid from {self.domain.low} in steps of "
                f"{self.domain.step}; was another range or number of steps used?"
            )
        # No law reaches that far, and whole numbers of 64 bits do.
        return np.clip(places, -(2.0**62), 2.0**62).astype(np.int64)

    def decode(self, reports: ArrayLike, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return for each report a value whose expectation is the reading, exactly.

        Args:
            reports: Reports of this randomizer.
            epsilon: The budgets of the reports, aligned with them; needed where contributors
                differ, because shuffled reports no longer stand at their contributors' places.

        Raises:
            ValueError: If a report cannot come from this randomizer, or ``epsilon`` is missing.
        """
        return self.decode_places(self.places_of(reports), epsilon=epsilon)

    def decode_places(self, places: Places, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return what `decode` does, for the places of reports."""
        self.check_places(places, epsilon=epsilon)
        index = self._by_budget(lambda law, part: law.decode(part), places, epsilon)
        decoded: Floats = self.domain.low + self.domain.step * index
        return decoded

    def decode_square(self, reports: ArrayLike, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return for each report a value whose expectation is the squared reading.

        For readings between grid points the expectation is larger by the rounding's variance, at
        most a quarter of a step squared.

        Raises:
            NotIdentifiable: If the reports carry no information on it (Duchi).
            ValueError: As for `decode`.
        """
        return self.decode_square_places(self.places_of(reports), epsilon=epsilon)

    def decode_square_places(self, places: Places, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return what `decode_square` does, for the places of reports."""
        self.check_places(places, epsilon=epsilon)
        index = self._by_budget(lambda law, part: law.decode(part), places, epsilon)
        square = self._by_budget(lambda law, part: law.decode_square(part), places, epsilon)
        low, step, _ = self.domain.grid
        decoded: Floats = low * low + 2 * low * step * index + step * step * square
        return decoded

    def variance(self, reading: ArrayLike, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return the exact variance of the decoded report of each reading.

        Args:
            reading: One or more readings; those outside the range count at its nearest end.
            epsilon: Budgets aligned with the readings, where contributors differ.
        """
        values = np.asarray(reading, dtype=np.float64)
        below, above, up = self._surround(values)
        at_below, at_above = (
            self._by_budget(lambda law, part: law.variance(part), index, epsilon)
            for index in (below, above)
        )
        mixed = (1 - up) * at_below + up * at_above
        # The decoded mean moves by one step between the two points, hence up * (1 - up).
        variance: Floats = self.domain.step**2 * (mixed + up * (1 - up))
        return variance

    def report_probabilities(self, readings: ArrayLike, edges: ArrayLike) -> Floats:
        """Return ``Pr[edges[b] <= report < edges[b + 1]]`` for each reading (row) and bin.

        The last bin includes its upper edge. Contributors must share one budget.

        Raises:
            ValueError: If contributors differ in epsilon, or the edges do not ascend.
        """
        bounds = np.asarray(edges, dtype=np.float64)
        if bounds.ndim != 1 or bounds.size < 2 or not (np.diff(bounds) > 0).all():
            raise ValueError("edges must be two or more ascending numbers.")
        law = self.law(self._one_budget)
        exact = (bounds - self.domain.low) / self.domain.step
        # A place falls below an edge if it is at most the last whole number before it.
        last_below = np.ceil(exact - 1e-9) - 1
        last_below[-1] = np.floor(exact[-1] + 1e-9)
        below, above, up = self._surround(np.atleast_1d(np.asarray(readings, dtype=np.float64)))
        at_below = law.cumulative(below[:, None], last_below[None, :])
        at_above = law.cumulative(above[:, None], last_below[None, :])
        return np.diff((1 - up)[:, None] * at_below + up[:, None] * at_above, axis=1)

    def _surround(self, values: Floats) -> tuple[Indices, Indices, Floats]:
        """Return the grid points around each value and the share of the upper one."""
        low, step, steps = self.domain.grid
        exact = np.clip((values - low) / step, 0, steps)
        below = np.floor(exact)
        index = below.astype(np.int64)
        return index, np.minimum(index + 1, steps), exact - below
