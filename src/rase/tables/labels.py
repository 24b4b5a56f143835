"""Labels of devices, such as a region or a model: answers for each, and for all.

A label is public. What is released of a round is a partition of its reports: labels with fewer than
k_min reports are merged into one that is called other, and with it, if that is still too small, the
smallest of the others. So whatever is added up or subtracted of the answers of a round, k_min
reports or more are behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rase.counts.counts import Counts, count_by_group
from rase.counts.labels import merge_small
from rase.domain import OTHER
from rase.errors import DataError

if TYPE_CHECKING:
    from rase.arrays import Places
    from rase.tables.source import TableSource

__all__ = ["CELLS", "MAX_LABELS", "Labels", "cells_by_label", "read_labels"]

MAX_LABELS: Final = 16
_LONGEST = 64
# A round has a cell for all its reports, and one for each label behind it.
CELLS: Final = 32


@dataclass(frozen=True, slots=True)
class Labels:
    """The label of each device, and the fewest reports that an answer has behind it.

    Args:
        names: The labels; those of the device numbers below. ``other`` is the last.
        by_device: The place of the label of each device, by its name.
        k_min: The fewest reports of a label in a round.

    Raises:
        ValueError: If ``k_min`` is below 2, or labels do not end with ``other``, or are too many.
    """

    names: tuple[str, ...]
    by_device: Mapping[str, int]
    k_min: int

    def __post_init__(self) -> None:
        """Check what the merging rests on."""
        if self.k_min < 2:
            raise ValueError(f"k_min must be at least 2, got {self.k_min}.")
        if len(self.names) > MAX_LABELS + 1 or self.names[-1:] != (OTHER,):
            raise ValueError(
                f"labels must be {MAX_LABELS} at most and end with {OTHER}, got {len(self.names)}."
            )

    def __repr__(self) -> str:
        return f"Labels({', '.join(self.names)}; k_min={self.k_min})"

    def of(self, names: Iterable[str]) -> Places:
        """Return the place of the label of each device; of those without one that of other."""
        last = len(self.names) - 1
        return np.fromiter((self.by_device.get(name, last) for name in names), dtype=np.int64)


def cells_by_label(
    labels: Labels, cells: Places, *, group: Places, counts: Counts
) -> tuple[Places, Places, Counts]:
    """Return the reports of each round, and of each label that is large enough in it.

    Guarantee: the cells of labels of a round are a partition of its reports, and each has ``k_min``
    or more; so whatever is computed of answers to them is about sums over such sets
    (tests/tables/test_labels.py). A round of fewer has one cell, which nobody may release.

    Args:
        labels: Which labels there are.
        cells: For each group ``CELLS * round + 1 +`` the place of a label.
        group: The group of each row of the counts.
        counts: The reports.

    Returns:
        The cells that answers are for, ascending, ``CELLS * round`` for all; the place of the cell
        of each row; and the counts.
    """
    sizes = np.bincount(group, counts.counts, len(cells)).astype(np.int64)
    own = cells.copy()
    other = len(labels.names) - 1
    for number in np.unique(cells // CELLS).tolist():
        there = np.flatnonzero(cells // CELLS == number)
        places = (cells[there] % CELLS - 1).tolist()
        by_label = dict(zip(places, sizes[there].tolist(), strict=True))
        merged = merge_small(by_label, k_min=labels.k_min, other=other)
        is_whole = merged is None or set(merged.values()) == {other}
        shown = [-1 if is_whole or merged is None else merged[place] for place in places]
        own[there] = number * CELLS + 1 + np.array(shown, dtype=np.int64)
    every = cells // CELLS * CELLS
    # Where all labels are merged, or the round is too small, the cell of all is the only one.
    is_apart = (own != every)[group]
    found, row_cell = np.unique(
        np.concatenate([every[group], own[group][is_apart]]), return_inverse=True
    )
    rows, joined = count_by_group(
        np.concatenate([counts.places, counts.places[is_apart]]),
        group=row_cell.astype(np.int64),
        counts=np.concatenate([counts.counts, counts.counts[is_apart]]),
    )
    return found, rows, joined


def read_labels(source: TableSource, *, k_min: int) -> Labels:
    """Read the labels of devices: a table whose readings are names.

    Args:
        source: The table, opened with the column of labels as that of readings.
        k_min: The fewest reports of a label in a round.

    Raises:
        DataError: If a device has two labels, there are none or more than 16, or one is too long.
    """
    names: dict[str, int] = {}
    found: dict[str, int] = {}
    source.expect(names)
    for rows in source.batches():
        pairs = np.unique(
            np.stack([rows.device, rows.value.astype(np.int64)])[:, rows.is_valid], axis=1
        )
        devices = list(source.device_codes)
        for code, label in pairs.T.tolist():
            if found.setdefault(devices[code], label) != label:
                raise DataError(
                    f"column {source.columns.value!r} gives one device two labels; a label is of "
                    "the device, not of the reading: write the same in all of its rows."
                )
    if len(names) - (OTHER in names) > MAX_LABELS:
        raise DataError(
            f"column {source.columns.value!r} holds {len(names)} labels, and {MAX_LABELS} at most "
            "can be answered for; take a coarser one."
        )
    if max(map(len, names)) > _LONGEST:
        raise DataError(f"labels must be {_LONGEST} characters at most; one is longer.")
    ordered = (*sorted(name for name in names if name != OTHER), OTHER)
    places = {names[name]: place for place, name in enumerate(ordered) if name in names}
    return Labels(ordered, {one: places[label] for one, label in found.items()}, k_min)
