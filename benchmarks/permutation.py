"""What does a secure uniform permutation cost beside NumPy's unsafe one?

Keystream included: each of ours takes a fresh key of the operating system and one word an item.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.harness import Row, Target, repeated, taken_in_turn, versions
from rase import Mallows
from rase.kernels import backend

__all__ = ["rows"]


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare at sizes from ten thousand to ten million."""
    generator = np.random.default_rng(1)
    for n in (10**4, 10**5) if quick else (10**4, 10**5, 10**6, 10**7):
        times = max(10**6 // n, 1)
        uniform = Mallows(n, 0.0)
        timed = taken_in_turn(
            partial(repeated, uniform.sample, times),
            partial(repeated, partial(generator.permutation, n), times),
            repeats=3 if quick else 9,
        )
        yield Row(
            what=f"secure uniform permutation, {backend.kernels_in_use()}",
            against="numpy Generator.permutation (unsafe)",
            size=f"n = {n:.0e}",
            ratio=timed.ratio,
            target=Target("at most", 0.5),
            ours_s=timed.ours_s / times,
            theirs_s=timed.theirs_s / times,
            repeats=timed.repeats,
            packages=versions("numpy", "cryptography"),
        )
