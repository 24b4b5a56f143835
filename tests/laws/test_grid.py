"""What all randomizers share: budgets, clipping and the grid."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cases import each_case

from rase import (
    BudgetAware,
    Duchi,
    Hybrid,
    Laplace,
    Optimal,
    Piecewise,
    Precision,
    Range,
    SeededRandom,
    SquareWave,
    run_round,
)
from rase.accounting.error_model import FleetReadings
from rase.laws.randomizer import RangeRandomizer
from rase.testing import check_randomizer

Maker = Callable[[float, Range], RangeRandomizer]


def clamped(epsilon: float, public: Range) -> RangeRandomizer:
    """Make a BR that always clamps."""
    return BudgetAware(epsilon, public, Precision(beta=0, rho=0.9))


def unclamped(epsilon: float, public: Range) -> RangeRandomizer:
    """Make a BR that never clamps."""
    return BudgetAware(epsilon, public, Precision(beta=1, rho=0))


MAKERS: list[Maker] = [clamped, unclamped, Laplace, Duchi, Piecewise, Hybrid, Optimal, SquareWave]
each_maker = each_case("make", MAKERS)


@pytest.mark.uncovered
@each_maker
@each_case("epsilon", [0.1, 1.0, 4.0])
@each_case("public", [Range(0, 3000), Range(-40, 125, 165), Range(2, 3, 1)])
def test_every_randomizer_keeps_the_contract(make: Maker, epsilon: float, public: Range) -> None:
    """All implementations pass the public contract checks.

    The law is checked with a seed. Unseeded noise must differ between two times 64 reports; each of
    them is one of two or more places, the likeliest of which has half the weight or less, so false
    alarms are below 72 / 2^64.
    """
    check_randomizer(make(epsilon, public))


@pytest.mark.uncovered
@each_maker
@each_case("epsilon", [0.1, 0.7, 1.0, 4.0, 8.0])
@each_case("steps", [1, 2, 7, 64])
def test_decoding_is_unbiased_by_enumeration(make: Maker, epsilon: float, steps: int) -> None:
    """Summed over all reports, decode gives the reading and its square, variance its spread."""
    public = Range(10, 20, steps)
    randomizer = make(epsilon, public)
    # On a coarse grid the outputs of Optimal take the next free places, one step each.
    reach = max(steps + 40 * math.ceil(steps / epsilon), 256)
    codes = np.arange(-reach, steps + reach + 1)
    reports = public.low + public.step * codes
    edges = np.append(reports - public.step / 2, reports[-1] + public.step / 2)
    readings = np.linspace(10, 20, 23)
    law = randomizer.report_probabilities(readings, edges)
    # What is less likely is beyond the tables of unclamped noise.
    drawn = law.max(axis=0) > 2.0**-64
    law, reports = law[:, drawn], reports[drawn]
    decoded = randomizer.decode(reports)
    assert law @ decoded == pytest.approx(readings, abs=1e-7)
    spread = law @ np.square(decoded) - np.square(law @ decoded)
    assert spread == pytest.approx(randomizer.variance(readings), rel=1e-6)
    if make not in (Duchi, Optimal) and not (make is Hybrid and epsilon < 0.61):
        on_grid = public.low + public.step * np.arange(steps + 1)
        law_on_grid = randomizer.report_probabilities(on_grid, edges)[:, drawn]
        squares = law_on_grid @ randomizer.decode_square(reports)
        assert squares == pytest.approx(np.square(on_grid), rel=1e-7)


@each_maker
@each_case("epsilon", [1e-4, 0.01, 0.5, 1, 4, 10, 30])
@each_case("steps", [1, 3, 4096])
def test_the_drawn_law_never_exceeds_the_budget(make: Maker, epsilon: float, steps: int) -> None:
    """The loss computed from the integers is at most epsilon, and hardly below it."""
    effective = make(epsilon, Range(0, 1, steps)).effective_epsilon
    served = min(epsilon, 8.0) if make is Optimal else epsilon
    assert served - 1e-4 * served <= effective <= epsilon


@each_maker
@each_case("epsilon", [0, -1, math.nan, math.inf, 1e-5, 31])
def test_impossible_budgets_are_refused(make: Maker, epsilon: float) -> None:
    """A budget must be positive, finite and of a size that means something."""
    with pytest.raises(ValueError, match="epsilon must be"):
        make(epsilon, Range(0, 1))


@each_case("epsilon", ["1", None, True, [0.5, "1"]])
def test_budgets_that_are_no_numbers_are_refused(epsilon: object) -> None:
    """A text is not a budget."""
    with pytest.raises(TypeError, match="epsilon must be a number"):
        Laplace(epsilon, Range(0, 1))  # type: ignore[arg-type]


def test_an_empty_list_of_budgets_is_refused() -> None:
    """There must be a contributor."""
    with pytest.raises(ValueError, match="got none"):
        Laplace((), Range(0, 1))


def test_a_range_must_be_a_range() -> None:
    """A pair of numbers is not taken for a range."""
    with pytest.raises(TypeError, match="domain must be of type Range"):
        Laplace(1.0, (0, 1))  # type: ignore[arg-type]


@each_maker
def test_contributors_may_differ_in_budget(make: Maker) -> None:
    """Each contributor's reports have the law of its own budget."""
    public = Range(0, 10)
    budgets = (0.5, 4.0, 0.5)
    mixed = make(budgets, public)  # type: ignore[arg-type]
    readings = np.tile([1.0, 5.0, 9.0], (30_000, 1))
    reports = mixed.randomize(readings, rng=SeededRandom(2026))
    decoded = mixed.decode(reports, epsilon=budgets)
    for place, (epsilon, reading) in enumerate(zip(budgets, (1.0, 5.0, 9.0), strict=True)):
        variance = float(make(epsilon, public).variance(reading))
        # False alarms: six standard errors, below 1e-8.
        assert abs(decoded[:, place].mean() - reading) < 6 * math.sqrt(variance / 30_000)
        assert decoded[:, place].var() == pytest.approx(variance, rel=0.15)
    assert mixed.guarantee.epsilon == 4.0
    assert mixed.scale == (20.0, 2.5, 20.0)
    expected = [float(make(e, public).variance(3.0)) for e in budgets]
    assert mixed.variance([3.0] * 3, epsilon=budgets) == pytest.approx(expected)


