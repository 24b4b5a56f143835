"""The planner: what it says is consistent, complete and honest."""

import json
import math
from typing import Any

import numpy as np
import pytest
from tests.cases import each_case

from rase.accounting.amplification import amplify
from rase.accounting.composition import compose_shuffled
from rase.accounting.error_model import COMPARED, PREDICTED, ErrorModel
from rase.accounting.plan import plan
from rase.accounting.plan.values import Plan
from rase.domain import Precision, Range
from rase.laws.geometric import BudgetAware
from rase.laws.optimal import Optimal
from rase.laws.windows import Hybrid
from rase.privacy import CentralDP, LocalDP
from rase.shuffle.robust import Robust

PUBLIC = Range(0, 3000)
SKEWED = (3000 * np.linspace(0, 1, 500) ** 4).tolist()


def quick(**asked: Any) -> Plan:
    """Return a plan without central guarantees over many rounds."""
    asked = {"epsilon": 1.0, "devices": 100, "detail": "quick", **asked}
    return plan(PUBLIC, asked.pop("epsilon"), **asked)


def test_keys_of_the_document_are_pinned() -> None:
    """The JSON form has these members and no others; another form needs another schema."""
    made = quick(
        error=50.0,
        attacker_cap=2.0,
        alpha=0.3,
        group_count=4,
        readings=SKEWED,
        curve=[0.5, 1.0],
        interval_s=3600,
    )
    document = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert document["schema"] == "rase.plan/1"
    split = ["bias", "noise", "total"]
    shape: dict[str, Any] = {
        "parameters": [
            *("range", "steps", "beta", "rho", "epsilon", "devices", "alpha", "group_count"),
            *("interval_s", "window", "delta", "mechanism", "error", "attacker_cap"),
        ],
        "schedule": [
            *("name", "window", "epsilon", "window_budget", "reports_per_window"),
            *("reports_per_round", "empty_share", "round_errors"),
        ],
        "certificate": [
            *("law", "epsilon", "drawn_epsilon", "effective_epsilon", "steps", "total"),
            *("readings", "report", "ratio", "exponent", "rounding", "sentence"),
        ],
        "standard_errors": ["budget-aware", "laplace", "duchi", "piecewise", "hybrid", "optimal"],
        "errors": ["estimator", "readings", "round", "window"],
        "precision": [
            *("epsilon_bound", "epsilon_bound_everywhere", "is_clamping", "share_met", "readings"),
        ],
        "guarantees": ["period", "reports", "epsilon", "posterior", "central", "sentence"],
        "shuffle": [
            *("method", "reason", "n", "theta", "sensitivity", "alpha", "real_loss", "stay_share"),
            *("attacker_success", "exposed_slot_success", "chance", "sentence"),
        ],
        "attacker_limits": ["theta", "alpha", "group_count"],
        "sample": ["count", "clipped_share", "clip_bias"],
        "wish": ["error", "readings", "expected", "devices", "epsilon", "window", "is_met"],
        "curve": ["epsilon", "mechanism", "law", "estimator", *split],
        "recommendation": [
            *("mechanism", "estimator", "shuffle", "reasons", "warnings", "remedies"),
        ],
    }
    assert set(document) == {
        *("schema", "mechanism", "effective_epsilon", "refusal", "curve_readings"),
        *shape,
    }
    for name, keys in shape.items():
        part = document[name][0] if isinstance(document[name], list) else document[name]
        assert list(part) == keys, name
    assert list(document["errors"][0]["round"]) == split
    assert list(document["wish"]["devices"]) == ["value", "reason"]
    central = quick().to_dict()["guarantees"][0]["central"]
    assert list(central) == [
        *("epsilon", "delta", "best_guess", "certainty", "certainty_passed"),
        *("is_amplified", "lower_bound", "theorem"),
    ]
    assert document["precision"]["epsilon_bound_everywhere"] is None


