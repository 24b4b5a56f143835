"""The Explorer without scripts: an address in; page, JSON and CSV, or a sentence, out."""

import asyncio
import csv
import io
import json
import math
import shlex
import subprocess
import sys
import tomllib
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from tests.studio.conftest import Visitor

from rase.accounting.composition import compose_live
from rase.accounting.error_curves import _unit
from rase.accounting.plan import plan
from rase.campaign import Campaign
from rase.cli.plan import command
from rase.domain import Range
from rase.studio import explorer
from rase.studio.explorer import explore
from rase.studio.explorer.fields import FIELDS, USUAL
from rase.studio.explorer.form import Refused, asked_of

QUESTIONS = [
    {},
    {
        "epsilon": "0.35",
        "devices": "64",
        "window": "1",
        "every": "1d",
        "low": "-20",
        "high": "45.5",
    },
    {"shuffle": "robust", "alpha": "2", "groups": "4", "mechanism": "budget-aware", "error": "50"},
    {"schedule": "rotate", "window": "7", "devices": "700", "every": "1d"},
    {"schedule": "split", "window": "7", "devices": "70"},
    {"attacker_cap": "3", "devices": "50", "shuffle": "robust", "groups": "2", "delta": "1e-8"},
]


def test_the_page_needs_no_login_and_no_scripts(visitor: Visitor) -> None:
    """Everybody sees fields, results and tables in plain HTML; nothing is inline."""
    answer = visitor.get("/explorer?epsilon=0.5&devices=200")
    assert answer.status_code == 200
    for words in (
        'name="epsilon" value="0.5"',
        "Error against epsilon",
        "What the shuffler will do",
        "Guessing (chance)",
        "rase plan --range 0 3000 --epsilon 0.5 --devices 200",
        "[campaign]",
        "Paragraph for a DPIA",
        "What is promised",
        'type="submit"',
    ):
        assert words in answer.text
    assert "style=" not in answer.text
    assert "onclick" not in answer.text


def test_one_call_answers_everything(visitor: Visitor) -> None:
    """The JSON has plan, curves, texts and the page's parts; its time is in a header."""
    answer = visitor.get("/explorer/plan.json?epsilon=2&window=7")
    found = answer.json()
    assert answer.headers["server-timing"].startswith("explorer;dur=")
    assert found["schema"] == "rase.explorer/1"
    assert found["query"] == "epsilon=2&window=7"
    assert set(found["texts"]) == {"toml", "cli", "python", "dpia"}
    assert set(found["html"]) == set(explorer.PARTS)
    made = plan(Range(0, 3000), 2.0, devices=1000, interval_s=3600, window=7)
    expected = made.error("unbiased_mean").window.total
    row = next(
        row
        for row in found["plan"]["errors"]
        if (row["estimator"], row["readings"]) == ("unbiased_mean", "worst")
    )
    assert row["window"]["total"] == pytest.approx(expected)
    central = made.periods[0].central
    assert central is not None
    assert found["plan"]["guarantees"][0]["central"]["epsilon"] == pytest.approx(
        central.epsilon, rel=1e-5
    )


def test_shuffled_periods_are_shown_by_right_guesses(visitor: Visitor) -> None:
    """The table says how often the best guess is right, rounded up, and no limit to certainty."""
    found = visitor.get("/explorer/plan.json?epsilon=1").json()
    one = found["plan"]["guarantees"][0]["central"]
    shown = found["html"]["guarantees"]
    assert "Guesses right, at most" in shown
    assert f"<td>{math.ceil(1000 * one['best_guess']) / 10:g} of 100</td>" in shown
    assert f"sure with a probability of {one['certainty_passed']:g} at most." in shown


def test_the_curves_as_csv_are_those_of_the_page(visitor: Visitor) -> None:
    """The file has every point of every curve."""
    query = "epsilon=0.7&mechanism=laplace"
    answer = visitor.get(f"/explorer/curves.csv?{query}")
    assert answer.headers["content-disposition"] == 'attachment; filename="rase-explorer.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    curves = visitor.get(f"/explorer/plan.json?{query}").json()["curves"]
    drawn = sum(value is not None for one in curves["series"] for value in one["error"])
    assert len(rows) == drawn > 500
    first = curves["series"][0]
    assert float(rows[0]["error"]) == pytest.approx(first["error"][0], rel=1e-4)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("epsilon", "abc"),
        ("epsilon", "nan"),
        ("epsilon", "0"),
        ("epsilon", "1e400"),
        ("epsilon", "<script>alert(1)</script>"),
        ("devices", "1"),
        ("devices", "10000001"),
        ("devices", "9" * 5000),
        ("devices", "١٢"),
        ("devices", "2.5"),
        ("window", "0"),
        ("window", "1e9"),
        ("beta", "-0.1"),
        ("rho", "1.1"),
        ("delta", "0"),
        ("delta", "1"),
        ("low", "inf"),
        ("high", "-5"),
        ("high", "1e300"),
        ("every", "0s"),
        ("every", "1 fortnight"),
        ("every", f"{'9' * 400}d"),
        ("mechanism", "magic"),
        ("shuffle", "cyclic"),
        ("alpha", "0"),
        ("groups", "0"),
        ("error", "-1"),
        ("attacker_cap", "0.5"),
        ("attacker_cap", "99999"),
        ("high", "1e-61"),
    ],
)
def test_a_bad_value_is_told_beside_its_field(visitor: Visitor, name: str, text: str) -> None:
    """Whatever is typed, the answer is 400 with one sentence for the field, never a traceback."""
    answer = visitor.get("/explorer/plan.json", params={name: text})
    assert answer.status_code == 400
    mistakes = answer.json()["mistakes"]
    assert set(mistakes) == {name}
    assert mistakes[name].endswith(".")
    assert len(mistakes[name]) < 200
    page = visitor.get("/explorer", params={name: text})
    assert page.status_code == 400
    assert f'id="e-{name}"' in page.text
    assert 'aria-invalid="true"' in page.text
    assert "<script>alert" not in page.text
    assert visitor.get("/explorer/curves.csv", params={name: text}).status_code == 400


