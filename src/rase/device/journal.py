"""What the agent says of itself: events with a few harmless fields, never a reading or a report."""

from contextlib import suppress
from typing import Final, Protocol, TextIO

from rase.clock import Clock

__all__ = ["EVENTS", "Journal", "LineJournal", "NamedJournal", "StudyJournal"]

# Event by event, the fields that it may have. Anything else is a mistake in the program.
EVENTS: Final = {
    "started": ("campaign",),
    "page": ("port",),
    "stopped": (),
    "terms-accepted": ("campaign", "version"),
    "keys-accepted": ("version",),
    "terms-refused": ("reason",),
    "not-fetched": ("kind", "wait_s"),
    "unreachable": ("round", "wait_s"),
    "source-failed": ("kind",),
    "states-unknown": ("count",),
    "budget-spent": ("round", "refresh_round"),
    "round-skipped": ("round", "reason"),
    "sealed": ("round",),
    "sealed-again": ("round",),
    "sent": ("round", "attempts"),
    "refused": ("round", "problem", "wait_s"),
    "dropped": ("round", "problem"),
    "tokens-fetched": ("round", "count"),
    "tokens-not-fetched": ("round", "wait_s"),
    "no-tokens": ("round", "reason"),
}


class Journal(Protocol):
    """Take notes of what happens."""

    def note(self, event: str, **fields: object) -> None:
        """Write down an event of `EVENTS` with its fields."""
        ...


class LineJournal:
    """Write one line of ``key=value`` for each event.

    Args:
        stream: Where to.
        clock: Gives the time of the lines, in whole seconds.

    Example:
        >>> import sys
        >>> from rase.clock import FakeClock
        >>> LineJournal(sys.stdout, FakeClock(0)).note("sent", round=7, attempts=1)
        time=0 event=sent round=7 attempts=1
    """

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock

    def note(self, event: str, **fields: object) -> None:
        """Write the line, if it can be written.

        Raises:
            ValueError: If the event or a field is none of `EVENTS`.
        """
        unknown = sorted(set(fields) - {"study", "campaign", *EVENTS.get(event, ())})
        if event not in EVENTS or unknown:
            raise ValueError(f"{event} with {unknown} must be an event of the journal; it is not.")
        words = [f"time={int(self._clock.now_s())}", f"event={event}"]
        words += [f"{name}={_word(value)}" for name, value in fields.items() if value is not None]
        # Whoever reads the notes may be gone, or the disk full; no agent ends for want of a line.
        with suppress(OSError):
            self._stream.write(" ".join(words) + "\n")
            self._stream.flush()


class StudyJournal:
    """Mark every note as one of a simulation, whose noise protects nobody.

    Args:
        journal: Takes the marked notes.

    Example:
        >>> import sys
        >>> from rase.clock import FakeClock
        >>> StudyJournal(LineJournal(sys.stdout, FakeClock(0))).note("sealed", round=7)
        time=0 event=sealed round=7 study=yes
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def note(self, event: str, **fields: object) -> None:
        """Write down the event with the mark behind its fields."""
        self._journal.note(event, **fields, study="yes")


class NamedJournal:
    """Name the campaign in every note, where a device has several.

    Args:
        journal: Takes the notes.
        campaign: The campaign.

    Example:
        >>> import sys
        >>> from rase.clock import FakeClock
        >>> NamedJournal(LineJournal(sys.stdout, FakeClock(0)), "heat").note("sealed", round=7)
        time=0 event=sealed campaign=heat round=7
    """

    def __init__(self, journal: Journal, campaign: str) -> None:
        self._journal = journal
        self._campaign = campaign

    def note(self, event: str, **fields: object) -> None:
        """Write down the event with the campaign before its fields."""
        self._journal.note(event, **{"campaign": self._campaign, **fields})


def _word(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    # One event is one line of words, whatever a server or a file name holds.
    return "".join(letter if letter.isalnum() or letter in "-_.:/" else "_" for letter in text)
