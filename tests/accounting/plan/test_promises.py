"""Both promises before a campaign runs: from either wish, at the fewest honest reports."""

import math
from typing import Any

import pytest
from tests.cases import each_case

from rase import PrivacyRefused, Range
from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.plan.promises import plan_promises

PUBLIC = Range(0, 10)


@each_case(
    ("devices", "k_min", "error", "local"),
    [
        (1000, None, 0.0083, 3.5),
        (10_000, None, 0.0011, 5.6),
        (100_000, None, 0.000155, 7.9),
        (1000, 1000, 0.0076, 3.5),
        (10_000, 10_000, 0.00102, 5.6),
        (100_000, 100_000, 0.000143, 7.9),
    ],
)
def test_the_shuffle_buys_accuracy(
    devices: int, k_min: int | None, error: float, local: float
) -> None:
    """One round of (1, 1e-6): the error as a share of the range, and the local epsilon for it."""
    made = plan_promises(PUBLIC, devices=devices, shuffled_epsilon=1.0, k_min=k_min)
    told = made.to_dict()
    assert told["standard_error_share"] <= error
    assert told["local_epsilon"] == told["drawn_epsilon"] <= local
    assert told["standard_error"] == pytest.approx(10 * told["standard_error_share"])
    assert made.k_min == (k_min or devices * 4 // 5)
    assert 0.99 < told["shuffled_epsilon"] <= 1.0


def test_promises_are_those_of_the_honest_reports_alone() -> None:
    """Reports of the adversary hide nobody: they are taken off k_min."""
    made = plan_promises(
        PUBLIC, devices=1000, local_epsilon=1.0, k_min=900, colluding=100, interval_s=1800
    )
    assert [(span, claim.reports) for span, claim in made.spans] == [
        ("report", 1),
        ("day", 48),
        ("month", 1440),
    ]
    pair = shuffled_pair(made.randomizer, 800)
    assert made.spans[1][1].epsilon == pair.compose(48).epsilon(1e-6)
    assert made.spans[1][1].local_epsilon == 48.0
    assert made.to_dict()["wished_shuffled_epsilon"] is None
    assert "at least 900 reports, of which 100 may be the adversary's: towards" in made.sentence
    assert "if both servers work together: epsilon 1." in made.sentence


def test_a_wish_for_a_day_is_kept_for_a_day() -> None:
    """The reports that share the wish keep it together, and the sentences say so."""
    made = plan_promises(PUBLIC, devices=1250, shuffled_epsilon=1.0, reports=24)
    day = dict(made.spans)["day"]
    assert 0.99 < day.epsilon <= 1.0
    assert made.to_dict()["spans"][1]["sentence"] == day.sentence("day")
    assert made.standard_error == pytest.approx(10 * 0.0264 * math.sqrt(1000 / 1250), rel=0.01)


def test_a_cap_on_the_local_epsilon_holds() -> None:
    """The shuffled promise is then kept with room, and a local wish above it is refused."""
    made = plan_promises(PUBLIC, devices=10_000, shuffled_epsilon=1.0, max_local_epsilon=4.5)
    assert made.randomizer.epsilon == 4.5
    assert made.spans[0][1].epsilon < 0.7
    with pytest.raises(ValueError, match=r"epsilon must be at most max_local_epsilon 4\.5, got 5"):
        plan_promises(PUBLIC, devices=100, local_epsilon=5.0, max_local_epsilon=4.5)


@each_case(
    ("wrong", "words"),
    [
        ({"local_epsilon": 1.0}, "got both"),
        ({"shuffled_epsilon": None}, "got neither"),
        ({"devices": 1}, "devices must be at least 2, got 1"),
        ({"reports": 0}, "reports must be at least 1, got 0"),
        (
            {"shuffled_epsilon": None, "local_epsilon": 1.0, "reports": 3},
            "reports must come with shuffled_epsilon",
        ),
        ({"k_min": 1}, "k_min must be between 2"),
        ({"k_min": 101}, "k_min must be between 2 and the 100 devices"),
        ({"colluding": 79}, "colluding must leave two honest reports of k_min 80"),
        ({"colluding": -1}, "colluding must leave"),
        ({"interval_s": 0}, "interval_s must be at least 1"),
    ],
)
def test_what_cannot_be_promised_is_refused(wrong: dict[str, Any], words: str) -> None:
    """Each mistake names the argument and what it should be."""
    asked: dict[str, Any] = {"devices": 100, "shuffled_epsilon": 1.0} | wrong
    with pytest.raises(ValueError, match=words):
        plan_promises(PUBLIC, **asked)


def test_a_promise_that_nothing_keeps_is_refused() -> None:
    """There is no local epsilon small enough for so many reports."""
    with pytest.raises(PrivacyRefused, match="no local epsilon"):
        plan_promises(PUBLIC, devices=10, shuffled_epsilon=1e-3, reports=10**6)
