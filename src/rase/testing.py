"""Contract checks: what every randomizer, shuffler and estimator must do, a user's own too.

Each check raises ``AssertionError`` with one sentence that says which promise is broken. Checks of
chance take a seed and state their false-alarm rate.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.counts.counts import Counts, as_counts
from rase.counts.estimate import Estimate
from rase.counts.registry import Estimator
from rase.errors import NotIdentifiable
from rase.kernels.fixed import WORD
from rase.kernels.words import SeededRandom
from rase.laws.law import Law
from rase.laws.randomizer import Randomizer, RangeRandomizer
from rase.shuffle.release import Shuffler

__all__ = ["check_estimator", "check_randomizer", "check_shuffler", "compare_draws"]

# Two-sided normal tail of one check in a billion.
_LIMIT = 6.2
# Were the statistic exactly chi-square, a right device would be called wrong with at most this
# probability, over all readings together. Counts of 25 come near, and nobody tried so many files.
_FALSE_ALARM = 1e-9
# Places with a smaller expected count are taken together.
_LEAST_EXPECTED = 25.0


def check_randomizer(randomizer: RangeRandomizer, *, seed: int = 2026, count: int = 40_000) -> None:
    """Check a randomizer with one budget against the protocol's promises.

    Reports lie on the grid, follow ``report_probabilities``, are epsilon-LDP bin by bin by that
    law, decode without bias with the stated variance, and depend on the seed alone.

    Args:
        randomizer: What to check; its ``epsilon`` must be one number.
        seed: For the reports drawn.
        count: How many reports are drawn for each reading.

    False alarms: fewer than one run in a million for a randomizer that keeps its promises.
    """
    public = randomizer.domain
    epsilon = float(np.max(randomizer.epsilon))
    readings = [public.low, public.low + 0.3 * public.width, public.middle, public.high]
    _expect(randomizer.guarantee.epsilon <= epsilon, "the guarantee must not exceed epsilon")
    _check_law(randomizer, epsilon)
    for reading in readings:
        rng = SeededRandom(f"{seed} {reading}")
        reports = randomizer.randomize(np.full(count, reading), rng=rng)
        places = (reports - public.low) / public.step
        _expect(
            bool(np.all(np.abs(places - np.rint(places)) < 1e-6)), "reports must lie on the grid"
        )
        decoded = randomizer.decode(reports)
        variance = float(randomizer.variance(reading))
        _expect(
            abs(decoded.mean() - reading) <= _LIMIT * math.sqrt(variance / count) + 1e-9,
            "decoded reports must average to the reading",
        )
        _check_frequencies(randomizer, reading, reports=reports)
        _check_square(randomizer, reading, reports=reports)
    again = [randomizer.randomize(readings, rng=SeededRandom(seed)) for _ in range(2)]
    _expect(bool(np.all(again[0] == again[1])), "one seed must give one result")
    outside = randomizer.randomize(
        np.array([public.low - public.width, public.high + public.width]), rng=SeededRandom(seed)
    )
    at_ends = randomizer.randomize(np.array([public.low, public.high]), rng=SeededRandom(seed))
    _expect(bool(np.all(outside == at_ends)), "readings outside the range must count at its ends")
    for bad in (math.nan, math.inf):
        _expect_raises(
            lambda bad=bad: randomizer.randomize([bad]),  # type: ignore[misc]
            "readings that are not finite must be refused",
        )
    secure = [randomizer.randomize(np.full(64, public.middle)) for _ in range(2)]
    _expect(bool(np.any(secure[0] != secure[1])), "unseeded noise must be fresh each time")


def check_shuffler(shuffler: Shuffler, *, n: int = 12, seed: int = 2026) -> None:
    """Check a shuffler against the protocol's promises.

    It releases the same values, rows stay whole, the manifest is complete, honest about chance and
    known in advance, the release does not reveal the permutation, and it depends on the seed alone.

    Args:
        shuffler: What to check.
        n: How many values to shuffle.
        seed: For the permutations drawn.
    """
    values = np.arange(n) * 1.5
    release = shuffler.shuffle(values, rng=SeededRandom(seed))
    _expect(bool(np.all(np.sort(release.values) == values)), "the values must stay the same")
    again = shuffler.shuffle(values, rng=SeededRandom(seed))
    _expect(bool(np.all(release.values == again.values)), "one seed must give one result")
    rows = np.column_stack([values, values * 2])
    shuffled = shuffler.shuffle(rows, rng=SeededRandom(seed)).values
    _expect(bool(np.all(shuffled[:, 1] == 2 * shuffled[:, 0])), "rows must stay whole")
    manifest = release.manifest
    _expect(manifest.n == n, "the manifest must count the values")
    _expect(shuffler.manifest_for(n) == manifest, "the manifest must be that known in advance")
    _expect(bool(manifest.reason), "the manifest must say why the method was taken")
    _expect(math.isclose(manifest.chance, 1 / n), "chance must be 1 / n")
    _expect(
        manifest.chance - 1e-9 <= manifest.attacker_success <= 1 + 1e-9,
        "no attacker does worse than chance or better than always",
    )
    _expect(
        manifest.attacker_success - 1e-9 <= manifest.exposed_slot_success <= 1 + 1e-9,
        "no attacker does worse in its best slot than on average",
    )
    _expect(manifest.alpha <= manifest.real_loss, "real groups cannot lose less than those used")
    _expect(
        not any(
            "order" in name or "permutation" in name for name in dir(release) if name[0] != "_"
        ),
        "a release must not carry its permutation",
    )
    _expect(len(shuffler.shuffle(values[:1]).values) == 1, "one value must pass")


def check_estimator(estimator: Estimator, *, randomizer: RangeRandomizer, seed: int = 2026) -> None:
    """Check an estimator against the protocol's promises.

    It returns a finite `Estimate` that does not depend on the order of reports, with a positive
    error, an interval around the value that widens with the level, refuses no reports at all, and
    says of the counts of a round what it says of its reports.

    Args:
        estimator: What to check.
        randomizer: Whose reports it gets.
        seed: For reports and estimator.
    """
    public = randomizer.domain
    readings = np.linspace(public.low, public.high, 101)
    reports = randomizer.randomize(readings, rng=SeededRandom(seed))

    def estimate(values: Counts | NDArray[np.float64]) -> Estimate:
        return estimator(values, randomizer=randomizer, epsilon=None, rng=SeededRandom(seed))

    result = estimate(reports)
    _expect(result.n == len(reports), "the estimate must count its reports")
    _expect(math.isfinite(result.value), "the estimate must be finite")
    _expect(result.standard_error > 0, "the estimate must carry its error")
    _expect(bool(result.method and result.target), "the estimate must say what it is")
    low, high = result.interval(0.5)
    wide_low, wide_high = result.interval(0.99)
    inside = min(max(result.value, result.lowest), result.highest)
    _expect(
        wide_low <= low <= inside <= high <= wide_high,
        "intervals must hold the value, moved into its bounds, and widen with the level",
    )
    backwards = estimate(np.sort(reports))
    close = 5 * result.standard_error / math.sqrt(len(reports))
    _expect(
        math.isclose(result.value, backwards.value, rel_tol=1e-9, abs_tol=close),
        "the order of reports must not matter",
    )
    _expect_raises(lambda: estimate(reports[:0]), "no reports at all must be refused")
    counted = estimate(as_counts(reports, randomizer))
    _expect(
        counted.n == result.n
        and math.isclose(result.value, counted.value, rel_tol=1e-9, abs_tol=close),
        "counts must say what their reports say",
    )


def compare_draws(
    randomizer: Randomizer, draws: Mapping[Any, Sequence[int]]
) -> list[dict[str, Any]]:
    """Compare drawn places with the exact law of each reading.

    The statistic is Pearson's, over places with an expected count of 25 at least; for its tail see
    Laurent, Massart, Annals of Statistics 2000, lemma 1. A place that the law never draws is wrong
    at once.

    Args:
        randomizer: What should have drawn them.
        draws: The places for each reading.

    Returns:
        A row for each reading: how many draws, Pearson's statistic, its limit and the verdict.
    """
    law, domain = randomizer.law(randomizer.budgets[-1]), randomizer.domain
    nats = math.log(max(len(draws), 1) / _FALSE_ALARM)
    rows = []
    for reading, places in draws.items():
        expected = _chances(law, *domain.spot(reading))
        statistic, cells = _pearson(Counter(places), expected, len(places))
        freedom = max(cells - 1, 0)
        limit = freedom + 2 * math.sqrt(freedom * nats) + 2 * nats
        never = sorted(set(places) - expected.keys())
        verdict = "as the law"
        if never:
            verdict = f"place {never[0]} is never drawn by this law"
        elif not freedom:
            verdict = "too few draws to compare"
        elif statistic > limit:
            verdict = "not as the law"
        rows.append(
            {
                "reading": reading,
                "draws": len(places),
                "statistic": round(statistic, 3),
                "limit": round(limit, 3),
                "verdict": verdict,
            }
        )
    return rows


def _chances(law: Law, index: int, share: int) -> dict[int, float]:
    """Return how often each place is drawn for a reading between two points."""
    under = law.weights(index)
    over = law.weights(index + 1) if share else under
    part = share / WORD
    return {
        place: ((1 - part) * under.get(place, 0) + part * over.get(place, 0)) / WORD
        for place in sorted(under.keys() | over.keys())
    }


def _pearson(
    found: Mapping[int, int], chances: Mapping[int, float], count: int
) -> tuple[float, int]:
    """Return Pearson's statistic and the number of cells; neighbours with few draws share one."""
    statistic, cells = 0.0, 0
    drawn = expected = 0.0
    left = count * math.fsum(chances.values())
    for place, chance in chances.items():
        drawn += found.get(place, 0)
        expected += count * chance
        left -= count * chance
        # The last cell takes what is left, if that would be too little for one of its own.
        if expected >= _LEAST_EXPECTED and (left >= _LEAST_EXPECTED or left < 1e-6 * count):
            statistic += (drawn - expected) ** 2 / expected
            cells += 1
            drawn = expected = 0.0
    if expected > 0:
        statistic += (drawn - expected) ** 2 / expected
        cells += 1
    return statistic, cells


