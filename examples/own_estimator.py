"""An estimator of one's own: the median of the means of twenty parts of a round.

An estimator gets the counts of a round and the mechanism its reports came from, and returns an
`Estimate` with its error. It works on reports alone, so it costs no privacy; what it costs is
accuracy.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rase import Counts, Estimate, Range, SeededRandom, Uniform, auto, run_round
from rase.counts.counts import as_counts

PARTS = 20


def median_of_means(
    reports: Counts | ArrayLike, /, *, randomizer: Any, rng: Any = None, **_: Any
) -> Estimate:
    """Estimate the mean; a few lying devices spoil a few parts, not the median of all."""
    counts = as_counts(reports, randomizer)
    # Decoding undoes the mechanism's bias report by report. Counts have no order: the parts are
    # random because the reports are shuffled here.
    decoded = np.repeat(randomizer.decode_places(counts.places), counts.counts)
    shuffled = Uniform().shuffle(decoded, rng=rng).values
    means = np.array([part.mean() for part in np.array_split(shuffled, PARTS)])
    # The median of normal variables varies pi/2 times as much as their mean.
    error = float(means.std(ddof=1)) * math.sqrt(math.pi / 2 / PARTS)
    return Estimate(
        float(np.median(means)),
        error,
        n=counts.n,
        method="median_of_means",
        target="mean of the readings",
        degrees_of_freedom=PARTS - 1,
    )


if __name__ == "__main__":
    homes = np.random.default_rng(2026).gamma(2.0, 150.0, size=2000)
    result = run_round(
        homes,
        randomizer=auto(4.0, Range(0, 3000)),
        estimator=["unbiased_mean", median_of_means],
        rng=SeededRandom(1),  # drop it for real noise
    )
    print(f"mean of the readings: {homes.mean():.0f} W")
    for name, estimate in result.estimates.items():
        print(f"{name:>20}: {estimate} W")
