"""Which units are multiples of each other: a reading in another unit is no reading."""

from typing import Final

__all__ = ["factor_between"]

_FAMILIES: Final = (
    {"mW": 1e-3, "W": 1.0, "kW": 1e3, "MW": 1e6},
    {"Wmin": 1 / 60, "Wh": 1.0, "kWh": 1e3, "MWh": 1e6},
    {"°C": 1.0},
)


def factor_between(unit: str, wanted: str) -> float | None:
    """Return what to multiply readings of one unit by to have them in another.

    Returns:
        The factor; None if the units have nothing to do with each other.

    Example:
        >>> factor_between("kW", "W"), factor_between("W", "°C")
        (1000.0, None)
    """
    if unit == wanted:
        return 1.0
    for family in _FAMILIES:
        if unit in family and wanted in family:
            return family[unit] / family[wanted]
    return None
