"""The whole channel, enumerated: the true epsilon of small rounds lies between our bounds.

For up to five reports on a grid of up to four steps every multiset of reports, every pair of
readings of one contributor and all readings of the others are tried. Nothing here is random but the
choice of settings, so a failure is a bug and not chance.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cases import each_case

from rase import BudgetAware, Duchi, Hybrid, Laplace, Piecewise, Precision, Range
from rase.accounting.amplification import Method, amplify
from rase.accounting.blanket import Covered
from rase.accounting.clones import ClonePair
from rase.accounting.curve import crossing

Floats = NDArray[np.float64]
SETTINGS = 50
MECHANISMS = 5


@cache
def settings() -> list[tuple[Covered, int, float]]:
    """Return mechanisms, numbers of reports and deltas, drawn once from seed 2026."""
    draw = np.random.default_rng(2026)
    drawn: list[tuple[Covered, int, float]] = []
    for place in range(SETTINGS):
        epsilon = float(np.exp(draw.uniform(math.log(0.1), math.log(3))))
        bounds = Range(0, 1, steps=int(draw.integers(1, 5)))
        mechanisms: list[Covered] = [
            BudgetAware(epsilon, bounds, Precision(beta=0.5, rho=0.9)),
            Laplace(epsilon, bounds),
            Duchi(epsilon, bounds),
            Piecewise(epsilon, bounds),
            Hybrid(epsilon, bounds),
        ]
        n = int(draw.integers(2, 6))
        delta = float(np.exp(draw.uniform(math.log(1e-4), math.log(0.3))))
        drawn.append((mechanisms[place % MECHANISMS], n, delta))
    return drawn


@pytest.mark.uncovered
@pytest.mark.parametrize("kind", range(MECHANISMS))
@each_case("fleet", range(SETTINGS // MECHANISMS))
def test_the_true_guarantee_lies_between_the_bounds(kind: int, fleet: int) -> None:
    """Neither bound is ever on the wrong side of the enumerated channel."""
    mechanism, n, delta = settings()[fleet * MECHANISMS + kind]
    releases = enumerate_releases(channel(mechanism), n)
    methods: tuple[Method, ...] = ("auto", "clone", "blanket")
    for method in methods:
        result = amplify(mechanism, n, delta=delta, method=method)
        promised = result.guarantee
        assert true_delta(releases, promised.epsilon) <= promised.delta + 1e-12
        assert result.lower_bound <= result.epsilon
        if result.lower_bound > 0:
            assert true_delta(releases, result.lower_bound) >= delta * (1 - 1e-9)


def test_the_audit_rejects_a_loss_understated_by_thirty_percent() -> None:
    """A clone pair computed with 0.7 epsilon is caught by the same comparison."""
    caught = 0
    for mechanism, n, delta in settings():
        local = mechanism.guarantee.epsilon
        pair = ClonePair(0.7 * local, n, negligible=1e-6 * delta)
        claimed = crossing(pair.delta, delta, highest=0.7 * local)[1]
        caught += true_delta(enumerate_releases(channel(mechanism), n), claimed) > delta
    assert caught >= SETTINGS // 4


def test_the_enumeration_agrees_with_two_reports_counted_by_hand() -> None:
    """Two one-bit reports release 0, 1 or 2 ones, with the probabilities of two coins."""
    kept = 1 / (1 + math.exp(-1.0))
    (first, second), *_ = enumerate_releases(np.array([[kept, 1 - kept], [1 - kept, kept]]), 2)
    # The other contributor has the low reading.
    assert sorted(first) == pytest.approx(sorted([kept**2, 2 * kept * (1 - kept), (1 - kept) ** 2]))
    assert sorted(second) == pytest.approx(
        sorted([kept * (1 - kept), kept**2 + (1 - kept) ** 2, kept * (1 - kept)])
    )


def channel(mechanism: Covered) -> Floats:
    """Return the probability of each report (column) for each grid point (row)."""
    steps = mechanism.domain.steps
    margin = steps + 2
    edges = np.concatenate(
        ([-np.inf], (np.arange(1 - margin, steps + margin + 1) - 0.5) / steps, [np.inf])
    )
    table = mechanism.report_probabilities(np.arange(steps + 1) / steps, edges)
    return np.asarray(table[:, table.max(axis=0) > 0])


def enumerate_releases(table: Floats, n: int) -> list[Floats]:
    """Return for each choice of the others' readings the law of the release, by the reading."""
    inputs, letters = table.shape
    releases = []
    for others in itertools.combinations_with_replacement(range(inputs), n - 1):
        law = np.ones(1)
        for size, reading in enumerate(others):
            law = add_report(law, table[reading], additions(letters, size))
        last = additions(letters, n - 1)
        releases.append(np.array([add_report(law, row, last) for row in table]))
    return releases


def add_report(law: Floats, row: Floats, places: NDArray[np.int64]) -> Floats:
    """Return the law of the multiset with one report more."""
    return np.asarray(
        np.bincount(places.ravel(), weights=np.outer(row, law).ravel()), dtype=np.float64
    )


@cache
def additions(letters: int, size: int) -> NDArray[np.int64]:
    """Return where each multiset of this size goes when a letter (row) is added."""
    smaller = list(itertools.combinations_with_replacement(range(letters), size))
    larger = itertools.combinations_with_replacement(range(letters), size + 1)
    place = {multiset: index for index, multiset in enumerate(larger)}
    return np.array(
        [[place[tuple(sorted((*old, letter)))] for old in smaller] for letter in range(letters)]
    )


def true_delta(releases: list[Floats], epsilon: float) -> float:
    """Return the largest hockey-stick divergence over all neighbouring rounds."""
    factor = math.exp(epsilon)
    return max(
        float(np.maximum(laws[:, None, :] - factor * laws[None, :, :], 0.0).sum(axis=2).max())
        for laws in releases
    )