def test_every_estimator_has_its_rows() -> None:
    """Errors stand for the worst case, even spread and own readings, per round and window."""
    made = quick(window=25, readings=SKEWED)
    rows = {(row.estimator, row.readings) for row in made.errors}
    assert rows == {
        (name, readings) for name in PREDICTED for readings in ("worst", "uniform", "yours")
    }
    row = made.error("unbiased_mean")
    assert row.round.bias == 0
    assert row.window.noise == pytest.approx(row.round.noise / 5)
    model = ErrorModel(Optimal(1.0, PUBLIC))
    assert row.round == model.worst("unbiased_mean", 100)
    assert (
        made.error("sample_mean", "yours").window.bias
        == made.error("sample_mean", "yours").round.bias
    )
    with pytest.raises(KeyError, match="no error of 'mean'"):
        made.error("mean")
    with pytest.raises(KeyError, match="for readings 'yours'"):
        quick().error("median", "yours")


def test_guarantees_are_those_of_accounting() -> None:
    """Report, window, day and month carry the composed numbers, local and central."""
    made = plan(PUBLIC, 0.5, devices=1000, interval_s=3600, window=6, mechanism="budget-aware")
    assert [(one.name, one.reports) for one in made.periods] == [
        ("report", 1),
        ("window", 6),
        ("day", 24),
        ("month", 720),
    ]
    assert [one.local.epsilon for one in made.periods] == [0.5, 3.0, 12.0, 360.0]
    mechanism = BudgetAware(0.5, PUBLIC, Precision(0.5, 0.9))
    assert made.periods[0].central == amplify(mechanism, 1000, delta=1e-6)
    assert made.periods[2].central == compose_shuffled(mechanism, 1000, rounds=24, delta=1e-6)
    assert str(made.periods[2]).startswith("a day of 24 reports: epsilon 12, an observer who was")
    assert str(made.periods[2]).endswith(
        "shuffled, (0.319, 1e-06)-DP: it guesses right at most 57.9 % of the time, and becomes "
        "more than 58 % sure with a probability of 0.001 at most."
    )
    assert made.effective_epsilon == mechanism.effective_epsilon <= 0.5
    assert made.refusal is None
    one = made.to_dict()["guarantees"][2]["central"]
    promise = CentralDP(one["epsilon"], one["delta"])
    assert one["best_guess"] == promise.guess()
    assert (one["certainty"], one["certainty_passed"]) == (promise.certainty(1e-3), 1e-3)


def test_without_amplification_no_certainty_is_passed() -> None:
    """The local guarantee has no delta, and the document says that its certainty always holds."""
    central = plan(PUBLIC, 4.0, devices=10, detail="quick").to_dict()["guarantees"][0]["central"]
    assert not central["is_amplified"]
    assert central["certainty"] == central["best_guess"] == LocalDP(4.0).posterior()
    assert central["certainty_passed"] == 0.0


def test_periods_that_coincide_are_told_once() -> None:
    """A window of a day is a day; a round longer than a day has no day of its own."""
    assert [one.name for one in quick(window=24, interval_s=3600).periods] == [
        "report",
        "day",
        "month",
    ]
    assert [one.name for one in quick(interval_s=7 * 86400).periods] == ["report", "month"]
    assert [one.name for one in quick(window=3).periods] == ["report", "window"]
    assert [one.name for one in quick(interval_s=60 * 86400).periods] == ["report"]


def test_quick_plans_leave_out_long_periods() -> None:
    """A quick plan has the clone bound of one round, which is no better than the full one."""
    made = quick(interval_s=3600, devices=1000)
    full = plan(PUBLIC, 1.0, devices=1000)
    first, *others = made.periods
    assert first.central == amplify(1.0, 1000, delta=1e-6, method="clone")
    assert full.periods[0].central is not None
    assert first.central.epsilon >= full.periods[0].central.epsilon
    assert [one.central for one in others] == [None, None]


