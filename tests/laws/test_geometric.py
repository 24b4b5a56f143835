"""Laplace noise on the grid."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from tests.cases import each_case

from rase import BudgetAware, Laplace, Precision, Range
from rase.kernels.fixed import digit_sums, geometric_digits, log_ratio
from rase.laws.geometric import ClampedLaw, UnboundedLaw

WORD = 1 << 64


@each_case("epsilon", [0.01, 1.0, 3.0, 10.0])
@each_case("steps", [1, 2, 5, 40])
def test_the_loss_is_the_largest_ratio_over_all_inputs_and_reports(
    epsilon: float, steps: int
) -> None:
    """Enumerating the channel's integer weights gives the loss the law states, never more."""
    law = ClampedLaw(epsilon, steps)
    sums = [0, *(int(total) for total in law.table.sums), WORD]
    weight = [later - sooner for sooner, later in pairwise(sums)]
    assert len(weight) == 2 * steps + 1
    rows = []
    for index in range(steps + 1):
        row = [0] * (steps + 1)
        for place, mass in enumerate(weight):
            row[min(max(index + place - steps, 0), steps)] += mass
        assert sum(row) == WORD
        rows.append(row)
    worst = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))
    assert (
        log_ratio(worst.numerator, worst.denominator)
        <= law.largest_ratio.effective_epsilon
        <= epsilon
    )


@pytest.mark.uncovered
def test_clamped_variance_meets_the_continuous_formula() -> None:
    """On a fine grid the variance is λ²(2 − e^(−ε/2) cosh(ε u)), u from the middle."""
    public = Range(0, 1, 65536)
    for epsilon in (0.1, 1.0, 4.0):
        br = BudgetAware(epsilon, public, Precision(beta=0, rho=0.9))
        for reading in (0.0, 0.25, 0.5, 1.0):
            formula = (
                2 - math.exp(-epsilon / 2) * math.cosh(epsilon * (reading - 0.5))
            ) / epsilon**2
            assert float(br.variance(reading)) == pytest.approx(formula, rel=1e-4)


def test_the_branch_follows_the_precision() -> None:
    """BR clamps below the bound of Lemma 1 and not at it, contributor by contributor."""
    public, precision = Range(0, 100), Precision(0.5, 0.9)
    bound = precision.epsilon_bound(public)
    assert BudgetAware(bound, public, precision).is_clamping is False
    assert BudgetAware(np.nextafter(bound, 0), public, precision).is_clamping is True
    assert BudgetAware((1.0, 9.0), public, precision).is_clamping == (True, False)


def test_br_needs_a_precision() -> None:
    """A pair of numbers is not taken for a precision."""
    with pytest.raises(TypeError, match="precision must be a Precision"):
        BudgetAware(1.0, Range(0, 1), (0.5, 0.9))  # type: ignore[arg-type]


@each_case(("epsilon", "steps"), [(8.0, 8), (1.0, 4096), (1e-4, 65536), (30.0, 1)])
def test_unclamped_reports_beyond_all_draws_are_refused(epsilon: float, steps: int) -> None:
    """The bound is what the tables give if every digit is the largest, and not a step less."""
    law = UnboundedLaw(epsilon, steps)
    reach = sum(weight * len(digit_sums(rate)) for weight, rate in geometric_digits(law.rate))
    assert law.reach == reach
    ends = np.array([-reach - 1, -reach, 0, steps + reach, steps + reach + 1])
    assert law.is_place(ends).tolist() == [False, True, True, True, False]
    # A true geometric number is larger with probability below 2^-60.
    assert law.rate * (reach + 1) > 60 * math.log(2)


def test_no_whole_number_of_64_bits_passes_as_an_unclamped_report() -> None:
    """The largest places that fit into a report are refused, without an overflow."""
    for randomizer in (
        Laplace(1.0, Range(0, 10)),
        BudgetAware(30.0, Range(0, 10), Precision(0.5, 0.1)),
    ):
        step = randomizer.domain.step
        randomizer.decode([0.0, 10.0])
        for place in (-(2.0**63), 2.0**63, 1e12):
            with pytest.raises(ValueError, match="such as this randomizer can draw"):
                randomizer.decode([place * step])
