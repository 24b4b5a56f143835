"""The estimators of one round by their names, all called in the same form."""

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from rase.estimate.combined import combined_mean
from rase.estimate.decoder import Decoder, as_budgets
from rase.estimate.estimate import Estimate
from rase.estimate.mean import (
    bootstrap_mean,
    median,
    sample_mean,
    unbiased_mean,
    winsorized_mean,
)
from rase.kernels.words import Random, Resampling

__all__ = ["ESTIMATORS", "Estimator", "estimator_named"]


class Estimator(Protocol):
    """Estimate one number from the reports of a round; the form all named estimators share."""

    def __call__(
        self,
        reports: ArrayLike,
        /,
        *,
        randomizer: Decoder,
        epsilon: ArrayLike | None = None,
        rng: Random | Resampling | None = None,
    ) -> Estimate:
        """Return the estimate; what an estimator does not need it leaves aside."""
        ...


def estimator_named(name: str) -> Estimator:
    """Return the estimator of this name.

    ``auto`` borrows from the rounds before (`rase.estimate.tracker`); of a round by itself it is
    the unbiased mean, and where contributors differ in epsilon `combined_mean`, which is what this
    function returns for it.

    Raises:
        ValueError: If there is none; the message lists the names and the nearest.

    Example:
        >>> estimator_named("unbiased")
        Traceback (most recent call last):
        ValueError: estimator must be one of auto, unbiased_mean, sample_mean, median, \
bootstrap_mean, winsorized_mean, got 'unbiased'; did you mean unbiased_mean?
    """
    named = {"auto": _named_auto, **ESTIMATORS, "winsorized_mean": _named_winsorized_mean}
    if name in named:
        return named[name]
    near = difflib.get_close_matches(name, named, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise ValueError(f"estimator must be one of {', '.join(named)}, got {name!r}{hint}")


def _named_auto(
    reports: ArrayLike,
    /,
    *,
    randomizer: Decoder,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    if epsilon is None:
        return unbiased_mean(reports, randomizer=randomizer)
    return combined_mean(reports, randomizer=randomizer, epsilon=epsilon)


def _named_unbiased_mean(
    reports: ArrayLike,
    /,
    *,
    randomizer: Decoder,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    return unbiased_mean(reports, randomizer=randomizer, epsilon=epsilon)


def _named_winsorized_mean(
    reports: ArrayLike,
    /,
    *,
    randomizer: Decoder,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    return winsorized_mean(reports, randomizer=randomizer, epsilon=epsilon)


def _named_sample_mean(
    reports: ArrayLike,
    /,
    *,
    randomizer: Decoder,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    return sample_mean(reports)


def _named_median(
    reports: ArrayLike,
    /,
    *,
    randomizer: Decoder,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    budgets = as_budgets(epsilon, np.size(reports))
    return median(reports, None if budgets is None else randomizer.value_range.width / budgets)


def _named_bootstrap_mean(
    reports: ArrayLike,
    /,
    *,
    randomizer: Decoder,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    return bootstrap_mean(reports, rng=rng)


ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {
        "unbiased_mean": _named_unbiased_mean,
        "sample_mean": _named_sample_mean,
        "median": _named_median,
        "bootstrap_mean": _named_bootstrap_mean,
    }
)