def test_small_fleets_are_told_that_there_is_no_amplification() -> None:
    """Where shuffling does not help, the sentence says so."""
    made = quick(epsilon=4.0, devices=64)
    assert str(made.periods[0]).endswith("; no amplification at this n.")
    assert made.to_dict()["guarantees"][0]["central"]["delta"] == 0


def test_mallows_is_refused_amplification() -> None:
    """A Mallows shuffle is described, warned about and has no central guarantee."""
    made = quick(devices=64, alpha=0.3, group_count=4)
    assert made.shuffle == Robust(0.3, 4).manifest_for(64)
    assert made.shuffle.method == "mallows"
    assert made.refusal is not None
    assert "no amplification theorem" in made.refusal
    assert all(period.central is None for period in made.periods)
    assert "Mallows makes it no better" in made.recommendation.reasons[2]
    assert made.recommendation.shuffle == "uniform"


def test_the_shuffler_falls_back_and_says_why() -> None:
    """An alpha that would leave reports in place ends in a uniform shuffle, which amplifies."""
    made = quick(devices=64, alpha=30.0, group_count=16)
    assert made.shuffle.method == "uniform"
    assert made.refusal is None
    assert "Theta 5 = alpha 30 / sensitivity 6" in made.recommendation.reasons[2]


def test_the_attackers_cap_is_the_shufflers() -> None:
    """A cap decides the branch, and the limits say what would keep it."""
    loose = quick(devices=64, alpha=30.0, group_count=16, attacker_cap=63.9)
    assert loose.shuffle.method == "mallows"
    tight = quick(devices=64, alpha=30.0, group_count=16, attacker_cap=2.0)
    assert tight.shuffle.method == "uniform"
    assert tight.attacker_limits["alpha"].value == pytest.approx(0.153, abs=1e-3)
    assert tight.attacker_limits["group_count"].value == 1
    assert list(quick(attacker_cap=2.0).attacker_limits) == ["theta"]


@each_case("mechanism", ["budget-aware", "laplace", "hybrid"])
def test_precision_really_met(mechanism: str) -> None:
    """The share of readings that meet (beta, rho) is that of the exact law, and far from all."""
    made = quick(epsilon=6.0, mechanism=mechanism)
    met = made.precision
    assert met.epsilon_bound == Precision(0.5, 0.9).epsilon_bound(PUBLIC)
    assert met.epsilon_bound_everywhere == math.inf
    assert not met.is_clamping
    if mechanism == "hybrid":
        drawn, readings = Hybrid(6.0, PUBLIC), np.linspace(0, 3000, 200)
        chances = [
            drawn.report_probabilities([x], [-np.inf, 0.5 * x - 0.37, 1.5 * x + 0.37, np.inf])[0, 1]
            for x in readings.tolist()
        ]
        assert met.share_met == pytest.approx(np.mean(np.array(chances) >= 0.9), abs=0.02)
        assert 0.1 < met.share_met < 0.99
    else:
        # Laplace serves readings of at least -ln(0.1) * width / (beta * epsilon).
        assert met.share_met == pytest.approx(1 - math.log(10) / 3, abs=0.01)


def test_precision_on_the_users_readings() -> None:
    """Small readings never meet a relative precision; the share says so."""
    made = quick(epsilon=6.0, mechanism="laplace", readings=[10.0] * 3 + [2990.0])
    assert made.precision.share_met == pytest.approx(0.25, abs=1e-6)
    assert made.precision.readings == "yours"
    assert quick(mechanism="budget-aware").precision.is_clamping


def test_recommendation_names_the_best_mechanism() -> None:
    """Duchi below 0.6, Optimal above, and what another choice costs."""
    assert quick(epsilon=0.5).recommendation.mechanism == "duchi"
    advice = quick(mechanism="laplace").recommendation
    assert advice.mechanism == "optimal"
    assert advice.estimator == "unbiased_mean"
    assert "laplace, as asked, has 42 % more." in advice.reasons[0]
    assert "as asked" not in quick().recommendation.reasons[0]
    assert "here the same as sample_mean" in advice.reasons[1]
    assert "has a bias of up to" in quick().recommendation.reasons[1]


