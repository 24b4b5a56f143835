"""What is true of the schemes, with intervals that do not overlap, on a small made fleet."""

from dataclasses import replace

import numpy as np
import pytest

from rase.domain import Range
from rase.kernels.words import SeededRandom
from rase.lab.attacks import attack_named
from rase.lab.attacks.averaging import AveragingAttack, error_by_rounds, mean_posterior
from rase.lab.attacks.forest import ForestAttack
from rase.lab.attacks.range import RangeAttack
from rase.lab.attacks.runner import SplitKind, attack_scheme
from rase.lab.metrics import AttackResult
from rase.lab.panel import Panel
from rase.lab.schemes import scheme_named
from rase.laws.windows import Duchi

SHUFFLED = ("laplace-fisher", "best", "rase")


def attacked(panel: Panel, attack: str, scheme: str, **options: float) -> AttackResult:
    """Run one attack by name against a scheme by name; 16 trees tell as much of single records."""
    chosen_attack = attack_named(attack)
    if isinstance(chosen_attack, ForestAttack):
        chosen_attack = replace(chosen_attack, trees=16)
    split: SplitKind = "time" if attack == "value_time" else "random"
    chosen = scheme_named(scheme, Range(0, 110), **{"epsilon": 10.0} | options)  # type: ignore[arg-type]
    return attack_scheme(panel, chosen, attacks=[chosen_attack], seed=2026, split=split)[0]


def is_chance(result: AttackResult) -> bool:
    """Say whether accuracy lies within 6 deviations of chance (false alarm below 1e-8)."""
    spread = np.sqrt(result.chance * (1 - result.chance) / result.records)
    return bool(abs(result.accuracy - result.chance) < 6 * spread)


@pytest.mark.uncovered
def test_profiles_show_the_papers_ordering(homes: Panel) -> None:
    """Raw is far above BR, and BR above every shuffle, which is at chance."""
    raw, noisy = (attacked(homes, "profile", name, epsilon=4.0) for name in ("raw", "br"))
    assert noisy.macro_recall.is_below(raw.macro_recall)
    for name in SHUFFLED:
        shuffled = attacked(homes, "profile", name, epsilon=4.0)
        assert shuffled.macro_recall.is_below(noisy.macro_recall)
        assert is_chance(shuffled)


@pytest.mark.uncovered
@pytest.mark.parametrize("attack", ["value", "bayes"])
def test_without_a_position_a_shuffle_changes_nothing(homes: Panel, attack: str) -> None:
    """Noise lowers the attack on single values; the shuffle leaves it where it was."""
    raw, noisy = (attacked(homes, attack, name, epsilon=4.0) for name in ("raw", "br"))
    shuffled = attacked(homes, attack, "rase", epsilon=4.0)
    assert noisy.macro_recall.is_below(raw.macro_recall)
    spread = np.sqrt(noisy.accuracy * (1 - noisy.accuracy) * 2 / noisy.records)
    assert abs(noisy.accuracy - shuffled.accuracy) < 6 * spread


@pytest.mark.parametrize("attack", ["slot", "linkage"])
def test_what_follows_slots_falls_to_chance_under_a_uniform_order(
    homes: Panel, attack: str
) -> None:
    """Certain or strong without a shuffle, chance with one."""
    kept = attacked(homes, attack, "br")
    assert kept.macro_recall.low > 5 * kept.chance
    for name in SHUFFLED:
        shuffled = attacked(homes, attack, name)
        assert shuffled.macro_recall.is_below(kept.macro_recall)
        assert is_chance(shuffled)


@pytest.mark.uncovered
def test_mallows_gives_the_order_away_whatever_the_noise(homes: Panel) -> None:
    """At alpha 30 who knows centre and theta succeeds far above the uniform order's victim."""
    for epsilon in (0.1, 4.0):
        few, many = (
            attacked(homes, "mallows_aware", "br-mallows", epsilon=epsilon, group_count=count)
            for count in (1, 4)
        )
        uniform = attacked(homes, "mallows_aware", "rase", epsilon=epsilon)
        assert uniform.macro_recall.is_below(few.macro_recall)
        assert few.macro_recall.is_below(many.macro_recall)
        assert many.macro_recall.low > 0.9
    assert is_chance(attacked(homes, "mallows_aware", "rase", epsilon=0.1))


def test_stronger_attackers_are_stronger(homes: Panel) -> None:
    """On shuffled raw values the whole round tells more than one value at a time."""
    alone, joint = (attacked(homes, name, "raw") for name in ("bayes", "matching"))
    assert alone.macro_recall.is_below(joint.macro_recall)


@pytest.mark.parametrize("attack", ["value", "value_time", "value_slot", "slot"])
def test_the_forests_run_and_beat_chance_where_they_may(homes: Panel, attack: str) -> None:
    """Without noise and shuffle every feature set tells devices apart."""
    result = attacked(homes, attack, "raw")
    assert result.is_above_chance
    assert result.top_k[5] >= result.top_k[3] >= result.top_k[1]


