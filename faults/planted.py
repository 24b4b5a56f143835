"""All faults that are planted, in the order in which they are listed."""

from typing import Final

from faults.live import LIVE
from faults.mathematics import MATHEMATICS

__all__ = ["FAULTS"]

FAULTS: Final = (*MATHEMATICS, *LIVE)
