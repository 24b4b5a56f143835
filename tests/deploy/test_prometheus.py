"""Prometheus' own tool reads the configuration, the alerts and the questions of the dashboard."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.programs import program

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
# Longer than every time and window of the alerts but the day of one, which counts from the start.
MINUTES = 60 * 3
# Hours without trouble: each round began when the last one ended, and nothing is counted.
CALM = {
    'rase_fusion_rounds_behind{campaign="fleet"}': f"1x{MINUTES}",
    "rase_fusion_keys_missing": f"0x{MINUTES}",
    "rase_shuffler_batches_stuck": f"0x{MINUTES}",
    # Rounds of a day: the age alone says nothing.
    'rase_shuffler_backlog_rounds{campaign="fleet"}': f"0.5x{MINUTES}",
    "rase_shuffler_closers": f"1x{MINUTES}",
    "rase_shuffler_closer_deaths_total": f"0x{MINUTES}",
    "rase_shuffler_rounds_below_k_total": f"0x{MINUTES}",
    'rase_shuffler_problems_total{problem="unavailable"}': f"0x{MINUTES}",
    'rase_shuffler_problems_total{problem="late"}': f"0+1x{MINUTES}",
    "rase_shuffler_backlog_seconds": f"43200x{MINUTES}",
    # A restart of the shuffler.
    "rase_registrar_upkeep_failed_total": f"0x{MINUTES - 60} 2x59",
}
TROUBLE = {
    "RaseNoFinalRound": (0, f"3x{MINUTES}"),
    "RaseKeyMissing": (1, f"1x{MINUTES}"),
    "RaseBatchesStuck": (2, f"1x{MINUTES}"),
    "RaseBacklog": (3, f"2.5x{MINUTES}"),
    "RaseNoCloser": (4, f"0x{MINUTES}"),
    "RaseCloserDies": (5, f"0+1x{MINUTES}"),
    "RaseRoundBelowK": (6, f"0x{MINUTES - 60} 1x59"),
    "RaseUnavailable": (7, f"0+1x{MINUTES}"),
    "RaseTokenKeysLate": (10, f"0+1x{MINUTES}"),
}


def promtool(*arguments: str | Path) -> str:
    """Run the tool, and return what it says of files it finds well."""
    done = subprocess.run(
        [program("promtool"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.needs("promtool")
def test_the_configuration_and_its_alerts_are_valid() -> None:
    """Every key exists, every expression parses, and the alerts are found beside it."""
    told = promtool("check", "config", PROMETHEUS / "prometheus.yml")
    assert f"{len(TROUBLE)} rules found" in told


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("alert", ["none", "short rounds", *TROUBLE])
def test_alerts_fire_on_their_trouble_alone(alert: str, tmp_path: Path) -> None:
    """Calm hours are silent; one thing going wrong fires one alert."""
    series = dict(CALM)
    if alert == "short rounds":
        # Rounds of three seconds: ten of them are what a restart leaves.
        series[list(CALM)[3]] = f"10x{MINUTES}"
        series["rase_shuffler_backlog_seconds"] = f"30x{MINUTES}"
    if alert in TROUBLE:
        place, values = TROUBLE[alert]
        series[list(CALM)[place]] = values
    rules = [
        {"alertname": name, "eval_time": f"{MINUTES}m", "exp_alerts": _fired(name, alert)}
        for name in TROUBLE
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    suite = {
        "rule_files": [str(PROMETHEUS / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": inputs, "alert_rule_test": rules}],
    }
    path = tmp_path / "suite.yml"  # JSON is YAML
    path.write_text(json.dumps(suite), encoding="utf-8")
    promtool("test", "rules", path)


def _fired(name: str, alert: str) -> list[dict[str, Any]]:
    if name != alert:
        return []
    text = (PROMETHEUS / "alerts.yml").read_text(encoding="utf-8").split(f"alert: {name}\n")[1]
    (summary, *_), (severity, *_) = (
        re.findall(rf"{key}: (.*)", text) for key in ("summary", "severity")
    )
    labels = {"severity": severity}
    labels |= dict(re.findall(r'(\w+)="(\w+)"', list(CALM)[TROUBLE[name][0]]))
    return [{"exp_labels": labels, "exp_annotations": {"summary": summary}}]


def test_the_page_on_metrics_has_the_same_alerts() -> None:
    """Expressions and meanings are those of the file."""
    text = (PROMETHEUS / "alerts.yml").read_text(encoding="utf-8")
    told = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*)` \| (.*) \|$", told.split("## Alerts")[1], re.M)
    rules = list(
        zip(re.findall("expr: (.*)", text), re.findall("summary: (.*)", text), strict=True)
    )
    assert rows[: len(rules)] == rules


@pytest.mark.needs("promtool")
def test_the_dashboard_asks_prometheus_what_it_understands(tmp_path: Path) -> None:
    """Every expression of a panel parses, as a rule would."""
    board = json.loads((ROOT / "deploy/grafana/dashboards/rase.json").read_text(encoding="utf-8"))
    asked = [
        target["expr"]
        for panel in board["panels"]
        for target in panel["targets"]
        if "expr" in target
    ]
    assert asked
    rules = [
        {"record": f"panel:{place}", "expr": expression.replace("$__rate_interval", "5m")}
        for place, expression in enumerate(asked)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}), encoding="utf-8")
    assert f"SUCCESS: {len(asked)} rules found" in promtool("check", "rules", path)
