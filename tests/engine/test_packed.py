"""Reports as bytes: what comes back is what went in, in as few bytes as the rounds allow."""

import numpy as np
import pytest

from rase.engine.packed import pack, unpack
from rase.pipeline.keyed import Reports


def reports(rounds: list[int]) -> Reports:
    """Return some reports of these rounds."""
    rng = np.random.default_rng(2026)
    keys = rng.integers(0, 1 << 64, len(rounds), dtype=np.uint64)
    return Reports(np.array(rounds, dtype=np.int64), keys, rng.normal(size=len(rounds)))


@pytest.mark.parametrize(
    ("rounds", "width"),
    [
        ([], 0),
        ([5], 0),
        ([-3, -3, -3], 0),
        ([1 << 40, (1 << 40) + 255, 1 << 40], 1),
        ([256, 0, 9], 2),
        ([-1, 1 << 16], 4),
        ([1 << 32, 0], 8),
        ([-(1 << 63), (1 << 63) - 1], 8),
    ],
)
def test_what_goes_in_comes_back(rounds: list[int], width: int) -> None:
    """Rounds near and far, before and after 1970: all bits return, in 16 bytes and the width."""
    some = reports(rounds)
    blob = pack(some)
    assert len(blob) == 16 + (16 + width) * len(rounds)
    found = unpack(bytes(blob))
    assert found.round.tolist() == rounds
    assert found.key.tolist() == some.key.tolist()
    assert found.report.tobytes() == some.report.tobytes()


@pytest.mark.parametrize("cut", [0, 8, 15, 40, 66])
def test_cut_off(cut: int) -> None:
    """A spill file that was cut off is no shorter list of reports."""
    blob = bytes(pack(reports([1, 2, 3])))
    assert len(blob) == 67
    with pytest.raises(ValueError, match=f"must be whole, got {cut} bytes"):
        unpack(blob[:cut])