def test_useless_rounds_are_warned_about_with_remedies() -> None:
    """An error above a quarter of the range brings a warning and what would help."""
    advice = quick(devices=5).recommendation
    assert advice.warnings[0].startswith("One round says hardly anything: its error of 1.34e+03")
    said = " ".join(advice.remedies)
    for what in ("devices suffice", "A window of", "Reports of epsilon", "A range 336 wide"):
        assert what in said
    assert quick(devices=5000).recommendation.warnings == ()
    assert quick(devices=5000).recommendation.remedies == ()


def test_biased_answers_that_are_nearer_are_named() -> None:
    """Where noise exceeds the range the planner admits that even a biased estimator errs less."""
    warnings = quick(epsilon=0.1, devices=20).recommendation.warnings
    assert any(line.startswith("sample_mean errs less here, 1.4") for line in warnings)
    at_zero = quick(epsilon=0.5, readings=[0.0, 1.0, 2.0]).recommendation.warnings
    assert any(line.startswith("median errs less here") for line in at_zero)
    assert not any("errs less" in line for line in quick().recommendation.warnings)


def test_a_wish_is_met_by_each_answer() -> None:
    """Planning again with an answer meets the wish."""
    made = quick(error=60.0, window=2)
    wish = made.wish
    assert wish is not None
    assert not wish.is_met
    assert wish.readings == "worst"
    assert "The wished error of 60 is missed" in made.recommendation.warnings[0]
    assert wish.devices.value is not None
    assert wish.epsilon.value is not None
    assert wish.window.value is not None
    for changed in (
        {"devices": int(wish.devices.value), "window": 2},
        {"epsilon": wish.epsilon.value, "window": 2},
        {"window": int(wish.window.value)},
    ):
        again = quick(error=60.0, **changed)
        assert again.wish is not None
        assert again.wish.is_met
        assert not any("missed" in line for line in again.recommendation.warnings)
    narrow = next(line for line in made.recommendation.remedies if line.startswith("A range"))
    width = float(narrow.split()[2])
    small = plan(Range(0, width), 1.0, devices=100, window=2, error=60.5, detail="quick")
    assert small.wish is not None
    assert small.wish.is_met


def test_impossible_answers_are_no_remedies() -> None:
    """Where clipping alone exceeds the wish, no number of devices is offered."""
    advice = quick(error=10.0, readings=[0, 0, 9000]).recommendation
    assert not any("suffice for" in line for line in advice.remedies)
    assert any("33 % of your readings lie outside the range" in line for line in advice.warnings)


def test_long_reporting_is_warned_about() -> None:
    """The first period that hardly protects is named, and reporting by turns offered."""
    advice = quick(interval_s=3600, devices=5000).recommendation
    assert advice.warnings == (
        "A day of reports, epsilon 24, hardly protects from whoever can link a device's reports.",
    )
    (remedy,) = advice.remedies
    assert remedy.startswith("Let each device report once in 24 rounds (rotate): epsilon 1 a day,")
    assert remedy.endswith("and 4.9 times the noise in a round.")
    assert quick(epsilon=6.0).recommendation.warnings == (
        "One report, epsilon 6, hardly protects.",
    )
    assert quick(epsilon=6.0).recommendation.remedies == ()


