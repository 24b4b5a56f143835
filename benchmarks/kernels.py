"""What do the public calls that draw noise and orders cost beside NumPy's unsafe ones?

Whole calls as a program makes them: values or readings in, a release or reports out; the manifest,
a fresh key and secure words are included. NumPy shuffles the same values, or draws as many floats.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.harness import Row, Target, repeated, taken_in_turn, versions
from rase import MallowsShuffle, Optimal, Range, Uniform
from rase.arrays import Floats
from rase.kernels import backend

__all__ = ["rows"]

PUBLIC = Range(0, 3000)
THETAS = (1e-3, 0.05, 1.0)
EPSILONS = (1.0, 2.0, 4.0)


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare shuffles of ten thousand to ten million values, and the law that `auto` picks."""
    generator = np.random.default_rng(1)
    sizes = (10**4,) if quick else (10**4, 10**5, 10**6, 10**7)
    for n in sizes:
        values = generator.uniform(PUBLIC.low, PUBLIC.high, n)
        permuted = partial(generator.permutation, values)
        yield _row(
            "Uniform().shuffle(values)",
            (partial(Uniform().shuffle, values), permuted),
            n=n,
            limit=0.6,
            quick=quick,
        )
        for theta in THETAS:
            yield _row(
                f"MallowsShuffle({theta:g}).shuffle(values)",
                (partial(MallowsShuffle(theta).shuffle, values), permuted),
                n=n,
                limit=2.0,
                quick=quick,
            )
    for n in sizes[:3]:
        readings: Floats = generator.uniform(PUBLIC.low, PUBLIC.high, n)
        for epsilon in EPSILONS:
            noise = partial(generator.laplace, 0, PUBLIC.width / epsilon, n)
            yield _row(
                f"Optimal({epsilon:g}, ...).randomize(readings)",
                (partial(Optimal(epsilon, PUBLIC).randomize, readings), noise),
                n=n,
                limit=0.6,
                quick=quick,
                against="numpy Generator.laplace (unsafe)",
                note="About 10 microseconds of a call are its fresh key and Python."
                if n < 10**5
                else "",
            )


def _row(
    what: str,
    both: tuple[Callable[[], object], Callable[[], object]],
    *,
    n: int,
    limit: float,
    quick: bool,
    against: str = "numpy Generator.permutation(values) (unsafe)",
    note: str = "",
) -> Row:
    times = max((10**5 if quick else 10**6) // n, 1)
    ours, theirs = (partial(repeated, work, times) for work in both)
    timed = taken_in_turn(ours, theirs, repeats=3 if quick else 9)
    return Row(
        what=f"{what}, {backend.kernels_in_use()}",
        against=against,
        size=f"n = {n:.0e}",
        ratio=timed.ratio,
        target=Target("at most", limit),
        ours_s=timed.ours_s / times,
        theirs_s=timed.theirs_s / times,
        repeats=timed.repeats,
        packages=versions("numpy", "cryptography"),
        note=note,
    )
