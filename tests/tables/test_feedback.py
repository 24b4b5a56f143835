"""Range feedback over rounds and tables."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from rase import Range, RunPlan, SeededRandom, SquareWave, auto
from rase.arrays import Floats
from rase.counts.ranges import RangeAdvice, RangeProbe
from rase.errors import DataError
from rase.tables.budgets import BudgetClasses
from rase.tables.feedback import RangeFeedback, probe_share
from rase.tables.rows import Rows
from rase.tables.run import run

WIDE = Range(0, 2000)


class Readings:
    """A table of readings, given one round a row; sorted by device and time."""

    def __init__(self, values: Floats) -> None:
        self._values = values

    def batches(self) -> Iterator[Rows]:
        """Yield all rows at once."""
        rounds, devices = self._values.shape
        yield Rows(
            np.tile(3_600_000 * np.arange(rounds), devices),
            np.repeat(np.arange(devices), rounds),
            self._values.T.ravel(),
            np.ones(self._values.size, dtype=np.bool_),
        )


@pytest.mark.uncovered
def test_the_range_narrows_and_the_error_with_it() -> None:
    """From twenty times too wide the range comes down to the readings, and so does the error."""
    plan = RunPlan(
        randomizer=auto(2.0, WIDE),
        estimator=("unbiased_mean", "tracked"),
        feedback=lambda: RangeFeedback(2.0, WIDE),
        every="1h",
        truth=True,
    )
    readings = Readings(np.random.default_rng(1).normal(100, 10, (56, 100)))
    done = run(readings, plan, rng=SeededRandom(1))
    results = list(done)
    feedback = done.feedback
    assert feedback is not None
    errors = [abs(one.estimates["unbiased_mean"].value - (one.truth or 0)) for one in results]
    assert np.mean(errors[48:]) < np.mean(errors[:8]) / 3
    tracked = [abs(one.estimates["tracked"].value - (one.truth or 0)) for one in results]
    assert np.mean(tracked[48:]) < 20
    assert feedback.domain.width < 300
    assert feedback.advice is not None
    summary = done.summary
    assert (summary.rows, summary.devices, summary.rounds) == (5600, 100, 56)
    assert (summary.most_reports, summary.most_epsilon) == (56, 112.0)
    assert summary.clipped > 0
    assert list(done) == []
    assert list(run(readings, plan, rng=SeededRandom(1))) == results


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make every choice the same real one, which takes no time; list after which rounds."""
    source, advised = SeededRandom(1), RangeFeedback(2.0, WIDE)
    for _ in range(4):
        advised.learn(advised.randomizer.randomize(np.full(20, 100.0), rng=source), rng=source)
    advice, places = advised.advice, list[int]()
    assert advice is not None

    def same(probes: Sequence[RangeProbe], **_: Any) -> RangeAdvice:
        places.append(len(probes))
        return advice

    monkeypatch.setattr("rase.tables.feedback.advise_range", same)
    # No round is forgotten, so that there are as many probes as rounds.
    monkeypatch.setattr("rase.tables.feedback.latest_ranges", list)
    return places


def test_probing_spends_no_more_and_becomes_rare(choices: list[int]) -> None:
    """All rounds have the one epsilon; after 48 rounds about one in five probes at epsilon 2."""
    feedback = RangeFeedback(2.0, WIDE)
    kinds = []
    for _ in range(68):
        randomizer = feedback.randomizer
        assert randomizer.epsilon == 2.0
        kinds.append(isinstance(randomizer, SquareWave))
        source = SeededRandom(len(kinds))
        feedback.learn(randomizer.randomize(np.full(50, 100.0), rng=source), rng=source)
    assert all(kinds[:48])
    assert sum(kinds[48:]) == pytest.approx(20 * probe_share(2.0), abs=1.5)
    assert choices


