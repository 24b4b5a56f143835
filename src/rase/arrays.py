"""Names for the NumPy columns that the mathematics passes around."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flags", "Floats", "Indices", "Places", "Words"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]
# Grid points: whole numbers, but for laws that mix more finely than between grid points.
Indices = NDArray[np.int64] | NDArray[np.float64]
