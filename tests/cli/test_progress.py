"""The progress line."""

import io

import pytest

from rase.cli.output import show_progress


class Terminal(io.StringIO):
    """A stream somebody looks at."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that is moved by hand."""
    now = [0.0]
    monkeypatch.setattr("rase.cli.output.time.monotonic", lambda: now[0])
    return now


def test_quiet_where_nobody_looks(clock: list[float]) -> None:
    """A file gets no progress line, however long the work takes."""
    stream = io.StringIO()
    with show_progress(stream) as show:
        clock[0] = 10.0
        show("reading", 0.5)
    assert stream.getvalue() == ""


def test_drawn_after_two_seconds(clock: list[float]) -> None:
    """At a terminal the line comes after two seconds, not too often, and goes away."""
    stream = Terminal()
    with show_progress(stream) as show:
        clock[0] = 1.9
        show("reading", 0.1)
        assert stream.getvalue() == ""
        clock[0] = 2.1
        show("reading", 0.5)
        assert stream.getvalue().endswith("reading [###############               ]  50 %")
        clock[0] = 2.15
        show("reading", 0.6)
        assert "60 %" not in stream.getvalue()
        clock[0] = 2.3
        show("round 7 released")
        assert stream.getvalue().endswith("round 7 released")
    assert stream.getvalue().endswith("\r\x1b[K")
