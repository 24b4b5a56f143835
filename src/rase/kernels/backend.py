"""Which kernels are used: the compiled ones if they were built, otherwise their NumPy twins.

Both give the same results for the same words, so the choice is one of speed alone. The environment
variable ``RASE_KERNELS=numpy`` chooses the twins where both are at hand. In a checkout whose C
sources have changed since they were compiled, the twins serve until they are compiled again.
"""

import hashlib
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_ITEMS", "Compiled", "compiled", "kernels_in_use", "native"]

# The compiled trees count in 32 bits; longer orders go to NumPy.
MOST_ITEMS = (1 << 31) - 1

# A device names its kernels without having NumPy.
_Array: TypeAlias = "NDArray[Any]"
# Bounds, guide, how many boundaries; first point, step and how many steps.
_Table: TypeAlias = "tuple[_Array, _Array, int]"
_Grid: TypeAlias = tuple[float, float, int]
# As rase.laws.parts.Parts.numbers; partial sums and guides of all rows, places.
_Parts: TypeAlias = tuple[int, int, int, int, int, int, int, int]
_Rows: TypeAlias = "tuple[_Array, _Array, _Array]"
# As rase.series.families.Family.arrays.
_Family: TypeAlias = "tuple[_Array | int, ...]"


class Compiled(Protocol):
    """What rase.kernels._native offers: a module of C functions over contiguous arrays.

    Entries have 8 bytes, those of a guide 4, and 2 where it is one of rows. A function that returns
    False has left its output unusable, because a word must be drawn again or the input is not what
    it should be; its NumPy twin then answers.
    """

    def integers_below(self, words: _Array, bounds: _Array, out: _Array, /) -> bool:
        """Draw an integer below each bound."""

    def draw_indices(self, table: _Table, words: _Array, out: _Array, /) -> bool:
        """Draw from one table."""

    def add_settled(
        self, table: _Table, words: _Array, weight: int, values: _Array, is_endless: bool, /
    ) -> bool:
        """Add weight times a draw to each value; False if a word leaves a draw open."""

    def clamped_places(
        self, table: _Table, grid: _Grid, readings: _Array, words: _Array, out: _Array, /
    ) -> bool:
        """Draw noise, round with it, clamp; False if a reading is not finite."""

    def window_or_bit_places(
        self, parts: _Parts, grid: _Grid, readings: _Array, words: _Array, out: _Array, /
    ) -> bool:
        """Draw a place near or far, or one of two; False if a reading is not finite."""

    def row_places(
        self, rows: _Rows, grid: _Grid, readings: _Array, words: _Array, out: _Array, /
    ) -> bool:
        """Draw from the two rows next to each reading, mixed; False if one is not finite."""

    def swap_rows(self, words: _Array, rows: _Array, rounds: int, /) -> bool:
        """Shuffle each row in place."""

    def partners_of(self, words: _Array, start: int, n: int, out: _Array, /) -> bool:
        """Draw the swap partners, among n places, of the places from ``start`` on."""

    def interchange(self, partners: _Array, entries: _Array, size: int, start: int, /) -> bool:
        """Swap places from ``start`` on in turn; an entry has ``size`` bytes, 4 or 8."""

    def order_from_swaps(self, partners: _Array, out: _Array, /) -> bool:
        """Swap in turn; False if a partner does not exist."""

    def replace_items(self, order: _Array, values: _Array, /) -> bool:
        """Put each item's value in the item's place; False if an item does not exist."""

    def orders_from_codes(self, codes: _Array, out: _Array, rounds: int, is_free: bool, /) -> bool:
        """Pick among the remaining items; False if a code is too large and not free to be."""

    def count_inversions(self, order: _Array, /) -> int:
        """Count inversions; -1 if the entries are not an order."""

    def count_disagreements(self, a: _Array, b: _Array, /) -> int:
        """Count the pairs that two orders sort oppositely; -1 if one is not an order."""

    def is_permutation(self, entries: _Array, /) -> bool:
        """Return whether each item occurs once."""

    def filter_rounds(self, family: _Family, rounds: _Array, seen: _Array, *out: _Array) -> bool:
        """Take rounds into a family of filters; surprises, totals and gains, which may be empty."""

    def look_back(self, *arrays: _Array) -> bool:
        """Go backward through rounds that `filter_rounds` took in; `rase.series.smoother`."""

    def follow_rounds(
        self,
        families: tuple[_Family, ...],
        models: tuple[_Array, ...],
        seen: tuple[_Array, _Array, _Array],
        *arrays: _Array,
    ) -> bool:
        """Take rounds into a bank of filters; `rase.series.bank`."""

    def stamp(self) -> int:
        """Return a number of the sources it was compiled from."""

    def instructions(self) -> str:
        """Return the names of the processor instructions in use."""


def kernels_in_use() -> str:
    """Return in a few words which kernels are used, and why.

    Example:
        >>> kernels_in_use().startswith(("compiled", "NumPy"))
        True
    """
    if native is not None:
        return f"compiled ({native.instructions()})"
    reason = "not compiled here" if compiled is None else "RASE_KERNELS=numpy"
    return f"NumPy ({_OLD if is_old else reason})"


def _import(name: str) -> Compiled | None:
    try:
        return cast(Compiled, importlib.import_module(name))
    except ImportError:
        # Built only where there was a compiler.
        return None


def _is_of(kernels: Compiled, folder: Path) -> bool:
    """Return whether kernels were compiled from the sources in a folder; true if none are there."""
    files = sorted(folder.glob("native*.[ch]"))
    contents = b"".join(one.read_bytes() for one in files)
    stamp = int.from_bytes(hashlib.sha256(contents).digest()[:8], "big")
    # Older ones have no such number.
    return not files or getattr(kernels, "stamp", int)() == stamp


_OLD = (
    "the compiled kernels are of other sources than these: run python3 scripts/bootstrap.py dev, "
    "or make test"
)
_found = _import("rase.kernels._native")
is_old = _found is not None and not _is_of(_found, Path(__file__).parent)
compiled = None if is_old else _found
native = None if os.environ.get("RASE_KERNELS") == "numpy" else compiled
