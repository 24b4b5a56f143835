"""A promise of shuffled reports in a run: fitted, stated, and kept by withholding rounds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cases import each_case

from rase import (
    Duchi,
    PrivacyRefused,
    Range,
    Robust,
    RunPlan,
    SeededRandom,
    ShuffledPromise,
    aggregate,
    run_table,
)
from rase.cli import main
from rase.errors import TooFew
from rase.tables.plan import RunPlan as Plan
from rase.tables.run import run

PUBLIC = Range(0, 10)
PROMISE = ShuffledPromise(k_min=80, shuffled_epsilon=1.0)
# Reports of four hours; the third is too small.
HOURS = (100, 90, 40, 100)


def table() -> dict[str, Any]:
    """Return readings of some hours."""
    rows = [(3600 * hour, f"d{device}") for hour, n in enumerate(HOURS) for device in range(n)]
    values = np.random.default_rng(4).uniform(0, 10, len(rows))
    return {"time": [row[0] for row in rows], "device": [row[1] for row in rows], "value": values}


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    """The same as a file."""
    path = tmp_path / "readings.csv"
    columns = table()
    lines = zip(columns["time"], columns["device"], columns["value"], strict=True)
    path.write_text("time,device,value\n" + "".join(f"{t},{d},{v}\n" for t, d, v in lines))
    return path


def plan(promise: ShuffledPromise | None = PROMISE, **more: Any) -> Plan:
    """Return a plan whose randomizer keeps the promise."""
    randomizer = PROMISE.randomizer(PUBLIC, epsilon=None)
    return RunPlan(randomizer=randomizer, every="1h", promise=promise, **more)


def test_the_largest_budget_within_the_promise_is_taken() -> None:
    """The claim of one report meets the promise, and a limit on the budget is kept."""
    found = PROMISE.randomizer(PUBLIC, epsilon=None)
    (claim,) = PROMISE.claims(found, [1])
    assert 0.98 < claim.epsilon <= 1.0 < found.guarantee.epsilon
    assert PROMISE.randomizer(PUBLIC, epsilon=None, most=0.7).guarantee.epsilon <= 0.7
    fewer = ShuffledPromise(k_min=80, colluding=40, shuffled_epsilon=1.0)
    assert fewer.randomizer(PUBLIC, epsilon=None).guarantee.epsilon < found.guarantee.epsilon
    assert PROMISE.randomizer(PUBLIC, epsilon=0.5, mechanism="duchi") == Duchi(0.5, PUBLIC)


def test_a_budget_beyond_the_promise_is_refused() -> None:
    """A promise is not made smaller than what holds."""
    with pytest.raises(PrivacyRefused, match=r"epsilon 3 gives away 3 in rounds of 80, more than"):
        PROMISE.randomizer(PUBLIC, epsilon=3.0)
    with pytest.raises(ValueError, match="epsilon or shuffled_epsilon must be given"):
        ShuffledPromise(k_min=80).randomizer(PUBLIC, epsilon=None)
    with pytest.raises(ValueError, match="k_min must be at least 2 more than colluding, 79"):
        ShuffledPromise(k_min=80, colluding=79)
    with pytest.raises(ValueError, match="delta must be between"):
        ShuffledPromise(k_min=80, delta=0)
    with pytest.raises(ValueError, match="shuffled_epsilon must be greater than 0 and finite"):
        ShuffledPromise(k_min=80, shuffled_epsilon=-1.0)


def test_small_rounds_are_withheld_and_leave_no_trace() -> None:
    """The tracker learns nothing from them: later rounds are as if they had not been there."""
    done = run(table(), plan(), rng=SeededRandom(1))
    kept = list(done)
    assert [result.round for result in kept] == [0, 1, 3]
    assert (done.summary.rounds, done.summary.withheld) == (3, 1)
    columns = table()
    there = [hour != 2 * 3600 for hour in columns["time"]]
    without = {
        name: [one for one, is_there in zip(column, there, strict=True) if is_there]
        for name, column in columns.items()
    }
    again = run_table(without, plan(promise=None), rng=SeededRandom(1))
    assert [one.estimate for one in again] == [one.estimate for one in kept]


@each_case(
    "more",
    [
        {"shuffler": Robust(1.0, 2)},
        {"feedback": lambda: None},
    ],
)
def test_a_promise_is_for_one_law_and_the_uniform_shuffle(more: dict[str, Any]) -> None:
    """Whatever else is asked for would need claims of its own."""
    with pytest.raises(ValueError, match="promise needs the uniform shuffle and one law"):
        plan(**more)


def test_the_one_line_call_takes_a_promise() -> None:
    """For readings of one round, which must be enough, and for tables."""
    readings = list(range(10)) * 8
    estimate = aggregate(readings, (0, 10), promise=PROMISE, rng=SeededRandom(3))
    assert estimate.n == 80
    with pytest.raises(TooFew, match="79 reports are too few: the promise is for 80 on"):
        aggregate(readings[:79], (0, 10), promise=PROMISE)
    rounds = aggregate(table(), (0, 10), promise=PROMISE, every="1h", rng=SeededRandom(3))
    assert [one.round for one in rounds] == [0, 1, 3]
    with pytest.raises(TypeError, match="epsilon must be given"):
        aggregate(readings, (0, 10))
    with pytest.raises(TypeError, match="epsilon must be one number"):
        aggregate(readings, (0, 10), epsilon=[1.0] * 80, promise=PROMISE)


def test_the_command_fits_states_and_says_who_sees_what(
    readings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """k_min is four fifths of the devices; each answer has both promises, for windows, too."""
    asked = ["run", str(readings), "--range", "0", "10", "--every", "1h", "--seed", "1", "--json"]
    assert main([*asked, "--shuffled-epsilon", "1", "--window", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    one, _, two, *_ = document["results"]
    (claim, pair) = PROMISE.claims(PROMISE.randomizer(PUBLIC, epsilon=None), [1, 2])
    assert (one["local_epsilon"], one["shuffled_epsilon"]) == (claim.local_epsilon, claim.epsilon)
    assert (two["of_rounds"], two["shuffled_epsilon"], two["delta"]) == (2, pair.epsilon, 1e-6)
    assert document["summary"]["withheld"] == 1
    said = document["promises"]
    assert document["guarantee"] == said[0]
    assert said[0].startswith("Towards the fusion centre: (1, 1e-06)-DP; if both servers work")
    assert "shuffled reports of a run" in said[1]
    assert said[2] == "Rounds of fewer than 80 reports are withheld: 1 round."
    assert said[3].startswith("Whoever holds this table sees every reading")
    given = ("--epsilon", "2", "--delta", "1e-6", "--k-min", "30", "--details")
    assert main([*asked[:-1], *given]) == 0
    shown = capsys.readouterr().err
    assert "privacy   Towards the fusion centre: (" in shown
    assert "if both servers work together: epsilon 2. Somebody" in shown
    assert "promise   Towards the fusion centre: (" in shown
    assert "-LDP per report" not in shown
    assert "are withheld: 0 rounds." in shown


@each_case(
    ("options", "text"),
    [
        ([], "--epsilon or --shuffled-epsilon must be given."),
        (["--epsilon", "1", "--k-min", "9"], "--k-min and --colluding need --shuffled-epsilon"),
        (["--epsilon", "1", "--max-local-epsilon", "2"], "--max-local-epsilon needs"),
        (["--delta", "1e-6"], "--epsilon or --shuffled-epsilon must be given."),
        (["--epsilon", "1", "--delta", "1e-6", "--feedback"], "--feedback cannot be used with"),
        (["--shuffled-epsilon", "1", "--delta", "2"], "delta must be"),
        (["--shuffled-epsilon", "1", "--colluding", "999"], "k_min must be at least 2 more"),
    ],
)
def test_wishes_that_do_not_go_together_are_named(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the table is read."""
    table = tmp_path / "nothing.csv"
    assert main(["run", str(table), "--range", "0", "10", *options]) == 2
    assert text in capsys.readouterr().err