@pytest.mark.parametrize(("known", "later"), [(48, [56, 64]), (5, [57, 68]), (1, [72])])
def test_choices_are_frequent_while_little_is_known(
    monkeypatch: pytest.MonkeyPatch, choices: list[int], known: int, later: list[int]
) -> None:
    """Every fourth round while learning, then every eighth, in long runs every 24th at most."""
    monkeypatch.setattr("rase.tables.feedback._STAGES_KNOWN", known)
    feedback, source = RangeFeedback(2.0, WIDE), SeededRandom(1)
    for _ in range(72):
        feedback.learn(feedback.randomizer.randomize(np.full(20, 100.0), rng=source), rng=source)
    assert choices[:12] == list(range(4, 52, 4))
    assert choices[12 : 12 + len(later)] == later


@pytest.mark.uncovered
def test_the_range_grows_back_up_to_the_limits() -> None:
    """Readings that move beyond a narrow range widen it again, but never beyond the limits."""
    feedback = RangeFeedback(4.0, Range(90, 110), limits=Range(0, 400))
    for place in range(48):
        source = SeededRandom(place)
        readings = np.random.default_rng(place).normal(250, 10, 60)
        feedback.learn(feedback.randomizer.randomize(readings, rng=source), rng=source)
    assert feedback.domain.low < 250 < feedback.domain.high <= 400


def test_a_long_run_remembers_a_bounded_number_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rounds and the latest are learnt from, those between are forgotten."""
    monkeypatch.setattr("rase.tables.feedback._LEARNING", 8)
    monkeypatch.setattr("rase.tables.feedback._REMEMBERED", 4)
    feedback = RangeFeedback(2.0, WIDE, limits=WIDE, averaged=1000)
    for place in range(33):
        source = SeededRandom(place)
        feedback.learn(feedback.randomizer.randomize(np.full(20, 100.0), rng=source), rng=source)
    assert feedback.advice is not None
    assert feedback.advice.rounds == 12


def test_a_share_never_exceeds_one() -> None:
    """However small epsilon is, at most all rounds probe."""
    assert probe_share(0.01) <= 1.0
    assert probe_share(8.0) < 0.02


def test_an_empty_table_is_refused() -> None:
    """There is nothing to choose a range from."""

    class Nothing:
        def batches(self) -> Iterator[Rows]:
            yield Rows(
                np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_)
            )

    plan = RunPlan(randomizer=auto(1.0, WIDE), feedback=lambda: RangeFeedback(1.0, WIDE))
    seen: list[str] = []
    done = run(Nothing(), plan, on_progress=lambda what, _share: seen.append(what))
    with pytest.raises(DataError, match="at least one reading"):
        list(done)
    assert seen == ["read"]


@pytest.mark.uncovered
def test_errors_hold_what_clipping_adds() -> None:
    """Of appliances that a chosen range clips, intervals hold the mean of what they measured.

    If 95 % of 72 rounds were held on average, fewer than 57 would be with a chance below 1e-6;
    without what clipping adds, `tracked` would hold far fewer.
    """
    chance = np.random.default_rng(5)
    shape = (120, 20)
    loads = np.where(chance.random(shape) < 0.15, chance.uniform(50, 600, shape), 2.0)
    plan = RunPlan(
        randomizer=auto(1.0, WIDE),
        estimator=("unbiased_mean", "tracked", "sample_mean"),
        feedback=lambda: RangeFeedback(1.0, WIDE),
        every="1h",
        truth=True,
    )
    results = list(run(Readings(loads), plan, rng=SeededRandom(1)))[48:]
    for name, most_without in (("unbiased_mean", 72), ("tracked", 56)):
        held = without = 0
        for result in results:
            one, truth = result.estimates[name], result.truth or 0.0
            assert 0 < one.lasting_error < one.standard_error
            low, high = one.interval()
            held += low <= truth <= high
            own = math.sqrt(one.standard_error**2 - one.lasting_error**2)
            without += abs(one.value - truth) <= 1.96 * own
        assert without <= most_without
        assert held >= 57
    assert all(one.estimates["sample_mean"].lasting_error == 0 for one in results)


def test_a_learnt_range_excludes_groups_and_budgets() -> None:
    """What cannot go together is refused before a table is read."""
    with pytest.raises(ValueError, match="feedback must not be combined with graph or budgets"):
        RunPlan(
            randomizer=auto(1.0, WIDE),
            feedback=lambda: RangeFeedback(1.0, WIDE),
            budgets=BudgetClasses({"a": 0.5}, 1.0),
        )
