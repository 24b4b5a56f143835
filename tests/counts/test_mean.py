"""The four estimators of the mean, apart from their coverage."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case
from tests.counts.many import means_of

from rase.arrays import Floats
from rase.counts.mean import lattice_mean, unbiased_mean, winsorized_mean
from rase.counts.paper import bootstrap_from, bootstrap_mean, median, sample_mean
from rase.counts.registry import estimator_named
from rase.domain import Precision, Range
from rase.errors import NotIdentifiable
from rase.kernels.words import SeededRandom
from rase.laws.geometric import BudgetAware, Laplace
from rase.laws.law import RangeLaw
from rase.laws.optimal import Optimal
from rase.laws.randomizer import RangeRandomizer
from rase.laws.windows import Duchi, Hybrid, Piecewise

REACH = Range(-50, 150)
PRECISION = Precision(beta=0.5, rho=0.9)
MECHANISMS = ["clamped", "laplace", "duchi", "piecewise", "hybrid"]


def mechanism(name: str, epsilon: float, reach: Range = REACH) -> RangeRandomizer:
    """Return the mechanism of this name; "clamped" clamps at every epsilon."""
    made: dict[str, RangeRandomizer] = {
        "clamped": BudgetAware(epsilon, reach, Precision(beta=0, rho=0.9)),
        "laplace": Laplace(epsilon, reach),
        "duchi": Duchi(epsilon, reach),
        "piecewise": Piecewise(epsilon, reach),
        "hybrid": Hybrid(epsilon, reach),
    }
    return made[name]


def is_unbiased(values: Floats, truth: float, variance: float) -> bool:
    """Say whether the mean of the values is within 5 standard errors of the truth."""
    return bool(abs(values.mean() - truth) <= 5 * math.sqrt(variance / values.size))


@each_case("epsilon", [0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("name", MECHANISMS)
def test_unbiased_mean_is_unbiased(name: str, epsilon: float) -> None:
    """At both ends and inside, 60,000 reports average to the reading.

    False-alarm rate 6e-7 for each reading; an error of 30 % of a standard deviation in one
    reading, over 60,000, is 14 times the limit and rejected.
    """
    randomizer = mechanism(name, epsilon)
    for reading in (-50.0, 20.3, 150.0):
        source = SeededRandom(2026).child(f"{name} {epsilon} {reading}")
        reports = randomizer.randomize(np.full(60_000, reading), rng=source)
        variance = float(np.asarray(randomizer.variance(reading)))
        done = unbiased_mean(reports, randomizer=randomizer)
        assert is_unbiased(np.full(60_000, done.value), reading, variance)
        planted = done.value + 0.3 * math.sqrt(variance)
        assert not is_unbiased(np.full(60_000, planted), reading, variance)


@each_case("name", MECHANISMS)
def test_the_error_is_that_of_the_noise(name: str) -> None:
    """For equal readings the squared error is the mechanism's variance over n, within 4 %.

    Of 20,000 reports; an error 30 % off is rejected, because it would be 69 % off in the square.
    That of bits is a bound, 4 % larger here.
    """
    randomizer = mechanism(name, 2.0)
    reports = randomizer.randomize(np.full(20_000, 120.0), rng=SeededRandom(2026))
    expected = float(np.asarray(randomizer.variance(120.0))) / 20_000
    done = unbiased_mean(reports, randomizer=randomizer)
    above = 1.04 if name == "duchi" else 1.0
    assert done.standard_error**2 == pytest.approx(above * expected, rel=0.04)
    assert (1.3 * done.standard_error) ** 2 != pytest.approx(expected, rel=0.04)


@pytest.mark.uncovered
@pytest.mark.parametrize("name", MECHANISMS)
@each_case("epsilon", [8.0, 20.0, 30.0])
@each_case("steps", [3, 4096])
def test_rounding_to_the_grid_is_part_of_the_error(name: str, epsilon: float, steps: int) -> None:
    """Where noise is smaller than a step, intervals still hold a mean that lies between points.

    2,000 rounds of 60 reports, estimated together and 20 of them singly too. If 93 % are covered,
    fewer than 88 % occur with probability 1e-15; without the rounding 20 % were covered at epsilon
    30 and 4096 steps.
    """
    reach = Range(-50, 150, steps=steps)
    randomizer = mechanism(name, epsilon, reach)
    readings = -50 + reach.step * (np.arange(60) % steps + 0.5)
    source = SeededRandom(2026).child(f"{name} {epsilon} {steps}")
    rounds = randomizer.randomize(np.tile(readings, (2000, 1)), rng=source)
    truth = float(readings.mean())
    singly = [unbiased_mean(row, randomizer=randomizer).interval() for row in rounds[:20]]
    intervals = [one.interval() for one in means_of(rounds, randomizer)]
    np.testing.assert_allclose(intervals[:20], singly, rtol=1e-9)
    assert sum(low <= truth <= high for low, high in intervals) > 0.88 * 2000


@each_case("name", MECHANISMS)
def test_one_report_is_enough_for_a_bounded_error(name: str) -> None:
    """The mechanism's variance is known, so a single report has a finite error."""
    randomizer = mechanism(name, 1.0)
    reports = randomizer.randomize([30.0], rng=SeededRandom(1))
    done = unbiased_mean(reports, randomizer=randomizer)
    tried = np.asarray(randomizer.variance(np.linspace(-50, 150, 17)))
    assert tried.min() <= done.standard_error**2 * (1 + 1e-12)
    # A bit may be the rarer one of the two, which the limits of its chance allow for.
    above = 1.34 if name == "duchi" else 1.0
    most = tried.max() + REACH.step**2 / 4
    assert done.standard_error**2 <= above * most * (1 + 1e-12)
    assert (done.n, done.method, done.target) == (1, "unbiased_mean", "mean of the readings")


