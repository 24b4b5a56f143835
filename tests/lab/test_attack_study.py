"""Attack studies: every attack against every scheme, as plain values and as a report."""

import csv
import io
import json

import pytest

from rase.errors import DataError
from rase.lab.attack_report import attack_csv, attack_report
from rase.lab.attack_study import SCHEMA, AttackPlan, attack_study
from rase.lab.attacks import attack_named
from rase.lab.attacks.runner import attack_scheme
from rase.lab.datasets import open_panel
from rase.lab.panel import Panel

PLAN = AttackPlan(attacks=("bayes", "range"), schemes=("raw", "rase"), epsilon=2.0, groups=2)


def test_results_are_the_runners() -> None:
    """Each result equals the attack run by itself, and steps are told before each."""
    panel = open_panel("fleet:6x5:1")
    steps: list[tuple[int, int, str]] = []
    found = attack_study(panel, PLAN, on_step=lambda *step: steps.append(step))
    assert steps[0] == (0, 4, "bayes against raw")
    assert [step[0] for step in steps] == [0, 1, 2, 3]
    assert found["schema"] == SCHEMA
    assert json.loads(json.dumps(found, allow_nan=False))["devices"] == list(panel.devices)
    alone = attack_scheme(panel, PLAN.scheme("rase"), attacks=[attack_named("bayes")], seed=1)[0]
    told = next(one for one in found["results"] if one["scheme"] == "rase")
    assert told["recall"]["value"] == alone.macro_recall.value
    assert told["device_recall"] == pytest.approx(alone.recall.tolist(), nan_ok=True)


def test_the_report_needs_nothing_else() -> None:
    """Pictures are inside, names are escaped, and devices without records have a dash."""
    values = [[100.0 + hour % 5, 2000.0 if hour % 3 else float("nan")] for hour in range(30)]
    panel = Panel([3_600_000 * hour for hour in range(30)], ["<b>", "-kettle"], values)
    found = attack_study(panel, AttackPlan(attacks=("bayes",), schemes=("raw",)))
    found["results"][0]["device_recall"][0] = None
    found["results"][0]["device_precision"][0] = None
    text = attack_report(found, code="0.0.0")
    assert "<svg" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "<td>–</td>" in text
    assert 'src="' not in text
    rows = list(csv.DictReader(io.StringIO(attack_csv(found))))
    assert [row["device"] for row in rows] == ["<b>", "'-kettle"]
    assert rows[0]["recall"] == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"attacks": ()}, "attacks must be some of"),
        ({"attacks": ("magic",)}, "attacks must be some of"),
        ({"schemes": ("magic",)}, "schemes must be some of"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"high": -1.0}, "low must be below high"),
    ],
)
def test_a_plan_checks_itself(arguments: dict[str, object], words: str) -> None:
    """Unknown names and numbers out of range are refused before anything runs."""
    with pytest.raises(ValueError, match=words):
        AttackPlan(**{"attacks": ("bayes",), "schemes": ("raw",), **arguments})  # type: ignore[arg-type]


def test_readings_of_one_device_cannot_be_attacked() -> None:
    """There is nobody to confuse it with."""
    with pytest.raises(DataError, match="two or more"):
        attack_study(Panel([0, 1, 2], ["a"], [[1.0], [2.0], [3.0]]), PLAN)
