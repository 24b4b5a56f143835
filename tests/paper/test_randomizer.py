"""The paper's randomizer BR: Lemma 1, Theorem 1, and where they fail."""

import math

import numpy as np
import pytest
from tests.cases import each_case

from rase import BudgetAware, Laplace, Precision, Range, SeededRandom

PAPER = Precision(beta=0.5, rho=0.9)


def test_lemma_1_bound_with_the_papers_defaults() -> None:
    """Lemma 1: with x_min = 0 the bound is −ln(1−rho)/beta, 4.6 for the paper's defaults."""
    assert PAPER.epsilon_bound(Range(0, 2800)) == pytest.approx(4.605, abs=1e-3)


def test_lemma_1_holds_for_readings_at_the_upper_end() -> None:
    """At the bound, a report of x_max lies in the interval with probability rho.

    False alarms: below 1e-8 (six standard errors of 200,000 reports).
    """
    public = Range(0, 100)
    laplace = Laplace(PAPER.epsilon_bound(public), public)
    reports = laplace.randomize(np.full(200_000, 100.0), rng=SeededRandom(2026))
    share = np.mean((reports >= 50) & (reports <= 150))
    grid = 2 * public.step / np.min(laplace.scale)
    assert abs(share - 0.9) < 6 * math.sqrt(0.09 / 200_000) + grid


@pytest.mark.departure(row=8)
def test_lemma_1_fails_for_every_smaller_reading() -> None:
    """The proof turns an inequality round: a reading of x_max / 2 meets (0.5, 0.68) only."""
    public = Range(0, 100)
    epsilon = PAPER.epsilon_bound(public)
    at_half = 1 - math.exp(-0.5 * 50 * epsilon / 100)
    assert at_half == pytest.approx(1 - math.sqrt(0.1))
    assert PAPER.share_met(range(101), epsilon=epsilon, value_range=public) == pytest.approx(
        1 / 101
    )
    assert PAPER.epsilon_bound_everywhere(public) == math.inf


@each_case("epsilon", [1.0, 6.0])
def test_theorem_1_both_branches_keep_epsilon(epsilon: float) -> None:
    """Theorem 1: whatever the branch, no report is more than e^epsilon times likelier."""
    public = Range(0, 100, 50)
    br = BudgetAware(epsilon, public, PAPER)
    assert br.is_clamping == (epsilon < 4.6)
    edges = np.append(-np.inf, np.append(np.arange(-101, 202, 2.0), np.inf))
    law = br.report_probabilities(np.arange(0, 101, 2.0), edges)
    law = law[:, law.max(axis=0) > 0]
    assert np.log(law.max(axis=0) / law.min(axis=0)).max() == pytest.approx(epsilon, rel=1e-6)


def test_algorithm_1_clamps_only_below_the_bound() -> None:
    """The text, not the pseudocode's nesting: returned as it is at the bound, clamped below."""
    public = Range(0, 100)
    bound = PAPER.epsilon_bound(public)
    above = BudgetAware(bound, public, PAPER).randomize(np.zeros(2000), rng=SeededRandom(1))
    below = BudgetAware(0.9 * bound, public, PAPER).randomize(np.zeros(2000), rng=SeededRandom(1))
    assert above.min() < 0
    assert below.min() == 0


@pytest.mark.departure(row=9)
def test_clamped_reports_are_biased_to_the_middle_and_more_readers_do_not_help() -> None:
    """The mean of clamped reports of 0 is Δ(1−e^−ε)/(2ε), however many there are; decoded it is 0.

    False alarms: below 1e-8 (six standard errors).
    """
    public = Range(0, 100)
    br = BudgetAware(1.0, public, PAPER)
    reports = br.randomize(np.zeros(400_000), rng=SeededRandom(2026))
    bias = 100 * (1 - math.exp(-1)) / 2
    assert abs(reports.mean() - bias) < 6 * reports.std() / math.sqrt(400_000) + public.step
    assert abs(br.decode(reports).mean()) < 6 * math.sqrt(float(br.variance(0.0)) / 400_000)


@pytest.mark.departure(row=9)
def test_unclamped_laplace_is_dominated_at_every_epsilon() -> None:
    """Decoded clamped reports have the same guarantee and less variance, so no switch is needed."""
    public = Range(0, 1)
    readings = np.linspace(0, 1, 101)
    for epsilon in (0.01, 0.1, 1, 4.6, 10, 20):
        clamping = BudgetAware(epsilon, public, Precision(beta=0, rho=0.9))
        assert np.all(clamping.variance(readings) < Laplace(epsilon, public).variance(readings))