def test_all_mistakes_are_told_at_once(visitor: Visitor) -> None:
    """Three wrong fields have three sentences."""
    query = {"epsilon": "x", "devices": "x", "rho": "x", "unknown": "ignored"}
    mistakes = visitor.get("/explorer/plan.json", params=query).json()["mistakes"]
    assert set(mistakes) == {"epsilon", "devices", "rho"}


def test_fields_that_do_not_go_together_are_told(visitor: Visitor) -> None:
    """What the planner refuses stands beside the field that it names."""
    answer = visitor.get("/explorer/plan.json?schedule=rotate&window=1")
    assert answer.status_code == 400
    assert "at least 2 rounds" in answer.json()["mistakes"]["window"]


def test_too_many_at_once_are_sent_away(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The open page cannot be made to compute without bound."""
    monkeypatch.setattr(explorer, "_under_way", explorer._MOST_AT_ONCE)
    assert visitor.get("/explorer/plan.json").status_code == 503


def test_what_no_field_is_to_blame_for_is_told_too(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal of the planner is a sentence above the form."""

    def refuse(*_: object) -> None:
        raise ValueError("this cannot be planned.")

    monkeypatch.setattr(explorer, "explore", refuse)
    answer = visitor.get("/explorer/plan.json")
    assert answer.status_code == 400
    assert answer.json()["mistakes"] == {"": "this cannot be planned."}
    assert "this cannot be planned." in visitor.get("/explorer").text


@pytest.mark.parametrize("given", QUESTIONS)
def test_the_address_says_the_same_question_again(given: dict[str, str]) -> None:
    """What was asked, written as an address and read again, is the same question."""
    asked = asked_of(given)
    again = asked_of(dict(pair.split("=") for pair in asked.query.split("&") if pair))
    if asked.is_robust:
        assert again == asked
    else:
        assert {**asdict(again), "alpha": 0, "groups": 0} == {
            **asdict(asked),
            "alpha": 0,
            "groups": 0,
        }


@pytest.mark.uncovered
@pytest.mark.parametrize("given", QUESTIONS)
def test_the_curves_pass_through_the_plans_error(given: dict[str, str]) -> None:
    """At an epsilon of the curve the plan's own error lies on it, whatever the schedule."""
    curves = explore(asked_of(given), 0.0).curves
    place = len(curves.epsilon) // 2
    there = explore(asked_of({**given, "epsilon": repr(float(curves.epsilon[place]))}), 0.0)
    for estimator in ("unbiased_mean", "sample_mean"):
        drawn = there.curves.of(there.asked.mechanism, estimator).total
        at = int(np.abs(there.curves.epsilon - there.asked.epsilon).argmin())
        assert drawn[at] == pytest.approx(there.plan.error(estimator).window.total, rel=1e-6)


def test_the_usual_question_is_an_empty_address() -> None:
    """Only what differs from the usual stands in the address, and usual values are valid."""
    assert asked_of({}).query == ""
    assert asked_of(USUAL).query == ""
    assert {one.name for part in FIELDS.values() for one in part} == set(USUAL)


@pytest.mark.parametrize("given", QUESTIONS)
def test_the_campaign_file_builds_a_campaign(given: dict[str, str]) -> None:
    """The TOML parses, and the campaign has what was explored."""
    asked = asked_of(given)
    found = explore(asked, 1_782_000_000.0)
    campaign = Campaign.from_fields(tomllib.loads(found.texts["toml"])["campaign"])
    assert (campaign.low, campaign.high) == (asked.low, asked.high)
    assert campaign.epsilon == (asked.epsilon,)
    assert campaign.round_s == asked.interval_s
    assert campaign.mechanism == found.plan.mechanism
    assert campaign.shuffle.method == asked.shuffle
    assert campaign.window_budget == found.plan.request.schedule.window_budget
    assert len(campaign.shuffle.groups) == (asked.groups if asked.is_robust else 0)


@pytest.mark.uncovered
@pytest.mark.parametrize("given", QUESTIONS)
def test_the_command_line_gives_the_same_numbers(given: dict[str, str]) -> None:
    """The line runs as it is, and its JSON has the page's errors, guarantees and shuffle.

    The epsilon of shuffled reports is a quicker bound on the page: never smaller than the
    command's, and not half as large again.
    """
    found = explore(asked_of(given), 0.0)
    words = shlex.split(found.texts["cli"])
    assert words[:2] == ["rase", "plan"]
    answer = CliRunner().invoke(command, [*words[2:], "--json"])
    assert answer.exit_code == 0, answer.output
    told, shown = json.loads(answer.output), explorer.document_of(found)
    assert told["errors"] == shown["errors"]
    assert told["shuffle"] == shown["shuffle"]
    assert told["recommendation"] == shown["recommendation"]
    assert told["wish"] == shown["wish"]
    for one, other in zip(told["guarantees"], shown["guarantees"], strict=True):
        assert one["epsilon"] == other["epsilon"]
        if one["central"] is not None:
            exact, quick = one["central"]["epsilon"], other["central"]["epsilon"]
            assert exact <= quick * (1 + 1e-5) <= 1.5 * exact


def test_the_python_lines_run() -> None:
    """The lines print the page's error and sentences."""
    found = explore(asked_of(QUESTIONS[2]), 0.0)
    ran = subprocess.run(
        [sys.executable, "-c", found.texts["python"]], capture_output=True, text=True, check=True
    )
    first, *rest = ran.stdout.splitlines()
    assert float(first) == found.plan.error("unbiased_mean").window.total
    assert rest == [str(period) for period in found.plan.periods]


def test_the_paragraph_says_promises_and_limits() -> None:
    """It names epsilon, collusion, linking and what is not covered; a refusal is not hidden."""
    text = explore(asked_of({}), 0.0).texts["dpia"]
    for words in (
        "1-locally",
        "73.2 % sure",
        "collude",
        "link the reports",
        "computed, not measured",
    ):
        assert words in text
    robust = explore(asked_of(QUESTIONS[2]), 0.0)
    if robust.plan.refusal is not None:
        assert "No guarantee is claimed" in robust.texts["dpia"]
    few = explore(asked_of({"devices": "3", "epsilon": "4"}), 0.0).texts["dpia"]
    assert "no further guarantee" in few


def test_no_amplification_and_refusal_are_said(visitor: Visitor) -> None:
    """Where shuffling proves nothing the page says so instead of a number."""
    assert "no amplification at this n" in visitor.get("/explorer?devices=5&epsilon=3").text
    text = visitor.get("/explorer?shuffle=robust&alpha=1&groups=1&devices=64").text
    assert "Refused." in text
    assert "no theorem covers this order" in text


def test_a_walk_computes_a_bounded_number_of_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moving one slider asks for few central bounds, whatever the question."""
    from rase.accounting import plan

    asked: list[int] = []

    def counted(source: object, n: int, *, rounds: int, delta: float) -> object:
        asked.append(rounds)
        return compose_live(source, n, rounds=rounds, delta=delta)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "compose_live", counted)
    plan._central.cache_clear()
    for epsilon in ("0.31", "0.32", "0.33"):
        asked.clear()
        explore(asked_of({"epsilon": epsilon, "devices": "300"}), 0.0)
        assert len(asked) <= 4
    asked.clear()
    explore(asked_of({"epsilon": "0.33", "devices": "300", "high": "9"}), 0.0)
    explore(asked_of({"epsilon": "0.33", "devices": "300", "high": "9", "beta": "0.4"}), 0.0)
    assert len(asked) <= 4


def test_a_question_is_refused_with_its_fields() -> None:
    """The exception names fields and sentences."""
    with pytest.raises(Refused, match="epsilon must be a number") as caught:
        asked_of({"epsilon": "x" * 100})
    assert set(caught.value.mistakes) == {"epsilon"}


def test_the_server_asks_the_usual_question_first() -> None:
    """When somebody comes, the laws that all curves share are there."""
    _unit.cache_clear()

    async def serve() -> None:
        assert explorer.PAGE.lifespan is not None
        async with explorer.PAGE.lifespan():
            pass

    asyncio.run(serve())
    assert _unit.cache_info().currsize > 100


def test_the_estimators_curves_keep_the_law_of_the_plan(visitor: Visitor) -> None:
    """With auto the lines are of the mechanism that the plan chose, and do not jump between laws.

    Along the best mechanism at each epsilon the sample mean's error jumps a hundredfold between
    neighbours, from that of optimal to that of hybrid reports.
    """
    curves = visitor.get("/explorer/plan.json?epsilon=1&devices=5000").json()["curves"]
    assert curves["mechanism"] == "optimal"
    (sample,) = (
        one["error"]
        for one in curves["series"]
        if (one["mechanism"], one["estimator"]) == ("optimal", "sample_mean")
    )
    # From the ladder's lowest rung on: below it the mechanism is Duchi's bit.
    errors = [
        error for epsilon, error in zip(curves["epsilon"], sample, strict=True) if epsilon >= 0.25
    ]
    assert all(later < 1.05 * before for before, later in pairwise(errors))
    assert any(
        one["mechanism"] == "optimal" and one["estimator"] == "median" for one in curves["series"]
    )
