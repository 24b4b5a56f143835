"""The small parts of the agent: journal, collection, pauses, memory."""

import io
import math
from typing import Any

import pytest

from rase.clock import FakeClock
from rase.device.collection import Collection
from rase.device.journal import LineJournal
from rase.device.memory import Memory
from rase.device.state import Cover


def test_the_journal_writes_words() -> None:
    """Blanks and line ends cannot forge a line, None is left out, floats are short."""
    stream = io.StringIO()
    journal = LineJournal(stream, FakeClock(12.7))
    journal.note("refused", round=3, problem="a b\nevent=sent", wait_s=0.25)
    journal.note("budget-spent", round=3, refresh_round=None)
    assert stream.getvalue().splitlines() == [
        "time=12 event=refused round=3 problem=a_b_event_sent wait_s=0.25",
        "time=12 event=budget-spent round=3",
    ]


def test_a_journal_that_nobody_can_read_ends_no_agent() -> None:
    """The other end of a pipe may be gone, or the disk full."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    LineJournal(Gone(), FakeClock(0)).note("sent", round=3, attempts=1)


def test_the_journal_takes_known_fields_only() -> None:
    """A field that is not listed for an event, such as a reading, is a mistake in the program."""
    journal = LineJournal(io.StringIO(), FakeClock(0))
    for event, fields in (("sent", {"reading": 1.0}), ("invented", {})):
        with pytest.raises(ValueError, match="must be an event of the journal"):
            journal.note(event, **fields)


def test_means_neither_overflow_nor_take_nonsense() -> None:
    """Large readings keep their mean; NaN and infinity are left out."""
    collection = Collection()
    for reading in (1e308, 1e308, math.nan, math.inf):
        collection.add(1, reading)
    assert collection.take(1) == pytest.approx(1e308)
    collection.add(2, 1.0)
    collection.add(3, 1.0)
    collection.drop_before(3)
    assert (collection.take(2), collection.take(3)) == (None, 1.0)


def test_a_jumping_clock_cannot_fill_the_memory() -> None:
    """Only the last rounds are kept."""
    collection = Collection()
    for round in range(1000):
        collection.add(round, 1.0)
    assert collection.take(0) is None
    assert collection.take(999) == 1.0


def test_memory_drops_old_covers_only_if_there_are_some(world: Any) -> None:
    """Nothing is written when nothing changes."""
    store = world.store()
    memory = Memory(world.terms(), store)
    store.save = None
    memory.drop_covers(5)


def test_covers_do_not_grow_without_end(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shuffler that never confirms a round does not fill the device's disk."""
    monkeypatch.setattr("rase.device.memory._MOST_COVERS", 3)
    store = world.store()
    memory = Memory(world.terms(), store)
    for round in range(5):
        memory.keep_cover(round, Cover(b"cover"))
    memory.keep_cover(2, Cover(b"cover", is_done=True))
    assert list(memory.covers) == [2, 3, 4]
    assert dict(store.load().covers) == dict(memory.covers)


def test_a_campaign_that_cannot_be_joined_is_not_remembered(world: Any) -> None:
    """If joining fails the terms stay as they were, in memory and on the disk."""
    store = world.store()
    memory = Memory(world.terms(), store)

    def refuse(campaign: object) -> None:
        raise RuntimeError("no.")

    with pytest.raises(RuntimeError):
        memory.offer_campaign(world.shuffler.signed_campaign(), refuse)
    assert memory.terms.latest is None
    assert store.load().campaigns == ()
