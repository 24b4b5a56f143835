"""The real groups of contributors, from a graph of their relationships in a file."""

import csv
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rase.errors import DataError
from rase.shuffle.partition import Partition
from rase.shuffle.robust import Robust

__all__ = ["GraphGroups", "read_edges"]

Edge = tuple[str, str]


def read_edges(path: str | PathLike[str]) -> list[Edge]:
    """Read the edges of a relationship graph: a CSV file with two devices in each row.

    Raises:
        DataError: If the file cannot be read or a row does not hold two different devices.
    """
    place = Path(path)
    edges = []
    try:
        with place.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.reader(file), start=1):
                pair = [field.strip() for field in row]
                if not any(pair):
                    continue
                if len(pair) != 2 or not all(pair) or pair[0] == pair[1]:
                    raise DataError(
                        f"line {number} of {place} must hold two different devices, as in: "
                        "kettle,fridge."
                    )
                edges.append((pair[0], pair[1]))
    except FileNotFoundError as error:
        raise DataError(f"there is no file {place}; check the path.") from error
    except (OSError, UnicodeError, csv.Error) as error:
        raise DataError(f"{place} cannot be read as CSV with two columns of devices.") from error
    if not edges:
        raise DataError(f"{place} holds no edges; give two devices in each line.")
    return edges


class GraphGroups:
    """Give each round the robust shuffler for the real groups of those who report in it.

    Args:
        edges: Pairs of devices that belong together; the first may be a header.
        device_codes: Gives the code of every device, once all rows have been read.
        alpha: The loss allowed for the groups used.
        group_count: How many groups.
    """

    def __init__(
        self,
        edges: list[Edge],
        device_codes: Callable[[], Mapping[str, int]],
        *,
        alpha: float,
        group_count: int,
    ) -> None:
        self._edges = edges
        self._device_codes = device_codes
        self._alpha = alpha
        self._group_count = group_count
        self._partition: Partition | None = None
        self._last: tuple[bytes, Robust] | None = None

    def __call__(self, contributors: NDArray[np.int64]) -> Robust:
        """Return the shuffler of a round in which these devices report."""
        if self._partition is None:
            self._partition = self._grouped()
        # Most rounds hold the same devices as the one before.
        key = contributors.tobytes()
        if self._last is None or self._last[0] != key:
            partition = self._partition.restricted(contributors)
            shuffler = Robust(self._alpha, min(self._group_count, partition.n), partition=partition)
            self._last = key, shuffler
        return self._last[1]

    def _grouped(self) -> Partition:
        codes = self._device_codes()
        edges = self._edges
        if edges[0][0] not in codes and edges[0][1] not in codes:
            edges = edges[1:]
        unknown = {device for edge in edges for device in edge if device not in codes}
        if unknown:
            raise DataError(
                f"the graph names {len(unknown)} devices that are not in the table, such as "
                f"{min(unknown)!r}; leave them out."
            )
        pairs = [(codes[first], codes[second]) for first, second in edges]
        try:
            return Partition.from_graph(len(codes), pairs, self._group_count)
        except ValueError as error:
            raise DataError(
                f"the graph does not fit --groups {self._group_count}: {error}"
            ) from None