def test_a_random_split_with_time_falls_below_chance(homes: Panel) -> None:
    """The paper's recall below 1/n: at the time of a test record the others were trained on."""
    few = homes.first_rounds(400)
    chosen = scheme_named("rase", Range(0, 110), epsilon=0.1)
    result = attack_scheme(few, chosen, attacks=[attack_named("value_time")], seed=2026)[0]
    assert result.accuracy < result.chance
    assert result.macro_recall.high < result.chance


def test_errors_of_averages_fall_like_the_root_of_rounds(homes: Panel, watts: Range) -> None:
    """From 6 to 600 rounds a device's mean is known 10 times better; behind a shuffle it is not.

    The ratio of two root mean squares over 16 devices has a relative deviation below 0.25, so
    bounds of 3.5 and 30 are more than 5 deviations of its logarithm away; a shuffle fails them.
    """
    seen, hidden = (
        error_by_rounds(
            homes,
            scheme_named(name, watts, epsilon=10.0),
            rounds=[6, 600],
            rng=SeededRandom(2026),
        )
        for name in ("br", "rase")
    )
    assert 3.5 < seen[0] / seen[1] < 30
    assert hidden[0] / hidden[1] < 3.5
    # What is left is how far devices are from the mean of all.
    spread = homes.values.mean(axis=0).std()
    assert hidden[1] == pytest.approx(spread, rel=0.3)


def test_raw_averages_have_no_error(homes: Panel, watts: Range) -> None:
    """Without noise and shuffle the mean is the mean."""
    assert error_by_rounds(homes, scheme_named("raw", watts), rounds=[1, 5]).tolist() == [0, 0]


def test_averages_refuse_what_they_cannot_follow(homes: Panel, watts: Range) -> None:
    """Gaps and rounds beyond the panel are refused."""
    scheme = scheme_named("raw", watts)
    with pytest.raises(ValueError, match="between 1 and 600"):
        error_by_rounds(homes, scheme, rounds=[601])
    with pytest.raises(ValueError, match="every round"):
        error_by_rounds(Panel([0], ["a", "b"], [[1, np.nan]]), scheme, rounds=[1])


def test_the_posterior_of_a_mean_is_honest() -> None:
    """Of 400 means from one-bit reports, intervals of 2 deviations cover 90 to 99 %.

    The count deviates by 0.011, so the bounds are more than 4 deviations from 95.4 %; standard
    errors 30 % too small would cover 84 %.
    """
    noise = Duchi(1.0, Range(0, 10))
    reports = noise.randomize(np.full((300, 400), 3.0), rng=SeededRandom(2026))
    means, errors = mean_posterior(reports, noise)
    covered = np.mean(np.abs(means - 3) < 2 * errors)
    assert 0.90 < covered < 0.99
    assert np.mean(np.abs(means - 3) < 0.7 * 2 * errors) < 0.90


def test_averaging_names_devices_by_their_mean(watts: Range) -> None:
    """Levels 6.7 W apart are told from 120 noisy reports; behind a shuffle they are not.

    The noise of a mean is 1.5 W, so a slot is named rightly with probability 0.97.
    """
    generator = np.random.default_rng(2026)
    values = np.linspace(5, 105, 16) + generator.normal(0, 5, (600, 16))
    panel = Panel(np.arange(600), [f"d{i}" for i in range(16)], values)
    kept, hidden = (
        attack_scheme(
            panel, scheme_named(name, watts, epsilon=10.0), attacks=[AveragingAttack()], seed=2026
        )[0]
        for name in ("br", "rase")
    )
    assert kept.macro_recall.low > 5 * kept.chance
    assert hidden.macro_recall.is_below(kept.macro_recall)
    assert is_chance(hidden)


def test_a_column_without_reports_is_known_least() -> None:
    """Its mean is that of all, and its error the spread of all."""
    means, errors = mean_posterior(np.array([[1.0, np.nan], [3.0, np.nan]]), None)
    assert means.tolist() == [2.0, 2.0]
    assert errors.tolist() == [1.0, 1.0]


def test_extreme_devices_are_known_by_their_range(watts: Range) -> None:
    """A heater among lamps is named with confidence, noise or not; lamps get no answer."""
    generator = np.random.default_rng(2026)
    values = generator.uniform(0, 10, (200, 20))
    values[:, 7] = generator.uniform(0, 100, 200)
    panel = Panel(np.arange(200), [f"d{i}" for i in range(20)], values)
    for scheme in ("raw", "best"):
        result = attack_scheme(
            panel,
            scheme_named(scheme, watts, epsilon=10.0),
            attacks=[RangeAttack(threshold=60.0)],
        )[0]
        assert result.confident_right > 0.9 * result.confident > 0
        assert result.precision[7] > 0.9
        assert result.recall[7] > 0.2
        assert result.guessed < 0.1 * result.records
    usual = attack_scheme(panel, scheme_named("raw", watts), attacks=[RangeAttack()])[0]
    assert 0 < usual.guessed < usual.records
