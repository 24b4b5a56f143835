"""Wall time to round numbers: a round is the only time that leaves a device.

Pure Python without NumPy, because the device agent imports it; ``round_number`` also takes arrays.
"""

import re
from typing import Any

__all__ = ["parse_duration_s", "round_number", "round_start_s"]

_UNIT_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")


def parse_duration_s(text: str) -> int:
    """Return the seconds of a duration such as ``90s``, ``15min``, ``1h``, ``7d``.

    Example:
        >>> parse_duration_s("15min")
        900

    Raises:
        ValueError: If the text is not a whole positive number and a unit.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    unit = _UNIT_S.get((match.group(2) or "s") if match else "")
    if match is None or unit is None or int(match.group(1)) == 0:
        raise ValueError(f"a duration must look like 30s, 15min, 1h, 1d or 1w, got {text!r}.")
    return int(match.group(1)) * unit


def round_number(time_s: Any, interval_s: int) -> Any:
    """Return the round ``floor(time / interval)`` of a time in seconds since 1970.

    Example:
        >>> round_number(7200, 3600)
        2
    """
    return time_s // interval_s


def round_start_s(number: int, interval_s: int) -> int:
    """Return the second at which a round begins."""
    return number * interval_s
