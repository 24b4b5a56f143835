"""The forms in which subscribers are answered: JSON, CSV, Influx lines."""

import csv
import io
import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from rase.answer import FIELDS, Answer

__all__ = [
    "CSV",
    "FORMATS",
    "INFLUX",
    "JSON",
    "as_csv",
    "as_influx",
    "as_json",
]

JSON: Final = "application/json"
# What stands between tags, and in front of them where it is meant as a letter.
_TAG: Final = re.compile(r"([,= \\])")
_ESCAPED: Final = r"\\\1"
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
    writer.writerow(FIELDS)
    writer.writerows(one.as_fields().values() for one in answers)
    return text.getvalue().encode()


def as_influx(answers: Iterable[Answer]) -> bytes:
    """Return one line of the Influx line protocol for each answer, times in nanoseconds."""
    lines = []
    for one in answers:
        tags = f"rase,campaign={one.campaign},method={one.method},of_rounds={one.of_rounds}"
        for name, text in (("label", one.label), ("category", one.category)):
            if text is not None:
                tags += f",{name}={_TAG.sub(_ESCAPED, text)}"
        names = ("value", "standard_error", "low", "high")
        promises = ("local_epsilon", "shuffled_epsilon", "delta")
        numbers = ((name, getattr(one, name)) for name in (*names, *promises))
        values = [f"{name}={value!r}" for name, value in numbers if value is not None]
        values += [f"n={one.n}i", f"rounds={one.rounds}i"]
        values += [f'status="{one.status}"']
        # A window is a point at its end: one at its beginning would be in the past of every chart.
        time = one.time if one.of_rounds == 1 else one.until
        lines.append(f"{tags} {','.join(values)} {_nanoseconds(time)}\n")
    return "".join(lines).encode()


def _nanoseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp()) * 10**9
