"""Rounds followed in one call of the compiled kernels are the rounds that NumPy follows."""

import math

import numpy as np
import pytest
from tests.cases import each_case
from tests.twins import twice

from rase.arrays import Floats
from rase.counts.estimate import Estimate
from rase.domain import Range
from rase.kernels import backend
from rase.series.bank import FilterBank
from rase.series.families import Family
from rase.series.models import edges_grid, seen_rows
from rase.series.smoother import LookingBack, smooth_record
from rase.series.tracker import Tracker

LOW, WIDTH = -20.0, 500.0
ROUNDS = 330


@pytest.fixture(autouse=True)
def both(native: backend.Compiled) -> None:
    """Need both twins."""


def rounds_of(kind: str) -> Floats:
    """Return rounds as `FilterBank.follow` takes them, with a cycle of 17 rounds.

    Args:
        kind: "even": one after the other, of as many; "gaps": some are missing, some are of few;
            "wild": the noise is far wider than the range, and the mean jumps.
    """
    rng = np.random.default_rng(2026)
    even = kind == "even"
    steps = np.ones(ROUNDS) if even else rng.choice([1, 1, 1, 2, 7], size=ROUNDS)
    times = 1.7e9 + 900.0 * np.cumsum(steps)
    values = 80 + 30 * np.sin(2 * math.pi * np.arange(ROUNDS) / 17) + 15 * rng.normal(size=ROUNDS)
    noise = (15 * (1 + 0.05 * rng.normal(size=ROUNDS))) ** 2
    if kind == "wild":
        values[ROUNDS // 2 :] += 300
        values, noise = values + 2000 * rng.normal(size=ROUNDS), noise + 2000.0**2
    sizes = np.full(ROUNDS, 100) if even else rng.integers(5, 101, size=ROUNDS)
    degrees = np.where(rng.random(ROUNDS) < 0.5, math.inf, 40.0)
    spreads = np.where(rng.random(ROUNDS) < 0.9, 400 + 300 * rng.normal(size=ROUNDS), math.nan)
    return np.stack([times, values, noise, sizes, degrees, spreads], axis=1)


def numbers_of(bank: FilterBank, rounds: Floats) -> Floats:
    """Return all that a bank says of rounds, and how well each model predicted them."""
    said = bank.follow(rounds)
    return np.concatenate([np.nan_to_num(said, posinf=0.0).ravel(), bank.evidence[0]])


@each_case("kind", ["even", "gaps", "wild"])
def test_a_bank_of_filters_says_the_same(kind: str) -> None:
    """Beliefs, evidence and all that is learnt agree to 1e-11 over hundreds of rounds."""
    rounds, known = rounds_of(kind), list[Floats]()

    def follow() -> Floats:
        bank = FilterBank(LOW, WIDTH)
        found = numbers_of(bank, rounds)
        assert bank._cycles[0].is_known == (kind == "even")
        state = np.frombuffer(bank.to_bytes()[len(bank.to_bytes()) % 8 :], "<f8")
        known.append(state[np.isfinite(state)])
        return found

    compiled, by_numpy = twice(follow)
    np.testing.assert_allclose(compiled, by_numpy, rtol=1e-11)
    np.testing.assert_allclose(known[0], known[1], rtol=1e-8, atol=1e-9 * WIDTH)


@each_case("kind", ["even", "gaps"])
def test_many_rounds_at_once_are_the_same_to_the_last_bit(kind: str) -> None:
    """However rounds are cut into calls, what is said and what is learnt is the same."""
    rounds, whole, single = rounds_of(kind), FilterBank(LOW, WIDTH), FilterBank(LOW, WIDTH)
    at_once = whole.follow(rounds)
    apart = [single.follow(rounds[place : place + 1]) for place in range(ROUNDS)]
    assert at_once.tolist() == np.concatenate(apart).tolist()
    assert whole.to_bytes() == single.to_bytes()


def test_a_tracker_follows_rounds_at_once_as_one_by_one() -> None:
    """Estimates of `follow` are those of `update`, to the last bit, with windows and without."""
    rounds = rounds_of("even")[:100]
    means = [
        Estimate(value, math.sqrt(noise), n=int(n), method="m", target="t", degrees_of_freedom=df)
        for _, value, noise, n, df, _ in rounds.tolist()
    ]
    spreads = [None if math.isnan(one) else one for one in rounds[:, 5].tolist()]
    for window in (0, 5):
        reach = Range(LOW, LOW + WIDTH)
        whole, single = Tracker(reach, window=window), Tracker(reach, window=window)
        found = whole.follow(rounds[:, 0].tolist(), means, spreads=spreads)
        for (time_s, *_), mean, spread, one in zip(
            rounds.tolist(), means, spreads, found, strict=True
        ):
            assert one.estimate == single.update(time_s, mean, spread=spread)
            assert one.window == single.mean_of_last()
        assert whole.to_bytes() == single.to_bytes()
    assert whole.follow([], [], spreads=[]) == []


def test_windows_and_revisions_say_the_same() -> None:
    """What is remembered of rounds for windows and for looking back agrees, missing ones too."""
    rounds = rounds_of("gaps")

    def windows() -> Floats:
        tracker, found = Tracker(Range(LOW, LOW + WIDTH), window=8, every_s=900.0, lag=24), []
        for time_s, value, noise, n, _, _ in rounds.tolist():
            mean = Estimate(value, math.sqrt(noise), n=int(n), method="m", target="t")
            tracker.update(time_s, mean, members=100)
            window = tracker.mean_of_last()
            found += [] if window is None else [window.value, window.standard_error]
        found += [
            part for _, one in tracker.look_back() for part in (one.value, one.standard_error)
        ]
        return np.array(found)

    compiled, by_numpy = twice(windows)
    np.testing.assert_allclose(compiled, by_numpy, rtol=1e-10)


def test_records_are_smoothed_the_same() -> None:
    """Looking back over a whole record agrees to 1e-10."""
    rounds = rounds_of("even")

    def smooth() -> Floats:
        tracker = Tracker(Range(LOW, LOW + WIDTH))
        means = [
            Estimate(value, math.sqrt(noise), n=int(n), method="m", target="t")
            for _, value, noise, n, _, _ in rounds.tolist()
        ]
        times = rounds[:, 0].tolist()
        filtered = [one.estimate for one in tracker.follow(times, means, spreads=[None] * ROUNDS)]
        found = smooth_record(times, means, filtered=filtered, evidence=tracker.evidence)
        assert sum(one.method == "smoothed" for one in found) > ROUNDS / 2
        return np.array([(one.value, one.standard_error) for one in found])

    compiled, by_numpy = twice(smooth)
    np.testing.assert_allclose(compiled, by_numpy, rtol=1e-10)


def test_a_family_goes_forward_and_backward_the_same() -> None:
    """Surprises, their variances, gains, and the way back, with rounds pending at both ends."""
    times = 1.7e9 + 900.0 * np.cumsum(np.random.default_rng(1).choice([1, 1, 5], size=61))
    passed = np.diff(times, prepend=times[0] + 1)
    rounds = np.stack([passed, np.sin(times), 1 + np.cos(times) ** 2, np.full(61, 0.3)], axis=1)
    seen, grid = seen_rows(times)[1], edges_grid()

    def there_and_back() -> Floats:
        family = Family(grid, 0.0, 1.0)
        family.filter(rounds[:5], seen[:5], gains=np.empty(0))
        gains = np.empty((56, family.count, family.size))
        surprises, totals = family.filter(rounds[5:], seen[5:], gains=gains)
        back = LookingBack(family.count, family.size).go_through(
            rounds[5:],
            seen[5:],
            lasting_s=grid.lasting_s,
            surprises=surprises,
            totals=totals,
            gains=gains,
        )
        return np.concatenate([one.ravel() for one in (surprises, totals, gains, *back)])

    compiled, by_numpy = twice(there_and_back)
    np.testing.assert_allclose(compiled, by_numpy, rtol=1e-11, atol=1e-13)


def test_arrays_of_wrong_sizes_are_refused(native: backend.Compiled) -> None:
    """No array is read or written beyond its end, whichever is too short or misnumbered."""
    family, empty = Family(edges_grid(), 0.0, 1.0), np.empty(0)
    rounds, seen = np.ones((3, 4)), np.ones((3, family.size))
    out = np.empty((3, family.count))
    native.filter_rounds(family.arrays, rounds, seen, out, out.copy(), empty)
    wrong = [
        (family.arrays, rounds, seen[:2], out, out.copy(), empty),
        (family.arrays, rounds, seen, out[:2], out.copy(), empty),
        (family.arrays, rounds, seen, out, out.copy(), np.empty(4)),
        (family.arrays[:-1], rounds, seen, out, out.copy(), empty),
        ((*family.arrays[:-1], 8), rounds, seen, out, out.copy(), empty),
        ((*family.arrays[:-1], -1), rounds, seen, out, out.copy(), empty),
        ((family.arrays[1], *family.arrays[1:]), rounds, seen, out, out.copy(), empty),
    ]
    for arguments in wrong:
        with pytest.raises(ValueError, match="sizes"):
            native.filter_rounds(*arguments)
    with pytest.raises(ValueError, match="sizes"):
        native.look_back(*[np.ones(4)] * 10)
    bank = FilterBank(0.0, 1.0)
    smooth, edges = seen_rows(np.array([60.0]))
    families = tuple(one.arrays for one in bank._families)
    known, said, given = np.ones(16), np.empty(9), np.ones(8)
    last = (known, bank._weights, bank.evidence, given, said, empty)
    parts = bank._fixed[3].copy()
    parts[0] = 6
    models = (*bank._fixed[:3], parts, bank._fixed[4])
    for fixed, shown, arrays in [
        (models, (smooth, edges, empty), last),
        (bank._fixed[:4], (smooth, edges, empty), last),
        (bank._fixed, (smooth, edges[:, 1:], empty), last),
        (bank._fixed, (smooth, edges, empty), (known[1:], *last[1:])),
        (bank._fixed, (smooth, edges, empty), (*last[:3], np.ones(9), said, empty)),
        (bank._fixed, (smooth, edges, empty), (*last[:4], np.empty(8), empty)),
        (bank._fixed, (smooth, edges, empty), (*last[:5], np.empty(5))),
    ]:
        with pytest.raises(ValueError, match="sizes"):
            native.follow_rounds(families, fixed, shown, *arrays)