@each_case("name", MECHANISMS)
def test_a_range_far_from_zero_keeps_its_error(name: str) -> None:
    """Errors survive a range so far from 0 that squares lose all their digits."""
    far = Range(1e9, 1e9 + 1, steps=64)
    near = Range(0, 1, steps=64)
    errors = []
    for reach in (near, far):
        randomizer = mechanism(name, 1.0, reach)
        readings = reach.low + np.linspace(0, 1, 65)
        reports = randomizer.randomize(readings, rng=SeededRandom(3))
        errors.append(unbiased_mean(reports, randomizer=randomizer).standard_error)
    assert errors[1] == pytest.approx(errors[0], rel=0.25)


def test_different_budgets_are_decoded_each_by_its_own() -> None:
    """With mixed budgets the mean stays unbiased and its error is the mean of the variances.

    False-alarm rate 6e-7.
    """
    budgets = np.where(np.arange(4000) % 2 == 0, 0.5, 4.0)
    randomizer = BudgetAware(tuple(budgets.tolist()), REACH, PRECISION)
    readings = np.full(4000, 140.0)
    reports = randomizer.randomize(readings, rng=SeededRandom(2026))
    done = unbiased_mean(reports, randomizer=randomizer, epsilon=budgets)
    variance = float(randomizer.variance(readings, epsilon=budgets).mean())
    assert abs(done.value - 140.0) <= 5 * math.sqrt(variance / 4000)
    assert done.standard_error**2 == pytest.approx(variance / 4000, rel=0.05)


@each_case("name", ["piecewise", "hybrid"])
def test_wild_reports_widen_the_interval(name: str) -> None:
    """At epsilon 8 rare wild reports call for Student's t, at epsilon 1 or among many not."""
    few, many = np.zeros(50), np.zeros(50_000)
    degrees = []
    for epsilon, readings in ((8.0, few), (1.0, few), (8.0, many)):
        randomizer = mechanism(name, epsilon)
        reports = randomizer.randomize(readings, rng=SeededRandom(4))
        degrees.append(unbiased_mean(reports, randomizer=randomizer).degrees_of_freedom)
    assert 4 <= degrees[0] < 30
    assert degrees[1] == math.inf
    assert degrees[2] > 5000


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=9), st.data())
def test_the_median_minimises_the_weighted_distance(values: list[int], data: st.DataObject) -> None:
    """No point is nearer to all reports; of many such points it is the middle."""
    scales = data.draw(
        st.lists(st.integers(1, 6), min_size=len(values), max_size=len(values)), label="scales"
    )
    weights = [60 // scale for scale in scales]

    def distance(point: float) -> float:
        return sum(w * abs(v - point) for w, v in zip(weights, values, strict=True))

    # A convex function of straight pieces is least at some of the values.
    least = min(distance(v) for v in values)
    best = [v for v in values if distance(v) == least]
    done = median(values, [60 / weight for weight in weights])
    assert done.value == (min(best) + max(best)) / 2


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30), st.floats(0.1, 10))
def test_equal_scales_make_the_plain_median(values: list[float], scale: float) -> None:
    """Weights that are equal do not matter."""
    assert median(values, scale) == median(values)
    assert median(values).value == np.median(values)


