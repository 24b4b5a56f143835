"""Costs: work grows with devices no faster than each attack states.

Work is counted, not timed: the numbers that NumPy reads or writes. What leaves NumPy, forests and
assignments, counts by its own law for the sizes it is given.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rase.domain import Range
from rase.kernels.words import SeededRandom
from rase.lab.attacks import ATTACK_NAMES, attack_named
from rase.lab.attacks.averaging import AveragingAttack
from rase.lab.attacks.bayes import BayesAttack
from rase.lab.attacks.linkage import LinkageAttack
from rase.lab.attacks.matching import MatchingAttack
from rase.lab.attacks.protocol import Attack
from rase.lab.attacks.runner import attack_scheme, case_for
from rase.lab.panel import Panel
from rase.lab.schemes import scheme_named
from rase.shuffle import mallows

WATTS = Range(0, 100)
POWER = {"n log n": 1, "n^2": 2, "n^3": 3}
# From n to 4 n; more devices than an attack has bins or candidates where these bound its work.
SMALL = {"n log n": 400, "n^2": 50, "n^3": 50}
# For a logarithm, and for how often tables are scaled; one power more would be a factor of 4.
ROOM = 1.5
TREES = 4
SORTS = {np.sort, np.argsort, np.argpartition, np.unique, np.quantile, np.searchsorted}


class Work:
    """Count what is done."""

    def __init__(self) -> None:
        self.done = 0.0

    def add(self, count: float) -> None:
        """Count so many numbers."""
        self.done += count

    def watched(self, values: Any) -> Any:
        """Return an array whose use is counted, and that of all that is computed from it."""
        if isinstance(values, tuple):
            return tuple(self.watched(value) for value in values)
        if not isinstance(values, np.ndarray) or not values.ndim:
            return values
        view = values.view(Watched)
        view.work = self
        return view


class Watched(np.ndarray[Any, Any]):
    """An array that counts what is done with it."""

    work: Work

    def __array_finalize__(self, origin: object) -> None:
        """Let parts and copies count, too."""
        if isinstance(origin, Watched):
            self.work = origin.work

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:  # as NumPy calls it
        """Count the largest array of an operation; of a product of matrices every term."""
        given = plain(inputs)
        count = most_of(given)
        result = getattr(ufunc, method)(*given, **plain(options))
        count = max(count, most_of([result]))
        if ufunc is np.matmul:
            count = np.size(result) * np.shape(given[0])[-1]
        self.work.add(count)
        return self.work.watched(result)

    def __array_function__(
        self, function: Any, types: object, args: Any, options: Mapping[str, Any]
    ) -> Any:
        """Count the largest array of a function, and of a sort the logarithm, too."""
        given, named = plain(args), plain(options)
        result = function(*given, **named)
        count = max(most_of(given), most_of(named.values()), most_of([result]))
        self.work.add(count * (math.log2(count + 1) if function in SORTS else 1))
        return self.work.watched(result)

    def __getitem__(self, key: Any) -> Any:
        """Count what is looked up."""
        result = np.asarray(self)[plain(key)]
        self.work.add(np.size(result))
        return self.work.watched(result)


def plain(value: Any) -> Any:
    """Return the same without any array that counts."""
    if isinstance(value, Watched):
        return value.view(np.ndarray)
    if isinstance(value, tuple | list):
        return type(value)([plain(one) for one in value])
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def most_of(values: Iterable[Any]) -> int:
    """Return the size of the largest array, also in lists and tuples."""
    return max(
        (most_of(one) if isinstance(one, tuple | list) else int(np.size(one)) for one in values),
        default=0,
    )


class CountedForest:
    """Stand in for scikit-learn's forest, whose law is records x (log records + classes) a tree."""

    work: Work

    def __init__(self, *, n_estimators: int, **options: object) -> None:
        self.trees = n_estimators

    def fit(self, features: NDArray[Any], labels: NDArray[Any]) -> None:
        """Count what growing the trees takes."""
        self.classes_ = np.unique(np.asarray(labels))
        records = len(features)
        self.work.add(self.trees * records * (math.log2(records) + len(self.classes_)))

    def predict_proba(self, asked: NDArray[Any]) -> Any:
        """Count one leaf a tree for each row, with a share for each class."""
        shares = np.full((len(asked), len(self.classes_)), 1 / len(self.classes_))
        self.work.add(self.trees * shares.size)
        return self.work.watched(shares)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """What is counted, also beyond NumPy."""
    from scipy import optimize

    counted = Work()
    assigned, brackets = optimize.linear_sum_assignment, mallows._brackets

    def assign(table: NDArray[Any], **options: Any) -> Any:
        counted.add(max(table.shape) ** 3)
        return assigned(plain(table), **options)

    monkeypatch.setattr(optimize, "linear_sum_assignment", assign)
    # All marginals of the order are computed from these.
    monkeypatch.setattr(mallows, "_brackets", lambda *given: counted.watched(brackets(*given)))
    monkeypatch.setattr(CountedForest, "work", counted, raising=False)
    monkeypatch.setattr("sklearn.ensemble.RandomForestClassifier", CountedForest)
    return counted


