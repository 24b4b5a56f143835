"""The published bounds derived again: they give the figures that were published."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.published import (
    GENERIC,
    LAPLACE,
    bennett,
    clone_losses,
    clone_program,
    clone_program_formula,
    clone_sum,
    clone_theorem,
    hoeffding,
)

DELTA = 1e-6
Inequality = Callable[..., float]


@pytest.mark.parametrize(
    ("budget", "program", "exact"), [(0.1, 0.0452, 0.0445), (0.5, 0.310, 0.305), (1, 0.856, 0.834)]
)
def test_figures_of_the_clone_pair(budget: float, program: float, exact: float) -> None:
    """For 64 reports the program gives .0452, .310, .856 and the exact sum .0445, .305, .834."""
    places = 4 if budget < 0.5 else 3
    assert round(clone_program(budget, 64, delta=DELTA), places) == program
    assert round(clone_sum(budget, 64, delta=DELTA), places) == exact
    # A report more, or half the delta, would not give these digits.
    assert round(clone_sum(budget, 65, delta=DELTA), places) != exact
    assert round(clone_program(budget, 64, delta=DELTA / 2), places) != program


def test_figures_of_the_published_program() -> None:
    """Its example, 100,000 reports of epsilon 4 in blocks of 100, comes out to all digits."""
    upper = clone_program(4, 10**5, delta=DELTA, step=100, halvings=10)
    assert upper == pytest.approx(0.172790550755978, abs=1e-12)
    lower = clone_program(4, 10**5, delta=DELTA, step=100, halvings=10, is_upper=False)
    assert lower == pytest.approx(0.1675385583317841, abs=1e-12)
    closed = clone_program_formula(4, 10**5, delta=DELTA)
    assert closed == pytest.approx(0.5378040242374512, abs=1e-12)
    assert clone_theorem(4, 10**5, delta=DELTA) < closed


@pytest.mark.parametrize("step", [10, 100, 1000])
def test_blocks_bracket_the_exact_sum(step: int) -> None:
    """Rounded up the program is above the exact sum, rounded down below, by less than a fifth."""
    exact = clone_sum(1.0, 10**4, delta=DELTA)
    upper = clone_program(1.0, 10**4, delta=DELTA, step=step)
    lower = clone_program(1.0, 10**4, delta=DELTA, step=step, is_upper=False)
    assert 0.8 * exact < lower < exact * (1 + 1e-5)
    assert exact < upper < 1.2 * exact


def test_nothing_is_promised_outside_the_conditions() -> None:
    """Where a formula does not hold the local epsilon is returned."""
    assert clone_theorem(4, 64, delta=DELTA) == 4
    assert clone_program_formula(4, 64, delta=DELTA) == 4
    assert hoeffding(4, 64, delta=DELTA) == pytest.approx(4)
    assert bennett(4, 64, delta=DELTA) == pytest.approx(4)


def test_the_clone_pair_as_two_laws() -> None:
    """Both are laws, their ratio stays within e^epsilon, and delta at the sum's epsilon is met."""
    first, second = clone_losses(1.0, 200, negligible=1e-12)
    assert first.sum() == pytest.approx(1, abs=1e-11)
    assert second.sum() == pytest.approx(1, abs=1e-11)
    assert np.abs(np.log(first / second)).max() <= 1 + 1e-9
    epsilon = clone_sum(1.0, 200, delta=DELTA)
    delta = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
    assert delta == pytest.approx(DELTA, rel=1e-3)


@pytest.mark.parametrize("local", [0.5, 1.0, 3.0])
def test_moments_of_laplace_noise_are_its_integrals(local: float) -> None:
    """Blanket mass, highest value, width and mean square agree with sums over a fine line."""
    epsilon = local / 3
    step = 1e-4
    line = np.arange(-30 / local, 1 + 30 / local, step) + step / 2
    low, high = (local / 2 * np.exp(-local * np.abs(line - end)) for end in (0, 1))
    blanket = np.minimum(low, high)
    gamma = float(blanket.sum()) * step
    values = gamma * (low - math.exp(epsilon) * high) / blanket
    assert gamma == pytest.approx(LAPLACE.blanket(local), rel=1e-6)
    assert values.max() == pytest.approx(LAPLACE.highest(local, epsilon), rel=1e-6)
    assert np.ptp(values) == pytest.approx(LAPLACE.width(local, epsilon), rel=1e-6)
    square = float((blanket / gamma * np.square(values)).sum()) * step
    assert square == pytest.approx(LAPLACE.square(local, epsilon), rel=1e-6)
    # What holds for any mechanism holds for this one.
    assert gamma >= GENERIC.blanket(local)
    assert values.max() <= GENERIC.highest(local, epsilon)
    assert np.ptp(values) <= GENERIC.width(local, epsilon)
    assert square <= GENERIC.square(local, epsilon)


@pytest.mark.parametrize("inequality", [hoeffding, bennett])
def test_closed_forms_bound_the_sum_they_stand_for(inequality: Inequality) -> None:
    """At its epsilon the simulated E[(L_1 + ... + L_M)_+] / (gamma n) is below delta.

    Both are loose here: the mean comes to 2.5 % (Hoeffding) and 3.8 % (Bennett) of delta, with a
    standard error of 0.4 %. So this notices a form that is too small by far more than its looseness
    only; the moments are checked by themselves above.
    """
    n, local, delta = 50, 1.0, 0.01
    epsilon = inequality(local, n, delta=delta, moments=LAPLACE)
    rng = np.random.default_rng(2026)
    gamma = LAPLACE.blanket(local)
    # The blanket of Laplace noise: the larger distance to either end is 1/2 + an exponential.
    totals = np.zeros(20_000)
    for _ in range(n):
        beyond = rng.exponential(1 / local, totals.size)
        is_low = rng.random(totals.size) < 0.5
        ratio = np.exp(local * np.minimum(1.0, 2 * beyond))
        near, far = gamma * ratio, np.full(totals.size, gamma)
        value = np.where(is_low, near, far) - math.exp(epsilon) * np.where(is_low, far, near)
        totals += np.where(rng.random(totals.size) < gamma, value, 0.0)
    simulated = float(np.maximum(totals, 0).mean()) / (gamma * n)
    assert 0 < simulated < delta
