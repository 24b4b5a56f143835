from dataclasses import replace

import numpy as np
import pytest

from rase.domain import Range
from rase.errors import DataError
from rase.kernels.words import SeededRandom
from rase.lab.attacks import ATTACK_NAMES, attack_named
from rase.lab.attacks.forest import ForestAttack, ProfileAttack
from rase.lab.attacks.protocol import Attack, Knowledge
from rase.lab.attacks.runner import SplitKind, attack_scheme, case_for
from rase.lab.panel import Panel
from rase.lab.schemes import scheme_named

DAY_MS = 86_400_000


def quick(name: str) -> Attack:
    """Return the attack of that name, with few trees where it grows some."""
    attack = attack_named(name)
    if isinstance(attack, ForestAttack | ProfileAttack):
        return replace(attack, trees=8)
    return attack


def test_an_attack_is_given_only_what_it_declared(homes: Panel) -> None:
    """Labels, history, mechanism, law and centre are there if declared, and never beyond."""
    release, secret = scheme_named("br", Range(0, 110)).release(homes, rng=SeededRandom(1))
    for attack in map(attack_named, ATTACK_NAMES):
        case = case_for(attack, release, secret=secret, panel=homes)
        given = {
            Knowledge.LABELS: case.labels,
            Knowledge.HISTORY: case.history,
            Knowledge.MECHANISM: case.randomizer,
            Knowledge.ORDER_LAW: case.laws,
            Knowledge.CENTRE: case.arrival,
        }
        known = {knowledge for knowledge, value in given.items() if value is not None}
        assert known == attack.knows, attack.name
        if case.labels is not None:
            assert (case.labels[~case.is_train] == -1).all(), attack.name
        if case.history is not None:
            assert np.isnan(case.history[~case.is_train.any(axis=1)]).all(), attack.name


def test_every_attack_states_its_knowledge_and_cost() -> None:
    """The docstring has a Knowledge part with the cost, and the name is the registry's."""
    for name in ATTACK_NAMES:
        attack = attack_named(name)
        text = type(attack).__doc__ or ""
        assert "Knowledge:" in text, name
        assert "Cost" in text, name
        assert attack.name == name
        assert attack.cost in ("n log n", "n^2", "n^3"), name


@pytest.mark.parametrize("split", ["random", "time"])
def test_four_fifths_are_for_training(split: SplitKind, homes: Panel) -> None:
    """The split is 4:1 in the attack's unit, seeded, and ordered by time where asked."""
    release, secret = scheme_named("raw", Range(0, 110)).release(homes)
    for attack in map(attack_named, ATTACK_NAMES):
        first, again, other = (
            case_for(attack, release, secret=secret, panel=homes, split=split, seed=seed).is_train
            for seed in (1, 1, 2)
        )
        assert first.mean() == pytest.approx(0.8, abs=0.001), attack.name
        assert np.array_equal(first, again), attack.name
        if split == "time":
            assert np.array_equal(first, other), attack.name
            assert first[:480].all(), attack.name
            assert not first[480:].any(), attack.name
        else:
            assert not np.array_equal(first, other), attack.name
            is_whole = (first == first[:, :1]).all()
            assert is_whole == (attack.unit == "round"), attack.name
            # A slot's day is never torn apart.
            days = first.reshape(25, 24, -1)
            assert (days == days[:, :1]).all() == (attack.unit == "day"), attack.name


def test_the_same_seed_gives_the_same_result(homes: Panel, watts: Range) -> None:
    """Noise, split, forest and bootstrap are all drawn from the one seed."""
    runs = [
        attack_scheme(
            homes.first_rounds(120),
            scheme_named("br", watts),
            attacks=[quick("value"), quick("bayes")],
            seed=seed,
        )
        for seed in (3, 3, 4)
    ]
    for first, again, other in zip(*runs, strict=True):
        assert first.macro_recall == again.macro_recall
        assert first.macro_recall != other.macro_recall


def test_undeclared_knowledge_is_refused(homes: Panel, watts: Range) -> None:
    """An attack that reaches for what it did not declare fails loudly."""
    release, secret = scheme_named("br", watts).release(homes, rng=SeededRandom(1))
    bare = case_for(attack_named("profile"), release, secret=secret, panel=homes)
    for name in ("value", "bayes", "mallows_aware"):
        with pytest.raises(ValueError, match="knows must declare"):
            attack_named(name).guess(bare)
    for known in (bare.known_arrival, bare.known_laws):
        with pytest.raises(ValueError, match="knows must declare"):
            known()


