"""Sliding windows, against looking at every window one by one."""

from hypothesis import given
from hypothesis import strategies as st

from rase.accounting.ledger.window import Charge, first_free, fullest

places = st.integers(-3, 12)
lengths = st.integers(1, 6)
charges = st.lists(st.builds(Charge, places, st.integers(1, 4)), max_size=9)


def load(begin: int, length: int, held: list[Charge]) -> int:
    """Add up one window the slow way."""
    return sum(charge.nano for charge in held if begin <= charge.place < begin + length)


@given(charges, places, lengths)
def test_the_fullest_window_is_found(held: list[Charge], place: int, length: int) -> None:
    """No window that contains the place holds more, and one holds as much."""
    slow = max(load(begin, length, held) for begin in range(place - length + 1, place + 1))
    assert fullest(held, place, length=length) == slow


@given(charges, places, lengths, st.integers(0, 8))
def test_the_first_free_place_is_found(
    held: list[Charge], place: int, length: int, room: int
) -> None:
    """All windows of the place found have room, and no earlier place has such windows."""
    free = first_free(held, place, length=length, room=room)
    assert free >= place
    for candidate in range(place, free + 1):
        begins = range(candidate - length + 1, candidate + 1)
        is_free = all(load(begin, length, held) <= room for begin in begins)
        assert is_free == (candidate == free)
