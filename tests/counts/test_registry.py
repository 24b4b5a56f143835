"""Estimators by their names: the one list, and the functions behind it."""

import pytest

from rase import bootstrap_mean, median, sample_mean, unbiased_mean, winsorized_mean
from rase.counts.mean import round_mean
from rase.counts.registry import ESTIMATORS, ROUND_ESTIMATORS, TRACKED, estimator_named


def test_every_name_is_its_function() -> None:
    """The default comes first; the names of rounds by themselves are those of their functions."""
    functions = (unbiased_mean, sample_mean, median, bootstrap_mean, winsorized_mean)
    assert (TRACKED, *(one.__name__ for one in functions)) == ESTIMATORS
    assert ESTIMATORS[1:] == ROUND_ESTIMATORS
    assert [estimator_named(name) for name in ROUND_ESTIMATORS] == list(functions)


def test_the_estimator_over_time_starts_from_the_round() -> None:
    """A round by itself has no rounds before it: its own mean is what is left."""
    assert estimator_named(TRACKED) is round_mean


def test_unknown_names_are_refused_with_the_nearest() -> None:
    """The refusal lists the names, and the nearest if there is one."""
    with pytest.raises(ValueError, match="did you mean unbiased_mean"):
        estimator_named("unbiased-mean")
    with pytest.raises(ValueError, match=r"one of tracked, unbiased_mean, .* got 'xyz'\.$"):
        estimator_named("xyz")
