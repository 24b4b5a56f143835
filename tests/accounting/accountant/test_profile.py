"""Profiles: hulls of points that never lie below the curve."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rase.accounting.accountant.profile import connect_dots
from rase.accounting.binomial import probabilities


def response_delta(epsilon: float, local: float) -> float:
    """Return the profile of randomized response."""
    kept = 1 / (1 + math.exp(-local))
    return max(0.0, kept - math.exp(epsilon) * (1 - kept))


@given(st.floats(0.1, 6.0), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_a_hull_is_a_pair_above_the_curve(local: float, shares: list[float]) -> None:
    """Masses of both laws add up to one, and no delta is below that of the curve."""
    grid = sorted({0.0, *(share * 0.99 * local for share in shares)})
    losses = connect_dots([(e, response_delta(e, local)) for e in grid], local)
    assert float(losses.masses.sum()) == pytest.approx(1)
    assert float((losses.masses * np.exp(-losses.values)).sum()) == pytest.approx(1)
    for epsilon in np.linspace(0, local, 23):
        assert losses.delta(float(epsilon)) >= response_delta(float(epsilon), local) - 1e-12
    for epsilon in grid:
        assert losses.delta(epsilon) == pytest.approx(response_delta(epsilon, local), abs=1e-9)


def test_a_point_too_high_is_cut_off_by_the_chord() -> None:
    """Slack at epsilon 0 would make the curve concave there; the hull passes below it."""
    local = 1.0
    points = [(0.0, 0.9), (0.5, response_delta(0.5, local))]
    losses = connect_dots(points, local)
    assert losses.delta(0.0) < 0.9
    assert losses.delta(0.0) >= response_delta(0.0, local) - 1e-15
    assert losses.delta(0.5) == pytest.approx(response_delta(0.5, local))
    assert float((losses.masses * np.exp(-losses.values)).sum()) == pytest.approx(1)


def test_enough_points_give_back_the_pair() -> None:
    """The hull of the profile of counts has nearly their divergence at every epsilon."""
    counts = np.arange(0, 41)
    first, second = (probabilities(counts, 40, chance) for chance in (0.55, 0.45))

    def delta(epsilon: float) -> float:
        return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())

    highest = float(np.log(first / second).max())
    grid = np.linspace(0, 0.99 * highest, 400)
    losses = connect_dots([(float(e), delta(float(e))) for e in grid], highest)
    for epsilon in (0.05, 0.5, 1.1, 2.3):
        assert delta(epsilon) - 1e-15 <= losses.delta(epsilon) <= 1.01 * delta(epsilon) + 1e-6
