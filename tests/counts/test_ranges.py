"""Which range serves a mean best, from square-wave reports."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.cases import each_case

from rase.arrays import Floats
from rase.counts.ranges import RangeProbe, advise_range, latest_ranges
from rase.counts.shapes import Shapes, shapes_of
from rase.domain import Range
from rase.kernels.words import SeededRandom
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import auto
from rase.laws.windows import Duchi, SquareWave

WIDE = Range(0, 1000)


def probes_of(readings: Floats, reach: Range, *, epsilon: float = 2.0) -> list[RangeProbe]:
    """Return one probe of each row."""
    wave = SquareWave(epsilon, reach)
    return [
        RangeProbe.of(wave.randomize(row, rng=SeededRandom(2026).child(place)), randomizer=wave)
        for place, row in enumerate(readings)
    ]


def normal(rounds: int, n: int, *, mean: float, spread: float, seed: int = 1) -> Floats:
    """Return normal readings, one round a row."""
    return np.random.default_rng(seed).normal(mean, spread, (rounds, n))


def test_a_range_ten_times_too_wide_is_narrowed_to_where_the_readings_are() -> None:
    """Readings of 300 ± 20 in 0 to 1000 lead to a narrow range around them."""
    probes = probes_of(normal(16, 200, mean=300, spread=20), WIDE)
    advice = advise_range(probes, limits=WIDE, n=200, noise=0.25, rng=SeededRandom(1))
    best = advice.recommended
    assert best.low < 300 < best.high
    assert best.high - best.low < 250
    assert best.error < 0.5 * advice.present.error
    assert best.error == pytest.approx(np.hypot(best.noise, best.clip_error))
    assert abs(best.clip_bias.value) < 4 * best.noise
    assert (advice.present.low, advice.present.high) == (0, 1000)
    assert (advice.n, advice.rounds, advice.averaged) == (200, 16, 1)
    low, middle, high = (one.value for one in advice.quantiles)
    assert low < middle < high
    assert middle == pytest.approx(300, abs=30)
    assert str(advice).startswith(f"Range {best.low:g} to {best.high:g}: expected error")
    assert advice.limits == (0, 1000)
    assert str(advice).endswith("instead of almost nothing, counting readings of 0 to 1000.")


def test_what_clipping_adds_is_told_of_the_present_range_too() -> None:
    """Readings of 300 ± 20 clipped to 280 lose about 22 on average, whoever asks for that range."""
    readings = normal(16, 400, mean=300, spread=20)
    probes = probes_of(readings, WIDE, epsilon=4.0)
    advice = advise_range(
        probes,
        limits=WIDE,
        n=400,
        noise=0.25,
        present=Range(0, 280),
        rng=SeededRandom(1),
    )
    truth = float((readings.clip(0, 280) - readings).mean())
    bias = advice.present.clip_bias
    assert bias.value == pytest.approx(truth, abs=5 * bias.standard_error)
    assert bias.standard_error < 0.3 * abs(truth)
    assert advice.present.clip_error == pytest.approx(abs(truth), rel=0.3)
    assert advice.present.high == 280


def test_a_range_that_clips_grows_up_to_the_limits() -> None:
    """Readings beyond a narrow range stand at its end, and the range is widened towards them."""
    narrow = Range(0, 100)
    probes = probes_of(normal(16, 200, mean=300, spread=20), narrow)
    advice = advise_range(probes, limits=WIDE, n=200, noise=0.25, rng=SeededRandom(1))
    assert advice.recommended.high > 150
    assert 0 <= advice.recommended.low < advice.recommended.high <= 1000
    kept = advise_range(probes, limits=narrow, n=200, noise=0.25, rng=SeededRandom(1))
    assert kept.recommended.high == 100


def test_heavy_tails_from_a_limit_keep_the_limit() -> None:
    """Loads of which most stand near 0 get a range from 0 on, below their largest reading."""
    chance = np.random.default_rng(3)
    loads = np.where(chance.random((24, 300)) < 0.7, 0.0, chance.lognormal(3, 1, (24, 300)))
    advice = advise_range(
        probes_of(loads, WIDE), limits=WIDE, n=300, noise=0.25, rng=SeededRandom(1)
    )
    assert advice.recommended.low == 0
    assert advice.recommended.high < 600
    assert advice.recommended.clip_bias.value <= 0


def test_readings_that_move_together_need_a_wider_range() -> None:
    """A fleet whose mean moves is clipped as a whole in some rounds; one of own minds is not."""
    chance = np.random.default_rng(4)
    own = chance.normal(500, 60, (32, 150))
    shared = chance.normal(500, 60, (32, 1)) + np.zeros(150)
    reach = Range(200, 800)
    found = [
        advise_range(
            probes_of(readings, reach, epsilon=4),
            limits=WIDE,
            n=150,
            noise=2.0,
            rng=SeededRandom(1),
        ).recommended
        for readings in (own, shared)
    ]
    assert found[1].high - found[1].low > found[0].high - found[0].low


def test_probes_of_several_ranges_are_taken_together() -> None:
    """What a wide and a narrow range showed agrees, and the present one is the latest."""
    readings = normal(8, 200, mean=300, spread=20)
    probes = probes_of(readings, WIDE) + probes_of(readings, Range(200, 400))
    advice = advise_range(probes, limits=WIDE, n=200, noise=0.25, rng=SeededRandom(1))
    assert 200 <= advice.recommended.low < 300 < advice.recommended.high <= 400
    assert (
        advice.present.error
        < advise_range(
            probes[:8], limits=WIDE, n=200, noise=0.25, rng=SeededRandom(1)
        ).present.error
    )


@each_case("make", [auto, Duchi])
def test_rounds_that_do_not_probe_are_learnt_from(
    make: Callable[[float, Range], RangeRandomizer],
) -> None:
    """Reports of mechanisms for means tell more of the middle than few probes alone do."""
    readings = normal(40, 60, mean=300, spread=20)
    probes = probes_of(readings[:2], WIDE, epsilon=1.0)
    plain = make(1.0, WIDE)
    more = [
        RangeProbe.of(plain.randomize(row, rng=SeededRandom(7).child(place)), randomizer=plain)
        for place, row in enumerate(readings[2:])
    ]
    alone, both = (
        advise_range(told, limits=WIDE, n=60, noise=1.0, rng=SeededRandom(1))
        for told in (probes, probes + more)
    )
    assert both.recommended.low < 300 < both.recommended.high
    assert both.quantiles[1].standard_error < 0.8 * alone.quantiles[1].standard_error


def test_what_is_clipped_moves_with_the_mean() -> None:
    """A shape knows its variance, its quantiles and what follows the mean beyond both ends."""
    shapes = Shapes(
        np.array([0.0, 10.0, 20.0]),
        np.array([[0.5, 0.25, 0.25]]),
        np.array([[1.0, 1.0, 2.0]]),
    )
    ends = np.array([5.0, 15.0])
    assert shapes.moved_below(ends).tolist() == [[0.5, 0.75]]
    assert shapes.moved_above(ends).tolist() == [[0.75, 0.5]]
    assert shapes.variances().tolist() == [68.75]
    assert shapes.quantiles((0.1, 0.625, 0.75, 1.0)).tolist() == [[0.0, 10.0, 15.0, 20.0]]


def test_the_widest_range_is_remembered() -> None:
    """Of many ranges the latest eight and the widest stay."""
    readings = np.full((1, 20), 50.0)
    probes = [
        probe
        for high in (1000, *range(100, 220, 10))
        for probe in probes_of(readings, Range(0, high))
    ]
    kept = [probe.randomizer.domain.high for probe in latest_ranges(probes)]
    assert kept == [1000.0, *map(float, range(140, 220, 10))]
    assert latest_ranges([]) == []


def test_one_round_is_enough_to_begin() -> None:
    """A single probe, of readings that are all alike, gives advice and no alarm."""
    advice = advise_range(
        probes_of(np.full((1, 50), 10.0), WIDE), limits=WIDE, n=50, noise=1.0, rng=SeededRandom(1)
    )
    assert 0 <= advice.recommended.low < advice.recommended.high <= 1000


def test_a_choice_narrows_at_most_eightfold() -> None:
    """However sure the probes are, the range stays wide enough to be probed again."""
    probes = probes_of(np.full((8, 5000), 500.0), WIDE, epsilon=8)
    advice = advise_range(probes, limits=WIDE, n=5000, noise=1.0, rng=SeededRandom(1))
    assert advice.recommended.high - advice.recommended.low >= 1000 / 8


def test_readings_that_never_change_do_not_narrow_the_grid_below_floats() -> None:
    """What is recommended is a range that is accepted, even next to the narrowest there is."""
    public = Range(1, 1 + 4e-10)
    probes = probes_of(np.full((8, 200), 1 + 2e-10), public, epsilon=6.0)
    best = advise_range(probes, limits=public, n=200, noise=0.25, rng=SeededRandom(1)).recommended
    assert best.high - best.low < public.width
    Range(best.low, best.high)


def test_unusable_arguments_are_refused() -> None:
    """Each argument is named in its refusal."""
    probes = probes_of(np.full((1, 5), 10.0), WIDE)
    with pytest.raises(ValueError, match="probes must hold at least one probing round"):
        advise_range([], limits=WIDE, n=5, noise=1.0)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        advise_range(probes, limits=WIDE, n=0, noise=1.0)
    with pytest.raises(ValueError, match="noise must be finite and greater than 0, got 0"):
        advise_range(probes, limits=WIDE, n=5, noise=0.0)


@each_case("kind", ["normal", "from below", "from above"])
def test_planted_shapes_are_found(kind: str) -> None:
    """From 200,000 exact readings the mean and a tail come out within 1 % of the width."""
    chance = np.random.default_rng(5)
    edges = np.linspace(0, 100, 51)
    far = np.where(chance.random(200_000) < 0.3, 0.0, chance.lognormal(2.5, 0.6, 200_000))
    readings = {
        "normal": chance.normal(40, 10, 200_000),
        "from below": far,
        "from above": 100 - far,
    }
    planted = readings[kind].clip(0, 100)
    inner = planted[(planted > 0) & (planted < 100)]
    counts = np.concatenate(
        [
            [np.count_nonzero(planted <= 0)],
            np.histogram(inner, edges)[0],
            [np.count_nonzero(planted >= 100)],
        ]
    )

    def likelihood(masses: Floats) -> Floats:
        found: Floats = np.log(np.maximum(masses, 1e-9)) @ (counts / 100)
        return found

    shapes = shapes_of(edges, likelihood, chance=np.random.default_rng(1))
    assert np.allclose(shapes.masses.sum(axis=1), 1)
    mean = float((shapes.masses @ shapes.points).mean())
    assert mean == pytest.approx(planted.mean(), abs=1)
    assert mean != pytest.approx(1.3 * planted.mean(), abs=1)
    lost = float(shapes.lost_above(np.array([60.0])).mean())
    assert lost == pytest.approx(np.maximum(planted - 60, 0).mean(), abs=1)
