"""What all benchmarks share: targets, rows, times taken in turn, peers that may be missing."""

import itertools

import pytest
from benchmarks.harness import PeerMissing, Row, Target, Timed, peer, taken_in_turn, versions


@pytest.mark.parametrize(
    ("sense", "ratio", "is_met"),
    [
        ("at most", 0.99, True),
        ("at most", 1.0, True),
        ("at most", 1.01, False),
        ("at least", 0.99, False),
        ("at least", 1.0, True),
        ("at least", 1.01, True),
        ("at most", float("nan"), False),
        ("at least", float("nan"), False),
    ],
)
def test_a_target_is_met_on_its_own_side(sense: str, ratio: float, *, is_met: bool) -> None:
    """The limit itself is met, a number that is none never."""
    assert Target(sense, 1.0).is_met(ratio) is is_met


def test_a_target_of_another_sense_is_refused() -> None:
    """Nobody can write a target that is met by chance of a typing error."""
    with pytest.raises(ValueError, match="sense must be 'at most' or 'at least', got 'below'"):
        Target("below", 1.0)


def test_a_row_informs_unless_it_has_a_target() -> None:
    """What is not given stays out of the way."""
    row = Row("ours", "theirs", "1 report", 0.5)
    assert (row.target, row.ours_s, row.theirs_s, row.repeats) == (None, None, None, 1)
    assert row.means == "our time / its time"


def test_times_are_taken_in_turn_and_the_best_counts() -> None:
    """Both run once before; then each in turn, and the shortest time of each is kept."""
    calls: list[str] = []
    # Ours takes 3, 2 and 4 ticks, theirs 8, 6 and 7.
    ticks = itertools.accumulate([0, 3, 0, 8, 0, 2, 0, 6, 0, 4, 0, 7])
    found = taken_in_turn(
        lambda: calls.append("ours"),
        lambda: calls.append("theirs"),
        repeats=3,
        clock=lambda: float(next(ticks)),
    )
    assert calls == ["ours", "theirs"] * 4
    assert found == Timed(2.0, 6.0, 3)
    assert found.ratio == pytest.approx(1 / 3)
    assert found.speedup == pytest.approx(3)


def test_a_peer_that_is_missing_is_named() -> None:
    """Whoever reads the message knows what to run."""
    assert peer("math").sqrt(4) == 2
    with pytest.raises(PeerMissing, match="no_such_peer is not installed here: run make bench"):
        peer("no_such_peer")


def test_versions_leave_out_what_is_missing() -> None:
    """Only packages that are installed have a version."""
    found = versions("numpy", "no-such-package")
    assert len(found) == 1
    assert found[0].startswith("numpy ")