def test_curves_hold_every_estimator_at_every_candidate() -> None:
    """A curve repeats the plan's own errors at its own epsilon."""
    made = quick(curve=[0.5, 1.0, 2.0], window=4)
    assert len(made.curve) == 3 * len(COMPARED)
    assert made.curve_readings == "worst"
    here = [point for point in made.curve if point.epsilon == 1.0]
    assert [point.error for point in here] == [made.error(point.estimator).window for point in here]
    # One mechanism all along, that of the plan; what it draws from is told for each candidate.
    assert {point.mechanism for point in made.curve} == {made.mechanism} == {"optimal"}
    assert {point.law for point in made.curve} == {"optimal"}
    yours = quick(curve=[1.0], readings=SKEWED, mechanism="laplace")
    assert yours.curve_readings == "yours"
    assert yours.curve[0].error == yours.error("unbiased_mean", "yours").window


def test_plans_hold_no_reading() -> None:
    """What is said of the readings is how many there are and how clipping shifts them."""
    made = quick(readings=[1234.5, 987.25])
    assert made.sample is not None
    assert made.sample.count == 2
    assert "1234.5" not in repr(made)
    assert "1234.5" not in json.dumps(made.to_dict())


@each_case(
    ("asked", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be greater than 0"),
        ({"epsilon": -1.0}, "epsilon must be greater than 0"),
        ({"epsilon": math.nan}, "epsilon must be greater than 0"),
        ({"epsilon": 31.0}, "epsilon must be between"),
        ({"devices": 0}, "devices must be between 2 and .*, got 0; one device alone"),
        ({"devices": 1}, "devices must be between 2 and .*, got 1; one device alone"),
        ({"window": 0}, "window must be between 1 and .*, got 0\\."),
        ({"interval_s": 0}, "interval_s must be between 1"),
        ({"delta": 1.0}, "delta must be between"),
        ({"delta": 0.0}, "delta must be between"),
        ({"error": 0.0}, "error must be greater than 0"),
        ({"beta": 2.0}, "beta must be between 0 and 1"),
        ({"rho": math.nan}, "rho must be between 0 and 1"),
        ({"mechanism": "magic"}, "mechanism must be one of auto, budget-aware"),
        ({"alpha": 1.0}, "group_count must be given with alpha"),
        ({"group_count": 1}, "alpha must be given with group_count"),
        ({"alpha": -1.0, "group_count": 1}, "alpha must be"),
        ({"attacker_cap": 0.5}, "attacker_cap must be at least 1"),
        ({"attacker_cap": 2.0, "devices": 2}, "attacker_cap must be below the 2 reports"),
        ({"readings": []}, "readings must hold at least one"),
        ({"curve": [0.0]}, "epsilon must be greater than 0"),
        ({"detail": "slow"}, "detail must be full, quick or live"),
    ],
)
def test_bad_numbers(asked: dict[str, Any], message: str) -> None:
    """What is out of bounds is refused by name."""
    with pytest.raises(ValueError, match=message):
        quick(**asked)


def test_bad_kinds() -> None:
    """What is not of its kind is refused by name."""
    with pytest.raises(TypeError, match="value_range must be a Range"):
        plan((0, 1), 1.0, devices=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="devices must be a whole number"):
        quick(devices=2.5)
    with pytest.raises(TypeError, match="window must be a whole number"):
        quick(window=True)


@each_case("epsilon", [1.0, 6.0])
def test_central_guarantees_do_not_depend_on_the_range(epsilon: float) -> None:
    """Another range is another name for the same places; unclamped budget-aware is Laplace."""
    wide = plan(PUBLIC, epsilon, devices=300, mechanism="budget-aware", detail="live")
    narrow = plan(
        Range(-3, 5), epsilon, devices=300, mechanism="budget-aware", beta=0.4, detail="live"
    )
    drawn = BudgetAware(epsilon, PUBLIC, Precision(0.5, 0.9))
    alone = amplify(drawn, 300, delta=1e-6)
    assert wide.precision.is_clamping is (epsilon == 1.0)
    for made in (wide, narrow) if epsilon == 1.0 else (wide,):
        central = made.periods[0].central
        assert central is not None
        assert central.epsilon == pytest.approx(alone.epsilon, rel=1e-5)
