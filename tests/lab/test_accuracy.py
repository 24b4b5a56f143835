"""Accuracy on measured data: the measurement itself, and the slices it is made on."""

from pathlib import Path

import numpy as np
import pytest

from rase import Range
from rase.lab.accuracy import PAPERS, SETS, accuracy
from rase.lab.datasets import open_panel
from rase.lab.panel import Panel


def test_tracked_means_are_far_nearer_than_the_papers_estimators() -> None:
    """On ten days of a synthetic fleet at epsilon 1 the error is less than half of the best."""
    (found,) = accuracy(open_panel("fleet:64x10:1"), Range(0, 2800), epsilon=1.0, seeds=(2026,))
    assert found.rmse["tracked"] < min(found.rmse[name] for name in PAPERS) / 2
    assert found.rmse["tracked"] < found.rmse["unbiased_mean"] / 2
    assert found.coverage > 0.9
    assert found.clip_bias <= 0


def test_readings_outside_the_range_are_clipped_and_gaps_left_out() -> None:
    """The truth is of clipped readings; what clipping takes is told beside it."""
    values = np.full((30, 4), 10.0)
    values[:, 0] = 30.0
    values[7] = np.nan
    values[8, 1] = np.nan
    panel = Panel(np.arange(30) * 3_600_000, list("abcd"), values, "W", "made up")
    (found,) = accuracy(panel, Range(0, 20), epsilon=8.0, seeds=(2026,))
    assert found.clip_bias == pytest.approx(-10 * 29 / 115)
    assert found.rmse["tracked"] < 5


@pytest.mark.uncovered
@pytest.mark.parametrize("name", SETS)
def test_measured_slices_open(data_folder: Path, name: str) -> None:
    """Every slice that results are told for has rounds, devices, and most readings in its range."""
    panel = SETS[name].panel()
    public = SETS[name].value_range
    inside = (panel.values >= public.low) & (panel.values <= public.high)
    assert panel.rounds >= 600
    assert panel.n >= 10
    assert np.mean(inside[~np.isnan(panel.values)]) > 0.99
