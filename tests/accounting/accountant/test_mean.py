"""The observer of a published mean alone: against enumeration, and against all shuffled reports."""

import itertools
import math

import numpy as np
import pytest
from tests.accounting.accountant.test_pair import divergence, random_channel

from rase import Optimal, Range
from rase.accounting.accountant.mean import MEAN_THEOREM, MeanProfile, mean_profile
from rase.accounting.accountant.rounds import shuffled_pair

PUBLIC = Range(0, 1)


def test_sums_of_small_rounds_are_never_above_the_bound() -> None:
    """All pairs of a contributor and all readings of the others, 12 channels on a lattice."""
    rng = np.random.default_rng(5)
    largest = 0.0
    for trial in range(12):
        rows = random_channel(rng, inputs=3, outputs=4)
        values = np.cumsum(rng.integers(1, 3, 4)) - 3
        n = 2 + trial % 2
        local = float(np.log(rows.max(axis=0) / rows.min(axis=0)).max())
        profile = MeanProfile(local, rows, values, n, delta=1e-3)
        assert profile.delta(local) == 0.0
        for epsilon in (0.0, 0.4 * local):
            bound = profile.delta(epsilon)
            for crowd in itertools.combinations_with_replacement(range(3), n - 1):
                laws = []
                for own in range(3):
                    law: dict[object, float] = {}
                    for outputs in itertools.product(range(4), repeat=n):
                        chance = math.prod(
                            float(rows[one][y])
                            for one, y in zip((own, *crowd), outputs, strict=True)
                        )
                        total = int(values[list(outputs)].sum())
                        law[total] = law.get(total, 0.0) + chance
                    laws.append(law)
                for first, second in itertools.permutations(laws, 2):
                    true = divergence(first, second, epsilon)
                    assert true <= bound
                    largest = max(largest, true / bound)
    assert largest > 0.9


def test_the_epsilon_is_that_of_the_worst_pair_of_inputs() -> None:
    """Where the ends are not what differs most, the search goes on with the pair that does."""
    rng = np.random.default_rng(9)
    for _ in range(6):
        rows = random_channel(rng, inputs=5, outputs=4)
        local = float(np.log(rows.max(axis=0) / rows.min(axis=0)).max())
        profile = MeanProfile(local, rows, np.arange(4), 6, delta=1e-3)
        asked = profile.delta(0.3 * local)
        found = profile.epsilon(asked)
        assert profile.delta(found) <= asked
        assert found <= 0.3 * local + 1e-3


def test_a_mean_says_less_than_the_shuffled_reports() -> None:
    """On a lattice the proven bound is below that of all reports, and above an observer's.

    The observer knows that all others are in the middle, and compares the two laws of the sum.
    """
    law, n, epsilon = Optimal(2.0, PUBLIC), 200, 0.75
    profile = mean_profile(law, n, places=16)
    assert profile.theorem == MEAN_THEOREM
    found = profile.delta(epsilon)
    assert found < 0.9 * shuffled_pair(law, n).delta(epsilon)
    least = profile.epsilon(found)
    assert profile.delta(least) <= found < profile.delta(0.99 * least)
    # Where nothing less is proven it is that of the report.
    assert mean_profile(law, 2, places=4).epsilon(1e-6) == law.epsilon

    rows = law.channel
    assert rows is not None
    table = law.law(2.0)
    exact = table.decode(np.array(sorted(table.weights(0)), dtype=np.int64)) * 16 / PUBLIC.steps
    below = np.floor(exact).astype(np.int64)
    up = exact - below
    size = 1 << 14
    spectra = np.fft.rfft(
        [
            np.bincount(below % size, weights=row * (1 - up), minlength=size)
            + np.bincount((below + 1) % size, weights=row * up, minlength=size)
            for row in rows
        ]
    )
    sums = np.fft.irfft(spectra[[0, -1]] * spectra[len(rows) // 2] ** (n - 1), size, axis=1)
    attack = float(np.maximum(sums[0] - math.exp(epsilon) * sums[1], 0.0).sum())
    assert attack < found


def test_few_wide_blocks_find_the_worst_pair_of_all() -> None:
    """The search by the ends and by bounds ends where the divergence of every pair is below."""
    for law, n in ((Optimal(1.24, PUBLIC), 51), (Optimal(3.1, PUBLIC), 300)):
        profile = mean_profile(law, n, places=16)
        found = profile.epsilon(1e-6)
        assert profile.delta(found) <= 1e-6 < profile.delta(0.998 * found)
    # Rows that are no reflections of each other by a hair are looked at in all pairs.
    rows, values = np.array([[3.0, 2.0, 1.0], [2.0, 2.0, 2.0], [1.0, 2.0, 3.0]]) / 6, np.arange(3)
    other = rows + 1e-12 * np.array([[1, -1, 0], [0, 0, 0], [0, 0, 0]])
    deltas = [
        MeanProfile(math.log(3), one, values, 20, delta=1e-3).delta(0.2) for one in (rows, other)
    ]
    assert deltas[0] == pytest.approx(deltas[1], abs=1e-9)


def test_what_has_no_bound_is_refused() -> None:
    """Bits, a delta that the FFT cannot see, and a lattice of one place."""
    with pytest.raises(ValueError, match="more than bits"):
        mean_profile(Optimal(0.1, PUBLIC), 10)
    with pytest.raises(ValueError, match="at least 1e-09 for a mean"):
        mean_profile(Optimal(2.0, PUBLIC), 10, delta=1e-10, places=4)
    with pytest.raises(ValueError, match="places must be"):
        mean_profile(Optimal(2.0, PUBLIC), 10, places=1)
