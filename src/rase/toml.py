"""Read TOML that a person wrote: whatever is wrong with it is one kind of error.

tomllib alone lets deep brackets end in RecursionError, and takes whole numbers of any length,
which then can neither be counted with nor shown.
"""

import tomllib
from typing import Any, Final

__all__ = ["parse_toml"]

_MOST: Final = 2**63


def parse_toml(data: bytes | str) -> dict[str, Any]:
    r"""Return the tables of a text.

    Args:
        data: The text; bytes are read as UTF-8.

    Raises:
        ValueError: If it is no TOML (version 1.0), nested too deeply, or holds a whole number of
            more than 64 bits; the message says where or which.

    Example:
        >>> parse_toml("[owner]\nspan_s = 86_400")
        {'owner': {'span_s': 86400}}
    """
    try:
        tables = tomllib.loads(data if isinstance(data, str) else data.decode())
        _check(tables, "")
    except UnicodeDecodeError:
        raise ValueError("it must be a text in UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return tables


def _check(value: Any, place: str) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            _check(item, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for item in value:
            _check(item, place)
    elif isinstance(value, int) and not -_MOST <= value < _MOST:
        # TOML asks for an error where a number cannot be kept; 64 bits is what it asks to keep.
        raise ValueError(f"{place} must be a whole number of 64 bits")
