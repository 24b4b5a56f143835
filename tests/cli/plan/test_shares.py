"""``rase plan --categories``: the error of a share, its intervals, and both promises."""

import json
from typing import Any

import pytest

from rase.cli import main

SIXTEEN = ",".join("abcdefghijklmnop")
TENTHOUSAND = ("--categories", SIXTEEN, "--devices", "10000", "--k-min", "10000")


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    """Return a plan."""
    assert main(["plan", *TENTHOUSAND, *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_sixteen_states_have_the_errors_that_the_design_asks_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At most 0.0010 at shuffled epsilon 1, 0.0020 at local 4.1, 0.020 at local 1."""
    shuffled = planned(capsys, "--shuffled-epsilon", "1")
    assert shuffled["standard_error"] <= 0.0010
    assert shuffled["epsilon"] <= 5.6
    assert shuffled["shuffled_epsilon"] <= 1.0
    local = planned(capsys, "--epsilon", "4.1")
    assert local["standard_error"] <= 0.0020
    assert local["mechanism"] == "randomized-response"
    small = planned(capsys, "--epsilon", "1")
    assert small["standard_error"] <= 0.020
    assert small["mechanism"] == "block-design"
    assert small["shuffled_epsilon"] < 0.1
    assert small["single"] < small["simultaneous"] < 2 * small["single"]


def test_a_plan_is_two_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    """How exact, and what is given away; k_min is four fifths unless it is named."""
    assert main(["plan", "--categories", "on,off", "--devices", "100", "--epsilon", "1"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("2 states, 100 devices: a share is known to ± ")
    assert "rounds of at least 80" in second


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilon", "1"), "needs --devices"),
        (("--devices", "9"), "one of --epsilon and --shuffled-epsilon"),
        (("--devices", "9", "--epsilon", "1", "--range", "0", "1"), "takes the place of --range"),
        (("--devices", "9", "--epsilon", "1", "--k-min", "10"), "k-min must be at most"),
    ],
)
def test_what_is_missing_is_named(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and the way out."""
    assert main(["plan", "--categories", "on,off", *options]) == 2
    assert words in capsys.readouterr().err
