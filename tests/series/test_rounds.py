"""What a round says: estimates by name, its mean by itself, and what tracking adds."""

import numpy as np
import pytest
from tests.cases import each_case
from tests.counts.many import spread_of

from rase import (
    BudgetAware,
    Counts,
    Duchi,
    Hybrid,
    Laplace,
    Precision,
    Range,
    RoundResult,
    SeededRandom,
    Uniform,
)
from rase.counts.mean import combined_mean, unbiased_mean
from rase.counts.registry import ESTIMATORS, TRACKED, Estimator, estimator_named
from rase.laws.randomizer import RangeRandomizer
from rase.series.rounds import RoundEstimates, estimate_round
from rase.series.tracker import Tracker

PUBLIC = Range(0, 100)
HOUR_MS = 3_600_000
LAWS: list[RangeRandomizer] = [
    BudgetAware(1.0, PUBLIC, Precision(0.5, 0.9)),
    Laplace(1.0, PUBLIC),
    Duchi(1.0, PUBLIC),
    Hybrid(4.0, PUBLIC),
]


def named(*names: str) -> dict[str, Estimator]:
    """Return estimators by their names."""
    return {name: estimator_named(name) for name in names}


def estimated(randomizer: RangeRandomizer, *names: str) -> tuple[Counts, RoundEstimates]:
    """Draw a round and estimate it."""
    counts = Counts.of(randomizer.draw_many(np.linspace(10, 80, 60), rng=SeededRandom(1)))
    return counts, estimate_round(counts, randomizer, named(*names), rng=SeededRandom(2))


def result_of(found: RoundEstimates, *, start_ms: int | None) -> RoundResult:
    """Return what is known of the round at the end."""
    return RoundResult(
        60,
        found.estimates,
        Uniform().manifest_for(60),
        start_ms=start_ms,
        alone=found.alone,
        spread=found.spread,
    )


@each_case("randomizer", LAWS)
def test_every_estimator_that_was_asked_for_answers(randomizer: RangeRandomizer) -> None:
    """Each by its name, from the counts; the mean of the round and its spread come with them."""
    counts, found = estimated(randomizer, *ESTIMATORS)
    assert list(found.estimates) == list(ESTIMATORS)
    for name, estimate in found.estimates.items():
        expected = estimator_named(name)(counts, randomizer=randomizer, rng=SeededRandom(2))
        if name != "bootstrap_mean":
            assert estimate == expected
        assert estimate.n == 60
    assert found.alone == unbiased_mean(counts, randomizer=randomizer)
    reports = randomizer.values_of(np.repeat(counts.places, counts.counts))
    assert found.spread == spread_of(reports, randomizer)
    assert (found.spread is None) == isinstance(randomizer, Duchi)


def test_only_what_is_asked_for_is_computed() -> None:
    """The paper's estimators have no mean of the readings; the spread is for a tracker alone."""
    assert estimated(LAWS[0], "median")[1].alone is None
    mean = estimated(LAWS[0], "median", "unbiased_mean")[1]
    assert mean.alone == mean.estimates["unbiased_mean"]
    assert mean.spread is None


def test_resampling_takes_the_source_that_is_given() -> None:
    """With one seed a round has one bootstrap."""
    first, again = (estimated(LAWS[0], "bootstrap_mean")[1] for _ in range(2))
    assert first.estimates == again.estimates


def test_contributors_with_budgets_of_their_own() -> None:
    """The mean that a tracker starts from weighs the budgets."""
    budgets = np.resize([0.5, 4.0], 60)
    randomizer = Hybrid(tuple(budgets.tolist()), PUBLIC)
    places = randomizer.draw_many(np.full(60, 40.0), rng=SeededRandom(1))
    counts = Counts.of(places, epsilon=budgets)
    found = estimate_round(counts, randomizer, named(TRACKED))
    assert found.alone == combined_mean(counts, randomizer=randomizer)
    # Those who allow little send bits, which hide the spread.
    assert found.spread is None


def test_rounds_without_reports_are_refused() -> None:
    """Nothing can be said of nothing, nor of what the mechanism cannot draw."""
    with pytest.raises(ValueError, match="at least one report"):
        estimate_round(Counts.of([]), LAWS[0], named(TRACKED))
    with pytest.raises(ValueError, match="such as this randomizer can draw"):
        estimate_round(Counts.of([PUBLIC.steps + 1]), LAWS[0], named(TRACKED))


def test_the_first_estimator_is_the_answer() -> None:
    """In the order in which they were asked for."""
    found = estimated(LAWS[0], "median", "unbiased_mean")[1]
    result = result_of(found, start_ms=None)
    assert result.estimate == found.estimates["median"]


def test_tracking_replaces_the_estimate_and_keeps_the_mean_of_the_round() -> None:
    """The tracker sees the round's mean and spread once; other estimates stay as they are."""
    found = estimated(LAWS[3], TRACKED, "median")[1]
    first = result_of(found, start_ms=0)
    tracker, beside = Tracker(PUBLIC), Tracker(PUBLIC)
    told = [
        result_of(found, start_ms=hour * HOUR_MS).tracked(tracker).estimates for hour in range(3)
    ]
    assert found.alone is not None
    expected = [beside.update(3600.0 * hour, found.alone, spread=found.spread) for hour in range(3)]
    assert [one[TRACKED] for one in told] == expected
    assert [one["median"] for one in told] == [found.estimates["median"]] * 3
    assert told[0][TRACKED].method == TRACKED
    assert first.tracked(Tracker(PUBLIC)).alone == found.alone


@each_case(
    ("names", "start_ms", "has_mean"),
    [
        (("median",), 0, True),
        ((TRACKED,), None, True),
        ((TRACKED,), 0, False),
    ],
)
def test_what_cannot_be_tracked_stays_as_it_is(
    names: tuple[str, ...], start_ms: int | None, has_mean: bool
) -> None:
    """Without ``tracked``, a time or a mean of the round no tracker is asked."""
    found = estimated(LAWS[0], *names)[1]
    result = RoundResult(
        60,
        found.estimates,
        Uniform().manifest_for(60),
        start_ms=start_ms,
        alone=unbiased_mean(estimated(LAWS[0])[0], randomizer=LAWS[0]) if has_mean else None,
    )
    tracker = Tracker(PUBLIC)
    assert result.tracked(tracker) is result
    assert tracker.time_s is None
