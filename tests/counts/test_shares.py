"""Shares of categories: unbiased, as sure as they say, from names or counts."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase import (
    BlockDesign,
    Categories,
    Counts,
    Estimate,
    RandomizedResponse,
    SeededRandom,
    shares,
)
from rase.arrays import Floats
from rase.counts.shares import on_simplex, simultaneous, top
from rase.kernels.entropy import SeededEntropy

NAMES = tuple(f"state {number}" for number in range(16))
STATE = Categories(("on", "off", "standby"))
READINGS = ["on"] * 120 + ["off"] * 60 + ["standby"] * 20
ROUNDS = 10_000
FALSE_ALARM = 1e-10


def response(epsilon: float | tuple[float, ...], count: int) -> RandomizedResponse:
    """Return the mechanism for so many categories."""
    return RandomizedResponse(epsilon, Categories(NAMES[:count]))


def fleet(count: int, n: int) -> list[int]:
    """Return the places of n readings: the first is the commonest, the last does not occur."""
    common = np.geomspace(1, 0.05, count - 1)
    edges = np.cumsum(common / common.sum())
    return [int(place) for place in np.searchsorted(edges, (np.arange(n) + 0.5) / n)]


def exact_variances(epsilon: float, places: list[int], count: int) -> Floats:
    """Return the variance of each estimated share, from the chances of the law."""
    often = math.exp(epsilon) / (math.exp(epsilon) + count - 1)
    seldom = 1 / (math.exp(epsilon) + count - 1)
    true = np.bincount(places, minlength=count) / len(places)
    each = true * often * (1 - often) + (1 - true) * seldom * (1 - seldom)
    return np.asarray(each / (often - seldom) ** 2 / len(places))


def rounds_of(epsilon: float, count: int, *, n: int, rounds: int) -> list[list[Estimate]]:
    """Return what many rounds of the same readings say of each category."""
    made, source = response(epsilon, count), SeededRandom(2026).child(f"{epsilon} {count}")
    drawn = made.draw_many(np.tile(fleet(count, n), (rounds, 1)), rng=source)
    return [list(shares(Counts.of(row), randomizer=made).values()) for row in drawn]


@pytest.mark.uncovered
@pytest.mark.parametrize("count", [2, 3, 16])
@each_case("epsilon", [0.5, 2.0, 6.0])
def test_shares_are_unbiased_and_as_sure_as_they_say(count: int, epsilon: float) -> None:
    """Over 500 rounds of 300 readings shares average to the truth, and variances to their own.

    The mean of each share is within 7 of its standard errors: a false-alarm rate of 3e-12 for each
    of 63 shares. An error stated 15 % too small or too large is seen.
    """
    found = rounds_of(epsilon, count, n=300, rounds=500)
    values = np.array([[one.value for one in row] for row in found])
    errors = np.array([[one.standard_error for one in row] for row in found])
    places = fleet(count, 300)
    true = np.bincount(places, minlength=count) / 300
    exact = exact_variances(epsilon, places, count)
    assert (np.abs(values.mean(axis=0) - true) < 7 * np.sqrt(exact / 500)).all()
    stated = np.square(errors).mean(axis=0)
    assert (stated > 0.9 * exact).all()
    # Where the number of votes hardly varies, its limits are those of whole numbers, and wider.
    made = response(epsilon, count).law(epsilon)
    often, seldom = made.chances
    varies = exact * (300 * (often - seldom)) ** 2 >= 45
    assert stated[varies] == pytest.approx(exact[varies], rel=0.3)
    # Every round's shares make a whole.
    assert values.sum(axis=1) == pytest.approx(np.ones(500))


@pytest.mark.uncovered
@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 3), (1.0, 2), (2.0, 8)])
def test_intervals_hold_the_true_shares(epsilon: float, count: int) -> None:
    """Of 10,000 intervals at 95 %, before they are cut to 0 and 1, 93 to 97 % hold the share.

    False-alarm rate 2e-10 for each share if coverage is between these; errors 30 % too small are
    rejected, and 30 % too large as well.
    """
    found = rounds_of(epsilon, count, n=400, rounds=ROUNDS)
    true = np.bincount(fleet(count, 400), minlength=count) / 400

    def held(place: int, factor: float) -> int:
        share = float(true[place])
        reaches = [factor * 1.959964 * row[place].standard_error for row in found]
        off = [abs(row[place].value - share) for row in found]
        return sum(one <= reach for one, reach in zip(off, reaches, strict=True))

    for place in range(count):
        assert stats.binom.cdf(held(place, 1.0), ROUNDS, 0.93) > FALSE_ALARM
        assert stats.binom.sf(held(place, 1.0) - 1, ROUNDS, 0.97) > FALSE_ALARM
        assert stats.binom.cdf(held(place, 0.7), ROUNDS, 0.93) < FALSE_ALARM
        assert stats.binom.sf(held(place, 1.3) - 1, ROUNDS, 0.97) < FALSE_ALARM


@each_case("share", [0.0, 0.1, 0.5, 0.9])
@each_case(("epsilon", "n"), [(0.1, 10), (0.5, 50), (1.0, 60), (2.0, 200), (6.0, 60), (12.0, 10)])
def test_coverage_by_the_exact_law(epsilon: float, n: int, share: float) -> None:
    """Summed over every number of reports there can be, so there are no false alarms."""
    made = response(epsilon, 3)
    row = made.law(epsilon).weights(0)
    often, seldom = row[0] / sum(row.values()), row[1] / sum(row.values())
    there = round(share * n)
    law = np.convolve(
        stats.binom.pmf(np.arange(there + 1), there, often),
        stats.binom.pmf(np.arange(n - there + 1), n - there, seldom),
    )
    covered = 0.0
    for times in range(n + 1):
        told = shares(Counts.of([0] * times + [1] * (n - times)), randomizer=made)["state 0"]
        low, high = told.interval()
        covered += float(law[times]) * (low - 1e-12 <= there / n <= high + 1e-12)
    assert covered >= 0.95


def test_intervals_end_at_nothing_and_at_all() -> None:
    """A value may lie outside, because moving it would add a bias; its interval may not."""
    found = [one for row in rounds_of(0.5, 3, n=100, rounds=40) for one in row]
    assert any(one.value < 0 for one in found)
    assert all(0 <= low <= high <= 1 for low, high in (one.interval() for one in found))


def test_the_way_of_a_reading_from_a_device_to_a_share() -> None:
    """Each device draws its own report; parts are counted apart, and the parts are joined."""
    made = RandomizedResponse(3.0, STATE)
    places = [made.draw_one(name, SeededEntropy(number)) for number, name in enumerate(READINGS)]
    parts = [Counts.of(places[start::3]) for start in range(3)]
    found = shares(Counts.join(parts), randomizer=made)
    assert list(found) == ["on", "off", "standby"]
    for name, share in found.items():
        true = READINGS.count(name) / len(READINGS)
        # 7 standard errors: a false-alarm rate below 1e-11.
        assert abs(share.value - true) < 7 * share.standard_error
        assert share.n == len(READINGS)
        assert share.method == "shares"
        assert share.target == f"share of the readings that are {name}"
    assert sum(share.value for share in found.values()) == pytest.approx(1)


def test_names_and_counts_say_the_same_in_any_order() -> None:
    """Reported names, backwards too, and the counts of their places are one estimate."""
    made = RandomizedResponse(1.0, STATE)
    reports = made.randomize(READINGS, rng=SeededRandom(1))
    counted = Counts.of([STATE.names.index(name) for name in reports])
    told = shares(counted, randomizer=made)
    assert shares(reports, randomizer=made) == told
    assert shares(reversed(reports), randomizer=made) == told


def test_each_budget_is_read_by_its_own_law() -> None:
    """Where contributors differ, a share is the mean over all of them, with the error of that."""
    budgets = np.resize([0.5, 4.0, 4.0, 2.0], 200)
    made = RandomizedResponse(tuple(budgets.tolist()), STATE)
    reports = made.randomize(READINGS, rng=SeededRandom(3))
    found = shares(reports, randomizer=made, epsilon=budgets.tolist())
    values, variances = dict.fromkeys(STATE.names, 0.0), dict.fromkeys(STATE.names, 0.0)
    for budget in (0.5, 2.0, 4.0):
        own = [name for name, one in zip(reports, budgets, strict=True) if one == budget]
        for name, share in shares(own, randomizer=RandomizedResponse(budget, STATE)).items():
            values[name] += share.value * share.n / 200
            variances[name] += (share.standard_error * share.n / 200) ** 2
    for name, share in found.items():
        assert share.value == pytest.approx(values[name])
        assert share.standard_error == pytest.approx(math.sqrt(variances[name]))
    assert sum(share.value for share in found.values()) == pytest.approx(1)
    counted = Counts.of([STATE.names.index(name) for name in reports], epsilon=budgets)
    assert shares(counted, randomizer=made) == found


@each_case("epsilon", [1e-4, 1.0, 30.0])
def test_one_report_has_at_least_the_error_of_its_law(epsilon: float) -> None:
    """The law is known, so a single report has a finite error, however little it says."""
    (first, *_, last) = shares(["state 0"], randomizer=response(epsilon, 5)).values()
    exact = exact_variances(epsilon, [0], 5)
    for one in (first, last):
        assert exact.min() * 0.99 <= one.standard_error**2 < math.inf
    assert first.value > last.value
    assert replace(first, value=0.0, standard_error=1.0).interval()[0] == 0.0


@each_case("epsilon", [0.5, 1.0, 2.0])
def test_shares_of_sets_are_unbiased_and_their_intervals_hold(epsilon: float) -> None:
    """Block designs, 800 rounds of 400: means within 7 errors, 94 to 98.5 % held at 95 %.

    False-alarm rate below 1e-11 for each mean, and below 1e-9 for each coverage if it is between
    95 and 98 %. Of the intervals for all at once 95 % hold everything, likewise.
    """
    made = BlockDesign(epsilon, Categories(NAMES))
    places = fleet(16, 400)
    true = np.bincount(places, minlength=16) / 400
    drawn = made.draw_many(np.tile(places, (800, 1)), rng=SeededRandom(11))
    told = [shares(Counts.of(row), randomizer=made) for row in drawn]
    values = np.array([[one.value for one in row.values()] for row in told])
    errors = np.array([[one.standard_error for one in row.values()] for row in told])
    assert (np.abs(values.mean(axis=0) - true) < 7 * errors.mean(axis=0) / math.sqrt(800)).all()
    held = np.array(
        [
            [low <= one <= high for one, (low, high) in zip(true, ends.values(), strict=True)]
            for ends in ({name: share.interval() for name, share in row.items()} for row in told)
        ]
    )
    assert stats.binom.cdf(held.sum(axis=0).min(), 800, 0.95) > FALSE_ALARM
    all_held = sum(
        all(low <= one <= high for one, (low, high) in zip(true, ends.values(), strict=True))
        for ends in map(simultaneous, told)
    )
    assert stats.binom.cdf(all_held, 800, 0.95) > FALSE_ALARM
    # Intervals a third too short are noticed.
    short = np.abs(values - true) <= 0.7 * 1.96 * errors
    assert stats.binom.cdf(short[:, 0].sum(), 800, 0.95) < FALSE_ALARM


def told(**values: float) -> dict[str, Estimate]:
    """Return shares of an error of 0.02."""
    return {
        name: Estimate(value, 0.02, n=100, method="shares", target=name, lowest=0, highest=1)
        for name, value in values.items()
    }


def test_the_commonest_categories_and_which_of_them_surely_are() -> None:
    """Sure is who has fewer rivals in reach than there are places."""
    found = told(on=0.5, off=0.33, standby=0.27, error=-0.1)
    assert top(found, 1) == {"on": True}
    assert top(found, 2) == {"on": True, "off": False}
    assert top(found, 3) == {"on": True, "off": True, "standby": True}
    for count in (0, 5):
        with pytest.raises(ValueError, match="count must be between 1 and 4"):
            top(found, count)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        simultaneous(found, 1.0)


def test_what_is_called_sure_is_true() -> None:
    """Over 2,000 rounds of which the third and fourth are alike, 95 % call nothing wrong sure.

    False-alarm rate 1e-10 if it is 95 %; it is nearly always. With intervals for single shares
    more would be wrong.
    """
    made = RandomizedResponse(1.5, Categories(NAMES[:6]))
    places = np.repeat(np.arange(6), [100, 80, 50, 50, 50, 20])
    drawn = made.draw_many(np.tile(places, (2000, 1)), rng=SeededRandom(5))
    wrong = 0
    for row in drawn:
        sure = [
            name
            for name, is_sure in top(shares(Counts.of(row), randomizer=made), 2).items()
            if is_sure
        ]
        wrong += not set(sure) <= {"state 0", "state 1"}
    assert stats.binom.sf(wrong - 1, 2000, 0.05) > FALSE_ALARM


@each_case(
    "values",
    [(0.9, 0.3, -0.2), (0.2, 0.3, 0.5), (2.0, 0.1, 0.1), (-0.1, -0.2, -0.3)],
)
def test_shares_for_display_make_a_whole(values: tuple[float, ...]) -> None:
    """None below 0, together 1, in the same order, and nothing else is nearer."""
    found = told(**{f"s{place}": value for place, value in enumerate(values)})
    shown = np.array(list(on_simplex(found).values()))
    assert shown.sum() == pytest.approx(1)
    assert (shown >= 0).all()
    apart = float(np.square(shown - values).sum())
    others = np.random.default_rng(1).dirichlet(np.ones(3), size=2000)
    assert (np.square(others - values).sum(axis=1) >= apart - 1e-12).all()


@each_case(
    ("reports", "epsilon", "message"),
    [
        ([], None, "at least one report, got none"),
        (["on", "dimmed"], None, "one of the 3 categories, got something else"),
        (Counts.of([3]), None, "such as this randomizer can draw"),
        (Counts.of([-1]), None, "such as this randomizer can draw"),
        (["on"], [1.0, 2.0], "epsilon must hold 1 budgets"),
        (["on"], [0.0], "epsilon must hold finite budgets greater than 0"),
    ],
)
def test_unusable_reports_are_refused(
    reports: Counts | list[str], epsilon: list[float] | None, message: str
) -> None:
    """None at all, names and places of no category, and budgets that do not fit."""
    with pytest.raises(ValueError, match=message) as refused:
        shares(reports, randomizer=RandomizedResponse(1.0, STATE), epsilon=epsilon)
    assert "dimmed" not in str(refused.value)


def test_names_are_no_reports_of_sets() -> None:
    """A block design reports numbers of sets: a name among its reports is a mistake."""
    with pytest.raises(TypeError, match="reports of block-design are no names"):
        shares(["on"], randomizer=BlockDesign(1.0, STATE))


def test_budgets_must_be_told_where_contributors_differ() -> None:
    """And must be those of the contributors."""
    made = RandomizedResponse((1.0, 2.0), STATE)
    with pytest.raises(ValueError, match="epsilon must be given"):
        shares(["on", "off"], randomizer=made)
    with pytest.raises(ValueError, match="budgets of this randomizer's contributors only"):
        shares(["on"], randomizer=made, epsilon=[3.0])
