"""From counts of rounds to their results: the one place where a table's rounds are estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rase.counts.estimate import Estimate
from rase.counts.mean import OF_READINGS
from rase.counts.moments import moments_of
from rase.counts.registry import TRACKED
from rase.series.rounds import RoundResult, estimate_round
from rase.shuffle.uniform import Uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from rase.kernels.keyed import RunKey
    from rase.laws.randomizer import RangeRandomizer
    from rase.tables.drawing import Drawn
    from rase.tables.plan import RunPlan

    # Number of reports, estimates, the mean of the round by itself, spread of the readings.
    _Found: TypeAlias = tuple[int, Mapping[str, Estimate], Estimate | None, float | None]

__all__ = ["estimate_rounds"]

# What moments of many rounds at once can answer; other estimators look at each round's counts.
_FROM_MOMENTS = frozenset({TRACKED, "unbiased_mean"})
_UNKNOWN = Uniform().manifest_for(0)


def estimate_rounds(
    plan: RunPlan,
    drawn: Drawn,
    *,
    key: RunKey,
    randomizer_of: Callable[[int], RangeRandomizer] | None = None,
) -> list[RoundResult]:
    """Return what the rounds say by themselves; `RoundResult.tracked` adds the rounds before.

    Args:
        plan: What is asked for.
        drawn: The reports; all of these rounds.
        key: The key of the run, for estimators that resample.
        randomizer_of: What the reports of each round were drawn by, if not by the plan's.
    """
    truths = {} if drawn.truth is None else drawn.truth.means(plan.randomizer.domain)
    numbers = drawn.rounds.tolist()
    has_one_law = drawn.counts.epsilon is None and randomizer_of is None
    results: list[_Found] = []
    if has_one_law and _FROM_MOMENTS.issuperset(plan.estimators) and numbers:
        results = _from_moments(plan, drawn)
    else:
        for number, counts in zip(numbers, drawn.each_round(), strict=True):
            law = plan.randomizer if randomizer_of is None else randomizer_of(number)
            found = estimate_round(counts, law, plan.estimators, rng=key.round(number))
            results.append((counts.n, found.estimates, found.alone, found.spread))
    sizes = {n for n, _, _, _ in results}
    manifests = {n: plan.shuffler.manifest_for(n) for n in sizes} if plan.graph is None else {}
    return [
        RoundResult(
            n=n,
            estimates=estimates,
            # With real groups it follows from who reports, which is known at the end of the run.
            manifest=manifests.get(n, _UNKNOWN),
            round=number,
            start_ms=plan.start_ms(number),
            truth=truths.get(number),
            alone=alone,
            spread=spread,
        )
        for number, (n, estimates, alone, spread) in zip(numbers, results, strict=True)
    ]


def _from_moments(plan: RunPlan, drawn: Drawn) -> list[_Found]:
    randomizer = plan.randomizer
    found = moments_of(drawn.counts, randomizer, group=drawn.group, groups=len(drawn.rounds))
    errors = found.standard_error.tolist()
    spreads: list[float | None] = [None] * len(errors)
    if found.spread is not None and TRACKED in plan.estimators:
        spreads = list(found.spread.tolist())
    low, high = randomizer.domain.low, randomizer.domain.high
    results: list[_Found] = []
    for value, error, n, degrees, spread in zip(
        found.mean.tolist(),
        errors,
        found.n.tolist(),
        found.degrees_of_freedom.tolist(),
        spreads,
        strict=True,
    ):
        mean = Estimate(
            value,
            error,
            n=n,
            method="unbiased_mean",
            target=OF_READINGS,
            degrees_of_freedom=degrees,
            lowest=low,
            highest=high,
        )
        results.append((n, dict.fromkeys(plan.estimators, mean), mean, spread))
    return results
