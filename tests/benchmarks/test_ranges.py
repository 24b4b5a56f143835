"""The benchmark of ranges: what it asks for is there."""

from benchmarks.ranges import DRAWINGS

from rase.counts.registry import ESTIMATORS


def test_estimators_have_their_present_names() -> None:
    """A benchmark of half an hour does not end at a name."""
    assert {estimator for estimator, _ in DRAWINGS} <= set(ESTIMATORS)
