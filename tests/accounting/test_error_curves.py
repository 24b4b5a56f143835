"""Curves along epsilon: the planner's own numbers, at a bounded cost."""

import numpy as np
import pytest
from tests.cases import each_case

from rase.accounting import error_curves as module
from rase.accounting.error_curves import error_curves
from rase.accounting.error_model import ErrorModel
from rase.accounting.plan import plan
from rase.domain import Precision, Range
from rase.laws.registry import FOR_MEANS, best_mechanism

POWER = Range(-200, 2800)


@pytest.mark.uncovered
def test_auto_is_the_best_mechanism_at_each_epsilon() -> None:
    """Its curves of means are, point by point, those of the mechanism that is best there."""
    found = error_curves(POWER, 1.0, devices=500, precision=Precision(0.4, 0.8))
    for estimator in ("unbiased_mean", "sample_mean", "bootstrap_mean"):
        ours = found.of("auto", estimator).total.tolist()
        for place, epsilon in enumerate(found.epsilon.tolist()):
            best = found.of(best_mechanism(epsilon), estimator)
            assert ours[place] == best.total[place]


@pytest.mark.uncovered
@each_case("mechanism", list(FOR_MEANS))
@each_case(("devices", "schedule"), [(2, "every"), (1000, "every"), (300, "rotate")])
def test_curves_are_the_planners(mechanism: str, devices: int, schedule: str) -> None:
    """Every point equals what the planner computes by itself, bias and noise."""
    found = error_curves(
        POWER,
        1.0,
        devices=devices,
        precision=Precision(0.4, 0.8),
        window=24,
        turns=24 if schedule == "rotate" else 1,
        mechanism=mechanism,
    )
    made = plan(
        POWER,
        1.0,
        devices=devices,
        beta=0.4,
        rho=0.8,
        window=24,
        schedule=schedule,
        mechanism=mechanism,
        curve=found.epsilon.tolist(),
        detail="quick",
    )
    points = found.epsilon.tolist()
    for point in made.curve:
        curve = found.of(mechanism, point.estimator)
        place = points.index(point.epsilon)
        if np.isnan(curve.noise[place]):
            assert point.estimator == "median"
            continue
        assert curve.bias[place] == pytest.approx(point.error.bias, rel=1e-6, abs=1e-6)
        assert curve.noise[place] == pytest.approx(point.error.noise, rel=1e-6)
        assert curve.total[place] == pytest.approx(point.error.total, rel=1e-6)


@each_case(("epsilon", "low", "high"), [(1.0, 0.05, 10), (0.001, 5e-4, 10)])
def test_the_epsilon_in_question_lies_inside(epsilon: float, low: float, high: float) -> None:
    """Curves widen for an epsilon beyond the usual ones."""
    found = error_curves(POWER, epsilon, devices=10, precision=Precision(0.5, 0.9)).epsilon
    assert low <= found[0] < 1.3 * low
    assert high / 1.3 < found[-1] <= high
    assert (np.diff(found) > 0).all()


def test_both_sides_of_a_change_of_law_are_points() -> None:
    """Budget-aware reports stop being clamped at epsilon*, and the curve shows the step."""
    precision = Precision(0.5, 0.9)
    found = error_curves(POWER, 1.0, devices=10, precision=precision)
    place = found.epsilon.tolist().index(precision.epsilon_bound(POWER))
    bias = found.of("budget-aware", "sample_mean").bias
    assert bias[place - 1] > 0 == bias[place]


def test_moving_a_slider_looks_at_no_law_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Range, devices, window and epsilon change no law of a report; only the median is redone."""
    asked: list[str] = []
    model = module._model

    def counted(law: str, epsilon: float) -> ErrorModel:
        asked.append(law)
        return model(law, epsilon)

    monkeypatch.setattr(module, "_model", counted)
    first = error_curves(POWER, 1.0, devices=50, precision=Precision(0.5, 0.9))
    asked.clear()
    again = error_curves(Range(0, 40), 2.0, devices=51, precision=Precision(0.5, 0.9), window=3)
    assert len(asked) <= len(again.epsilon)
    asked.clear()
    error_curves(POWER, 1.5, devices=50, precision=Precision(0.5, 0.9))
    assert not asked
    assert len(first.curves) == len(again.curves)


def test_an_unknown_mechanism_is_refused() -> None:
    """A mechanism that does not exist is named, and so are those that do; so is a missing curve."""
    with pytest.raises(ValueError, match="mechanism must be one of auto, budget-aware"):
        error_curves(POWER, 1.0, devices=10, precision=Precision(0.5, 0.9), mechanism="magic")
    found = error_curves(POWER, 1.0, devices=10, precision=Precision(0.5, 0.9))
    with pytest.raises(KeyError, match="no curve of 'median' with 'duchi'"):
        found.of("duchi", "median")