def wide_panel(n: int, rounds: int) -> Panel:
    """Return devices with their own levels, eight rounds a day."""
    generator = np.random.default_rng(n)
    level = generator.uniform(10, 90, n)
    values = level + generator.normal(0, 5, (rounds, n))
    return Panel(np.arange(rounds) * 10_800_000, [f"d{i}" for i in range(n)], values)


def light(name: str) -> Attack:
    """Return the attack with few trees, which changes no growth."""
    attack = attack_named(name)
    return type(attack)(trees=TREES) if hasattr(attack, "trees") else attack  # type: ignore[call-arg]


def work_of(attack: Attack, n: int, work: Work) -> float:
    """Return what the attack does with a release of n devices."""
    panel = wide_panel(n, 24)
    release, secret = scheme_named("br-mallows", WATTS, epsilon=4.0).release(
        panel, rng=SeededRandom(1)
    )
    case = case_for(attack, release, secret=secret, panel=panel)
    names = ("times_ms", "values", "is_train", "labels", "history", "arrival")
    before = work.done
    attack.guess(replace(case, **{name: work.watched(getattr(case, name)) for name in names}))
    return work.done - before


def grows_as(attack: Attack, cost: str, work: Work) -> bool:
    """Tell whether work from n to 4 n grows by no more than the power stated, with some room."""
    before, after = (work_of(attack, n, work) for n in (SMALL[cost], 4 * SMALL[cost]))
    # Every record is looked at, or nothing was counted.
    assert before > SMALL[cost]
    return bool(after < ROOM * 4 ** POWER[cost] * before)


@pytest.mark.parametrize("name", ATTACK_NAMES)
def test_work_grows_no_faster_than_stated(name: str, work: Work) -> None:
    """From n to 4 n work grows by at most 1.5 times 4 to the power stated."""
    attack = light(name)
    assert grows_as(attack, attack.cost, work)


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("attack", "cost"),
    [
        (AveragingAttack(candidates=10**6), "n log n"),
        (LinkageAttack(candidates=10**6), "n log n"),
        (light("value"), "n log n"),
        (light("profile"), "n log n"),
        (MatchingAttack(bins=16), "n^2"),
    ],
)
def test_work_of_one_power_more_is_noticed(attack: Attack, cost: str, work: Work) -> None:
    """Attacks that compare all with all, or assign, do not pass for one power less."""
    assert not grows_as(attack, cost, work)


@pytest.mark.uncovered
@pytest.mark.parametrize("name", ATTACK_NAMES)
def test_five_hundred_devices_work_for_all(name: str) -> None:
    """Every attack runs on 500 devices and names only devices there are."""
    panel = wide_panel(500, 24)
    result = attack_scheme(
        panel, scheme_named("rase", WATTS, epsilon=4.0), attacks=[light(name)], resamples=10
    )[0]
    assert result.n == 500
    assert result.recall.shape == (500,)
    assert 0 <= result.macro_recall.value < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("attack", [BayesAttack(bins=64), LinkageAttack(bins=64, candidates=32)])
def test_a_hundred_thousand_devices_work(attack: Attack) -> None:
    """`bayes` and `linkage` run on 100,000 devices."""
    panel = wide_panel(100_000, 10)
    result = attack_scheme(
        panel, scheme_named("br", WATTS, epsilon=4.0), attacks=[attack], resamples=10
    )[0]
    assert result.n == 100_000
    assert result.records == 200_000
