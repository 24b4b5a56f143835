"""Budgets that owners allow: a file that gives devices an epsilon of their own."""

import csv
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from rase.errors import DataError

__all__ = ["budgets_by_code", "read_budgets"]


def read_budgets(path: str | PathLike[str]) -> dict[str, float]:
    """Read a CSV file with a device and the epsilon of its reports in each row.

    Raises:
        DataError: If the file cannot be read, a row does not hold a device and a number above 0, a
            device comes twice, or there is none.
    """
    place = Path(path)
    found: dict[str, float] = {}
    try:
        with place.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.reader(file), start=1):
                fields = [field.strip() for field in row]
                if not any(fields) or (number == 1 and fields == ["device", "epsilon"]):
                    continue
                budget = _number(fields[1]) if len(fields) == 2 and fields[0] else 0.0
                if not 0 < budget < float("inf") or fields[0] in found:
                    raise DataError(
                        f"line {number} of {place} must hold a device that no other line names and "
                        "an epsilon above 0, as in: kettle,0.5."
                    )
                found[fields[0]] = budget
    except FileNotFoundError as error:
        raise DataError(f"there is no file {place}; check the path.") from error
    except (OSError, UnicodeError, csv.Error) as error:
        raise DataError(
            f"{place} cannot be read as CSV with devices and epsilons; write lines such as: "
            "kettle,0.5."
        ) from error
    if not found:
        raise DataError(f"{place} names no device; write lines such as: kettle,0.5.")
    return found


def budgets_by_code(
    allowed: Mapping[str, float], codes: Mapping[str, int], *, epsilon: float
) -> tuple[float, ...]:
    """Return the budget of each device in the order of its code.

    Args:
        allowed: What owners allow; devices that are not named have ``epsilon``.
        codes: The code of each device, from 0 on.
        epsilon: The budget of the others. It is also the most: an owner's limit only lowers it.

    Raises:
        DataError: If none of the devices is named: then limits were meant for other names.

    Example:
        >>> budgets_by_code({"kettle": 0.5, "fridge": 9.0}, {"fridge": 0, "kettle": 1}, epsilon=2)
        (2.0, 0.5)
    """
    if not allowed.keys() & codes.keys():
        raise DataError(
            f"none of the devices with an epsilon of their own, such as {min(allowed)!r}, is in "
            "the table; name devices as the table does."
        )
    ordered = sorted(codes, key=lambda name: codes[name])
    return tuple(float(min(allowed.get(name, epsilon), epsilon)) for name in ordered)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
