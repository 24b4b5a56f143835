import numpy as np
import pytest

from rase.errors import DataError
from rase.lab.panel import Panel


def test_a_panel_gives_parts_of_itself() -> None:
    """Rounds and devices can be chosen, and the rest stays as it was."""
    panel = Panel([0, 1, 2], ["a", "b"], [[1, 2], [3, 4], [5, 6]], unit="kW", source="here")
    part = panel.of_devices([1]).first_rounds(2)
    assert (part.rounds, part.n, part.devices) == (2, 1, ("b",))
    assert part.values.tolist() == [[2.0], [4.0]]
    assert repr(part) == "Panel(rounds=2, n=1, unit='kW', source='here')"


def test_a_panel_cannot_be_changed() -> None:
    """Readings and times are frozen, and are not the caller's own arrays."""
    values = np.zeros((1, 2))
    panel = Panel([0], ["a", "b"], values)
    values[0, 0] = 9
    assert panel.values[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        panel.values[0, 0] = 1


@pytest.mark.parametrize(
    ("times", "devices", "values", "message"),
    [
        ([0], ["a"], [[1, 2]], "1 rounds x 1 devices"),
        ([0], ["a"], [1], "1 rounds x 1 devices"),
        ([0, 1], ["a"], [[1]], "2 rounds x 1 devices"),
        ([0], ["a", "a"], [[1, 2]], "comes twice"),
        ([1, 0], ["a"], [[1], [2]], "must ascend"),
        ([0, 0], ["a"], [[1], [2]], "must ascend"),
        ([0], ["a"], [[float("inf")]], "finite"),
    ],
)
def test_malformed_tables_are_refused(
    times: list[int], devices: list[str], values: list[object], message: str
) -> None:
    """Shapes, names, times and infinities are checked once."""
    with pytest.raises(DataError, match=message):
        Panel(times, devices, np.array(values))


def test_only_a_fleet_can_be_attacked() -> None:
    """One device alone, or a device that never reads anything, is refused by name."""
    with pytest.raises(DataError, match="two or more"):
        Panel([0], ["a"], [[1]]).check_attackable()
    with pytest.raises(DataError, match="'b'"):
        Panel([0], ["a", "b"], [[1, float("nan")]]).check_attackable()
    Panel([0], ["a", "b"], [[1, 2]]).check_attackable()
