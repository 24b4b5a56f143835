"""Reports as bytes and back, for spill files and for what an engine sends between machines.

Those sent together are of few rounds, so a round is written as its distance from the first, in as
many bytes as that takes: 17 bytes a report where 24 would hold all of it.
"""

import numpy as np
from numpy.typing import NDArray

from rase.pipeline.keyed import Reports

__all__ = ["pack", "unpack"]

_WIDTHS = (0, 1, 2, 4, 8)


def pack(reports: Reports) -> memoryview:
    """Return reports as bytes: count, first round, keys, reports and distances of rounds.

    Example:
        >>> some = Reports(np.array([7, 7]), np.array([2, 1], np.uint64), np.array([0.5, 1.5]))
        >>> len(pack(some))
        48
        >>> unpack(pack(some)).report
        array([0.5, 1.5])
    """
    count = len(reports)
    first = int(reports.round.min()) if count else 0
    away = (reports.round - first).view(np.uint64)
    most = int(away.max(initial=0))
    width = next(width for width in _WIDTHS if most < 1 << (8 * width))
    packed = np.empty(16 + (16 + width) * count, dtype=np.uint8)
    head, keys, values, rounds = _parts(packed, count)
    head.view("<i8")[:] = count, first
    keys.view("<u8")[:] = reports.key
    values.view("<f8")[:] = reports.report
    if width:
        rounds.view(f"<u{width}")[:] = away
    return packed.data


def unpack(blob: bytes | memoryview) -> Reports:
    """Return what `pack` packed.

    Raises:
        ValueError: If the bytes are cut off.
    """
    packed = np.frombuffer(blob, dtype=np.uint8)
    count, first = packed[:16].view("<i8").tolist() if len(packed) >= 16 else (-1, 0)
    # 16 bytes a report, and as many again for its round as are left.
    width, rest = divmod(len(packed) - 16 - 16 * count, max(count, 1))
    if count < 0 or rest or width not in _WIDTHS:
        raise ValueError(f"packed reports must be whole, got {len(blob)} bytes.")
    _, keys, values, rounds = _parts(packed, count)
    number = np.full(count, first, dtype=np.int64)
    if width:
        number += rounds.view(f"<u{width}").astype(np.int64)
    return Reports(number, keys.view("<u8"), values.view("<f8"))


def _parts(packed: NDArray[np.uint8], count: int) -> list[NDArray[np.uint8]]:
    """Return where the head, the keys, the reports and the distances of rounds are."""
    return np.split(packed, [16, 16 + 8 * count, 16 + 16 * count])
