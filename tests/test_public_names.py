"""The public names, pinned."""

import subprocess
import sys

import pytest
from tests.cases import each_case

import rase

NAMES = [
    "Amplification",
    "BlockDesign",
    "BudgetAware",
    "CentralDP",
    "Certificate",
    "Counts",
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
    "Precision",
    "Categories",
    "Quantities",
    "RandomizedResponse",
    "Range",
    "RangeRandomizer",
    "PrivacyRefused",
    "Randomizer",
    "RaseError",
    "Release",
    "Robust",
    "RoundResult",
    "Rounds",
    "RunPlan",
    "SecureRandom",
    "SeededRandom",
    "ShuffledPromise",
    "Shuffler",
    "SquareWave",
    "Uniform",
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
    "run_round",
    "run_table",
    "sample_mean",
    "sensitivity",
    "shares",
    "total",
    "unbiased_mean",
    "variance",
    "window",
    "winsorized_mean",
]


def test_the_export_list_is_pinned() -> None:
    """A public name comes or goes only with this list."""
    assert sorted(rase.__all__) == sorted(NAMES)
    assert set(NAMES) < set(dir(rase))


@each_case("name", NAMES)
def test_every_public_name_resolves_and_is_documented(name: str) -> None:
    """Each name exists and has a docstring."""
    assert getattr(rase, name).__doc__


def test_unknown_names_are_refused() -> None:
    """A name that is not there raises AttributeError."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        rase.nonsense  # noqa: B018


def test_importing_the_package_loads_no_numpy() -> None:
    """The import is lazy: a device agent can afford it."""
    code = (
        "import rase, sys; from rase import domain, clock, privacy; print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
