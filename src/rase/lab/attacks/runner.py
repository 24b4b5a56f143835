"""Run attacks against a scheme: split the records, provide the declared knowledge, score."""

from collections.abc import Iterable
from typing import Literal

import numpy as np

from rase.errors import DataError
from rase.kernels.words import SeededRandom
from rase.lab.attacks.protocol import Attack, Case, Codes, Flags, Guesses, Knowledge, Unit
from rase.lab.metrics import AttackResult, score_guesses
from rase.lab.panel import Panel
from rase.lab.schemes import Arrival, Release, Scheme, Secret

__all__ = ["SplitKind", "attack_release", "attack_scheme", "case_for"]

SplitKind = Literal["random", "time"]
# The paper's ratio 4:1.
_TRAIN_SHARE = 0.8
_DAY_MS = 86_400_000


def attack_scheme(
    panel: Panel,
    scheme: Scheme,
    *,
    attacks: Iterable[Attack],
    split: SplitKind = "random",
    arrival: Arrival = "fixed",
    seed: int = 0,
    resamples: int = 200,
) -> list[AttackResult]:
    """Sanitise a panel once and run several attacks against it.

    Args:
        panel: The readings.
        scheme: The scheme under attack.
        attacks: The attacks.
        split: How four parts for training and one for the test are chosen: "random", or "time"
            to train on the past and test on the future.
        arrival: Whether devices report in the same sequence every round.
        seed: Of noise, order, split, attack and bootstrap.
        resamples: How many bootstrap samples.

    Raises:
        DataError: If the panel has fewer than two devices, a device without a reading, or too few
            rounds to part.
        ValueError: If ``split`` is unknown.
    """
    panel.check_attackable()
    release, secret = scheme.release(panel, arrival=arrival, rng=SeededRandom(seed).child("lab"))
    return [
        attack_release(
            attack,
            release,
            secret=secret,
            panel=panel,
            scheme=scheme.name,
            split=split,
            seed=seed,
            resamples=resamples,
        )
        for attack in attacks
    ]


def attack_release(
    attack: Attack,
    release: Release,
    *,
    secret: Secret,
    panel: Panel,
    scheme: str,
    split: SplitKind = "random",
    seed: int = 0,
    resamples: int = 200,
) -> AttackResult:
    """Run one attack against one release and score it.

    Args:
        attack: The attack.
        release: What the fusion centre sees.
        secret: Who sent what: training labels for attacks that declare them, and the score.
        panel: The readings: the history for attacks that declare it.
        scheme: The scheme's name.
        split: As for `attack_scheme`.
        seed: Of split, attack and bootstrap.
        resamples: How many bootstrap samples.

    Raises:
        DataError: As for `attack_scheme`.
    """
    panel.check_attackable()
    case = case_for(attack, release, secret=secret, panel=panel, split=split, seed=seed)
    guesses = attack.guess(case)
    return score_guesses(
        _truth(attack, guesses, secret),
        guesses.ranked,
        confidence=guesses.confidence,
        clusters=np.unique(guesses.clusters, return_inverse=True)[1],
        n=panel.n,
        attack=attack.name,
        scheme=scheme,
        split=split,
        seed=seed,
        resamples=resamples,
    )


def case_for(
    attack: Attack,
    release: Release,
    *,
    secret: Secret,
    panel: Panel,
    split: SplitKind = "random",
    seed: int = 0,
) -> Case:
    """Return the input of an attack: the released values and only the declared knowledge.

    Raises:
        DataError: If there are too few rounds to part.
        ValueError: If ``split`` is unknown.
    """
    is_train = _training_cells(attack.unit, split, release, seed)
    knows = attack.knows
    in_training = is_train.any(axis=1, keepdims=True)
    return Case(
        n=panel.n,
        times_ms=release.times_ms,
        values=release.values,
        is_train=is_train,
        seed=seed,
        labels=np.where(is_train, secret.senders, -1) if Knowledge.LABELS in knows else None,
        history=(
            np.where(in_training, panel.values, np.nan) if Knowledge.HISTORY in knows else None
        ),
        randomizer=release.randomizer if Knowledge.MECHANISM in knows else None,
        laws=release.laws if Knowledge.ORDER_LAW in knows else None,
        arrival=secret.arrival if Knowledge.CENTRE in knows else None,
    )


def _truth(attack: Attack, guesses: Guesses, secret: Secret) -> Codes:
    if attack.target == "slot":
        return guesses.slots
    return secret.senders[guesses.rounds, guesses.slots]


def _training_cells(unit: Unit, split: SplitKind, release: Release, seed: int) -> Flags:
    """Choose four fifths: of records, of whole rounds, or of the days of each slot."""
    if split not in ("random", "time"):
        raise ValueError(f'split must be "random" or "time", got {split!r}.')
    shape = release.values.shape
    block = np.arange(shape[0])
    if unit == "day":
        block = np.unique(release.times_ms // _DAY_MS, return_inverse=True)[1]
    count = int(block.max(initial=-1)) + 1
    trained = round(_TRAIN_SHARE * count)
    if not 0 < trained < count:
        raise DataError(
            f"a split of 4:1 needs at least 3 {'days' if unit == 'day' else 'rounds'}, got {count}."
        )
    generator = np.random.default_rng(seed)
    if split == "time":
        is_train = np.arange(count) < trained
    elif unit == "round":
        is_train = generator.permutation(count) < trained
    else:
        cells = generator.permutation(count * shape[1]).reshape(count, shape[1])
        return (cells < round(_TRAIN_SHARE * cells.size))[block]
    return np.broadcast_to(is_train[block][:, np.newaxis], shape).copy()