def test_the_median_names_its_target() -> None:
    """It estimates a median of reports, and says which."""
    assert median([1, 2, 3]).target == "median of the reports"
    assert median([1, 2, 3], [1, 2, 3]).target == "weighted median of the reports"


def test_price_and_bonett_small_samples() -> None:
    """For n = 5 the error is the span over twice the normal quantile of 1/32."""
    assert median([1, 2, 3, 4, 10]).standard_error == pytest.approx(9 / (2 * 1.8627), rel=1e-4)


def test_the_error_of_a_median_does_not_jump_where_the_formula_changes() -> None:
    """Above 1000 reports the normal law stands in for the binomial."""
    grid = np.linspace(0, 1, 1000)
    before, after = median(grid).standard_error, median(np.append(grid, 0.5)).standard_error
    assert after == pytest.approx(before, rel=0.05)


def test_one_heavy_report_leaves_a_weighted_median_unsure() -> None:
    """If one report has nearly all the weight, the error is a multiple of the span."""
    assert median([0.0, 1.0, 2.0], [1e-6, 1.0, 1.0]).standard_error > 100


def test_weighted_medians_of_many_reports_have_small_errors() -> None:
    """The error of a weighted median falls like one over the root of n."""
    spread = np.linspace(-1, 1, 4000)
    scales = np.where(np.arange(4000) % 2 == 0, 1.0, 3.0)
    # Density 1/2 and an effective number of 3200: 1 / (2 f sqrt(n)).
    assert median(spread, scales).standard_error == pytest.approx(1 / math.sqrt(3200), rel=0.1)


@each_case(
    "done", [sample_mean([7.0]), median([7.0]), bootstrap_mean([7.0]), bootstrap_from([[7.0]])]
)
def test_the_error_of_one_report_is_unknown(done: object) -> None:
    """Where only the spread of reports could tell, one report tells nothing."""
    assert (done.value, done.standard_error) == (7.0, math.inf)  # type: ignore[attr-defined]


def test_sample_mean_has_the_textbook_error() -> None:
    """The error is s / sqrt(n) with n - 1 degrees of freedom."""
    done = sample_mean([1.0, 2.0, 3.0, 6.0])
    assert done.standard_error == pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 2)
    assert done.degrees_of_freedom == 3


def test_bootstrap_scatters_as_its_error_says() -> None:
    """Over 4000 bootstraps of 10 resamples each, the values scatter by s / sqrt(n B), within 8 %.

    The relative standard error of the scatter is 1.1 %, so the false-alarm rate is below 1e-11; a
    scatter 30 % off is rejected.
    """
    reports = np.array([0.0, 1.0, 5.0, 5.5, 30.0])
    source = SeededRandom(2026)
    values = np.array(
        [bootstrap_mean(reports, resamples=10, rng=source).value for _ in range(4000)]
    )
    expected = reports.std() / math.sqrt(50)
    assert values.std() == pytest.approx(expected, rel=0.08)
    assert 1.3 * values.std() != pytest.approx(expected, rel=0.08)
    done = bootstrap_mean(reports, resamples=10, rng=source)
    sampling = sample_mean(reports).standard_error
    assert done.standard_error**2 == pytest.approx(sampling**2 + expected**2)


def test_bootstrap_draws_in_pieces() -> None:
    """More resamples than fit into one piece are drawn in several."""
    reports = np.arange(1000.0)
    done = bootstrap_mean(reports, resamples=600, rng=SeededRandom(1))
    assert done.value == pytest.approx(499.5, abs=5 * 289 / math.sqrt(600_000))


