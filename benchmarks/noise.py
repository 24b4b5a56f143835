"""How near does certified noise come to NumPy's unsafe noise, and how far is it ahead of its peers?

Secure randomness, rounding to the grid, clamping and the way back to the unit of the readings are
all in our time; NumPy's is that of drawing floats alone.
"""

import secrets
import sys
from collections.abc import Iterator
from functools import partial
from types import ModuleType

import numpy as np

from benchmarks.harness import Row, Target, Timed, peer, taken_in_turn, versions
from rase import BudgetAware, Duchi, Hybrid, Laplace, Optimal, Piecewise, Precision, Range
from rase.arrays import Floats
from rase.kernels import backend
from rase.kernels.entropy import SecureEntropy
from rase.laws.registry import randomizer_named

__all__ = ["rows"]

EPSILON = 1.0
PUBLIC = Range(0, 3000)
PRECISION = Precision(beta=0.5, rho=0.9)


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare bulk noise with NumPy, OpenDP and diffprivlib, and one report with the clock."""
    n, repeats = (10**5, 3) if quick else (10**6, 15)
    readings = np.random.default_rng(1).uniform(PUBLIC.low, PUBLIC.high, n)
    ours = BudgetAware(EPSILON, PUBLIC, PRECISION)
    generator = np.random.default_rng(1)
    scale = PUBLIC.width / EPSILON
    native = backend.native
    for compiled, limit in ((native, 0.40), (None, 1.5)):
        if compiled is None and limit < 1:
            continue  # nothing is compiled here
        backend.native = compiled
        timed = taken_in_turn(
            partial(ours.randomize, readings),
            partial(generator.laplace, 0, scale, n),
            repeats=repeats,
        )
        backend.native = native
        yield Row(
            what=f"certified clamped Laplace, {'NumPy alone' if compiled is None else 'compiled'}",
            against="numpy Generator.laplace (unsafe)",
            size=f"{n:.0e} reports",
            ratio=timed.ratio,
            target=Target("at most", limit),
            ours_s=timed.ours_s,
            theirs_s=timed.theirs_s,
            repeats=timed.repeats,
            packages=versions("numpy", "cryptography"),
        )
    for other in (Duchi, Piecewise, Hybrid, Optimal, Laplace):
        timed = taken_in_turn(
            partial(other(EPSILON, PUBLIC).randomize, readings),
            partial(generator.laplace, 0, scale, n),
            repeats=repeats,
        )
        yield Row(
            what=f"certified {other.__name__}, {backend.kernels_in_use()}",
            against="numpy Generator.laplace (unsafe)",
            size=f"{n:.0e} reports",
            ratio=timed.ratio,
            ours_s=timed.ours_s,
            theirs_s=timed.theirs_s,
            repeats=timed.repeats,
            packages=versions("numpy", "cryptography"),
        )
    yield _opendp(ours, readings, quick=quick)
    yield _diffprivlib(ours, readings, quick=quick)
    yield _device(quick=quick)


def _opendp(ours: BudgetAware, readings: Floats, *, quick: bool) -> Row:
    dp = peer("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    theirs = dp.m.make_laplace(*space, scale=PUBLIC.steps / EPSILON)
    count = 2_000 if quick else 50_000
    places = np.arange(count) % PUBLIC.steps
    return _per_value(
        taken_in_turn(
            lambda: ours.randomize(readings), lambda: theirs(places), repeats=2 if quick else 5
        ),
        len(readings),
        count,
        against="OpenDP make_laplace, integer vector",
        target=500,
        packages=versions("opendp"),
    )


def _diffprivlib(ours: BudgetAware, readings: Floats, *, quick: bool) -> Row:
    # Its models do not load beside newer versions of scikit-learn, and are not needed.
    sys.modules.setdefault("diffprivlib.models", ModuleType("diffprivlib.models"))
    mechanisms = peer("diffprivlib.mechanisms")
    theirs = mechanisms.LaplaceTruncated(
        epsilon=EPSILON, sensitivity=PUBLIC.width, lower=PUBLIC.low, upper=PUBLIC.high
    )
    count = 500 if quick else 5_000
    some = readings[:count].tolist()
    return _per_value(
        taken_in_turn(
            lambda: ours.randomize(readings),
            lambda: [theirs.randomise(value) for value in some],
            repeats=2 if quick else 5,
        ),
        len(readings),
        count,
        against="diffprivlib LaplaceTruncated, value by value",
        target=800,
        packages=versions("diffprivlib"),
    )


def _per_value(
    timed: Timed,
    ours: int,
    theirs: int,
    *,
    against: str,
    target: float,
    packages: tuple[str, ...],
) -> Row:
    return Row(
        what=f"certified clamped Laplace, {backend.kernels_in_use()}",
        against=against,
        size=f"{ours:.0e} reports, {theirs:.0e} of the peer",
        ratio=(timed.theirs_s / theirs) / (timed.ours_s / ours),
        means="its time / our time, per value",
        target=Target("at least", target),
        ours_s=timed.ours_s,
        theirs_s=timed.theirs_s,
        repeats=timed.repeats,
        packages=packages,
    )


def _device(*, quick: bool) -> Row:
    device = randomizer_named("budget-aware", EPSILON, domain=PUBLIC, precision=PRECISION)
    entropy = SecureEntropy()
    count = 200 if quick else 5_000
    timed = taken_in_turn(
        lambda: [device.draw_one(120.0, entropy) for _ in range(count)],
        lambda: [secrets.randbits(64) for _ in range(count)],
        repeats=3 if quick else 9,
    )
    return Row(
        what="one report on a device, pure Python, in microseconds",
        against="200 microseconds",
        size="1 report",
        ratio=1e6 * timed.ours_s / count,
        means="microseconds of CPU time",
        target=Target("at most", 200),
        ours_s=timed.ours_s / count,
        theirs_s=timed.theirs_s / count,
        repeats=timed.repeats,
        note="The other time is that of one word of secrets; a report takes one.",
    )
