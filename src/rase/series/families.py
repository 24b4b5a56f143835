"""Families of Kalman filters: models of one shape that differ in how strongly each part moves.

The mean of a fleet is a level that wanders, an irregular part that comes and goes, and waves whose
sizes drift. A family holds as many models as its grid has points, and takes a round into all of
them at once. Its state is small and of fixed size; what a round costs does not depend on how many
came before.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from rase.arrays import Floats
from rase.kernels import backend

__all__ = ["DAY_S", "TOGETHER", "Family", "Grid", "Prediction"]

DAY_S = 86_400.0
# A profile changes by this share of itself a day, in standard deviations.
_PROFILE_DRIFT = 0.02
# Changes of the covariances are kept apart for so many rounds and then applied at once: going
# through the whole memory of all models in every round costs twice as much.
TOGETHER = 8
# The compiled kernels work off eight parts of a state at a time; smaller states are NumPy's.
_LEAST_COMPILED = 8


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The models of a family, one an entry; scales are shares of the width of the range.

    Args:
        level: How far the level wanders in a day, as a standard deviation.
        irregular: How large the irregular part is, likewise.
        lasting_s: How long it lasts: 0 if the next round knows nothing of it.
        profile: How large waves are, likewise.
        prior: How likely each model is before any round, as odds.
        sizes: The size of each wave against ``profile``; each has two states.
    """

    level: Floats
    irregular: Floats
    lasting_s: Floats
    profile: Floats
    prior: Floats
    sizes: Floats

    @classmethod
    def of(cls, models: Floats, *, sizes: Floats) -> Self:
        """Return the grid of models given a row each: all fields but the sizes, in their order."""
        level, irregular, lasting_s, profile, prior = models.T
        return cls(level, irregular, lasting_s, profile, prior, sizes)

    @property
    def movement(self) -> Floats:
        """How far the mean of each model moves in a day, as a share of the width."""
        waves = float(np.square(self.sizes).sum())
        return np.sqrt(self.level**2 + self.irregular**2 + waves * self.profile**2)


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What models expect of a round before its reports.

    Args:
        means: The mean, one run a row and one model a column.
        variances: Its variance by movement, one entry a model.
        gains: The covariance of the state with the mean, one model a row.
        seen: How much of each part of the state shows in the round.
    """

    means: Floats
    variances: Floats
    gains: Floats
    seen: Floats


class Family:
    """Follow rounds under all models of a grid.

    Runs share covariances: they differ in what the rounds say, not in how sure the rounds are.

    Args:
        grid: The models.
        low: The lower end of the public range.
        width: Its width.
        runs: How many runs are followed at once.
    """

    def __init__(self, grid: Grid, low: float, width: float, *, runs: int = 1) -> None:
        count, size = len(grid.level), 2 + 2 * len(grid.sizes)
        self.count, self.size = count, size
        self._lasting_s = np.ascontiguousarray(grid.lasting_s)
        self._level_per_s = (grid.level * width) ** 2 / DAY_S
        self._irregular = (grid.irregular * width) ** 2
        self.state = np.zeros((runs, count, size))
        self.state[:, :, 0] = low + width / 2
        self.covariance = np.zeros((count, size, size))
        # Before any report a mean is as likely near an end of the range as in its middle: both ends
        # lie within one deviation. With that of the uniform law the middle would pull for days.
        self.covariance[:, 0, 0] = width**2 / 3
        self.covariance[:, 1, 1] = self._irregular
        amplitudes = (grid.profile[:, None] * width * np.repeat(grid.sizes, 2)) ** 2
        # One view of all diagonals: adding to it costs one call.
        self._diagonal = self.covariance.reshape(count, -1)[:, :: size + 1]
        self._diagonal[:, 2:] = amplitudes
        self._drift_per_s = np.zeros((count, size))
        self._drift_per_s[:, 0] = self._level_per_s
        self._drift_per_s[:, 2:] = amplitudes * (_PROFILE_DRIFT**2 / DAY_S)
        # What `TOGETHER` rounds change of the covariances is kept apart and then applied at once:
        # how much is left of the irregular part, what is added to the diagonal, and vectors whose
        # products with themselves are to be taken off, of which so many are pending.
        self._left = np.ones(count)
        self._added = np.zeros((count, size))
        self._vectors = np.zeros((TOGETHER, count, size))
        self.pending = 0
        # Written over again; memory of this size that is new each time costs more than what is
        # computed in it.
        self._products = np.empty_like(self.covariance)
        self._kept: tuple[float, Floats] = (math.nan, np.ones(count))

    def advance(self, passed_s: float) -> None:
        """Let time pass."""
        left = self.left_after(passed_s)
        self.state[:, :, 1] *= left
        self._left *= left
        self._vectors[: self.pending, :, 1] *= left
        self._added[:, 1] *= left * left
        self._added += passed_s * self._drift_per_s
        self._added[:, 1] += self._irregular * (1 - left * left)

    def filter(self, rounds: Floats, seen: Floats, *, gains: Floats) -> tuple[Floats, Floats]:
        """Take rounds of one run in, one after the other.

        Args:
            rounds: How much time passed before each, below 0 for none; its mean; its variance by
                noise, and that by who reported: a round a row.
            seen: How much of each part shows, likewise.
            gains: Is filled with what `Prediction` says of each round, unless it is empty.

        Returns:
            How far each round was off under each model, and the variance of that: a round a row.
        """
        surprises, totals = np.empty((len(rounds), self.count)), np.empty((len(rounds), self.count))
        kernels = backend.native
        if kernels is None or self.size < _LEAST_COMPILED:
            self._numpy_filter(rounds, seen, gains, surprises=surprises, totals=totals)
        else:
            kernels.filter_rounds(self.arrays, rounds, seen, surprises, totals, gains)
            self.pending = (self.pending + len(rounds)) % TOGETHER
        return surprises, totals

    def _numpy_filter(
        self, rounds: Floats, seen: Floats, gains: Floats, *, surprises: Floats, totals: Floats
    ) -> None:
        for row, (passed_s, value, noise, sampling) in enumerate(rounds.tolist()):
            if passed_s >= 0:
                self.advance(passed_s)
            expected = self.predict(seen[row])
            totals[row] = expected.variances + sampling + noise
            surprises[row] = value - expected.means[0]
            self.take(expected, surprises[row : row + 1], totals[row])
            if len(gains):
                gains[row] = expected.gains

    @property
    def arrays(self) -> tuple[Floats | int, ...]:
        """All that the compiled kernels need; they change the first five in place."""
        own = (self.state, self.covariance, self._left, self._added, self._vectors)
        fixed = (self._lasting_s, self._drift_per_s, self._irregular)
        return (*own, *fixed, self.pending)

    @property
    def decay(self) -> Floats:
        """How much the last passage of time left of the irregular part of each model."""
        return self._kept[1]

    def left_after(self, passed_s: float) -> Floats:
        """Return how much such a passage of time leaves of the irregular part of each model."""
        if passed_s != self._kept[0]:
            with np.errstate(divide="ignore"):
                self._kept = passed_s, np.exp(-passed_s / self._lasting_s)
        return self._kept[1]

    def predict(self, seen: Floats) -> Prediction:
        """Say what the models expect of a round in which so much of each part shows."""
        gains = (self.covariance.reshape(-1, self.size) @ seen).reshape(self.count, self.size)
        gains -= ((1 - self._left) * seen[1])[:, None] * self.covariance[:, 1, :]
        gains[:, 1] *= self._left
        gains += self._added * seen
        if self.pending:
            vectors = self._vectors[: self.pending]
            gains -= np.einsum("bk,bki->ki", vectors @ seen, vectors)
        return Prediction(self.state @ seen, gains @ seen, gains, seen)

    def take(self, prediction: Prediction, surprises: Floats, totals: Floats) -> None:
        """Take the round in.

        Args:
            prediction: What was expected.
            surprises: How far the round's mean is off it, one run a row.
            totals: The variance of that, one entry a model.
        """
        self._vectors[self.pending] = prediction.gains / np.sqrt(totals)[:, None]
        self.pending += 1
        if self.pending == TOGETHER:
            self._apply()
        self.state += prediction.gains * (surprises / totals)[:, :, None]

    def _apply(self) -> None:
        """Apply to the covariances what was kept apart."""
        self.covariance[:, 1, :] *= self._left[:, None]
        self.covariance[:, :, 1] *= self._left[:, None]
        self._diagonal += self._added
        # A product of a matrix with itself is symmetric to the last bit.
        vectors = self._vectors.transpose(1, 0, 2)
        np.matmul(vectors.transpose(0, 2, 1), vectors, out=self._products)
        self.covariance -= self._products
        self.pending = 0
        self._left[:], self._added[:] = 1.0, 0.0

    def numbers(self) -> list[Floats]:
        """Return the state of one run; of each covariance one half, as it is symmetric."""
        half = self.covariance[(slice(None), *np.triu_indices(self.size))]
        vectors = self._vectors[: self.pending]
        apart = [self._left, self._added.ravel(), vectors.ravel()]
        return [self.state.ravel(), half.ravel(), *apart]

    @property
    def lengths(self) -> list[int]:
        """How many numbers there are in each entry of `numbers`, by how many are pending."""
        vectors = self.count * self.size
        half = vectors * (self.size + 1) // 2
        return [vectors, half, self.count, vectors, self.pending * vectors]

    def restore(
        self, state: Floats, half: Floats, left: Floats, added: Floats, vectors: Floats
    ) -> None:
        """Take back what `numbers` returned, with as many pending."""
        self.state = state.reshape(1, self.count, self.size)
        rows, columns = np.triu_indices(self.size)
        self.covariance[:, rows, columns] = half.reshape(self.count, -1)
        self.covariance[:, columns, rows] = half.reshape(self.count, -1)
        self._left, self._added = left, added.reshape(self.count, self.size)
        self._vectors[: self.pending] = vectors.reshape(-1, self.count, self.size)
