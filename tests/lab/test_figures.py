"""The picture of the demonstration."""

import io

import matplotlib.image
import pytest

from rase.lab.figures import Curve, draw_curves


@pytest.mark.uncovered
@pytest.mark.parametrize("days", [1, 3])
def test_picture(days: int) -> None:
    """The picture is a PNG of its size, with ink for truth, estimate and withheld hours."""
    hours = 24 * days
    values = [None if hour == 5 else 100.0 + hour for hour in range(hours)]
    curve = Curve(
        title="a fleet",
        truth=[50.0 + hour for hour in range(hours)],
        value=values,
        low=[None if value is None else value - 9 for value in values],
        high=[None if value is None else value + 9 for value in values],
    )
    file = io.BytesIO()
    draw_curves([curve, curve], file, title="a run", first_day=6)
    file.seek(0)
    pixels = matplotlib.image.imread(file, format="png")[..., :3]
    assert pixels.shape == (1080, 1350, 3)
    for colour in [(0x00, 0x72, 0xB2), (0x22, 0x22, 0x22), (0xE0, 0xE0, 0xE0)]:
        shown = abs(pixels - [part / 255 for part in colour]).max(axis=2) < 0.02
        assert shown.sum() > 20, colour
