"""Tables of the accuracy page are what the kept benchmarks measured."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["ranges", "distribution", "windows", "coverage", "together"])
def test_the_page_shows_the_kept_rows(name: str) -> None:
    """Every line that the benchmark makes of its kept rows stands on the page, in its order."""
    kept = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    lines = importlib.import_module(f"benchmarks.{name}").table(kept["rows"])
    assert len(lines) > 3
    page = (ROOT / "docs/explain/accuracy.md").read_text(encoding="utf-8")
    assert "\n".join(lines) in page


@pytest.mark.parametrize("name", ["ranges", "windows", "coverage", "together"])
def test_rows_of_another_benchmark_are_refused(name: str) -> None:
    """A row whose words cannot be read makes no table."""
    with pytest.raises(ValueError, match="row must be one of this benchmark"):
        importlib.import_module(f"benchmarks.{name}").table(
            [{"size": "1e6 reports", "note": "", "ratio": 1.0}]
        )


def test_forecasts_for_other_days_are_told_as_measured() -> None:
    """The sentence on held-out halves is made of the kept rows, and of no others."""
    halves = importlib.import_module("benchmarks.halves")
    kept = json.loads((ROOT / "benchmarks/results/halves.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/explain/accuracy.md").read_text(encoding="utf-8")
    assert halves.sentence(kept["rows"]) in page
    with pytest.raises(ValueError, match="row must be one of this benchmark"):
        halves.sentence([{"size": "1e6 reports", "note": "", "ratio": 1.0}])
