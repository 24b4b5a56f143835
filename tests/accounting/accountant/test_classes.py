"""Classes of budgets that hide each other: against enumeration, and against single classes."""

import itertools
import math

import numpy as np
import pytest
from tests.accounting.accountant.test_pair import divergence, random_channel, shuffled_law

from rase import Range
from rase.accounting.accountant.classes import (
    ClassProfile,
    class_laws,
    class_pairs,
    hidden_numbers,
)
from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.blanket import Channel
from rase.laws.ladder import programme_at

PUBLIC = Range(0, 1)
DELTA = 1e-6


def test_small_rounds_of_two_classes_are_never_above_the_bound() -> None:
    """All pairs of a contributor of either class and all readings of the others, 12 channels.

    One class draws from a channel, the other from it mixed with its blanket; the bound is the
    largest over all pairs, and comes within a tenth of the truth.
    """
    rng = np.random.default_rng(11)
    compared, largest = 0, 0.0
    for trial in range(12):
        rows = random_channel(rng, inputs=3, outputs=3)
        least = rows.min(axis=0)
        shape = least / least.sum()
        mixed = rng.uniform(0.1, 0.8)
        kinds = [rows, (1 - mixed) * rows + mixed * shape]
        shares = [float((kind.min(axis=0) / shape).min()) for kind in kinds]
        own = trial % 2
        local = float(np.log(kinds[own].max(axis=0) / kinds[own].min(axis=0)).max())
        others = [(shares[0], 1), (shares[1], 1 + trial % 3 // 2)]
        crowd_kinds = [kinds[0]] + [kinds[1]] * others[1][1]
        pairs = list(itertools.permutations(range(3), 2))
        profiles = [
            ClassProfile(
                local,
                Channel(low=kinds[own][x], middle=kinds[own][x], high=kinds[own][z]),
                shape,
                others,
                delta=DELTA,
            )
            for x, z in pairs
        ]
        for epsilon in (0.0, 0.5 * local):
            bound = max(profile.delta(epsilon) for profile in profiles)
            for (x, z), crowd in itertools.product(
                pairs, itertools.product(range(3), repeat=len(crowd_kinds))
            ):
                known = [kind[o] for kind, o in zip(crowd_kinds, crowd, strict=True)]
                first, second = (shuffled_law([kinds[own][t], *known]) for t in (x, z))
                true = divergence(first, second, epsilon)  # type: ignore[arg-type]
                assert true <= bound + 1e-15
                compared += 1
                largest = max(largest, true / bound)
    assert compared > 1500
    assert largest > 0.9


def test_one_class_is_a_plain_round() -> None:
    """Blocks of numbers of blanket reports cost half a percent of epsilon at most."""
    (law,) = class_laws(PUBLIC, [3.32])
    assert law.programme == programme_at(3.32)
    found = class_pairs(PUBLIC, {3.32: 1000}, delta=DELTA)[3.32]
    plain = shuffled_pair(law, 1000, delta=DELTA)
    assert plain.delta(1.0) <= found.delta(1.0) <= 1.2 * plain.delta(1.0)
    assert plain.epsilon(DELTA) <= found.epsilon(DELTA) <= 1.005 * plain.epsilon(DELTA)
    assert "one rung" in found.theorem


def test_classes_hide_each_other() -> None:
    """Each gives away less than alone, and no less than if the smaller budget were everybody's."""

    def delta_of(budget: float, budgets: dict[float, int], epsilon: float) -> float:
        return class_pairs(PUBLIC, budgets, delta=DELTA)[budget].delta(epsilon)

    both = {1.0: 500, 3.0: 500}
    assert delta_of(3.0, both, 0.45) < DELTA < delta_of(3.0, {3.0: 500}, 1.2)
    together, alone = delta_of(1.0, both, 0.17), delta_of(1.0, {1.0: 500}, 0.17)
    assert delta_of(1.0, {1.0: 1000}, 0.17) < together < DELTA < alone


def test_channels_of_classes_report_the_same_outputs() -> None:
    """Mixed from one rung: the same inputs favour the same outputs, and blankets have one shape."""
    laws = class_laws(PUBLIC, [0.1, 1.0, 3.0])
    assert [law.epsilon for law in laws] == [0.1, 1.0, 3.0]
    blankets = [law.channel.min(axis=0) for law in laws if law.channel is not None]
    assert len(blankets) == 3
    for one in blankets:
        np.testing.assert_allclose(one / one.sum(), blankets[0] / blankets[0].sum(), rtol=1e-9)
    for law in laws:
        assert law.certificate().drawn_epsilon <= law.guarantee.epsilon


def test_numbers_of_hidden_reports_are_counted_downwards() -> None:
    """Blocks hold all the chance but a negligible rest, and each counts as its smallest number."""
    (first, chance), *_ = found = hidden_numbers([(0.3, 400), (0.6, 300)], negligible=1e-12)
    assert math.fsum(chance for _, chance in found) == pytest.approx(1, abs=1e-9)
    mean = math.fsum(number * chance for number, chance in found)
    assert 0.9 * 300 < mean < 300
    assert 0 < first < 220
    assert chance < 1e-9
    assert hidden_numbers([(0.5, 0)], negligible=1e-12) == [(0, 1.0)]


def test_a_budget_without_reports_is_refused() -> None:
    """There must be budgets, and the contributor is one of those with theirs."""
    with pytest.raises(ValueError, match="at least 1 report"):
        class_pairs(PUBLIC, {1.0: 0, 2.0: 5}, delta=DELTA)
    with pytest.raises(ValueError, match="at least one"):
        class_laws(PUBLIC, [])


def test_no_loss_exceeds_the_budget() -> None:
    """At the budget of a class delta is nothing."""
    pair = class_pairs(PUBLIC, {1.0: 2, 3.0: 2}, delta=DELTA)[1.0]
    assert pair.profile.delta(1.0) == 0.0
    assert 0 < pair.profile.delta(0.9) <= 1
