"""The optimal mechanism for a mean: the unbiased channel of least worst variance, as a table."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from rase.kernels.fixed import WORD
from rase.kernels.reports import RowsKernel, draw_reports
from rase.kernels.words import Random
from rase.randomize.bounded import Duchi
from rase.randomize.certificate import Drawn
from rase.randomize.grid import GridRandomizer
from rase.randomize.ladder import LOWEST_RUNG, programme_below
from rase.randomize.optimum_bound import lower_bound
from rase.randomize.programme import Programme
from rase.randomize.protocol import Codes, Flags, Floats, Indices, Law
from rase.stream import ValueRange

__all__ = ["Optimal", "ProgrammeLaw"]


@dataclass(frozen=True)
class Optimal(GridRandomizer):
    """Report one of about a hundred places, by the channel that a linear programme found best.

    Among all epsilon-LDP channels with an unbiased reading of each report none has a worst variance
    much below this one's: `lower_bound` proves it within 0.2 % up to epsilon 4, 1 % at 6 and 5 % at
    8. Channels are shipped for budgets from 0.25 to 8; a budget between two of them is served by
    the one below, whose epsilon the certificate states as ``drawn_epsilon``, and below 0.25 by
    Duchi's bit, which is optimal there within 1 %. Squares are read without bias on average over
    the places between two inputs, and within a sixth of their squared distance (1.6e-4 squared
    widths up to epsilon 2, 4e-5 above) at each.

    Guarantee: epsilon-LDP for any two readings of the range; the largest ratio of the integer
    weights is computed exactly (tests/randomize/test_optimal.py enumerates it). Assumes secure
    noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        value_range: The public range.
        programme: A channel solved with ``rase.lab.optimum`` for exactly this epsilon; the shipped
            ladder unless given. Devices always use the ladder.

    Raises:
        ValueError: If the programme was solved for more than epsilon.

    Example:
        >>> from rase import Hybrid, Optimal, ValueRange
        >>> public = ValueRange(0, 1)
        >>> [round(float(make(4.0, public).variance(0.3)), 3) for make in (Hybrid, Optimal)]
        [0.055, 0.032]
    """

    programme: Programme | None = None

    def __post_init__(self) -> None:
        """Check that a programme given keeps the budget."""
        super().__post_init__()
        if self.programme is None:
            return
        if not isinstance(self.programme, Programme):
            raise TypeError(f"programme must be a Programme, got {self.programme!r}.")
        if self.programme.epsilon > self.budgets[0]:
            raise ValueError(
                f"programme must be solved for at most epsilon {self.budgets[0]:g}, "
                f"got {self.programme.epsilon:g}."
            )

    def lower_bound(self, *, epsilon: float | None = None) -> float:
        """Return the worst variance below which no unbiased mechanism of this budget can go.

        Computed with fractions from the dual prices that are shipped with the channel, in the
        squared unit of the readings; for a budget between two rungs it is that of the rung below.

        Args:
            epsilon: One of the budgets; the largest unless given.

        Raises:
            ValueError: If no contributor has this budget, or it is below the ladder.
        """
        budget = self.certificate(epsilon=epsilon).epsilon
        programme = self.programme or programme_below(budget)
        return self.value_range.width**2 * lower_bound(programme.epsilon, programme.prices)

    @property
    def channel(self) -> Floats | None:
        """The probability of each output for each input; None where Duchi's bit serves.

        Contributors must share one budget.
        """
        law = self._law(self.budgets[-1])
        return law.rows if isinstance(law, ProgrammeLaw) else None

    @property
    def reach(self) -> float:
        """How far beyond the ends of the range reports lie, in the unit of the readings."""
        codes = self._law(self.budgets[0]).weights(0)
        return self.value_range.step * (max(codes) - self.value_range.steps)

    def report_moments(self, reading: ArrayLike) -> tuple[Floats, Floats]:
        """Return mean and variance of the report of each reading as it is, not decoded.

        Contributors must share one budget.

        Args:
            reading: One or more readings; those outside the range count at its nearest end.
        """
        low, step = self.value_range.low, self.value_range.step
        exact, _, _ = self._grid_place(np.asarray(reading, dtype=np.float64))
        law = self._law(self.budgets[-1])
        middle = self.value_range.steps / 2
        if isinstance(law, ProgrammeLaw):
            # Both moments are mixed as the rows are: no need for the whole law of each reading.
            mean, square = law.moments(exact)
        else:
            codes = np.array(sorted(law.weights(0)), dtype=np.float64)
            edges = np.append(codes - 0.5, codes[-1] + 0.5)
            chances = np.diff(law.cumulative(exact[..., None], edges), axis=-1)
            mean, square = chances @ (codes - middle), chances @ np.square(codes - middle)
        return low + step * (middle + mean), step * step * (square - np.square(mean))

    def _grid_place(self, values: Floats) -> tuple[Indices, Indices, Floats]:
        """Return where each value stands: rows are mixed between inputs, not grid points."""
        steps = self.value_range.steps
        exact = np.clip((values - self.value_range.low) / self.value_range.step, 0, steps)
        return exact, exact, np.zeros(exact.shape)

    def _law(self, epsilon: float) -> Law:
        if self.programme is not None:
            return _programme_law(self.programme, self.value_range.steps)
        if epsilon < LOWEST_RUNG:
            return Duchi(epsilon, self.value_range)._law(epsilon)
        return _programme_law(programme_below(epsilon), self.value_range.steps)


class ProgrammeLaw:
    """Draw from the rows of the two inputs beside a reading, mixed.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, programme: Programme, steps: int) -> None:
        """Lay the programme's outputs out on the grid."""
        self.steps, self.parts = steps, programme.parts
        self._programme = programme
        self._places = np.array(programme.places(steps), dtype=np.int64)
        self._values = steps * (np.array(programme.values) + 0.5)
        sums = [list(accumulate(row[:-1])) for row in programme.rows]
        self._kernel = RowsKernel(np.array(sums, dtype=np.uint64), self._places, steps)
        self._chances = np.array(programme.rows, dtype=np.float64) / WORD

    @property
    def drawn(self) -> Drawn:
        """The largest ratio of the integer weights."""
        return self._programme.drawn(self.steps)

    def weights(self, index: int) -> dict[int, int]:
        """Return the weights of the two inputs beside the index, mixed as they are drawn."""
        row = self._programme.mixed_row(*divmod(index * self.parts, self.steps), self.steps)
        return dict(zip(self._places.tolist(), row, strict=True))

    def reports(self, readings: Floats, public: ValueRange, *, source: Random) -> Floats | None:
        """Draw the reports; None if a reading is not finite."""
        return draw_reports(readings, self._kernel, public=public, source=source)

    def is_code(self, code: Codes) -> Flags:
        """Accept the places of the outputs."""
        return np.asarray(self._places[self._output(code)] == code)

    def decode(self, code: Codes) -> Floats:
        """Read each output as its value."""
        return np.asarray(self._values[self._output(code)])

    def decode_square(self, code: Codes) -> Floats:
        """Read each output as its square value; see `square_values`."""
        return np.asarray(self.square_values[self._output(code)])

    @cached_property
    def square_values(self) -> Floats:
        """What each output is read as for the squared index, about unbiased.

        The rows are linearly independent, so there are values whose mean is the squared index at
        every input; of all such the ones of least variance over the inputs are taken. Between two
        inputs every mean of a report is a straight line and lies above the square by up to a
        quarter of the squared gap, on average by a sixth, which is taken off.
        """
        inputs = np.arange(self.parts + 1) / self.parts - 0.5
        weight = np.sqrt(self._chances.mean(axis=0))
        # The least norm in these coordinates is the least mean square over the inputs.
        solved = np.linalg.lstsq(self._chances / weight, np.square(inputs), rcond=None)[0]
        squares = solved / weight - 1 / (6 * self.parts**2)
        shifted = self.steps**2 * squares + self.steps * (self._values - self.steps / 4)
        return np.asarray(shifted)

    def _output(self, code: Codes) -> Codes:
        return np.minimum(np.searchsorted(self._places, code), self._places.size - 1)

    @property
    def rows(self) -> Floats:
        """The probability of each output (column) for each input."""
        return self._chances

    def variance(self, index: Indices) -> Floats:
        """Return E[value^2] less the squared index, both about the middle for accuracy."""
        middle = self.steps / 2
        squares = self._mixed(self._chances @ np.square(self._values - middle), index)
        return np.asarray(squares - np.square(index - middle))

    def moments(self, index: Indices) -> tuple[Floats, Floats]:
        """Return mean and mean square of the codes themselves, both about the middle."""
        codes = self._places - self.steps / 2
        mean, square = self._chances @ codes, self._chances @ np.square(codes)
        return self._mixed(mean, index), self._mixed(square, index)

    def cumulative(self, index: Indices, code: Floats) -> Floats:
        """Return the mixed distribution functions of the two inputs beside each index."""
        sums = np.hstack([np.zeros((self.parts + 1, 1)), np.cumsum(self._chances, axis=1)])
        sums[:, -1] = 1.0
        at = np.searchsorted(self._places, code, side="right")
        below, above, share = self._beside(index)
        return np.asarray((1 - share) * sums[below, at] + share * sums[above, at])

    def _mixed(self, by_input: Floats, index: Indices) -> Floats:
        below, above, share = self._beside(index)
        return np.asarray((1 - share) * by_input[below] + share * by_input[above])

    def _beside(self, index: Indices) -> tuple[Codes, Codes, Floats]:
        """Return the inputs beside each place of the grid, and the share of the upper one."""
        whole, rest = np.divmod(index * self.parts, self.steps)
        below = whole.astype(np.int64)
        return below, np.minimum(below + 1, self.parts), rest / self.steps


@lru_cache(maxsize=256)
def _programme_law(programme: Programme, steps: int) -> ProgrammeLaw:
    return ProgrammeLaw(programme, steps)
