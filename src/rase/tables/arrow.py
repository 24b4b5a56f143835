"""Arrow arrays to NumPy and back, in the same memory.

What pyarrow has for it looks for pandas first, and to import that takes half a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_arrow", "as_numpy", "texts_as_arrow"]

_SAME: dict[Any, np.dtype[Any]] = {
    pa.int32(): np.dtype(np.int32),
    pa.int64(): np.dtype(np.int64),
    pa.uint64(): np.dtype(np.uint64),
    pa.float64(): np.dtype(np.float64),
}
_KIND_OF = {dtype: kind for kind, dtype in _SAME.items()}


def as_numpy(array: Any) -> NDArray[Any]:
    """Return an Arrow array as a NumPy array that must not be written to.

    Example:
        >>> as_numpy(pa.array([7, 8, 9])[1:]).tolist(), as_numpy(pa.array([True, False])).tolist()
        ([8, 9], [True, False])
    """
    start, end = array.offset, array.offset + len(array)
    content = array.buffers()[1] if len(array) and not array.null_count else None
    if content is not None and array.type in _SAME:
        numbers: NDArray[Any] = np.frombuffer(content, _SAME[array.type], count=end)
        return numbers[start:]
    if content is not None and array.type == pa.bool_():
        bits = np.frombuffer(content, np.uint8, count=-(-end // 8))
        return np.unpackbits(bits, count=end, bitorder="little")[start:].view(np.bool_)
    found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return found


def as_arrow(numbers: NDArray[Any]) -> Any:
    """Return numbers of 32 or 64 bits, one after the other, as an Arrow array.

    Example:
        >>> as_arrow(np.arange(3)).to_pylist()
        [0, 1, 2]
    """
    kind = _KIND_OF[numbers.dtype]
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def texts_as_arrow(texts: Sequence[str]) -> Any:
    """Return texts as an Arrow array.

    Example:
        >>> texts_as_arrow(["a", "", "bc"]).to_pylist()
        ['a', '', 'bc']
    """
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)
