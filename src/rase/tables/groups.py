"""The real groups of contributors, from a graph of their relationships in a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np

from rase.errors import DataError
from rase.kernels.keyed import public_numbers
from rase.kernels.words import Words
from rase.shuffle.partition import Partition
from rase.shuffle.robust import Robust
from rase.tables.pairs import read_pairs

__all__ = ["GraphGroups", "GraphSettings", "read_edges"]

Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """The real groups of contributors: a graph of their relationships and what it may lose.

    Args:
        edges: Pairs of devices that belong together; the first may be a header.
        alpha: The loss allowed for the groups used.
        group_count: How many groups.
    """

    edges: tuple[Edge, ...]
    alpha: float
    group_count: int

    def groups(self, devices: Words) -> "GraphGroups":
        """Return the groups of all devices of a table, given by their public numbers.

        Raises:
            DataError: If the graph does not fit the table.
        """
        return GraphGroups(self.edges, devices, alpha=self.alpha, group_count=self.group_count)


def read_edges(path: str | PathLike[str]) -> list[Edge]:
    """Read the edges of a relationship graph: a CSV file with two devices in each row.

    Raises:
        DataError: If the file cannot be read or a row does not hold two different devices.
    """
    edges = []
    lines = read_pairs(path, what="two columns of devices", example="kettle,fridge")
    for number, pair in enumerate(lines, start=1):
        if not pair:
            continue
        if len(pair) != 2 or not all(pair) or pair[0] == pair[1]:
            raise DataError(
                f"line {number} of {path} must hold two different devices, as in: kettle,fridge."
            )
        edges.append((pair[0], pair[1]))
    if not edges:
        raise DataError(f"{path} holds no edges; give two devices in each line.")
    return edges


class GraphGroups:
    """Give each round the robust shuffler for the real groups of those who report in it.

    Devices are known by their public numbers (`rase.kernels.keyed`), which the reports carry.

    Args:
        edges: Pairs of devices that belong together; the first may be a header.
        devices: The public numbers of all devices of the table, ascending.
        alpha: The loss allowed for the groups used.
        group_count: How many groups.

    Raises:
        DataError: If the graph names a device that is not in the table, or cannot be cut so.
    """

    def __init__(
        self, edges: Sequence[Edge], devices: Words, *, alpha: float, group_count: int
    ) -> None:
        self._devices = devices
        self._alpha = alpha
        self._group_count = group_count
        self._partition = self._grouped(list(edges))
        self._last: tuple[bytes, Robust] | None = None

    def __call__(self, reporting: Words) -> Robust:
        """Return the shuffler of a round in which the devices of these numbers report."""
        # Most rounds hold the same devices as the one before.
        last, key = self._last, reporting.tobytes()
        if last is None or last[0] != key:
            partition = self._partition.restrict(np.searchsorted(self._devices, reporting))
            shuffler = Robust(self._alpha, min(self._group_count, partition.n), partition=partition)
            self._last = last = key, shuffler
        return last[1]

    def _grouped(self, edges: list[Edge]) -> Partition:
        names = sorted({device for edge in edges for device in edge})
        numbers = public_numbers(names)
        places = np.searchsorted(self._devices, numbers)
        is_known = self._devices.take(places, mode="clip") == numbers
        codes = dict(zip(names, places.tolist(), strict=True))
        unknown = {name for name, known in zip(names, is_known.tolist(), strict=True) if not known}
        if edges[0][0] in unknown and edges[0][1] in unknown:
            edges = edges[1:]
            unknown &= {device for edge in edges for device in edge}
        if unknown:
            raise DataError(
                f"the graph names {len(unknown)} devices that are not in the table, such as "
                f"{min(unknown)!r}; leave them out."
            )
        pairs = [(codes[first], codes[second]) for first, second in edges]
        try:
            return Partition.from_graph(len(self._devices), pairs, self._group_count)
        except ValueError as error:
            raise DataError(
                f"the graph does not fit --groups {self._group_count}: {error}"
            ) from None
