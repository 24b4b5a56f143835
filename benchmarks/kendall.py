"""How much faster than scipy is the Kendall distance of two orders?"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.harness import Row, Target, peer, taken_in_turn, versions
from rase import kendall_tau
from rase.kernels import backend

__all__ = ["rows"]


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare with scipy.stats.kendalltau, which counts the same pairs."""
    stats = peer("scipy.stats")
    generator = np.random.default_rng(1)
    for n in (10**4,) if quick else (10**4, 10**6):
        a, b = generator.permutation(n), generator.permutation(n)
        timed = taken_in_turn(
            partial(kendall_tau, a, b),
            partial(stats.kendalltau, a, b),
            repeats=3 if quick else 7,
        )
        yield Row(
            what=f"Kendall distance, {backend.kernels_in_use()}",
            against="scipy.stats.kendalltau",
            size=f"n = {n:.0e}",
            ratio=timed.speedup,
            means="its time / our time",
            target=Target("at least", 10.0) if n == 10**6 else None,
            ours_s=timed.ours_s,
            theirs_s=timed.theirs_s,
            repeats=timed.repeats,
            packages=versions("scipy", "numpy"),
        )
