"""What does a Mallows permutation cost, at any theta, beside a uniform one and beside its peers?

Secure randomness is included on our side; the peers draw from NumPy's generator.
"""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.harness import Row, Target, peer, repeated, taken_in_turn, versions
from rase import Mallows
from rase.kernels import backend

__all__ = ["rows"]

THETAS = (0.0, 1e-3, 0.05, 0.25, 1.0, 5.0)


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare single orders, batches of small rounds, and a thousand items with prefsampling."""
    generator = np.random.default_rng(1)
    what = f"Mallows, {backend.kernels_in_use()}"
    for n in (10**4,) if quick else (10**4, 10**5, 10**6):
        times = max(10**6 // n, 1) if not quick else 10
        for theta in THETAS:
            law = Mallows(n, theta)
            timed = taken_in_turn(
                partial(repeated, law.sample, times),
                partial(repeated, partial(generator.permutation, n), times),
                repeats=3 if quick else 7,
            )
            yield Row(
                what=what,
                against="numpy Generator.permutation (uniform)",
                size=f"n = {n:.0e}, theta = {theta:g}",
                ratio=timed.ratio,
                target=Target("at most", 3.0),
                ours_s=timed.ours_s / times,
                theirs_s=timed.theirs_s / times,
                repeats=timed.repeats,
                packages=versions("numpy", "cryptography"),
            )
    rounds = 10**3 if quick else 10**4
    table = np.tile(np.arange(64), (rounds, 1))
    law = Mallows(64, 0.25)
    timed = taken_in_turn(
        lambda: law.samples(rounds),
        lambda: generator.permuted(table, axis=1),
        repeats=3 if quick else 9,
    )
    yield Row(
        what=what,
        against="numpy Generator.permuted (uniform)",
        size=f"{rounds:.0e} rounds of 64, theta = 0.25",
        ratio=timed.ratio,
        target=Target("at most", 1.0),
        ours_s=timed.ours_s,
        theirs_s=timed.theirs_s,
        repeats=timed.repeats,
        packages=versions("numpy"),
    )
    yield from _prefsampling(quick=quick)


def _prefsampling(*, quick: bool) -> Iterator[Row]:
    ordinal = peer("prefsampling.ordinal")
    n, theta, times, voters = (100, 0.25, 20, 2) if quick else (1000, 0.25, 1000, 4)
    law, phi = Mallows(n, theta), math.exp(-theta)
    cases = (
        (f"{times} orders at once, {voters} of the peer", partial(law.samples, times), voters, ""),
        (
            "one order at a time",
            partial(repeated, law.sample, times),
            1,
            "a third of our time goes into a fresh key for every order",
        ),
    )
    for how, ours, drawn, note in cases:
        timed = taken_in_turn(
            ours, partial(ordinal.mallows, drawn, n, phi), repeats=2 if quick else 5
        )
        yield Row(
            what=f"Mallows, {backend.kernels_in_use()}",
            against="prefsampling mallows",
            size=f"n = {n}, theta = {theta:g}, {how}",
            ratio=(timed.theirs_s / drawn) / (timed.ours_s / times),
            means="its time / our time, per order",
            target=None if quick else Target("at least", 5000),
            ours_s=timed.ours_s / times,
            theirs_s=timed.theirs_s / drawn,
            repeats=timed.repeats,
            packages=versions("prefsampling"),
            note=note,
        )
