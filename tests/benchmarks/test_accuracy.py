"""The benchmark of accuracy: its rows, and what the page reads of them."""

from dataclasses import asdict

import numpy as np
from benchmarks.accuracy import rows_of
from scripts.accuracy_page import cells

from rase import Range
from rase.accounting.forecast import Forecast
from rase.lab.accuracy import accuracy
from rase.lab.panel import Panel


def test_the_page_reads_what_was_measured() -> None:
    """Estimators have the same names where they are measured, kept and read."""
    values = 5 + np.arange(48.0).reshape(12, 4) / 12
    panel = Panel(np.arange(12) * 3_600_000, list("abcd"), values, "W", "made up")
    found = accuracy(panel, Range(0, 20), epsilon=4.0, seeds=(1,))
    told = Forecast(12, 2.0, 4.0, 3.0, 0.95, skill_low=1.25)
    kept = [asdict(row) for row in rows_of("made up", 4.0, found, told)]
    (cell,) = cells(kept)
    assert (cell.data, cell.epsilon, cell.foretold) == ("made up", 4.0, 2.0)
    assert cell.foretold_skill == (1.5, 1.25)
    assert list(cell.rmse) == list(found[0].rmse)
    assert cell.rmse["tracked"] == float(f"{found[0].rmse['tracked']:.4g}")
