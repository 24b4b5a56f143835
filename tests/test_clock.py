"""Wall time to round numbers."""

import numpy as np
import pytest
from tests.cases import each_case

from rase.clock import (
    LONGEST_PAUSE_S,
    FakeClock,
    SystemClock,
    backoff_s,
    parse_duration_s,
    round_number,
    round_start_s,
)


@each_case(
    ("text", "seconds"),
    [
        ("8s", 8),
        ("30", 30),
        ("15min", 900),
        ("15m", 900),
        ("1h", 3600),
        (" 2 D ", 172800),
        ("1w", 604800),
    ],
)
def test_durations_are_read(text: str, seconds: int) -> None:
    """A number and a unit make seconds."""
    assert parse_duration_s(text) == seconds


@each_case("text", ["", "h", "0s", "-1h", "1.5h", "1y", "one hour"])
def test_bad_durations_are_refused_with_examples(text: str) -> None:
    """What is no duration is refused, with what one looks like."""
    with pytest.raises(ValueError, match="must look like 30s"):
        parse_duration_s(text)


def test_rounds_begin_at_multiples_of_the_interval() -> None:
    """A time belongs to the round that began last, before 1970 too."""
    assert round_number(7199, 3600) == 1
    assert round_number(-1, 3600) == -1
    assert round_number(np.array([0, 3600]), 3600).tolist() == [0, 1]
    assert round_start_s(2, 3600) == 7200


def test_the_system_clock_tells_the_time() -> None:
    """It lies after 2026 began, and monotonic seconds do not go back."""
    clock = SystemClock()
    assert clock.now_s() > 1_767_225_600
    assert clock.monotonic_s() <= clock.monotonic_s()


def test_a_fake_clock_moves_when_told() -> None:
    """Passing time moves both, setting the clock only one; time never passes backwards."""
    clock = FakeClock(100)
    clock.advance(5)
    clock.jump(-50)
    assert (clock.now_s(), clock.monotonic_s()) == (55.0, 5.0)
    with pytest.raises(ValueError, match="seconds must be at least 0"):
        clock.advance(-1)


def test_pauses_double_up_to_a_limit() -> None:
    """Each pause lies between a half and all of 2, 4, 8 … seconds, never above the limit."""
    for failures in (*range(1, 40), 10_000):
        longest = min(2.0 ** min(failures, 40), 50.0)
        assert backoff_s(failures, share=0.0, most_s=50.0) == longest / 2
        assert longest / 2 < backoff_s(failures, share=0.999, most_s=50.0) < longest
    assert backoff_s(1000, share=0.0) == LONGEST_PAUSE_S / 2
