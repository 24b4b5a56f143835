"""What is kept for the owner's page."""

from tests.device.conftest import Notes

from rase.clock import FakeClock
from rase.device.comparison import Comparison


def test_every_note_is_passed_on() -> None:
    """The journal behind it gets all events, unchanged."""
    notes = Notes()
    comparison = Comparison(notes, FakeClock(0))
    comparison.note("sealed", round=7)
    comparison.note("stopped")
    assert notes.events == [("sealed", {"round": 7}), ("stopped", {})]


def test_no_value_is_shown_by_repr() -> None:
    """A trace or a log that shows a round cannot show what was measured or sent."""
    comparison = Comparison(Notes(), FakeClock(0))
    comparison.read(7, 1, 123.25)
    assert "123" not in repr(comparison.now)
    comparison.note_round_end(7, 123.25, is_shared=True)
    comparison.note_report(7, 456.5, epsilon=1.0, envelope=b"789")
    shown = repr(comparison.rounds)
    assert not any(text in shown for text in ("123", "456", "789"))


def test_a_round_is_followed_to_its_end() -> None:
    """Measured, drawn, waiting, sent; or dropped, with the reason."""
    comparison = Comparison(Notes(), FakeClock(0))
    comparison.read(7, 1, 10.0)
    comparison.read(7, 2, 15.0)
    assert comparison.now is not None
    assert (comparison.now.count, comparison.now.mean) == (2, 15.0)
    comparison.note_round_end(7, 15.0, is_shared=True)
    assert comparison.now is None
    comparison.note_report(7, 40.0, epsilon=1.0, envelope=b"bytes")
    comparison.note("sealed", round=7)
    assert comparison.rounds[0].fate == "waiting"
    comparison.note("sent", round=7, attempts=1)
    assert (comparison.rounds[0].fate, comparison.rounds[0].sent) == ("sent", 40.0)
    comparison.note("dropped", round=8, problem="too-late")
    comparison.note("round-skipped", round=9, reason="not-sealed")
    comparison.note("budget-spent", round=10, refresh_round=20)
    newest = {one.round: (one.fate, one.reason, one.refresh_round) for one in comparison.rounds}
    assert newest[8] == ("dropped", "too-late", None)
    assert newest[9] == ("", "not-sealed", None)
    assert newest[10] == ("", "budget-spent", 20)


def test_what_may_not_be_told_is_seen_by_its_owner() -> None:
    """In a pause the agent takes no mean; the page has its own."""
    comparison = Comparison(Notes(), FakeClock(0))
    comparison.read(7, 1, 10.0)
    comparison.read(8, 1, 30.0)
    comparison.note_round_end(7, None, is_shared=False)
    assert (comparison.rounds[0].measured, comparison.rounds[0].is_shared) == (10.0, False)
    assert comparison.now is not None
    assert comparison.now.round == 8


def test_only_the_last_rounds_are_kept() -> None:
    """Memory does not grow, whatever a clock does."""
    comparison = Comparison(Notes(), FakeClock(0))
    for round in range(1000):
        comparison.read(round, 1, 1.0)
        comparison.note_round_end(round, 1.0, is_shared=True)
    for round in range(5000, 5100):
        comparison.read(round, 1, 1.0)
    assert len(comparison.rounds) == 192
    assert comparison.rounds[0].round == 999
    comparison.forget()
    assert (comparison.rounds, comparison.now, comparison.troubles) == ([], None, [])


def test_troubles_end_when_it_works_again() -> None:
    """Each is counted while it lasts, and gone when its opposite is seen."""
    clock = FakeClock(100)
    comparison = Comparison(Notes(), clock)
    comparison.note("unreachable", round=7, wait_s=2.0)
    clock.advance(5)
    comparison.note("unreachable", round=7, wait_s=4.0)
    comparison.note("source-failed", kind="http")
    comparison.note("terms-refused", reason="changed")
    comparison.note("not-fetched", kind="Unreachable", wait_s=2.0)
    found = {one.event: (one.count, one.time_s) for one in comparison.troubles}
    assert found["unreachable"] == (2, 105)
    assert len(found) == 4
    comparison.note("sent", round=7, attempts=3)
    comparison.read(8, 1, 1.0)
    comparison.note("keys-accepted", version=2)
    assert comparison.troubles == []
    comparison.note("not-fetched", kind="Unreachable", wait_s=2.0)
    comparison.note_fetched()
    assert comparison.troubles == []
