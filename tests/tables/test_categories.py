"""Shares of categories and shares above a bound, from tables."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from tests.cases import each_case

from rase import Categories, Range, RunPlan, SeededRandom, aggregate, auto, run_round, run_table
from rase.cli import main
from rase.errors import DataError
from rase.tables.plan import ShuffledPromise
from rase.tables.run import run
from rase.tables.source import open_source

STATE = Categories(("on", "off", "standby"))
HOUR_MS = 3_600_000
# So sure are reports at this epsilon that shares are known: one in 10^12 lies.
CERTAIN = 30.0


def plan_of(domain: Categories = STATE, *, epsilon: float = CERTAIN, **more: Any) -> RunPlan:
    """Return a plan by the hour."""
    return RunPlan(randomizer=auto(epsilon, domain), every="1h", **more)


def table(values: list[Any], *, devices: int = 4, minutes: int = 10) -> dict[str, list[Any]]:
    """Return rows of devices in turn, a row for every so many minutes of each."""
    time = [1_700_006_400 + 60 * minutes * (place // devices) for place in range(len(values))]
    return {
        "time": time,
        "device": [f"d{place % devices}" for place in range(len(values))],
        "value": values,
    }


def shares_of(table: Any, plan: RunPlan) -> list[dict[str, float]]:
    """Return the shares of each round."""
    rounds = run_table(table, plan, rng=SeededRandom(1))
    return [
        {name: round(share.value, 6) for name, share in one.estimates.items()} for one in rounds
    ]


def test_the_last_state_of_a_round_counts() -> None:
    """States have no mean; of rows with one time the first counts, and empty ones do not."""
    first, second = ["on", "off", "on", "on"], ["off", "off", None, "standby"]
    found = {"on": 0.25, "off": 0.5, "standby": 0.25}
    assert shares_of(table([*first, *second]), plan_of()) == [found]
    rows = table([*first, *second])
    backwards = {name: column[::-1] for name, column in rows.items()}
    assert shares_of(backwards, plan_of()) == [found]
    again = {name: [*column, column[-1]] for name, column in rows.items()}
    again["value"][-1] = "on"
    assert shares_of(again, plan_of()) == [found]


def test_what_is_not_listed_goes_to_other_or_stops_the_run() -> None:
    """The message names the row and the categories, and not what it held."""
    rows = table(["on", "broken", "off", "on"])
    listed = Categories(("on", "off", "other"))
    assert shares_of(rows, plan_of(listed)) == [{"on": 0.5, "off": 0.25, "other": 0.25}]
    with pytest.raises(DataError, match="in row 2 none of the categories on, off, standby") as no:
        shares_of(rows, plan_of())
    assert "broken" not in str(no.value)
    with pytest.raises(DataError, match="must hold names of categories, got double"):
        shares_of(table([0.5, 1.5]), plan_of())


@each_case(
    ("values", "names"),
    [([1, 2, 2, 1], ("1", "2")), ([True, False, False, True], ("true", "false"))],
)
def test_numbers_and_truth_values_have_names_too(values: list[Any], names: tuple[str, str]) -> None:
    """Firmware 2 is a category like any other."""
    assert shares_of(table(values), plan_of(Categories(names))) == [dict.fromkeys(names, 0.5)]


def test_above_a_bound_lies_the_mean_reading_of_a_device() -> None:
    """Readings of a round are averaged first; a mean at the bound is not above it."""
    sides = Categories(("up to 0.3", "above 0.3"))
    # The first device's mean is 0.3 but for rounding, the second's above, the others' below.
    rows = table([0.1, 0.1, 0.0, -5.0, 0.5, 0.6, 0.1, 4.9])
    found = shares_of(rows, plan_of(sides, above=0.3))
    assert found == [{"up to 0.3": 0.75, "above 0.3": 0.25}]
    with pytest.raises(ValueError, match="above must come with a randomizer for two categories"):
        RunPlan(randomizer=auto(1.0, Range(0, 1)), above=3.0)
    with pytest.raises(ValueError, match="above must be finite, with a randomizer for two"):
        plan_of(STATE, above=3.0)


@each_case(
    "more",
    [{"estimator": "median"}, {"truth": True}, {"feedback": lambda: None}],
)
def test_a_plan_for_shares_has_nothing_of_means(more: dict[str, Any]) -> None:
    """No estimator, truth, budgets or learnt range."""
    with pytest.raises(ValueError, match="shares of categories must not be combined"):
        plan_of(**more)
    with pytest.raises(TypeError, match="the plan is for shares"):
        _ = plan_of().numbers


@each_case("epsilon", [0.5, 1.0, 4.0])
def test_intervals_of_a_table_hold_the_shares(epsilon: float) -> None:
    """Of 400 rounds of 60 devices 95 % or more hold each share; ones less than half as long do not.

    False-alarm rate below 1e-9 for each if the coverage is 95 %.
    """
    devices, rounds = 60, 400
    states = np.random.default_rng(2).choice(STATE.names, p=[0.5, 0.3, 0.2], size=(rounds, devices))
    rows = table(states.ravel().tolist(), devices=devices, minutes=60)
    found = run_table(rows, plan_of(epsilon=epsilon), rng=SeededRandom(3))
    for name in STATE.names:
        true = (states == name).mean(axis=1)
        ends = [one.estimates[name].interval() for one in found]
        held = sum(low <= one <= high for one, (low, high) in zip(true, ends, strict=True))
        assert stats.binom.cdf(held, rounds, 0.95) > 1e-9
    off = [
        abs(one.estimates["on"].value - true)
        for one, true in zip(found, (states == "on").mean(axis=1), strict=True)
    ]
    short = sum(
        away <= 0.45 * 1.96 * one.estimates["on"].standard_error
        for away, one in zip(off, found, strict=True)
    )
    assert stats.binom.cdf(short, rounds, 0.95) < 1e-9


def test_shares_do_not_depend_on_how_a_table_is_cut(tmp_path: Path) -> None:
    """In memory, through the store, by row groups, as text: the same reports with one seed."""
    rng = np.random.default_rng(4)
    devices, rounds = 400, 6
    rows = table(rng.choice(STATE.names, size=devices * rounds * 2).tolist(), devices=devices)
    rows["time"] = [1_700_006_400 + 1800 * (place // devices) for place in range(len(rows["time"]))]
    path = tmp_path / "states.parquet"
    pq.write_table(pa.table(rows), path, row_group_size=500)
    text = tmp_path / "states.csv"
    text.write_text(
        "time,device,value\n"
        + "".join(f"{t},{d},{v}\n" for t, d, v in zip(*rows.values(), strict=True))
    )
    plan = plan_of(epsilon=1.0)
    expected = [one.estimates for one in run(rows, plan, rng=SeededRandom(9))]
    assert len(expected) == rounds
    for place in (str(path), str(text)):
        found = run(open_source(place), plan, rng=SeededRandom(9), workers=2)
        assert [one.estimates for one in found] == expected
    many = run(open_source(str(path)), plan, rng=SeededRandom(9), workers=1)
    many._most_rows = 700
    assert [one.estimates for one in many] == expected


def test_small_rounds_are_withheld_and_promises_stated() -> None:
    """As for means: rounds below k_min give nothing, in Python and by the command."""
    rows = table(["on", "off"] * 60, devices=40, minutes=60)
    rows = {name: column[:100] for name, column in rows.items()}
    promise = ShuffledPromise(k_min=40, shuffled_epsilon=1.0)
    found = aggregate(rows, STATE, promise=promise, every="1h", rng=SeededRandom(1))
    assert [one.n for one in found] == [40, 40]
    frame = found.to_frame()
    assert list(frame["category"]) == list(STATE.names) * 2
    assert list(frame.columns)[:3] == ["time", "category", "value"]


def test_one_round_in_one_line() -> None:
    """Names in, one estimate for each category out."""
    states = ["on"] * 300 + ["off"] * 100
    found = aggregate(states, STATE, epsilon=4, rng=SeededRandom(1))
    assert list(found) == list(STATE.names)
    result = run_round(states, randomizer=auto(4.0, STATE), rng=SeededRandom(1))
    assert dict(result.estimates) == found
    assert result.n == 400
    each = run_round(["on", "off"], randomizer=auto([1.0, 2.0], STATE), rng=SeededRandom(1))
    assert each.n == 2


def test_the_command_tells_shares_by_category(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For people, as JSON, as CSV; windows too; the share above a bound likewise."""
    path = tmp_path / "states.csv"
    rows = table(["on", "off", "on", "standby"] * 50, devices=100, minutes=60)
    path.write_text(
        "time,device,value\n"
        + "".join(f"{t},{d},{v}\n" for t, d, v in zip(*rows.values(), strict=True))
    )
    asked = ("--categories", "on,off, standby", "--epsilon", "2", "--every", "1h", "--seed", "1")
    assert main(["run", str(path), *asked, "--window", "2"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == (
        ["time", "rounds", "of_rounds", "category", "value", "standard_error", "low", "high", "n"]
    )
    assert "The shares of the last of 2 rounds are on 0." in err
    assert main(["run", str(path), *asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"]["categories"] == "on,off, standby"
    assert [row["category"] for row in document["results"]] == list(STATE.names) * 2
    assert {row["method"] for row in document["results"]} == {"shares"}
    assert {row["estimator"] for row in document["results"]} == {"shares"}
    assert main(["run", str(path), *asked, "--out", str(tmp_path / "out.csv")]) == 0
    capsys.readouterr()
    assert "category" in (tmp_path / "out.csv").read_text().splitlines()[0]
    assert main(["run", str(path), *asked[:2], *asked[4:], "--shuffled-epsilon", "1"]) == 0
    assert "Towards the fusion centre: (1, 1e-06)-DP" in capsys.readouterr().err
    path.write_text("time,device,value\n" + "".join(f"0,d{n},{n}\n" for n in range(100)))
    assert main(["run", str(path), "--above", "74", "--epsilon", "20", "--seed", "1"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[1:4] for line in shown[1:]] == [
        ["up", "to", "74"],
        ["above", "74", "0.2500"],
    ]


@each_case(
    ("asked", "message"),
    [
        ((), "one of --range, --categories and --above must be given"),
        (("--range", "0", "1", "--above", "3"), "one of --range, --categories and --above must"),
        (("--categories", "on"), "categories must be 2 to 64 names, got 1"),
        (("--categories", "on,on"), "categories must differ, got 'on' more than once"),
        (("--categories", ",".join(map(str, range(65)))), "2 to 64 names, got 65"),
        (("--categories", "on,,off"), "a category must be 1 to 64 printable characters"),
        (("--above", "nan"), "above must be finite"),
        (("--categories", "on,off", "--truth"), "--truth is for means of --range"),
        (("--categories", "on,off", "--feedback"), "--feedback is for means of --range"),
        (("--categories", "on,off", "--estimator", "median"), "--estimator is for means"),
        (("--categories", "on,off", "--mechanism", "duchi"), "one of auto, randomized-response"),
        (
            ("--range", "0", "1", "--mechanism", "block-design"),
            "mechanism must be one of auto, bud",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    asked: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, before the table is looked at."""
    assert main(["run", "nowhere.csv", "--epsilon", "1", *asked]) == 2
    assert message in capsys.readouterr().err
