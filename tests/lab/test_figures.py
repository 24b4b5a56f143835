"""Pictures of studies."""

import io

import matplotlib.image
import pytest

from rase import Estimate
from rase.lab.figures import draw_trace
from rase.series.score import WindowResult


@pytest.mark.uncovered
@pytest.mark.parametrize("days", [1, 25])
def test_picture(days: int) -> None:
    """The picture is a PNG of its size, with ink of every estimator's colour."""
    names = ("unbiased_mean", "sample_mean", "median", "bootstrap_mean")
    results = [
        WindowResult(
            start_ms=86_400_000 * day,
            estimates={
                name: Estimate(30.0 + 50 * place + day, 5.0, n=9, method=name, target="mean")
                for place, name in enumerate(names)
            },
            truth=30.0,
        )
        for day in range(days)
    ]
    file = io.BytesIO()
    draw_trace(results, file, title="a fleet")
    file.seek(0)
    pixels = matplotlib.image.imread(file, format="png")[..., :3]
    assert pixels.shape == (1200, 1350, 3)
    colours = [(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73), (0x22, 0x22, 0x22)]
    for colour in colours:
        shown = abs(pixels - [part / 255 for part in colour]).max(axis=2) < 0.02
        assert shown.sum() > 20
