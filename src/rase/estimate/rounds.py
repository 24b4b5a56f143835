"""Unbiased means of many rounds at once, as columns: the same numbers as `unbiased_mean`."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from rase.estimate.decoder import Decoder, Floats, degrees_of, stated_variance
from rase.estimate.estimate import Estimate
from rase.stream import ValueRange

__all__ = ["RoundMeans", "unbiased_means"]


@runtime_checkable
class SummingDecoder(Protocol):
    """A decoder that sums up whole rounds at once, for speed."""

    def round_sums(self, reports: Floats, /) -> tuple[Floats, Floats] | None:
        """Return for each row Σ decoded and Σ (decoded^2 - decoded square).

        None where the mechanism has no faster way than decoding each report.

        Raises:
            ValueError: If a report cannot come from this mechanism.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RoundMeans:
    """Hold the estimated means of many rounds.

    Args:
        values: The estimate of each round.
        standard_errors: Its standard error.
        n: How many reports each round has.
        degrees_of_freedom: How well the standard errors are known.
        value_range: The range of the readings.
    """

    values: Floats
    standard_errors: Floats
    n: int
    degrees_of_freedom: float
    value_range: ValueRange

    def __len__(self) -> int:
        """Return how many rounds there are."""
        return len(self.values)

    def __getitem__(self, round: int) -> Estimate:
        """Return the estimate of one round."""
        return Estimate(
            float(self.values[round]),
            float(self.standard_errors[round]),
            n=self.n,
            method="unbiased_mean",
            target="mean of the readings",
            degrees_of_freedom=self.degrees_of_freedom,
            lowest=self.value_range.low,
            highest=self.value_range.high,
        )


def unbiased_means(reports: ArrayLike, *, randomizer: Decoder) -> RoundMeans:
    """Estimate the mean of the readings of every round, without bias.

    Args:
        reports: One round a row, all of contributors with the same budget.
        randomizer: The mechanism they come from; one whose squares can be decoded.

    Raises:
        NotIdentifiable: For Duchi's bits, whose errors need the spread of each round.
        ValueError: If there are no reports, or they cannot come from ``randomizer``.
    """
    table = np.asarray(reports, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"reports must be a table of rounds, got shape {table.shape}.")
    n = table.shape[1]
    sums = randomizer.round_sums(table) if isinstance(randomizer, SummingDecoder) else None
    if sums is None:
        flat = table.reshape(-1)
        decoded = randomizer.decode(flat)
        noise = decoded * decoded - randomizer.decode_square(flat)
        sums = decoded.reshape(table.shape).sum(axis=1), noise.reshape(table.shape).sum(axis=1)
    variances = stated_variance(sums[1] / n, randomizer=randomizer)
    return RoundMeans(
        sums[0] / n,
        np.sqrt(variances) / math.sqrt(n),
        n,
        degrees_of(randomizer, n),
        randomizer.value_range,
    )
