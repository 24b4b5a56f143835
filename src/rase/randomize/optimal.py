"""The optimal mechanism for a mean: the unbiased channel of least worst variance, as a table."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from rase.errors import NotIdentifiable
from rase.kernels.fixed import WORD
from rase.kernels.integers import integers_below
from rase.kernels.words import Random, Words
from rase.randomize.bounded import Duchi
from rase.randomize.certificate import Drawn
from rase.randomize.grid import GridRandomizer
from rase.randomize.ladder import LOWEST_RUNG, programme_below
from rase.randomize.optimum_bound import lower_bound
from rase.randomize.programme import Programme
from rase.randomize.protocol import Codes, Flags, Floats, Law

__all__ = ["Optimal", "ProgrammeLaw"]

_GUIDE_BITS = 12
_GUIDE_SHIFT = np.uint64(64 - _GUIDE_BITS)


@dataclass(frozen=True)
class Optimal(GridRandomizer):
    """Report one of about a hundred places, by the channel that a linear programme found best.

    Among all epsilon-LDP channels with an unbiased reading of each report none has a worst variance
    much below this one's: `lower_bound` proves it within 0.2 % up to epsilon 4, 1 % at 6 and 5 % at
    8. Channels are shipped for budgets from 0.25 to 8; a budget between two of them is served by
    the one below, whose epsilon the certificate states as ``drawn_epsilon``, and below 0.25 by
    Duchi's bit, which is optimal there within 1 %. Reports are made for means: the spread of
    readings cannot be read from them without bias.

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
        below, above, up = self._grid_place(np.asarray(reading, dtype=np.float64))
        law = self._law(self.budgets[-1])
        if isinstance(law, ProgrammeLaw):
            # Both moments are mixed as the rows are: no need for the whole law of each reading.
            (mean, square), (mean_above, square_above) = law.moments(below), law.moments(above)
            mean, square = mean + up * (mean_above - mean), square + up * (square_above - square)
            middle = self.value_range.steps / 2
            return low + step * (middle + mean), step * step * (square - np.square(mean))
        codes = np.array(sorted(law.weights(0)), dtype=np.float64)
        edges = np.append(codes - 0.5, codes[-1] + 0.5)
        first, second = (
            np.diff(law.cumulative(index[..., None], edges), axis=-1) for index in (below, above)
        )
        chances = (1 - up)[..., None] * first + up[..., None] * second
        middle = self.value_range.steps / 2
        mean = chances @ (codes - middle)
        square = chances @ np.square(codes - middle)
        return low + step * (middle + mean), step * step * (square - np.square(mean))

    def _law(self, epsilon: float) -> Law:
        if self.programme is not None:
            return _programme_law(self.programme, self.value_range.steps)
        if epsilon < LOWEST_RUNG:
            return Duchi(epsilon, self.value_range)._law(epsilon)
        return _programme_law(programme_below(epsilon), self.value_range.steps)


class ProgrammeLaw:
    """Round the index to an input of a programme at random, then draw from that input's row.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, programme: Programme, steps: int) -> None:
        """Lay the programme's outputs out on the grid."""
        self.steps, self.parts = steps, programme.parts
        self._programme = programme
        self._places = np.array(programme.places(steps), dtype=np.int64)
        self._values = steps * (np.array(programme.values) + 0.5)
        sums = [list(accumulate(row[:-1])) for row in programme.rows]
        self._sums = np.array(sums, dtype=np.uint64)
        starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << _GUIDE_SHIFT
        self._guide = np.array([np.searchsorted(row, starts, side="right") for row in self._sums])
        self._chances = np.array(programme.rows, dtype=np.float64) / WORD

    @property
    def drawn(self) -> Drawn:
        """The largest ratio of the integer weights."""
        return self._programme.drawn(self.steps)

    def weights(self, index: int) -> dict[int, int]:
        """Return the weights of the two inputs beside the index, mixed as they are drawn."""
        below, rest = divmod(index * self.parts, self.steps)
        rows = self._programme.rows
        above = rows[min(below + 1, self.parts)]
        return {
            place: (self.steps - rest) * low + rest * high
            for place, low, high in zip(self._places.tolist(), rows[below], above, strict=True)
        }

    def sample(self, index: Codes, source: Random) -> Codes:
        """Round, then draw: one word each."""
        below, rest = np.divmod(index * self.parts, self.steps)
        row = below + (integers_below(np.full(index.shape, self.steps), source) < rest)
        drawn = self._outputs(row.reshape(-1), source.words(index.size))
        return np.asarray(self._places[drawn].reshape(index.shape))

    def _outputs(self, row: Codes, words: Words) -> Codes:
        """Return the output that each word falls into, in its own row.

        The leading bits of a word lead to the first output it can fall into; from there it is a
        step or none for nearly all, and the others go on.
        """
        drawn = self._guide[row, (words >> _GUIDE_SHIFT).astype(np.int64)]
        last = self._sums.shape[1]
        waiting = np.flatnonzero(drawn < last)
        while waiting.size:
            passed = self._sums[row[waiting], drawn[waiting]] <= words[waiting]
            waiting = waiting[passed]
            drawn[waiting] += 1
            waiting = waiting[drawn[waiting] < last]
        return np.asarray(drawn)

    def is_code(self, code: Codes) -> Flags:
        """Accept the places of the outputs."""
        return np.isin(code, self._places)

    def decode(self, code: Codes) -> Floats:
        """Read each output as its value."""
        at = np.minimum(np.searchsorted(self._places, code), self._places.size - 1)
        return np.asarray(self._values[at])

    def decode_square(self, code: Codes) -> Floats:
        """Refuse: between inputs a square cannot be read without bias."""
        raise NotIdentifiable(
            "reports of the optimal mechanism are made for the mean and do not tell the spread of "
            "readings without bias; use BudgetAware, Piecewise or Hybrid."
        )

    def variance(self, index: Codes) -> Floats:
        """Return E[value^2] less the squared index, both about the middle for accuracy."""
        middle = self.steps / 2
        squares = self._mixed(self._chances @ np.square(self._values - middle), index)
        return np.asarray(squares - np.square(index - middle))

    def moments(self, index: Codes) -> tuple[Floats, Floats]:
        """Return mean and mean square of the codes themselves, both about the middle."""
        codes = self._places - self.steps / 2
        mean, square = self._chances @ codes, self._chances @ np.square(codes)
        return self._mixed(mean, index), self._mixed(square, index)

    def cumulative(self, index: Codes, code: Floats) -> Floats:
        """Return the mixed distribution functions of the two inputs beside each index."""
        sums = np.hstack([np.zeros((self.parts + 1, 1)), np.cumsum(self._chances, axis=1)])
        sums[:, -1] = 1.0
        at = np.searchsorted(self._places, code, side="right")
        below, rest = np.divmod(index * self.parts, self.steps)
        share = rest / self.steps
        above = np.minimum(below + 1, self.parts)
        return np.asarray((1 - share) * sums[below, at] + share * sums[above, at])

    def _mixed(self, by_input: Floats, index: Codes) -> Floats:
        below, rest = np.divmod(index * self.parts, self.steps)
        share = rest / self.steps
        above = np.minimum(below + 1, self.parts)
        return np.asarray((1 - share) * by_input[below] + share * by_input[above])


@lru_cache(maxsize=256)
def _programme_law(programme: Programme, steps: int) -> ProgrammeLaw:
    return ProgrammeLaw(programme, steps)
