"""What all randomizers share: budgets, clipping, the public grid and its unbiased rounding."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rase.kernels.words import Random, source_of
from rase.privacy import MAX_EPSILON, MIN_EPSILON, LocalDP
from rase.randomize.certificate import Certificate
from rase.randomize.geometric import UnboundedGeometric
from rase.randomize.protocol import Codes, Floats, Indices, Law, SweepingLaw
from rase.stream import ValueRange

__all__ = ["MAX_EPSILON", "MIN_EPSILON", "GridRandomizer", "as_readings"]

_GRID_TOLERANCE = 0.01


@dataclass(frozen=True)
class GridRandomizer(ABC):
    """Randomize on the grid of a public range; subclasses choose the law.

    A reading is clipped into the range. Between two grid points the law of its report is mixed of
    theirs, so that the expectation stays, in whole numbers: each weight lies between the weights of
    the two points, which keeps their guarantee. A bounded law draws a report from one word.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        value_range: The public range.

    Raises:
        ValueError: If a budget lies outside [1e-4, 30].
    """

    epsilon: float | tuple[float, ...]
    value_range: ValueRange

    def __post_init__(self) -> None:
        """Check the budgets once."""
        object.__setattr__(self, "epsilon", _checked_epsilon(self.epsilon))
        if not isinstance(self.value_range, ValueRange):
            raise TypeError(f"value_range must be a ValueRange, got {self.value_range!r}.")

    @abstractmethod
    def _law(self, epsilon: float) -> Law:
        """Return the law for one budget."""

    @property
    def budgets(self) -> tuple[float, ...]:
        """The different budgets that occur, ascending."""
        return tuple(sorted(set(np.atleast_1d(self.epsilon).tolist())))

    @property
    def scale(self) -> float | tuple[float, ...]:
        """The noise scale λ = Δ(x) / ε (Alg. 1 l. 1), in the form of ``epsilon``."""
        if isinstance(self.epsilon, tuple):
            return tuple(self.value_range.width / budget for budget in self.epsilon)
        return self.value_range.width / self.epsilon

    @property
    def guarantee(self) -> LocalDP:
        """What one report promises; with several budgets, to the contributor with the largest."""
        return LocalDP(self.budgets[-1])

    @property
    def effective_epsilon(self) -> float:
        """The largest log-ratio of the laws as they are drawn; never above ``epsilon``."""
        return max(self._law(budget).drawn.effective_epsilon for budget in self.budgets)

    @property
    def decoded_reach(self) -> tuple[float, float]:
        """The least and the greatest value that a report can be decoded to.

        A device that breaks the protocol may send any report, but none counts for more than these:
        m of n of them move an unbiased mean by at most m / n of the distance between the two.

        Example:
            >>> from rase import Duchi, ValueRange
            >>> [round(end, 3) for end in Duchi(1.0, ValueRange(0, 1)).decoded_reach]
            [-0.582, 1.582]
        """
        low, step, steps = self.value_range.low, self.value_range.step, self.value_range.steps
        ends: list[float] = []
        for budget in self.budgets:
            law = self._law(budget)
            # Noise without end has no table; what lies beyond its reach is refused.
            codes = (
                (-law.reach, steps + law.reach)
                if isinstance(law, UnboundedGeometric)
                else tuple(law.weights(0))
            )
            decoded = law.decode(np.array(codes, dtype=np.int64))
            ends += [float(decoded.min()), float(decoded.max())]
        return low + step * min(ends), low + step * max(ends)

    def clamped(self) -> "GridRandomizer":
        """Return what reads these reports once they are clamped into the range.

        Clamping to public bounds is post-processing. Only mechanisms whose noise has no end are
        another one after it; all others return themselves.
        """
        return self

    def certificate(self, *, epsilon: float | None = None) -> Certificate:
        """Return the epsilon of one report as it is drawn, and what it was computed from.

        Args:
            epsilon: One of the budgets; the largest unless given.

        Raises:
            ValueError: If no contributor has this budget.

        Example:
            >>> from rase import Duchi, ValueRange
            >>> print(Duchi(1.0, ValueRange(0, 10)).certificate())
            One report has epsilon 1, at most the 1 asked for: computed from the whole numbers of
            its duchi law over 4096 grid steps; readings 0 and 10 with report 0 come closest to it.
        """
        budget = self.budgets[-1] if epsilon is None else float(epsilon)
        if budget not in self.budgets:
            raise ValueError(f"epsilon must be one of {self.budgets}, got {epsilon}.")
        drawn = self._law(budget).drawn
        low, step = self.value_range.low, self.value_range.step
        first, second = (low + step * index for index in drawn.indices)
        return Certificate(
            law=drawn.law,
            epsilon=budget,
            drawn_epsilon=drawn.epsilon,
            effective_epsilon=drawn.effective_epsilon,
            steps=self.value_range.steps,
            total=drawn.total,
            readings=(first, second),
            report=low + step * drawn.code,
            ratio=drawn.ratio,
            exponent=drawn.exponent,
        )

    def table_rows(self, *, epsilon: float | None = None) -> Iterator[Mapping[int, int]]:
        """Yield for each grid point the whole number with which each grid place is drawn.

        The weights of each row add up to the certificate's ``total``.

        Args:
            epsilon: One of the budgets; the largest unless given.

        Raises:
            ValueError: If reports have no end (unclamped noise), or no contributor has this budget.

        Example:
            >>> from rase import Duchi, ValueRange
            >>> rows = list(Duchi(1.0, ValueRange(0, 10, steps=2)).table_rows())
            >>> [sorted(row) for row in rows], len({sum(row.values()) for row in rows})
            ([[0, 2], [0, 2], [0, 2]], 1)
        """
        law = self._law(self.certificate(epsilon=epsilon).epsilon)
        for index in range(self.value_range.steps + 1):
            yield law.weights(index)

    def for_contributors(self, contributors: Sequence[int] | Codes) -> Self:
        """Return the randomizer of some of the contributors, by their places in ``epsilon``."""
        if not isinstance(self.epsilon, tuple):
            return self
        return replace(self, epsilon=tuple(self.epsilon[int(place)] for place in contributors))

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
        source = source_of(rng)
        values = as_readings(readings)
        budget = self._budget_of(values.shape, None, own=True)
        if isinstance(budget, float):
            return self._drawn(budget, values, source)
        reports = np.empty(values.shape)
        for value in np.unique(budget):
            chosen = budget == value
            reports[chosen] = self._drawn(float(value), values[chosen], source)
        return reports

    def _drawn(self, epsilon: float, readings: Floats, source: Random) -> Floats:
        reports = self._law(epsilon).reports(readings, self.value_range, source=source)
        if reports is None:
            raise ValueError("readings must be finite numbers, got NaN or infinity among them.")
        return reports

    def decode(self, reports: ArrayLike, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return for each report a value whose expectation is the reading, exactly.

        Args:
            reports: Reports of this randomizer.
            epsilon: The budgets of the reports, aligned with them; needed where contributors
                differ, because shuffled reports no longer stand at their contributors' places.

        Raises:
            ValueError: If a report cannot come from this randomizer, or ``epsilon`` is missing.
        """
        index = self._by_code(reports, epsilon, lambda law, code: law.decode(code))
        return self.value_range.low + self.value_range.step * index

    def decode_square(self, reports: ArrayLike, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return for each report a value whose expectation is the squared reading.

        For readings between grid points the expectation is larger by the rounding's variance, at
        most a quarter of a step squared.

        Raises:
            NotIdentifiable: If the reports carry no information on it (Duchi).
            ValueError: As for `decode`.
        """
        low, step = self.value_range.low, self.value_range.step
        index = self._by_code(reports, epsilon, lambda law, code: law.decode(code))
        square = self._by_code(reports, epsilon, lambda law, code: law.decode_square(code))
        return low * low + 2 * low * step * index + step * step * square

    def round_sums(self, reports: Floats) -> tuple[Floats, Floats] | None:
        """Return for each row of reports Σ decoded and Σ (decoded^2 - decoded square).

        Returns:
            Both columns; None where decoding each report is the only way.

        Raises:
            ValueError: If a report cannot come from this randomizer.
        """
        law = None if isinstance(self.epsilon, tuple) else self._law(self.epsilon)
        if not isinstance(law, SweepingLaw):
            return None
        sums = law.round_sums(reports, self.value_range)
        if sums is None:
            raise ValueError("reports must be such as this randomizer can draw; one is not.")
        low, step = self.value_range.low, self.value_range.step
        return low * reports.shape[1] + step * sums[0], step * step * sums[1]

    def variance(self, reading: ArrayLike, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return the exact variance of the decoded report of each reading.

        Args:
            reading: One or more readings; those outside the range count at its nearest end.
            epsilon: Budgets aligned with the readings, where contributors differ.
        """
        values = np.asarray(reading, dtype=np.float64)
        below, above, up = self._grid_place(values)
        budget = self._budget_of(values.shape, epsilon)
        at_below, at_above = (
            self._by_budget(lambda law, part: law.variance(part), index, budget)
            for index in (below, above)
        )
        mixed = (1 - up) * at_below + up * at_above
        # The decoded mean moves by one step between the two points, hence up * (1 - up).
        return self.value_range.step**2 * (mixed + up * (1 - up))

    def report_probabilities(self, readings: ArrayLike, edges: ArrayLike) -> Floats:
        """Return ``Pr[edges[b] <= report < edges[b + 1]]`` for each reading (row) and bin.

        The last bin includes its upper edge. Contributors must share one budget.

        Raises:
            ValueError: If contributors differ in epsilon, or the edges do not ascend.
        """
        bounds = np.asarray(edges, dtype=np.float64)
        if bounds.ndim != 1 or bounds.size < 2 or not (np.diff(bounds) > 0).all():
            raise ValueError("edges must be two or more ascending numbers.")
        if isinstance(self.epsilon, tuple):
            raise ValueError("epsilon must be one number here; ask for each budget on its own.")
        law = self._law(self.epsilon)
        places = (bounds - self.value_range.low) / self.value_range.step
        # A code falls below an edge if it is at most the last whole number before it.
        last_below = np.ceil(places - 1e-9) - 1
        last_below[-1] = np.floor(places[-1] + 1e-9)
        below, above, up = self._grid_place(np.atleast_1d(np.asarray(readings, dtype=np.float64)))
        at_below = law.cumulative(below[:, None], last_below[None, :])
        at_above = law.cumulative(above[:, None], last_below[None, :])
        return np.diff((1 - up)[:, None] * at_below + up[:, None] * at_above, axis=1)

    def _grid_place(self, values: Floats) -> tuple[Indices, Indices, Floats]:
        """Return the grid points beside each value and the share of the upper one."""
        steps = self.value_range.steps
        exact = np.clip((values - self.value_range.low) / self.value_range.step, 0, steps)
        below = np.floor(exact)
        index = below.astype(np.int64)
        return index, np.minimum(index + 1, steps), exact - below

    def _by_code(
        self,
        reports: ArrayLike,
        epsilon: ArrayLike | None,
        function: Callable[[Law, Codes], Floats],
    ) -> Floats:
        values = np.asarray(reports, dtype=np.float64)
        exact = (values - self.value_range.low) / self.value_range.step
        codes = np.rint(exact)
        if not (np.abs(exact - codes) < _GRID_TOLERANCE).all():
            raise ValueError(
                f"reports must be points of the grid from {self.value_range.low} in steps of "
                f"{self.value_range.step}; was another range or number of steps used?"
            )

        # No law reaches that far, and whole numbers of 64 bits do.
        codes = np.clip(codes, -(2.0**62), 2.0**62)

        def checked(law: Law, code: Codes) -> Floats:
            if not law.is_code(code).all():
                raise ValueError("reports must be such as this randomizer can draw; one is not.")
            return function(law, code)

        return self._by_budget(
            checked, codes.astype(np.int64), self._budget_of(values.shape, epsilon)
        )

    def _budget_of(
        self, shape: tuple[int, ...], epsilon: ArrayLike | None, *, own: bool = False
    ) -> Floats | float:
        """Return the budgets in the shape of the values, or one number where all share it."""
        if not isinstance(self.epsilon, tuple):
            return self.epsilon
        if epsilon is None and not own:
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
        self, function: Callable[[Law, Any], Floats], codes: Indices, budget: Floats | float
    ) -> Floats:
        if isinstance(budget, float):
            return function(self._law(budget), codes)
        result = np.empty(codes.shape)
        for value in np.unique(budget):
            chosen = budget == value
            result[chosen] = function(self._law(float(value)), codes[chosen])
        return result


