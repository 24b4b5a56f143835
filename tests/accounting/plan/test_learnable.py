"""What a fleet can learn: errors that simulation bears out, and an honest no."""

import json

import numpy as np
import pytest

from rase import Range, SeededRandom, run_round
from rase.accounting.accountant.calibrate import calibrate
from rase.accounting.plan.learnable import ROUGH, USEFUL, learnable
from rase.cli import main


@pytest.mark.parametrize(("devices", "place"), [(64, 2), (500, 0)])
def test_errors_are_borne_out(devices: int, place: int) -> None:
    """Means drawn as the answer says are as far off as it says, at its worst, and no further."""
    answer = learnable(devices).answers[place]
    law = calibrate(
        Range(0, 1),
        shuffled_epsilon=1,
        delta=1e-6,
        n=devices * 4 // 5,
        rounds=answer.reports,
        max_local_epsilon=4.5,
    )
    assert law.certificate().epsilon == answer.epsilon
    rng, trials = SeededRandom(3), 300
    worst = 0.0
    for reading in (0.0, 0.5, 1.0):
        readings = np.full(trials * devices * answer.reports, reading)
        means = [
            run_round(some, randomizer=law, estimator="unbiased_mean", rng=rng).estimate.value
            for some in readings.reshape(trials, -1)
        ]
        worst = max(worst, float(np.sqrt(np.mean((np.array(means) - reading) ** 2))))
    # 300 trials know a standard deviation to 4.1 %; the worst reading may lie between these.
    assert 0.85 * answer.share < worst < 1.15 * answer.share


def test_promises_hold_for_all_reports_together() -> None:
    """Only the month that is promised day by day gives away more than one promise."""
    found = learnable(64, shuffled_epsilon=0.5, delta=1e-5)
    *whole, daily = found.answers
    assert all(one.claim.epsilon <= 0.5 * (1 + 1e-6) for one in whole)
    assert all(one.claim.delta == 1e-5 and one.claim.reports == one.reports for one in whole)
    assert daily.claim.epsilon > 2
    assert (found.k_min, found.devices) == (51, 64)
    hours = found.answers[1]
    assert hours.claim.local_epsilon <= 8 * (1 + 1e-9)


def test_verdicts_follow_the_error() -> None:
    """Yes up to 2 % of the range, roughly up to 7 %, and no beyond."""
    verdicts = set()
    for devices in (8, 150):
        for one in learnable(devices).answers:
            verdicts.add(one.verdict)
            assert one.verdict == (
                "yes" if one.share <= USEFUL else "roughly" if one.share <= ROUGH else "no"
            )
    assert verdicts == {"yes", "roughly", "no"}


def test_refused() -> None:
    """Numbers out of bounds are named."""
    with pytest.raises(ValueError, match="k_min must be between 2 and the 1 devices, got 2"):
        learnable(1)
    with pytest.raises(ValueError, match="k_min must be between 2 and the 5 devices, got 9"):
        learnable(5, k_min=9)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """With devices alone the command answers; with a range in its unit; as JSON, too."""
    assert main(["plan", "--devices", "64"]) == 0
    said = capsys.readouterr().out
    assert "one mean                                   1   10 %  no" in said
    assert "says      Useful: a month's mean, promised day by day. Noise wins for: one" in said
    assert main(["plan", "--devices", "4"]) == 0
    assert "says      No: 4 devices hide each other too little" in capsys.readouterr().out
    assert main(["plan", "--devices", "64", "--range", "0", "40", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["range"] == [0, 40]
    assert document["answers"][0]["verdict"] == "no"
    assert main(["plan", "--devices", "1"]) == 2
    assert "k_min must be between 2 and the 1 devices" in capsys.readouterr().err
    assert main(["plan", "--devices", "64", "--reports", "3"]) == 2
