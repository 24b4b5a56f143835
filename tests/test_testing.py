"""The contract checks themselves: each notices a planted fault."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.cases import each_case

from rase import (
    BudgetAware,
    Counts,
    Estimate,
    Laplace,
    LocalDP,
    MallowsShuffle,
    Manifest,
    Piecewise,
    Precision,
    Range,
    Uniform,
    unbiased_mean,
)
from rase.counts.registry import ESTIMATORS, estimator_named
from rase.kernels.words import SeededRandom
from rase.laws.geometric import UnboundedLaw
from rase.testing import check_estimator, check_randomizer, check_shuffler

PUBLIC = Range(0, 10)
BR = BudgetAware(1.0, PUBLIC, Precision(0.5, 0.9))


class TooLittleNoise(Laplace):
    """Draw with a budget 30 % larger than stated."""

    def randomize(self, readings: Any, *, rng: Any = None) -> Any:
        """Cheat."""
        return Laplace(1.3, PUBLIC).randomize(readings, rng=rng)


class TooMuchClaimed(Laplace):
    """State a law with more privacy than it has."""

    def law(self, epsilon: float) -> UnboundedLaw:
        """Cheat."""
        return UnboundedLaw(1.3 * epsilon, PUBLIC.steps)


class Telling(Laplace):
    """State a law in which some reports come from one half of the range alone."""

    def report_probabilities(self, readings: Any, edges: Any) -> Any:
        """Cheat."""
        law = np.zeros((np.size(readings), np.size(edges) - 1))
        law[:, 0] = np.asarray(readings) < PUBLIC.middle
        law[:, -1] = 1 - law[:, 0]
        return law


class Biased(Laplace):
    """Decode a little too high."""

    def decode(self, reports: Any, *, epsilon: Any = None) -> Any:
        """Cheat."""
        return super().decode(reports) + 0.3 * PUBLIC.width


class OffGrid(Laplace):
    """Report between grid points."""

    def randomize(self, readings: Any, *, rng: Any = None) -> Any:
        """Cheat."""
        return super().randomize(readings, rng=rng) + PUBLIC.step / 2


class BadSquares(Piecewise):
    """Decode squares wrongly."""

    def decode_square(self, reports: Any, *, epsilon: Any = None) -> Any:
        """Cheat."""
        return super().decode_square(reports) + 30


class Stale(Laplace):
    """Use the same noise each time."""

    def randomize(self, readings: Any, *, rng: Any = None) -> Any:
        """Cheat."""
        return super().randomize(readings, rng=rng or SeededRandom(1))


class Restless(Laplace):
    """Ignore the seed: each draw has a seed of its own."""

    seeds: ClassVar = count()

    def randomize(self, readings: Any, *, rng: Any = None) -> Any:
        """Cheat."""
        return super().randomize(readings, rng=SeededRandom(next(self.seeds)))


class Wide(Laplace):
    """Take readings outside the range as they are."""

    def randomize(self, readings: Any, *, rng: Any = None) -> Any:
        """Cheat."""
        values = np.asarray(readings, dtype=np.float64)
        beyond = values - np.clip(values, PUBLIC.low, PUBLIC.high)
        return super().randomize(values, rng=rng) + np.rint(beyond / PUBLIC.step) * PUBLIC.step


class Tolerant(Laplace):
    """Take NaN for zero."""

    def randomize(self, readings: Any, *, rng: Any = None) -> Any:
        """Cheat."""
        return super().randomize(np.nan_to_num(readings, posinf=0), rng=rng)


class Boastful(Laplace):
    """Promise more loss than its budget."""

    @property
    def guarantee(self) -> LocalDP:
        """Cheat."""
        return LocalDP(2.0)


@each_case(
    ("fault", "promise"),
    [
        (TooLittleNoise, "follow the stated law"),
        (TooMuchClaimed, "must be epsilon-LDP"),
        (Telling, "must be epsilon-LDP, a bin loses inf"),
        (Biased, "average to the reading"),
        (OffGrid, "lie on the grid"),
        (BadSquares, "squared reading"),
        (Stale, "fresh each time"),
        (Restless, "one seed must give one result"),
        (Wide, "count at its ends"),
        (Tolerant, "not finite must be refused"),
        (Boastful, "must not exceed epsilon"),
    ],
)
def test_faulty_randomizers_are_noticed(fault: type[Laplace], promise: str) -> None:
    """Each planted fault breaks the promise it should."""
    with pytest.raises(AssertionError, match=promise):
        check_randomizer(fault(1.0, PUBLIC))


def _shuffler(change: Callable[[Any, Any], Any]) -> Any:
    class Faulty:
        def shuffle(self, values: Any, *, rng: Any = None) -> Any:
            """Shuffle, then spoil."""
            return change(Uniform().shuffle(values, rng=rng), values)

        def manifest_for(self, n: int) -> Manifest:
            """Tell the manifest that a spoilt release has."""
            manifest: Manifest = self.shuffle(np.arange(n) * 1.5).manifest
            return manifest

    return Faulty()


_SEEDS = count()


def _shuffle_again(release: Any, values: Any) -> Any:
    """Ignore the seed that was given."""
    return Uniform().shuffle(values, rng=SeededRandom(next(_SEEDS)))


def _tear_rows(release: Any, values: Any) -> Any:
    if release.values.ndim == 1:
        return release
    first, second = release.values.T
    return replace(release, values=np.column_stack([first, second[::-1]]))


@each_case(
    ("change", "promise"),
    [
        (lambda release, _: replace(release, values=release.values + 1), "stay the same"),
        (_shuffle_again, "one seed"),
        (_tear_rows, "rows must stay whole"),
        (lambda r, _: replace(r, manifest=replace(r.manifest, n=3)), "count the values"),
        (lambda r, _: replace(r, manifest=replace(r.manifest, reason="")), "say why"),
        (lambda r, _: replace(r, manifest=replace(r.manifest, chance=0.5)), "chance must be"),
        (
            lambda r, _: replace(r, manifest=replace(r.manifest, attacker_success=0.0)),
            "worse than chance",
        ),
        (
            lambda r, _: replace(r, manifest=replace(r.manifest, exposed_slot_success=0.0)),
            "in its best slot",
        ),
        (lambda r, _: replace(r, manifest=replace(r.manifest, alpha=1.0)), "real groups"),
    ],
)
def test_faulty_shufflers_are_noticed(change: Callable[[Any, Any], Any], promise: str) -> None:
    """Each planted fault breaks the promise it should."""
    with pytest.raises(AssertionError, match=promise):
        check_shuffler(_shuffler(change))


def test_a_shuffler_that_tells_another_manifest_in_advance_is_noticed() -> None:
    """What a round would be released with is what it is released with."""

    class Hasty(Uniform):
        def manifest_for(self, n: int) -> Manifest:
            """Tell what another shuffler would do, but shuffle uniformly."""
            return MallowsShuffle(0.3).manifest_for(n)

        def shuffle(self, values: Any, *, rng: Any = None) -> Any:
            """Shuffle uniformly."""
            return Uniform().shuffle(values, rng=rng)

    with pytest.raises(AssertionError, match="that known in advance"):
        check_shuffler(Hasty())


def test_a_shuffler_that_tells_its_order_is_noticed() -> None:
    """A release with the permutation inside is refused."""

    class Telling:
        def __init__(self, release: Any) -> None:
            self.values, self.manifest, self.order = release.values, release.manifest, [0]

    with pytest.raises(AssertionError, match="must not carry its permutation"):
        check_shuffler(_shuffler(lambda release, _: Telling(release)))


@each_case("name", ESTIMATORS)
def test_every_named_estimator_keeps_the_contract(name: str) -> None:
    """All implementations pass, for a clamping and a plain mechanism, and noise without end."""
    for randomizer in (BR, Piecewise(4.0, PUBLIC), Laplace(1.0, PUBLIC)):
        check_estimator(estimator_named(name), randomizer=randomizer)


def _estimator(**change: Any) -> Any:
    def faulty(reports: Any, /, **keywords: Any) -> Estimate:
        """Estimate, then spoil."""
        estimate = unbiased_mean(reports, **keywords)
        return replace(estimate, **change)

    return faulty


def _places_alone(reports: Any, /, **keywords: Any) -> Estimate:
    """Estimate, but forget how often each place was reported."""
    if isinstance(reports, Counts):
        reports = Counts(reports.places, np.ones_like(reports.counts))
    return unbiased_mean(reports, **keywords)


@each_case(
    ("faulty", "promise"),
    [
        (_estimator(n=3), "count its reports"),
        (_estimator(value=float("nan")), "finite|must be"),
        (_estimator(standard_error=0.0), "carry its error"),
        (_estimator(target=""), "say what it is"),
        (
            lambda reports, **_: Estimate(
                float(reports[:30].sum()), 1e-9, n=len(reports), method="f", target="t"
            ),
            "order of reports",
        ),
        (
            lambda reports, **_: Estimate(1.0, 1.0, n=len(reports) or 1, method="f", target="t"),
            "no reports at all",
        ),
        (_places_alone, "what their reports say"),
    ],
)
def test_faulty_estimators_are_noticed(faulty: Any, promise: str) -> None:
    """Each planted fault breaks the promise it should."""
    with pytest.raises((AssertionError, ValueError), match=promise):
        check_estimator(faulty, randomizer=BR)