def test_arrays_of_budgets_are_taken_too() -> None:
    """A NumPy array of budgets is a tuple of budgets; a NumPy number is a number."""
    public = Range(0, 1)
    assert Laplace(np.array([1.0, 2.0]), public).epsilon == (1.0, 2.0)  # type: ignore[arg-type]
    assert Laplace(np.float64(2), public).epsilon == 2.0
    assert Laplace(np.array(2.0), public).epsilon == 2.0  # type: ignore[arg-type]


def test_one_budget_is_not_mistaken_for_another() -> None:
    """Budgets that come with reports must be the one budget that all contributors share."""
    laplace = Laplace(1.0, Range(0, 1))
    assert laplace.decode([0.5, 0.5], epsilon=[1.0, 1.0]).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="this randomizer's 1 throughout"):
        laplace.decode([0.5, 0.5], epsilon=[1.0, 2.0])


def test_mixed_reports_need_their_budgets() -> None:
    """Reports no longer stand at their contributors' places, so nobody guesses their budgets."""
    mixed = Laplace((1.0, 2.0), Range(0, 1))
    with pytest.raises(ValueError, match="epsilon must be given"):
        mixed.decode([0.5, 0.5])
    with pytest.raises(ValueError, match="one budget for each contributor"):
        mixed.decode([0.5, 0.5], epsilon=[1.0])
    with pytest.raises(ValueError, match="budgets of this randomizer's contributors"):
        mixed.decode([0.5, 0.5], epsilon=[1.0, 3.0])
    with pytest.raises(ValueError, match="one budget for each contributor"):
        mixed.randomize(0.5)
    with pytest.raises(ValueError, match="must be one number here"):
        mixed.report_probabilities([0.5], [0, 1])


