"""What was typed to what is meant: sizes, and wrong arguments as usage errors."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["parse_size", "usage"]


@contextmanager
def usage() -> Iterator[None]:
    """Turn a wrong argument into a usage error: one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from error


def parse_size(text: str) -> int:
    """Return how many bytes a text such as 512MB, 4GB or 4GiB stands for.

    Raises:
        ValueError: If it does not look like one.

    Example:
        >>> parse_size("512MB"), parse_size("2GiB")
        (512000000, 2147483648)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)[bB]?\s*", text)
    if found is None:
        raise ValueError(f"a size must look like 512MB, 4GB or 4GiB, got {text!r}.")
    number, prefix, binary = found.groups()
    power = " KMGT".index(prefix.upper() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)
