"""Budgets that owners allow: a file that gives devices an epsilon of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from rase.errors import DataError
from rase.tables.pairs import read_pairs

if TYPE_CHECKING:
    from rase.arrays import Floats

__all__ = ["BudgetClasses", "read_budgets"]


@dataclass(frozen=True, slots=True)
class BudgetClasses:
    """The budget of every device of a table.

    Args:
        allowed: What owners allow, by the name of the device; it lowers ``epsilon``, never raises
            it.
        epsilon: The budget of devices that are not named.

    Example:
        >>> classes = BudgetClasses({"kettle": 0.5, "fridge": 9.0}, 2.0)
        >>> classes.of(["fridge", "kettle", "oven"]).tolist()
        [2.0, 0.5, 2.0]
    """

    allowed: Mapping[str, float]
    epsilon: float

    @property
    def budgets(self) -> tuple[float, ...]:
        """The different budgets that devices may have, ascending."""
        return tuple(sorted({self.epsilon, *self.of(self.allowed).tolist()}))

    def of(self, names: Iterable[str]) -> Floats:
        """Return the budget of each device."""
        limits = (min(self.allowed.get(name, self.epsilon), self.epsilon) for name in names)
        return np.fromiter(limits, dtype=np.float64)

    def counted(self, names: Iterable[str]) -> Counter[float]:
        """Return how many devices of a table have each budget.

        Raises:
            DataError: If none of the devices with a limit is in the table: then limits were meant
                for other names.
        """
        devices = list(names)
        if not self.allowed.keys() & set(devices):
            raise DataError(
                f"none of the devices with an epsilon of their own, such as {min(self.allowed)!r}, "
                "is in the table; name devices as the table does."
            )
        return Counter(self.of(devices).tolist())


def read_budgets(path: str | PathLike[str]) -> dict[str, float]:
    """Read a CSV file with a device and the epsilon of its reports in each row.

    Raises:
        DataError: If the file cannot be read, a row does not hold a device and a number above 0, a
            device comes twice, or there is none.
    """
    found: dict[str, float] = {}
    lines = read_pairs(path, what="devices and epsilons", example="kettle,0.5")
    for number, fields in enumerate(lines, start=1):
        if not fields or (number == 1 and fields == ["device", "epsilon"]):
            continue
        budget = _number(fields[1]) if len(fields) == 2 and fields[0] else 0.0
        if not 0 < budget < float("inf") or fields[0] in found:
            raise DataError(
                f"line {number} of {path} must hold a device that no other line names and an "
                "epsilon above 0, as in: kettle,0.5."
            )
        found[fields[0]] = budget
    if not found:
        raise DataError(f"{path} names no device; write lines such as: kettle,0.5.")
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