def test_some_contributors_can_be_picked() -> None:
    """A round in which only some report uses their budgets."""
    mixed = Laplace((1.0, 2.0, 3.0), Range(0, 1))
    assert mixed.for_contributors([2, 0]).epsilon == (3.0, 1.0)
    same = Laplace(1.0, Range(0, 1))
    assert same.for_contributors([5]) is same


@each_case("edges", [[0], [1, 0], [0, 0], [[0, 1]]])
def test_edges_must_ascend(edges: list[float]) -> None:
    """Bins need two or more ascending edges."""
    with pytest.raises(ValueError, match="edges must be"):
        Laplace(1.0, Range(0, 1)).report_probabilities([0.5], edges)


@each_maker
def test_reports_of_another_grid_are_refused(make: Maker) -> None:
    """A report between grid points comes from elsewhere."""
    with pytest.raises(ValueError, match="points of the grid"):
        make(1.0, Range(0, 10, 10)).decode([2.5])


@each_case(
    ("make", "report"),
    [
        (clamped, 11.0),
        (clamped, -1.0),
        (Duchi, 5.0),
        (Piecewise, 99.0),
        (Hybrid, 99.0),
        (Optimal, 99.0),
    ],
)
def test_reports_that_cannot_be_drawn_are_refused(make: Maker, report: float) -> None:
    """A forged report outside the alphabet is refused, not averaged."""
    with pytest.raises(ValueError, match="such as this randomizer can draw"):
        make(1.0, Range(0, 10, 10)).decode([report])


@each_maker
@each_case("epsilon", [0.1, 1.0, 4.0])
def test_no_report_is_decoded_beyond_the_reach(make: Maker, epsilon: float) -> None:
    """Of all places that are not refused, none is read as less or more than the reach says."""
    public = Range(10, 20, 64)
    randomizer = make(epsilon, public)
    assert isinstance(randomizer, RangeRandomizer)
    low, high = randomizer.decoded_reach
    places = np.arange(-60_000, 60_000)
    accepted = places[randomizer.law(epsilon).is_place(places)]
    decoded = randomizer.decode(public.low + public.step * accepted)
    assert (decoded.min(), decoded.max()) == pytest.approx((low, high))
    assert low <= public.low < public.high <= high


def test_the_reach_of_several_budgets_is_that_of_the_least() -> None:
    """The smaller a budget, the farther its reports are stretched."""
    public = Range(0, 1)
    assert Duchi((0.5, 2.0), public).decoded_reach == Duchi(0.5, public).decoded_reach


def test_only_noise_without_end_has_another_clamped_twin() -> None:
    """What clamping does not change reads its own reports."""
    public = Range(0, 1)
    for make in (clamped, Duchi, Piecewise, Hybrid, Optimal):
        mechanism = make(1.0, public)
        assert mechanism.clamp() is mechanism
    for other in (unclamped, Laplace):
        twin = other(1.0, public).clamp()
        assert isinstance(twin, BudgetAware)
        assert twin.is_clamping is True
    assert BudgetAware((1.0, 6.0), public, Precision(0.5, 0.9)).clamp().is_clamping == (
        True,
        True,
    )


@each_case(
    "readings", [["4711 W"], ["4711"], [4711, b"4711", None], [4711j], "4711 W", [[4711], [1, 2]]]
)
def test_what_is_no_number_is_refused_without_being_shown(readings: Any) -> None:
    """Neither the refusal nor its causes quote what may be a reading."""
    for refuse in (
        Duchi(1.0, Range(0, 10)).randomize,
        lambda given: run_round(given, randomizer=Duchi(1.0, Range(0, 10))),
        lambda given: FleetReadings.of(given, Range(0, 10)),
    ):
        with pytest.raises(TypeError, match="readings must be numbers, got something") as refused:
            refuse(readings)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__
