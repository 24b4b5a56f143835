"""RASE: randomize, shuffle, estimate. Learn a fleet's averages, never who sent what.

The way of a reading, and the room for each step::

    collect      one reading per device and round
    randomize    the device adds noise: from here on nothing depends on trust
    shuffle      the shuffler breaks the link between sender and report
    estimate     the fusion centre learns the mean, with its error
    pipeline     the three steps in one process
    accounting   what it all costs: amplification, composition, ledger, planner

Around them: ``campaign`` is what a fleet agrees to; ``device``, ``shuffler``, ``fusion`` and
``subscriber`` are the programs that the command ``rase`` starts; ``engine`` runs tables of any
length; ``lab`` attacks and audits all this on data one holds; ``testing`` checks mechanisms of
one's own.

Example:
    Seeded noise is for study; without ``rng`` it is secure.

    >>> import rase
    >>> readings = [12.5, 80.0, 43.0] * 40
    >>> print(rase.aggregate(readings, (0, 100), epsilon=2, rng=rase.SeededRandom(7)))
    44.7 ± 4.2 (95 %: 36.3 to 53.0, n = 120)

A public name is loaded when it is first used, so that ``import rase`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rase.accounting.amplification import Amplification, amplify
    from rase.accounting.composition import compose_local, compose_permutation, compose_shuffled
    from rase.accounting.planner import plan
    from rase.errors import DataError, NotIdentifiable, PrivacyRefused, RaseError
    from rase.estimate.aggregates import count, total, variance
    from rase.estimate.distribution import histogram, quantile, quantiles
    from rase.estimate.estimate import Estimate
    from rase.estimate.mean import (
        bootstrap_mean,
        median,
        sample_mean,
        unbiased_mean,
        winsorized_mean,
    )
    from rase.estimate.regional import regional_means
    from rase.estimate.series import Rounds
    from rase.estimate.window import window
    from rase.kernels.words import SecureRandom, SeededRandom
    from rase.pipeline import Pipeline, RoundResult, aggregate
    from rase.privacy import CentralDP, LocalDP, PermutationPrivacy
    from rase.randomize.bounded import Duchi, Hybrid, Piecewise
    from rase.randomize.budget_aware import BudgetAware, Laplace
    from rase.randomize.certificate import Certificate
    from rase.randomize.choice import auto
    from rase.randomize.optimal import Optimal
    from rase.randomize.protocol import Randomizer
    from rase.randomize.square_wave import SquareWave
    from rase.shuffle.cayley import CayleyMallows
    from rase.shuffle.mallows import Mallows
    from rase.shuffle.partition import Partition, group_width, sensitivity
    from rase.shuffle.permutation import kendall_tau
    from rase.shuffle.refinement import refine
    from rase.shuffle.robust import Robust
    from rase.shuffle.shufflers import (
        Cyclic,
        MallowsShuffle,
        Manifest,
        Release,
        Shuffler,
        Uniform,
    )
    from rase.stream import Precision, ValueRange

__version__ = "0.1.0"

__all__ = [
    "Amplification",
    "BudgetAware",
    "CayleyMallows",
    "CentralDP",
    "Certificate",
    "Cyclic",
    "DataError",
    "Duchi",
    "Estimate",
    "Hybrid",
    "Laplace",
    "LocalDP",
    "Mallows",
    "MallowsShuffle",
    "Manifest",
    "NotIdentifiable",
    "Optimal",
    "Partition",
    "PermutationPrivacy",
    "Piecewise",
    "Pipeline",
    "Precision",
    "PrivacyRefused",
    "Randomizer",
    "RaseError",
    "Release",
    "Robust",
    "RoundResult",
    "Rounds",
    "SecureRandom",
    "SeededRandom",
    "Shuffler",
    "SquareWave",
    "Uniform",
    "ValueRange",
    "aggregate",
    "amplify",
    "auto",
    "bootstrap_mean",
    "compose_local",
    "compose_permutation",
    "compose_shuffled",
    "count",
    "group_width",
    "histogram",
    "kendall_tau",
    "median",
    "plan",
    "quantile",
    "quantiles",
    "refine",
    "regional_means",
    "sample_mean",
    "sensitivity",
    "total",
    "unbiased_mean",
    "variance",
    "window",
    "winsorized_mean",
]

_HOME = {
    "rase.accounting.amplification": ("Amplification", "amplify"),
    "rase.accounting.composition": (
        "compose_local",
        "compose_permutation",
        "compose_shuffled",
    ),
    "rase.accounting.planner": ("plan",),
    "rase.errors": ("DataError", "NotIdentifiable", "PrivacyRefused", "RaseError"),
    "rase.estimate.aggregates": ("count", "total", "variance"),
    "rase.estimate.distribution": ("histogram", "quantile", "quantiles"),
    "rase.estimate.estimate": ("Estimate",),
    "rase.estimate.mean": (
        "bootstrap_mean",
        "median",
        "sample_mean",
        "unbiased_mean",
        "winsorized_mean",
    ),
    "rase.estimate.regional": ("regional_means",),
    "rase.estimate.series": ("Rounds",),
    "rase.estimate.window": ("window",),
    "rase.kernels.words": ("SecureRandom", "SeededRandom"),
    "rase.pipeline": ("Pipeline", "RoundResult", "aggregate"),
    "rase.privacy": ("CentralDP", "LocalDP", "PermutationPrivacy"),
    "rase.randomize.bounded": ("Duchi", "Hybrid", "Piecewise"),
    "rase.randomize.budget_aware": ("BudgetAware", "Laplace"),
    "rase.randomize.certificate": ("Certificate",),
    "rase.randomize.choice": ("auto",),
    "rase.randomize.optimal": ("Optimal",),
    "rase.randomize.protocol": ("Randomizer",),
    "rase.randomize.square_wave": ("SquareWave",),
    "rase.shuffle.cayley": ("CayleyMallows",),
    "rase.shuffle.mallows": ("Mallows",),
    "rase.shuffle.partition": ("Partition", "group_width", "sensitivity"),
    "rase.shuffle.permutation": ("kendall_tau",),
    "rase.shuffle.refinement": ("refine",),
    "rase.shuffle.robust": ("Robust",),
    "rase.shuffle.shufflers": (
        "Cyclic",
        "MallowsShuffle",
        "Manifest",
        "Release",
        "Shuffler",
        "Uniform",
    ),
    "rase.stream": ("Precision", "ValueRange"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module a public name lives in, when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rase' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    """List the public names, though most are not loaded yet."""
    return [*__all__, "__version__"]
