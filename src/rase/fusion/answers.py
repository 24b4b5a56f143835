"""The forms in which subscribers are answered: JSON, CSV, Influx lines."""

import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from rase.service.answer import Answer

__all__ = [
    "CSV",
    "FORMATS",
    "INFLUX",
    "JSON",
    "Answer",
    "as_csv",
    "as_influx",
    "as_json",
    "known",
]

JSON: Final = "application/json"
CSV: Final = "text/csv"
INFLUX: Final = "text/plain"
# What may be asked for as ?format=, and the media type it is answered as.
FORMATS: Final = {"json": JSON, "csv": CSV, "influx": INFLUX}


def as_json(answer: Answer | Iterable[Answer]) -> bytes:
    """Return one object, or an array of objects at the root."""
    if isinstance(answer, Answer):
        document: Any = answer.as_fields()
    else:
        document = [one.as_fields() for one in answer]
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


def as_csv(answers: Iterable[Answer]) -> bytes:
    """Return a table with a head; what is None is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(item.name for item in fields(Answer))
    writer.writerows(one.as_fields().values() for one in answers)
    return text.getvalue().encode()


def as_influx(answers: Iterable[Answer]) -> bytes:
    """Return one line of the Influx line protocol for each answer, times in nanoseconds."""
    lines = []
    for one in answers:
        tags = f"rase,campaign={one.campaign},method={one.method},w={one.w}"
        numbers = (
            ("mean", one.mean),
            ("standard_error", one.standard_error),
            ("ci_low", one.ci_low),
            ("ci_high", one.ci_high),
            ("epsilon", one.epsilon),
        )
        values = [f"{name}={value!r}" for name, value in numbers if value is not None]
        values += [f"n={one.n}i", f"rounds={one.rounds}i", f"of_rounds={one.of_rounds}i"]
        values += [f'status="{one.status}"']
        lines.append(f"{tags} {','.join(values)} {_nanoseconds(one.time)}\n")
    return "".join(lines).encode()


def known(number: float) -> float | None:
    """Return a number that JSON can say; an infinite error is none."""
    return number if math.isfinite(number) else None


def _nanoseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp()) * 10**9
