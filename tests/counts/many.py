"""Estimates of many rounds at once, and what else tests ask of reports."""

import numpy as np

from rase.arrays import Floats
from rase.counts.counts import Counts, as_counts
from rase.counts.estimate import Estimate
from rase.counts.mean import OF_READINGS
from rase.counts.moments import Moments, moments_of
from rase.laws.randomizer import RangeRandomizer

__all__ = ["means_of", "moments_of_rounds", "spread_of"]


def moments_of_rounds(rounds: Floats, randomizer: RangeRandomizer) -> Moments:
    """Return the moments of rounds of reports, one a row, each report a row of the counts."""
    places = randomizer.places_of(rounds.ravel())
    counts = Counts(places, np.ones(places.size, dtype=np.int64))
    group = np.repeat(np.arange(len(rounds)), rounds.shape[1])
    return moments_of(counts, randomizer, group=group, groups=len(rounds))


def spread_of(reports: Floats, randomizer: RangeRandomizer) -> float | None:
    """Return the variance of a round's readings as its reports tell it; None for bits."""
    spread = moments_of(as_counts(reports, randomizer), randomizer).spread
    return None if spread is None else float(spread[0])


def means_of(rounds: Floats, randomizer: RangeRandomizer) -> list[Estimate]:
    """Return what `unbiased_mean` says of each round; tests/counts/test_moments.py compares."""
    found = moments_of_rounds(rounds, randomizer)
    columns = (found.mean, found.standard_error, found.n, found.degrees_of_freedom)
    return [
        Estimate(
            value,
            error,
            n=n,
            method="unbiased_mean",
            target=OF_READINGS,
            degrees_of_freedom=degrees,
            lowest=randomizer.domain.low,
            highest=randomizer.domain.high,
        )
        for value, error, n, degrees in zip(*(one.tolist() for one in columns), strict=True)
    ]
