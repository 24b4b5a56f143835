"""Every estimator of a round by its name: the one list from which all others are derived.

An estimator is a function of counts with the signature of `Estimator`. To add one, write it in a
module of this room and add a line below; campaigns, commands and docs follow.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rase.counts.counts import Counts
    from rase.counts.estimate import Estimate
    from rase.kernels.words import Random, Resampling
    from rase.laws.randomizer import RangeRandomizer

__all__ = [
    "ESTIMATORS",
    "OF_READINGS",
    "ROUND_ESTIMATORS",
    "ROUND_MEANS",
    "SHARES",
    "SMOOTHED",
    "TRACKED",
    "Estimator",
    "estimator_named",
]

# The estimator over time: each round with the help of those before (rase.series.tracker).
TRACKED: Final = "tracked"
# The same with the help of later rounds (rase.series.smoother); a method, not an estimator by name.
SMOOTHED: Final = "smoothed"
# What is estimated where readings are states: the share of each (rase.counts.shares).
SHARES: Final = "shares"
_MEAN, _OF_REPORTS, _OTHER = "mean of the readings", "mean of the reports", "of the readings"
# Name, module and function of those of a round by itself, and what they estimate: the mean of the
# readings, that of the noisy reports, or something else about the readings. Modules are imported
# when they are first used: a device that reads a campaign needs the names alone.
_REGISTRY: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        TRACKED: ("mean", "round_mean", _MEAN),
        "unbiased_mean": ("mean", "unbiased_mean", _MEAN),
        "sample_mean": ("paper", "sample_mean", _OF_REPORTS),
        "median": ("paper", "median", _OF_REPORTS),
        "bootstrap_mean": ("paper", "bootstrap_mean", _OF_REPORTS),
        "winsorized_mean": ("mean", "winsorized_mean", _MEAN),
    }
)
ESTIMATORS: Final = tuple(_REGISTRY)
ROUND_ESTIMATORS: Final = tuple(name for name in ESTIMATORS if name != TRACKED)
# Those that estimate a mean, which the planner can predict.
ROUND_MEANS: Final = tuple(name for name in ROUND_ESTIMATORS if _REGISTRY[name][2] != _OTHER)
# Those whose numbers are about the readings, which lie within the range, not about the reports.
OF_READINGS: Final = frozenset(name for name in ESTIMATORS if _REGISTRY[name][2] != _OF_REPORTS)


class Estimator(Protocol):
    """Estimate one number from the reports of a round; the form all named estimators share."""

    def __call__(
        self,
        reports: Counts | ArrayLike,
        /,
        *,
        randomizer: RangeRandomizer,
        epsilon: ArrayLike | None = None,
        rng: Random | Resampling | None = None,
    ) -> Estimate:
        """Return the estimate; what an estimator does not need it ignores."""
        ...


def estimator_named(name: str) -> Estimator:
    """Return the estimator of this name, for a round by itself.

    ``tracked`` uses the rounds before as well; what it starts from is `round_mean`.

    Raises:
        ValueError: If no estimator has the name; the message lists the names and the nearest.

    Example:
        >>> estimator_named("unbiased")
        Traceback (most recent call last):
        ValueError: estimator must be one of tracked, unbiased_mean, sample_mean, median, \
bootstrap_mean, winsorized_mean, got 'unbiased'; did you mean unbiased_mean?
    """
    if name not in _REGISTRY:
        near = difflib.get_close_matches(name, ESTIMATORS, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}, got {name!r}{hint}")
    module, function, _ = _REGISTRY[name]
    found: Estimator = getattr(import_module(f"rase.counts.{module}"), function)
    return found