def test_bad_panels_are_refused_clearly(watts: Range) -> None:
    """One device, a silent device, too few rounds: a DataError that says what to do."""
    scheme = scheme_named("br", watts)
    days = np.arange(30) * DAY_MS
    values = np.random.default_rng(1).uniform(0, 100, (30, 2))
    silent = values.copy()
    silent[:, 1] = np.nan
    for attack in map(attack_named, ATTACK_NAMES):
        with pytest.raises(DataError, match="two or more"):
            attack_scheme(Panel(days, ["a"], values[:, :1]), scheme, attacks=[attack])
        with pytest.raises(DataError, match="'b'"):
            attack_scheme(Panel(days, ["a", "b"], silent), scheme, attacks=[attack])
        with pytest.raises(DataError, match="at least 3"):
            attack_scheme(Panel(days[:2], ["a", "b"], values[:2]), scheme, attacks=[attack])
        with pytest.raises(ValueError, match="split must be"):
            attack_scheme(
                Panel(days, ["a", "b"], values),
                scheme,
                attacks=[attack],
                split="odd",  # type: ignore[arg-type]
            )


@pytest.mark.uncovered
@pytest.mark.parametrize("scheme", ["raw", "br", "best"])
def test_constant_series_and_gaps_are_handled(scheme: str, watts: Range) -> None:
    """Constant devices and missing readings neither fail nor warn."""
    generator = np.random.default_rng(7)
    values = np.tile(np.array([5.0, 5.0, 50.0, 80.0]), (60, 1))
    values[generator.random(values.shape) < 0.2] = np.nan
    values[17] = np.nan
    panel = Panel(np.arange(60) * (DAY_MS // 4), ["a", "b", "c", "d"], values)
    splits: tuple[SplitKind, ...] = ("random", "time")
    for split in splits:
        results = attack_scheme(
            panel,
            scheme_named(scheme, watts, epsilon=10.0),
            attacks=[quick(name) for name in ATTACK_NAMES],
            split=split,
            arrival="random",
            resamples=10,
        )
        for name, result in zip(ATTACK_NAMES, results, strict=True):
            assert 0 <= result.macro_recall.low <= result.macro_recall.value <= 1, name
            assert result.n == 4, name


@pytest.mark.parametrize("name", ["bayes", "matching", "linkage", "averaging"])
def test_devices_that_read_the_same_cannot_be_told_apart(name: str, watts: Range) -> None:
    """On identical constants, shuffled, nobody beats chance.

    800 records at chance 1/4; 6 deviations, false alarm below 1e-8 each.
    """
    panel = Panel(np.arange(1000), ["a", "b", "c", "d"], np.full((1000, 4), 30.0))
    result = attack_scheme(panel, scheme_named("best", watts), attacks=[attack_named(name)])[0]
    assert abs(result.accuracy - 0.25) < 6 * np.sqrt(0.25 * 0.75 / 800)


def test_matching_breaks_ties_without_looking_at_slots(watts: Range) -> None:
    """Where all likelihoods are equal, an order that was kept does not help it.

    800 records at chance 1/4; 6 deviations, false alarm below 1e-8.
    """
    panel = Panel(np.arange(1000), ["a", "b", "c", "d"], np.full((1000, 4), 30.0))
    result = attack_scheme(panel, scheme_named("raw", watts), attacks=[attack_named("matching")])[0]
    assert abs(result.accuracy - 0.25) < 6 * np.sqrt(0.25 * 0.75 / 800)


def test_unknown_attacks_are_refused() -> None:
    """The registry names what there is."""
    with pytest.raises(ValueError, match="name must be one of value, "):
        attack_named("wishful")


def test_a_device_unseen_in_training_is_still_possible(watts: Range) -> None:
    """Computing attacks treat a newcomer like the average device; forests never name it."""
    values = np.random.default_rng(3).uniform(0, 100, (50, 3))
    values[:40, 2] = np.nan
    panel = Panel(np.arange(50) * DAY_MS, ["a", "b", "c"], values)
    for name in ATTACK_NAMES:
        result = attack_scheme(
            panel, scheme_named("br", watts), attacks=[quick(name)], split="time"
        )[0]
        assert result.recall.shape == (3,)
