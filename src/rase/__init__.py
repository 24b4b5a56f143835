"""RASE: randomize, shuffle, estimate. Learn a fleet's averages, never who sent what.

The way of a reading, and the room for each step::

    domain       what a reading may be: a number in a public range, or one of a few categories
    laws         the device adds noise: from here on nothing depends on trust
    shuffle      the shuffler breaks the link between sender and report
    counts       the fusion centre counts reports and estimates, with errors
    series       estimates over time, windows, verdicts
    tables       the same for tables of any length, on one machine or on Spark
    accounting   what it all costs: amplification, composition, ledger, planner

Around them: ``campaign`` is what a fleet agrees to; ``device``, ``shuffler``, ``fusion`` and
``subscriber`` are the programs that the command ``rase`` starts; ``lab`` attacks and audits all
this on data one holds; ``testing`` checks mechanisms of one's own.

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

from rase.version import __version__ as __version__

if TYPE_CHECKING:
    from rase.accounting.amplification import Amplification as Amplification
    from rase.accounting.amplification import amplify as amplify
    from rase.accounting.composition import compose_local as compose_local
    from rase.accounting.composition import compose_permutation as compose_permutation
    from rase.accounting.composition import compose_shuffled as compose_shuffled
    from rase.accounting.plan import plan as plan
    from rase.counts.aggregates import count as count
    from rase.counts.aggregates import total as total
    from rase.counts.aggregates import variance as variance
    from rase.counts.counts import Counts as Counts
    from rase.counts.distribution import histogram as histogram
    from rase.counts.distribution import quantile as quantile
    from rase.counts.distribution import quantiles as quantiles
    from rase.counts.estimate import Estimate as Estimate
    from rase.counts.mean import unbiased_mean as unbiased_mean
    from rase.counts.mean import winsorized_mean as winsorized_mean
    from rase.counts.paper import bootstrap_mean as bootstrap_mean
    from rase.counts.paper import median as median
    from rase.counts.paper import sample_mean as sample_mean
    from rase.counts.regional import regional_means as regional_means
    from rase.counts.shares import shares as shares
    from rase.domain import Categories as Categories
    from rase.domain import Precision as Precision
    from rase.domain import Range as Range
    from rase.errors import DataError as DataError
    from rase.errors import NotIdentifiable as NotIdentifiable
    from rase.errors import PrivacyRefused as PrivacyRefused
    from rase.errors import RaseError as RaseError
    from rase.kernels.words import SecureRandom as SecureRandom
    from rase.kernels.words import SeededRandom as SeededRandom
    from rase.laws.certificate import Certificate as Certificate
    from rase.laws.geometric import BudgetAware as BudgetAware
    from rase.laws.geometric import Laplace as Laplace
    from rase.laws.optimal import Optimal as Optimal
    from rase.laws.randomizer import Randomizer as Randomizer
    from rase.laws.randomizer import RangeRandomizer as RangeRandomizer
    from rase.laws.registry import auto as auto
    from rase.laws.response import BlockDesign as BlockDesign
    from rase.laws.response import RandomizedResponse as RandomizedResponse
    from rase.laws.windows import Duchi as Duchi
    from rase.laws.windows import Hybrid as Hybrid
    from rase.laws.windows import Piecewise as Piecewise
    from rase.laws.windows import SquareWave as SquareWave
    from rase.privacy import CentralDP as CentralDP
    from rase.privacy import LocalDP as LocalDP
    from rase.privacy import PermutationPrivacy as PermutationPrivacy
    from rase.series.rounds import RoundResult as RoundResult
    from rase.series.rounds import Rounds as Rounds
    from rase.series.window import window as window
    from rase.shuffle.mallows import Mallows as Mallows
    from rase.shuffle.partition import Partition as Partition
    from rase.shuffle.partition import group_width as group_width
    from rase.shuffle.partition import sensitivity as sensitivity
    from rase.shuffle.permutation import kendall_tau as kendall_tau
    from rase.shuffle.refinement import refine as refine
    from rase.shuffle.release import Manifest as Manifest
    from rase.shuffle.release import Release as Release
    from rase.shuffle.release import Shuffler as Shuffler
    from rase.shuffle.robust import Robust as Robust
    from rase.shuffle.shufflers import Cyclic as Cyclic
    from rase.shuffle.shufflers import MallowsShuffle as MallowsShuffle
    from rase.shuffle.uniform import Uniform as Uniform
    from rase.tables.aggregate import aggregate as aggregate
    from rase.tables.aggregate import run_round as run_round
    from rase.tables.aggregate import run_table as run_table
    from rase.tables.plan import RunPlan as RunPlan
    from rase.tables.plan import ShuffledPromise as ShuffledPromise
    from rase.tables.quantities import Quantities as Quantities


# The public names, by the module they live in.
_HOMES = {
    "rase.accounting.amplification": "Amplification amplify",
    "rase.accounting.composition": "compose_local compose_permutation compose_shuffled",
    "rase.accounting.plan": "plan",
    "rase.counts.aggregates": "count total variance",
    "rase.counts.counts": "Counts",
    "rase.counts.distribution": "histogram quantile quantiles",
    "rase.counts.estimate": "Estimate",
    "rase.counts.mean": "unbiased_mean winsorized_mean",
    "rase.counts.paper": "bootstrap_mean median sample_mean",
    "rase.counts.regional": "regional_means",
    "rase.counts.shares": "shares",
    "rase.domain": "Categories Precision Range",
    "rase.errors": "DataError NotIdentifiable PrivacyRefused RaseError",
    "rase.kernels.words": "SecureRandom SeededRandom",
    "rase.laws.certificate": "Certificate",
    "rase.laws.geometric": "BudgetAware Laplace",
    "rase.laws.optimal": "Optimal",
    "rase.laws.randomizer": "Randomizer RangeRandomizer",
    "rase.laws.registry": "auto",
    "rase.laws.response": "BlockDesign RandomizedResponse",
    "rase.laws.windows": "Duchi Hybrid Piecewise SquareWave",
    "rase.privacy": "CentralDP LocalDP PermutationPrivacy",
    "rase.series.rounds": "RoundResult Rounds",
    "rase.series.window": "window",
    "rase.shuffle.mallows": "Mallows",
    "rase.shuffle.partition": "Partition group_width sensitivity",
    "rase.shuffle.permutation": "kendall_tau",
    "rase.shuffle.refinement": "refine",
    "rase.shuffle.robust": "Robust",
    "rase.shuffle.release": "Manifest Release Shuffler",
    "rase.shuffle.shufflers": "Cyclic MallowsShuffle",
    "rase.shuffle.uniform": "Uniform",
    "rase.tables.aggregate": "aggregate run_round run_table",
    "rase.tables.plan": "RunPlan ShuffledPromise",
    "rase.tables.quantities": "Quantities",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import the module a public name lives in, when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rase' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    """List the public names, though most are not loaded yet."""
    return [*__all__, "__version__"]
