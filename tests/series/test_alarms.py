"""Alarms: as many false ones as stated, and shifts noticed as soon as stated."""

import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.counts.mean import unbiased_mean
from rase.domain import Range
from rase.kernels.words import SeededRandom
from rase.laws.optimal import Optimal
from rase.series.alarms import MONTH_S, AlarmRule, detection_rounds, read_alarm

HOUR = 3600
YEAR = 365 * 24


def estimate(value: float, error: float = 1.0) -> Estimate:
    """Return one round by itself."""
    return Estimate(value, error, n=100, method="unbiased_mean", target="mean of the readings")


def alarms(rule: AlarmRule, values: np.ndarray, error: float = 1.0) -> list[int]:
    """Return the rounds in which an alarm is raised anew."""
    row = [estimate(float(value), error) for value in values]
    raised, found = False, []
    for place in range(rule.needed, len(row) + 1):
        reading = read_alarm(rule, row[place - rule.needed : place])
        assert reading is not None
        if reading.is_beyond and not raised:
            found.append(place - 1)
        raised = reading.is_beyond or (raised and not reading.is_back)
    return found


RULES = {
    "above": AlarmRule(kind="above", level=0.0, per_month=5, round_s=HOUR),
    "below": AlarmRule(kind="below", level=0.0, rounds=6, per_month=5, round_s=HOUR),
    "change": AlarmRule(kind="change", level=0.0, rounds=6, against=24, per_month=5, round_s=HOUR),
}


@pytest.mark.parametrize("kind", RULES)
def test_false_alarms_stay_within_the_stated_rate(kind: str) -> None:
    """A year in which nothing is the matter, the mean right at the level: the worst case.

    At most 60 are expected; 90 or more come once in 5,000 years.
    """
    rng = np.random.default_rng(26)
    count = len(alarms(RULES[kind], rng.normal(size=YEAR)))
    assert count < 90
    # A threshold that is too low by three tenths is noticed.
    too_low = AlarmRule(
        kind=kind,
        level=0.0,
        rounds=RULES[kind].rounds,
        against=RULES[kind].against,
        per_month=min(5 * 100 / 12, 100),
        round_s=HOUR,
    )
    assert too_low.threshold < 0.75 * RULES[kind].threshold
    assert len(alarms(too_low, rng.normal(size=YEAR))) > count


def test_thresholds_hold_for_the_noise_of_real_reports() -> None:
    """50,000 rounds of 20 reports at epsilon 1: beyond the threshold as often as it says.

    A rate of 1 in 1,440 gives 35 on each side; 60 or more come once in 20,000 tries.
    """
    law, n, rounds = Optimal(1.0, Range(0, 1)), 20, 50_000
    rule = AlarmRule(kind="above", level=0.5, per_month=0.5, round_s=HOUR)
    assert rule.chance == pytest.approx(0.5 * HOUR / MONTH_S)
    places = law.draw_many(np.full(n * rounds, 0.5), rng=SeededRandom(3)).reshape(rounds, n)
    beyond = 0
    values = law.decode_places(places).mean(axis=1)
    # Only rounds far out can raise an alarm: the others need not be estimated one by one.
    for place in np.flatnonzero(values > np.quantile(values, 0.99)):
        found = unbiased_mean(Counts.of(places[place]), randomizer=law)
        reading = read_alarm(rule, [found])
        beyond += reading is not None and reading.is_beyond
    assert beyond < 60


def test_a_shift_is_noticed_as_soon_as_stated() -> None:
    """Half of 200 shifts by a tenth are noticed within the stated rounds, and all soon after."""
    rule = AlarmRule(kind="change", level=0.0, rounds=24, against=168, per_month=0.1, round_s=HOUR)
    error, mean = 20.0, 300.0
    stated = detection_rounds(rule, mean / 10, error)
    assert stated is not None
    rng, delays = np.random.default_rng(7), []
    for _ in range(200):
        values = mean + rng.normal(size=240, scale=error)
        values[200:] += mean / 10
        found = [round for round in alarms(rule, values, error) if round >= 200]
        delays.append(found[0] - 199 if found else math.inf)
    assert abs(float(np.median(delays)) - stated) <= 1
    assert np.mean(np.array(delays) <= 24) > 0.9


def test_an_alarm_stays_until_the_mean_is_back() -> None:
    """Noise around the level raises it once."""
    rule = AlarmRule(kind="above", level=10.0, per_month=0.1, round_s=HOUR)
    values = np.array([9.0, 20.0, 12.0, 18.0, 20.0, 9.5, 20.0])
    assert alarms(rule, values) == [1, 6]


def test_rounds_that_are_missing_raise_nothing() -> None:
    """Nor does one whose error is not known."""
    rule = AlarmRule(kind="change", level=1.0, rounds=2, against=2, round_s=HOUR)
    row = [estimate(value) for value in (0.0, 0.0, 90.0, 90.0)]
    reading = read_alarm(rule, row)
    assert reading is not None
    assert reading.is_beyond
    assert reading.value == 90.0
    for missing in range(4):
        assert (
            read_alarm(rule, [None if i == missing else one for i, one in enumerate(row)]) is None
        )
    unknown = AlarmRule(kind="above", level=1.0, round_s=HOUR)
    assert read_alarm(unknown, [estimate(1.0, math.inf)]) is None
    late = [*row[:1], estimate(0.0, math.inf), *row[2:]]
    assert read_alarm(rule, late) is None
    with pytest.raises(ValueError, match="4 rounds"):
        read_alarm(rule, row[:3])


def test_shifts_that_are_too_small_are_said_to_be() -> None:
    """A window that is too short never notices them."""
    rule = AlarmRule(kind="above", level=0.0, rounds=4, round_s=HOUR)
    assert detection_rounds(rule, 0.1, 1.0) is None
    assert detection_rounds(rule, -1.0, 1.0) is None
    assert detection_rounds(rule, 100.0, 1.0) == 1


@each_case(
    ("changes", "words"),
    [
        ({"kind": "odd"}, "kind must be one of above, below, change"),
        ({"level": math.inf}, "level must be finite"),
        ({"kind": "change", "level": -1.0, "against": 1}, "level must be 0 or more"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"kind": "change", "rounds": 2, "against": 1}, "against must be at least rounds"),
        ({"per_month": 0.0}, "per_month must be"),
    ],
)
def test_rules_that_mean_nothing_are_refused(changes: dict[str, object], words: str) -> None:
    """By name."""
    fields: dict[str, object] = {"kind": "above", "level": 1.0, "round_s": HOUR}
    with pytest.raises(ValueError, match=words):
        AlarmRule(**{**fields, **changes})  # type: ignore[arg-type]
