"""A panel: the readings of a fleet as a table of rounds and devices, before any noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.errors import DataError

__all__ = ["Panel"]


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Panel:
    """One reading per round and device; NaN if a device had none.

    There is no ``repr`` of the values: these are readings before any noise.

    Args:
        times_ms: When each round began, in milliseconds since 1970 (UTC), ascending.
        devices: The name of each device, each once.
        values: The readings, rounds x devices.
        unit: The unit of a reading.
        source: Where the readings come from, in a few words.

    Raises:
        DataError: If the shapes do not fit, a name or time comes twice, times do not ascend, or a
            value is infinite.

    Example:
        >>> panel = Panel([0, 3_600_000], ["kettle", "fridge"], [[0, 80], [2000, float("nan")]])
        >>> panel.rounds, panel.n, panel.first_rounds(1).values.tolist()
        (2, 2, [[0.0, 80.0]])
    """

    times_ms: NDArray[np.int64]
    devices: tuple[str, ...]
    values: NDArray[np.float64]
    unit: str
    source: str

    def __init__(
        self,
        times_ms: ArrayLike,
        devices: Sequence[str],
        values: ArrayLike,
        unit: str = "W",
        source: str = "",
    ) -> None:
        """Turn the columns into arrays of their own and check them once."""
        times = np.array(times_ms, dtype=np.int64)
        table = np.array(values, dtype=np.float64)
        names = tuple(devices)
        if table.ndim != 2 or times.shape != table.shape[:1] or len(names) != table.shape[1]:
            raise DataError(
                f"values must be a table of {len(times)} rounds x {len(names)} devices, "
                f"got shape {table.shape}."
            )
        if len(set(names)) < len(names):
            raise DataError("devices must be different names; one comes twice.")
        if not (np.diff(times) > 0).all():
            raise DataError("times_ms must ascend from round to round; sort the rounds.")
        if np.isinf(table).any():
            raise DataError("values must be finite numbers or NaN, got infinity among them.")
        table.flags.writeable = times.flags.writeable = False
        object.__setattr__(self, "times_ms", times)
        object.__setattr__(self, "devices", names)
        object.__setattr__(self, "values", table)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "source", source)

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.times_ms)

    @property
    def n(self) -> int:
        """How many devices there are."""
        return len(self.devices)

    def first_rounds(self, count: int) -> "Panel":
        """Return the panel of the first ``count`` rounds."""
        return replace(self, times_ms=self.times_ms[:count], values=self.values[:count])

    def of_devices(self, chosen: Sequence[int] | NDArray[np.int64]) -> "Panel":
        """Return the panel of some devices, by their columns, in the order given."""
        columns = np.asarray(chosen, dtype=np.int64)
        names = tuple(self.devices[column] for column in columns.tolist())
        return replace(self, devices=names, values=self.values[:, columns])

    def check_attackable(self) -> None:
        """Refuse a panel for which re-identification is meaningless.

        Raises:
            DataError: If there are fewer than two devices, or a device has no reading at all.
        """
        if self.n < 2:
            raise DataError(
                f"devices must be two or more, or there is nobody to confuse, got {self.n}."
            )
        silent = np.flatnonzero(np.isnan(self.values).all(axis=0))
        if silent.size:
            raise DataError(
                f"every device must have a reading; {silent.size} have none, such as "
                f"{self.devices[int(silent[0])]!r}. Leave them out with Panel.of_devices."
            )

    def __repr__(self) -> str:
        """Show the size, never the readings."""
        return (
            f"Panel(rounds={self.rounds}, n={self.n}, unit={self.unit!r}, source={self.source!r})"
        )
