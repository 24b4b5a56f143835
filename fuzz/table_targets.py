"""Targets for tables of readings: REFIT houses, long and wide CSV, Parquet, edges of a graph."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import numpy as np

from fuzz.scratch import written
from rase.errors import DataError
from rase.lab.readers import RefitFiles
from rase.tables.columns import Hints
from rase.tables.groups import read_edges
from rase.tables.rows import Rows
from rase.tables.source import open_source

__all__ = ["TABLE_TARGETS"]


def read_refit(data: bytes) -> None:
    """Read a house, with rounds of an hour."""
    house = written("CLEAN_House1.csv", data)
    files = RefitFiles(houses=((1, house),), interval_s=3600, has_mains=True)
    with suppress(DataError):
        for rows in files.batches():
            _check(rows)


def read_table(data: bytes) -> None:
    """Read a table of time, device and value: CSV, gzip or Parquet by its content."""
    with suppress(DataError):
        table = open_source(written("table", data))
        for rows in table.batches():
            _check(rows)


def read_wide(data: bytes) -> None:
    """Read a table with a column for each device."""
    with suppress(DataError):
        for rows in open_source(written("wide", data), hints=Hints(form="wide")).batches():
            _check(rows)


def read_graph(data: bytes) -> None:
    """Read which devices belong together."""
    with suppress(DataError):
        assert all(one != other for one, other in read_edges(written("edges.csv", data)))


TABLE_TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "refit": read_refit,
    "table": read_table,
    "wide": read_wide,
    "edges": read_graph,
}


def _check(rows: Rows) -> None:
    """Every batch has columns of one length, and finite readings alone."""
    sizes = {len(rows.time_ms), len(rows.device), len(rows.value), len(rows.is_valid)}
    assert len(sizes) == 1
    assert np.isfinite(rows.value).all()
