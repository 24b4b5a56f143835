"""Reports as bytes and back, for spill files and for what an engine sends between machines."""

import numpy as np

from rase.pipeline.keyed import Reports

__all__ = ["pack", "unpack"]


def pack(reports: Reports) -> bytes:
    """Return reports as bytes: rounds, keys and reports, 8 bytes each, one column after another."""
    columns = (reports.round.view(np.uint64), reports.key, reports.report.view(np.uint64))
    return np.concatenate(columns).astype("<u8", copy=False).tobytes()


def unpack(blob: bytes | memoryview) -> Reports:
    """Return what `pack` packed.

    Raises:
        ValueError: If the bytes are cut off.
    """
    if len(blob) % 24:
        raise ValueError(f"packed reports must have 24 bytes each, got {len(blob)} bytes.")
    rounds, keys, reports = np.frombuffer(blob, dtype="<u8").reshape(3, -1)
    return Reports(rounds.view(np.int64), keys, reports.view(np.float64))
