"""Lines of a stream become events, and the last whole one says where to resume."""

import pytest

from rase.subscriber.answers import FusionUnreachable
from rase.subscriber.following import EventReader, ServerEvent


def read(reader: EventReader, text: str) -> list[ServerEvent]:
    """Feed lines and return the events."""
    return [event for line in text.split("\n") if (event := reader.feed(line)) is not None]


def test_events_are_read() -> None:
    """With id, kind and data of several lines; comments and empty events are left aside."""
    reader = EventReader()
    text = "retry: 500\n\n: still here\n\nid: 7\nevent: estimate\ndata: a\ndata:b\n\ndata: c\n\n"
    assert read(reader, text) == [
        ServerEvent("7", "estimate", "a\nb"),
        ServerEvent("", "message", "c"),
    ]
    assert (reader.retry_s, reader.last_id) == (0.5, "7")


def test_a_half_event_comes_again() -> None:
    """The id of an event that was cut short does not count."""
    reader = EventReader("3")
    assert read(reader, "id: 4\ndata: x") == []
    assert reader.last_id == "3"
    reader.restart()
    assert read(reader, "\n") == []
    assert read(reader, "retry: soon\n\n") == []
    assert reader.retry_s == 2.0


def test_endless_lines_are_refused() -> None:
    """A stream cannot fill the memory with one line."""
    with pytest.raises(FusionUnreachable, match="too long"):
        EventReader().feed("x" * (1 << 21))


def test_endless_events_are_refused() -> None:
    """Nor with lines of an event that never ends; comments, and many events, are none."""
    reader = EventReader()
    for _ in range(3):
        assert len(read(reader, "data: " + "x" * (1 << 19) + "\n\n")) == 1
        assert read(reader, (": still here" + "." * (1 << 19) + "\n") * 3) == []
    with pytest.raises(FusionUnreachable, match="too long"):
        read(reader, ("data: " + "x" * (1 << 18) + "\n") * 8)
