"""The comparison of numbers with recorded ones, and the form in which they are recorded."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.golden.flatten import Number, Numbers

__all__ = ["differences", "load", "read", "recorded_form", "report", "save"]

RELATIVE = 1e-9
# A bias of 1e-14 among errors of 100 is the rounding of a zero, and other machines round otherwise.
OF_THE_LARGEST = 1e-13
FOLDER = Path(__file__).with_name("numbers")

Recorded = Mapping[str, Any]


def differences(recorded: Recorded, numbers: Numbers) -> list[str]:
    """Return one line for each number that differs, is missing or is new, by path.

    Whole numbers are compared exactly, others with a relative tolerance of 1e-9, or of 1e-13 of the
    largest number in their list.
    """
    found = []
    for name in sorted({*recorded, *numbers}):
        if name not in numbers:
            found.append(f"{name}: recorded {_shown(recorded[name])}, now missing")
        elif name not in recorded:
            now = [number for _, number in numbers[name]]
            found.append(f"{name}: not recorded, now {_shown(now)}")
        else:
            found += _differing(name, recorded[name], numbers[name])
    return found


def _differing(name: str, recorded: Any, now: list[tuple[str, Number]]) -> list[str]:
    before = recorded if isinstance(recorded, list) else [recorded]
    if len(before) != len(now):
        return [f"{name}: recorded {len(before)} numbers, now {len(now)}"]
    numbers = [read(one) for one in before]
    sizes = [abs(number) for number in numbers if number is not None and math.isfinite(number)]
    nothing = OF_THE_LARGEST * max(sizes, default=0.0)
    return [
        f"{name} at {path}: recorded {_shown(old)}, now {_shown(new)}"
        for old, (path, new) in zip(numbers, now, strict=True)
        if not _is_equal(old, new, nothing=nothing)
    ]


def _is_equal(old: Number, new: Number, *, nothing: float) -> bool:
    if old is None or new is None:
        return old is new
    if isinstance(old, int) and isinstance(new, int):
        return old == new
    if math.isnan(old) or math.isnan(new):
        return math.isnan(old) and math.isnan(new)
    return math.isclose(old, new, rel_tol=RELATIVE, abs_tol=nothing)


def report(lines: list[str], *, most: int = 8) -> str:
    """Return the first few differences and how many there are."""
    more = [f"... and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join([f"{len(lines)} differences:", *lines[:most], *more])


def recorded_form(numbers: Numbers) -> dict[str, Any]:
    """Return numbers as they are written: lists, or a single number where the path has no list."""
    return {
        name: _written(found[0][1])
        if len(found) == 1 and "[" not in found[0][0]
        else [_written(number) for _, number in found]
        for name, found in sorted(numbers.items())
    }


def _written(number: Number) -> Any:
    """Return a number that JSON can hold: floats with 12 significant digits, or as a text."""
    if not isinstance(number, float):
        return number
    return float(f"{number:.12g}") if math.isfinite(number) else str(number)


def read(written: Any) -> Number:
    """Return a number as it was before it was written."""
    number: Number = float(written) if isinstance(written, str) else written
    return number


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return _shown(value[0]) if len(value) == 1 else f"{len(value)} numbers"
    return repr(value)


def load(case: str) -> dict[str, Any]:
    """Return the recorded numbers of a case.

    Raises:
        FileNotFoundError: If there are none.
    """
    numbers: dict[str, Any] = json.loads((FOLDER / f"{case}.json").read_text(encoding="utf-8"))
    return numbers


def save(case: str, numbers: Mapping[str, Any]) -> Path:
    """Write the numbers of a case, one path a line, and return where."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in numbers.items()]
    path = FOLDER / f"{case}.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return path
