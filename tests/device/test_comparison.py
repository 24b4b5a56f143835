"""What is kept for the owner's page."""

from tests.device.conftest import Notes

from rase.clock import FakeClock
from rase.device.comparison import Mirror


def test_every_note_is_passed_on() -> None:
    """The journal behind it gets all events, unchanged."""
    notes = Notes()
    mirror = Mirror(notes, FakeClock(0))
    mirror.note("sealed", round=7)
    mirror.note("stopped")
    assert notes.events == [("sealed", {"round": 7}), ("stopped", {})]


def test_no_value_is_shown_by_repr() -> None:
    """A trace or a log that shows a round cannot show what was measured or sent."""
    mirror = Mirror(Notes(), FakeClock(0))
    mirror.read(7, 1, 123.25)
    assert "123" not in repr(mirror.now)
    mirror.note_round_end(7, 123.25, is_shared=True)
    mirror.note_report(7, 456.5, epsilon=1.0, envelope=b"789")
    shown = repr(mirror.rounds)
    assert not any(text in shown for text in ("123", "456", "789"))


def test_a_round_is_followed_to_its_end() -> None:
    """Measured, drawn, waiting, sent; or dropped, with the reason."""
    mirror = Mirror(Notes(), FakeClock(0))
    mirror.read(7, 1, 10.0)
    mirror.read(7, 2, 15.0)
    assert mirror.now is not None
    assert (mirror.now.count, mirror.now.mean) == (2, 15.0)
    mirror.note_round_end(7, 15.0, is_shared=True)
    assert mirror.now is None
    mirror.note_report(7, 40.0, epsilon=1.0, envelope=b"bytes")
    mirror.note("sealed", round=7)
    assert mirror.rounds[0].fate == "waiting"
    mirror.note("sent", round=7, attempts=1)
    assert (mirror.rounds[0].fate, mirror.rounds[0].sent) == ("sent", 40.0)
    mirror.note("dropped", round=8, problem="too-late")
    mirror.note("round-skipped", round=9, reason="not-sealed")
    mirror.note("budget-spent", round=10, refresh_round=20)
    newest = {one.round: (one.fate, one.reason, one.refresh_round) for one in mirror.rounds}
    assert newest[8] == ("dropped", "too-late", None)
    assert newest[9] == ("", "not-sealed", None)
    assert newest[10] == ("", "budget-spent", 20)


def test_what_may_not_be_told_is_seen_by_its_owner() -> None:
    """In a pause the agent takes no mean; the page has its own."""
    mirror = Mirror(Notes(), FakeClock(0))
    mirror.read(7, 1, 10.0)
    mirror.read(8, 1, 30.0)
    mirror.note_round_end(7, None, is_shared=False)
    assert (mirror.rounds[0].measured, mirror.rounds[0].is_shared) == (10.0, False)
    assert mirror.now is not None
    assert mirror.now.round == 8


def test_only_the_last_rounds_are_kept() -> None:
    """Memory does not grow, whatever a clock does."""
    mirror = Mirror(Notes(), FakeClock(0))
    for round in range(1000):
        mirror.read(round, 1, 1.0)
        mirror.note_round_end(round, 1.0, is_shared=True)
    for round in range(5000, 5100):
        mirror.read(round, 1, 1.0)
    assert len(mirror.rounds) == 192
    assert mirror.rounds[0].round == 999
    mirror.forget()
    assert (mirror.rounds, mirror.now, mirror.troubles) == ([], None, [])


def test_troubles_end_when_it_works_again() -> None:
    """Each is counted while it lasts, and gone when its opposite is seen."""
    clock = FakeClock(100)
    mirror = Mirror(Notes(), clock)
    mirror.note("unreachable", round=7, wait_s=2.0)
    clock.advance(5)
    mirror.note("unreachable", round=7, wait_s=4.0)
    mirror.note("source-failed", kind="http")
    mirror.note("terms-refused", reason="changed")
    mirror.note("not-fetched", kind="Unreachable", wait_s=2.0)
    found = {one.event: (one.count, one.time_s) for one in mirror.troubles}
    assert found["unreachable"] == (2, 105)
    assert len(found) == 4
    mirror.note("sent", round=7, attempts=3)
    mirror.read(8, 1, 1.0)
    mirror.note("keys-accepted", version=2)
    assert mirror.troubles == []
    mirror.note("not-fetched", kind="Unreachable", wait_s=2.0)
    mirror.note_fetched()
    assert mirror.troubles == []
