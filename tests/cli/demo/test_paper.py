"""``rase demo --paper``: BR, groups, the robust shuffle, feedback and three estimators, live."""

import json
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from rase.cli import main
from rase.cli.demo.paper import PaperDemo, PaperSetting, lines_of
from rase.domain import Precision


def test_the_papers_setting_runs_through_the_real_servers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A day: three answers a round, groups at the shuffler, and a version that devices go by."""
    assert main(["demo", "--paper", "--homes", "160", "--seed", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rounds: list[dict[str, Any]] = document["rounds"]
    assert len(rounds) == 24
    assert [one["clamps"] for one in rounds] == [True] * 12 + [False] * 12
    assert sorted({one["beta"] for one in rounds}) == pytest.approx([0.5, 0.7675], abs=1e-4)
    for one in rounds:
        assert set(one["estimates"]) == {"sample_mean", "median", "bootstrap_mean"}
        for name, answer in one["estimates"].items():
            assert (answer["n"], answer["method"], answer["target"]) == (160, name, "reports")
            assert answer["shuffle"]
    # Clamped reports pull a mean of low readings towards the middle of the range: feedback ends it.
    bias = {
        clamps: sum(
            one["estimates"]["sample_mean"]["value"] - one["estimates"]["sample_mean"]["truth"]
            for one in rounds
            if one["clamps"] == clamps
        )
        / 12
        for clamps in (True, False)
    }
    assert bias[True] > 60
    assert abs(bias[False]) < 60
    assert document["error"]["clamping"]["median"] > 0


def test_feedback_asks_for_what_the_budget_can_meet() -> None:
    """The next version asks for the least beta at which BR does not clamp, and changes no more."""
    setting = PaperSetting()
    demo = PaperDemo(setting, seed=1)
    first = demo.campaign
    later = demo.feedback(first=first.not_before + 5)
    later.check_succeeds(first, from_round=first.not_before + 4)
    bound = later.precision.epsilon_bound(later.domain)
    assert bound <= setting.epsilon < Precision(later.beta * 0.999, 0.9).epsilon_bound(later.domain)
    assert (later.epsilon, later.shuffle, later.rho) == (first.epsilon, first.shuffle, first.rho)
    assert first.shuffle.method == "robust"
    assert len(first.shuffle.groups) == 8


@pytest.mark.parametrize(
    "options", [("--large",), ("--shuffled-epsilon", "1"), ("--homes", "3"), ("--days", "0")]
)
def test_what_does_not_go_together_is_named(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Other settings' options and too few homes are refused before anything starts."""
    assert main(["demo", "--paper", *options]) == 2
    assert options[0].lstrip("-") in capsys.readouterr().err


def test_without_rounds_there_are_words_too() -> None:
    """Whoever interrupts at once is told what was spent, and no average of nothing."""
    lines = list(lines_of(PaperSetting(), []))
    assert lines[0].startswith("Shuffle   no round")