def test_bootstrap_uses_secure_randomness_by_default() -> None:
    """Bootstraps of the same reports differ.

    False alarms: below 1e-14. Two are equal with probability below 0.01, for their sums spread over
    thousands of whole numbers; here all of eight would have to be.
    """
    assert len({bootstrap_mean(np.arange(50.0)).value for _ in range(8)}) > 1


@each_case("function", [sample_mean, median, bootstrap_mean])
@each_case(
    ("reports", "message"),
    [
        ([], "at least one report"),
        ([1.0, math.nan], "finite"),
        ([math.inf], "finite"),
        ([[1.0]], "one row"),
    ],
)
def test_unusable_reports_are_refused(function: object, reports: list[float], message: str) -> None:
    """No reports, NaN and tables are refused in one sentence."""
    with pytest.raises(ValueError, match=message):
        function(reports)  # type: ignore[operator]


def test_unusable_arguments_are_refused() -> None:
    """Each argument is named in its refusal."""
    randomizer = mechanism("laplace", 1.0)
    with pytest.raises(ValueError, match="resamples must be at least 1"):
        bootstrap_mean([1.0], resamples=0)
    with pytest.raises(ValueError, match="resamples must be rows"):
        bootstrap_from([1.0, 2.0])
    with pytest.raises(ValueError, match="scales must hold 2 scales"):
        median([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="scales must be finite numbers greater than 0"):
        median([1.0, 2.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="epsilon must hold 2 budgets"):
        unbiased_mean([0.0, 100.0], randomizer=randomizer, epsilon=[1.0])
    with pytest.raises(ValueError, match="epsilon must hold finite budgets"):
        unbiased_mean([0.0, 100.0], randomizer=randomizer, epsilon=[1.0, -1.0])


def test_duchi_bits_do_not_tell_squares() -> None:
    """The fall-back for one-bit reports is really taken."""
    with pytest.raises(NotIdentifiable):
        Duchi(1.0, REACH).decode_square(Duchi(1.0, REACH).randomize([1.0]))


@each_case("epsilon", [0.1, 1.0, 4.0])
@each_case("reading", [-50.0, 20.3, 150.0])
def test_the_winsorized_mean_is_unbiased_with_less_variance(epsilon: float, reading: float) -> None:
    """On noise without end it is right on average, and scatters less than the unbiased mean.

    False-alarm rate 6e-7 for the mean; a bias of 30 % of a standard deviation is 42 times the
    limit. The error it states is that of the clamping mechanism.
    """
    laplace = mechanism("laplace", epsilon)
    source = SeededRandom(2026).child(f"winsorized {epsilon} {reading}")
    reports = laplace.randomize(np.full(60_000, reading), rng=source)
    found, plain = (
        winsorized_mean(reports, randomizer=laplace),
        unbiased_mean(reports, randomizer=laplace),
    )
    assert abs(found.value - reading) <= 5 * found.standard_error
    expected = mechanism("clamped", epsilon).variance(np.array([reading]))[0]
    assert found.standard_error**2 * found.n == pytest.approx(expected, rel=0.02)
    assert found.standard_error < plain.standard_error
    assert (found.method, found.target) == ("winsorized_mean", "mean of the readings")


@each_case("name", ["clamped", "duchi", "piecewise", "hybrid"])
def test_the_winsorized_mean_is_the_unbiased_one_where_reports_have_an_end(name: str) -> None:
    """Nothing is cut off that a mechanism can draw."""
    randomizer = mechanism(name, 1.0)
    reports = randomizer.randomize(np.linspace(-50, 150, 200), rng=SeededRandom(2026))
    found, plain = (
        estimator_named(one)(reports, randomizer=randomizer)
        for one in ("winsorized_mean", "unbiased_mean")
    )
    assert (found.value, found.standard_error) == (plain.value, plain.standard_error)


@dataclass(frozen=True)
class Foreign(RangeRandomizer):
    """A mechanism of somebody else's, which says nothing of clamping."""

    name: ClassVar[str] = "foreign"
    summary: ClassVar[str] = "noise without end"

    def law(self, epsilon: float) -> RangeLaw:
        """Return a law whose reports have no end."""
        return Laplace(epsilon, self.domain).law(epsilon)


def test_the_winsorized_mean_cuts_nothing_of_mechanisms_it_cannot_read() -> None:
    """Where a mechanism does not say how clamped reports are read, they stay as they are."""
    foreign = Foreign(1.0, REACH)
    reports = foreign.randomize(np.full(100, 20.0), rng=SeededRandom(2026))
    assert reports.max() > REACH.high
    found = winsorized_mean(reports, randomizer=foreign)
    plain = unbiased_mean(reports, randomizer=foreign)
    assert found == replace(plain, method="winsorized_mean")


@pytest.mark.uncovered
def test_the_winsorized_mean_reads_each_budget_by_its_own_law() -> None:
    """Clamping and unclamped contributors of one fleet are read together, without bias.

    False-alarm rate 6e-7.
    """
    budgets = (1.0, 8.0) * 100_000
    mixed = BudgetAware(budgets, REACH, PRECISION)
    assert mixed.is_clamping[:2] == (True, False)  # type: ignore[index]
    reports = mixed.randomize(np.full(200_000, 100.0), rng=SeededRandom(2026))
    found = winsorized_mean(reports, randomizer=mixed, epsilon=budgets)
    assert abs(found.value - 100.0) <= 5 * found.standard_error
    assert reports.max() > 150


@each_case("share", [0.001, 0.01, 0.1])
@each_case("name", MECHANISMS)
def test_lying_devices_move_a_mean_by_their_share_of_the_decoded_width(
    name: str, share: float
) -> None:
    """Whatever reports liars choose, the mean moves within an interval of exactly that length."""
    randomizer = mechanism(name, 1.0)
    assert isinstance(randomizer, RangeRandomizer)
    honest = randomizer.randomize(np.linspace(-50, 150, 1000), rng=SeededRandom(2026))
    liars = round(1000 * share)
    # All reports that are not refused; the worst two of them are what liars send.
    law, public = randomizer.law(1.0), randomizer.domain
    places = np.arange(-300_000, 300_000)
    reports = public.low + public.step * places[law.is_place(places)]
    decoded = randomizer.decode(reports)
    lies = (reports[decoded.argmin()], reports[decoded.argmax()])
    for estimator, reader in (
        (unbiased_mean, randomizer),
        (winsorized_mean, randomizer.clamp()),
    ):
        low, high = reader.decoded_reach
        before, *after = (
            estimator(np.concatenate([honest[liars:], some]), randomizer=randomizer).value
            for some in (honest[:liars], np.full(liars, lies[0]), np.full(liars, lies[1]))
        )
        assert after[0] <= before <= after[1]
        assert after[1] - after[0] == pytest.approx(share * (high - low))


@each_case("epsilon", [0.25, 0.5, 0.6, 1.0])
def test_the_optimal_channels_far_reports_are_counted(epsilon: float) -> None:
    """Where reports lie beyond the range, their tails are known, and nothing is divided by none."""
    reports = Optimal(epsilon, Range(0, 1000)).randomize(np.full(50, 300.0), rng=SeededRandom(1))
    found = unbiased_mean(reports, randomizer=Optimal(epsilon, Range(0, 1000)))
    assert math.isfinite(found.standard_error)
    # Two far ends and little between: lighter tails than normal.
    assert found.degrees_of_freedom == math.inf


def test_a_mean_on_a_lattice_is_unbiased_and_hardly_noisier() -> None:
    """Every value is a multiple of a share of the range, by itself without bias."""
    public, rng = Range(-50, 150), SeededRandom(3)
    randomizer = Optimal(2.0, public)
    noisy = randomizer.randomize([30.0] * 20, rng=rng)
    plain = unbiased_mean(noisy, randomizer=randomizer).value
    means = np.array(
        [lattice_mean(noisy, randomizer=randomizer, places=8, rng=rng) for _ in range(4000)]
    )
    totals = (means + 50) / 200 * 8 * 20
    assert np.abs(totals - np.rint(totals)).max() < 1e-9
    # Each of 20 values is rounded with a deviation of at most half a place.
    deviation = 200 / 8 / 2 / math.sqrt(20)
    assert 0 < means.std() <= deviation
    assert means.mean() == pytest.approx(plain, abs=6 * deviation / math.sqrt(4000))
    with pytest.raises(ValueError, match="places must be at least 2, got 1"):
        lattice_mean(noisy, randomizer=randomizer, places=1)