def _check_law(randomizer: RangeRandomizer, epsilon: float) -> None:
    public = randomizer.domain
    edges = np.concatenate([[-np.inf], np.linspace(public.low, public.high, 41), [np.inf]])
    inputs = np.linspace(public.low, public.high, 33)
    law = randomizer.report_probabilities(inputs, edges)
    _expect(bool(np.allclose(law.sum(axis=1), 1)), "probabilities must add up to one")
    # Bins that have rounding noise only, whatever the input, are left out: nothing falls there.
    seen = law[:, law.max(axis=0) > 1e-12]
    with np.errstate(divide="ignore"):
        worst = float(np.log(seen.max(axis=0) / np.maximum(seen.min(axis=0), 0.0)).max())
    _expect(worst <= epsilon * (1 + 1e-6), f"the law must be epsilon-LDP, a bin loses {worst:g}")


def _check_frequencies(
    randomizer: RangeRandomizer, reading: float, *, reports: NDArray[np.float64]
) -> None:
    public = randomizer.domain
    edges = np.concatenate([[-np.inf], np.linspace(public.low, public.high, 12), [np.inf]])
    expected = randomizer.report_probabilities([reading], edges)[0] * len(reports)
    seen = np.histogram(reports, edges)[0]
    error = np.abs(seen - expected) - 1
    spread = np.sqrt(np.maximum(expected * (1 - expected / len(reports)), 1))
    _expect(bool(np.all(error <= (_LIMIT + 1) * spread)), "reports must follow the stated law")


def _check_square(
    randomizer: RangeRandomizer, reading: float, *, reports: NDArray[np.float64]
) -> None:
    try:
        squares = randomizer.decode_square(reports)
    except NotIdentifiable:
        return
    error = _LIMIT * squares.std() / math.sqrt(len(squares))
    rounding = randomizer.domain.step**2 / 4
    _expect(
        -error - 1e-9 <= squares.mean() - reading**2 <= error + rounding + 1e-9,
        "decoded squares must average to the squared reading",
    )


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(f"{promise}.")


def _expect_raises(call: Callable[[], object], promise: str) -> None:
    try:
        call()
    except ValueError:
        return
    raise AssertionError(f"{promise}.")
