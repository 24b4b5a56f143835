"""Small text files of two columns: devices with their budgets, devices that belong together."""

import csv
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from rase.errors import DataError

__all__ = ["read_pairs"]


def read_pairs(path: str | PathLike[str], *, what: str, example: str) -> Iterator[list[str]]:
    """Yield the lines of a file as their fields without blanks around them; an empty line as [].

    Args:
        path: The file.
        what: What its two columns hold, for messages.
        example: A line as it should be.

    Raises:
        DataError: If the file cannot be read.
    """
    place = Path(path)
    try:
        with place.open(newline="", encoding="utf-8-sig") as file:
            for row in csv.reader(file):
                fields = [field.strip() for field in row]
                yield fields if any(fields) else []
    except FileNotFoundError as error:
        raise DataError(f"there is no file {place}; check the path.") from error
    except (OSError, UnicodeError, csv.Error) as error:
        raise DataError(
            f"{place} cannot be read as CSV with {what}; write lines such as: {example}."
        ) from error