def as_readings(readings: ArrayLike) -> Floats:
    """Return readings as floats, or refuse them without showing one.

    Raises:
        TypeError: If they are not numbers.
    """
    try:
        return np.asarray(readings, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        # The error underneath quotes what it could not read.
        raise TypeError("readings must be numbers, got something else.") from None


def _checked_epsilon(epsilon: object) -> float | tuple[float, ...]:
    if isinstance(epsilon, str | bytes):
        raise TypeError(f"epsilon must be a number, got {epsilon!r}.")
    if isinstance(epsilon, Sequence) or (isinstance(epsilon, np.ndarray) and epsilon.ndim):
        if len(epsilon) == 0:
            raise ValueError("epsilon must hold one budget for each contributor, got none.")
        return tuple(_checked_budget(value) for value in epsilon)
    return _checked_budget(epsilon)


def _checked_budget(value: object) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"epsilon must be a number, got {value!r}.")
    budget = float(value)
    if not (math.isfinite(budget) and budget > 0):
        raise ValueError(f"epsilon must be greater than 0 and finite, got {budget}.")
    if not MIN_EPSILON <= budget <= MAX_EPSILON:
        raise ValueError(
            f"epsilon must be between {MIN_EPSILON:g} and {MAX_EPSILON:g}, got {budget:g}."
        )
    return budget
