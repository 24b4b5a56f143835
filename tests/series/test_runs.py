"""Many runs at once: the same numbers as one after the other."""

import math

import numpy as np
import pytest
from tests.cases import each_case
from tests.counts.many import spread_of

from rase import Duchi, Hybrid, Optimal, Range, SeededRandom, unbiased_mean
from rase.laws.randomizer import RangeRandomizer
from rase.series.runs import run_means, runs_of
from rase.series.skill import SkillTally
from rase.series.tracker import Tracker

REACH = Range(0, 1000)
SIZES = np.array([7, 1, 12, 12, 3, *[9] * 30])


@pytest.mark.uncovered
@each_case(
    ("randomizer", "nearly"),
    [
        # Variances that differ by less than 7 % are taken as one.
        (Hybrid(2.0, REACH), 0.05),
        (Duchi(0.5, REACH), 0.05),
        (Duchi(3.0, REACH), 1e-6),
        # What is known of the spread of readings is averaged over the runs where n changes.
        (Optimal(2.0, REACH), 2e-3),
    ],
)
def test_runs_are_those_of_single_trackers(randomizer: RangeRandomizer, nearly: float) -> None:
    """Means, spreads, tracked estimates and scores equal those of the classes for one round."""
    rng = np.random.default_rng(2026)
    readings = rng.uniform(100, 600, SIZES.sum())
    times_s = np.arange(len(SIZES)) * 3600.0
    truth = np.array([part.mean() for part in np.split(readings, np.cumsum(SIZES)[:-1])])
    reports = np.stack([randomizer.randomize(readings, rng=SeededRandom(s)) for s in (1, 2, 3)])
    means = run_means(reports, SIZES, randomizer=randomizer)
    runs = runs_of(means, times_s, truth=truth, value_range=REACH)
    for run, row in enumerate(reports):
        tracker, tracked, single = Tracker(REACH), SkillTally(REACH), SkillTally(REACH)
        for place, some in enumerate(np.split(row, np.cumsum(SIZES)[:-1])):
            alone = unbiased_mean(some, randomizer=randomizer)
            spread = spread_of(some, randomizer)
            assert means.values[run, place] == pytest.approx(alone.value)
            assert math.sqrt(means.variances[run, place]) == pytest.approx(alone.standard_error)
            if spread is None:
                assert means.spreads is None
            else:
                assert means.spreads is not None
                assert means.spreads[run, place] == pytest.approx(spread, abs=1e-6)
            told = tracker.update(times_s[place], alone, spread=spread)
            tracked.add(told, alone=alone, truth=truth[place])
            single.add(alone, alone=alone, truth=truth[place])
        assert runs.tracked[run] == pytest.approx(tracked.rmse, rel=nearly)
        assert runs.bias[run] == pytest.approx(tracked.bias, abs=nearly * tracked.rmse)
        # Degrees are whole numbers, so an end may lie on the other side of one truth.
        assert runs.coverage[run] == pytest.approx(tracked.coverage, abs=0.03 + 2 * nearly)
        assert runs.alone[run] == pytest.approx(single.rmse)
        assert runs.history[run] == pytest.approx(tracked.history)
        assert runs.last[run] == pytest.approx(tracked.last)


def test_runs_without_kernels_share_a_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that are equally sure, of a mechanism without spreads, have the same estimates."""
    reports = np.stack(
        [Duchi(3.0, REACH).randomize([400.0] * 20_000, rng=SeededRandom(seed)) for seed in (1, 2)]
    )
    means = run_means(reports, [2000] * 10, randomizer=Duchi(3.0, REACH))
    assert means.spreads is None
    times_s, truth = np.arange(10) * 3600.0, np.full(10, 400.0)
    compiled = runs_of(means, times_s, truth=truth, value_range=REACH)
    monkeypatch.setattr("rase.kernels.backend.native", None)
    shared = runs_of(means, times_s, truth=truth, value_range=REACH)
    assert shared.tracked == pytest.approx(compiled.tracked, rel=1e-6)
    assert shared.coverage == pytest.approx(compiled.coverage, abs=0.11)


@each_case(("shape", "sizes"), [((6,), [6]), ((2, 6), [5]), ((2, 6), [6, 0])])
def test_reports_that_fit_no_rounds_are_refused(shape: tuple[int, ...], sizes: list[int]) -> None:
    """A row a run, a column a report, and no round without any."""
    with pytest.raises(ValueError, match="reports must have"):
        run_means(np.zeros(shape), sizes, randomizer=Hybrid(2.0, REACH))
