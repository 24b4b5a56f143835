"""A model tries to isolate one device through labels, batches, carried rounds and differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fusion.conftest import CAMPAIGN
from tests.fusion.test_parts import STATES
from tests.tables.test_labels import isolated

from rase.arrays import Places
from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.counts.shares import shares
from rase.fusion import parts
from rase.fusion.mechanism import counts_of
from rase.fusion.parts import estimate_parts, split_labels
from rase.laws.response import CategoryRandomizer
from rase.shuffler.release import merge_labels

K_MIN = 4
LABELLED = replace(
    CAMPAIGN, mechanism="optimal", k_min=K_MIN, labels=("a", "b", "c"), carry_rounds=2
)

# Answers about states: a share is of all reports of its label, never of those in the state.
OF_STATES = replace(STATES, k_min=K_MIN, labels=LABELLED.labels)


@dataclass(frozen=True)
class Round:
    """What reaches the shuffler in a round.

    Args:
        labels: The label of each device that reports, by device; 4 was never declared.
        keys: For which of two keys of the fusion centre it was sealed: each is a batch.
        refused: The devices whose report turns out to be none.
        is_outage: Whether what came waits for the next round, as carried reports do.
    """

    labels: Sequence[int]
    keys: Sequence[int]
    refused: frozenset[int]
    is_outage: bool


rounds = st.lists(
    st.builds(
        Round,
        st.lists(st.sampled_from([0, 1, 1, 1, 2, 2, 3, 4]), min_size=1, max_size=25),
        st.lists(st.sampled_from([0, 0, 0, 1]), min_size=25, max_size=25),
        st.frozensets(st.integers(0, 24), max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


def released(happened: Sequence[Round]) -> tuple[list[frozenset[int]], int]:
    """Return the reports behind each answer of some rounds, and how many reports there were.

    Device d is in state d modulo 3. Of a share it is the answer itself that says of how many
    reports it is: where these are not all of its label, they are those in its state.

    A report is numbered once, whatever round it is released in: windows, periods and differences
    are sums over rounds, so whoever combines them combines these sets.
    """
    sets: list[frozenset[int]] = []
    made = 0
    waiting: list[tuple[int, int, int, bool]] = []
    for one in happened:
        for device, label in enumerate(one.labels):
            waiting.append((made, label, one.keys[device], device in one.refused))
            made += 1
        if one.is_outage:
            continue
        came: list[tuple[int, int]] = []
        left = []
        for key in (0, 1):
            batch = [each for each in waiting if each[2] == key]
            if len(batch) < K_MIN:
                # Too few of one key wait for company, and are never sent on by themselves.
                left += batch
                continue
            merged = merge_labels([label for _, label, _, _ in batch], k_min=K_MIN)
            came += [
                (number, label)
                for (number, _, _, is_bad), label in zip(batch, merged, strict=True)
                if not is_bad
            ]
        waiting = left
        if len(came) < K_MIN:
            continue
        places = np.array([number for number, _ in came], dtype=np.int64)
        labels = np.array([label for _, label in came], dtype=np.uint8)
        by_label = split_labels(LABELLED, places, np.zeros(len(came), np.uint8), labels)
        sets.append(frozenset(places.tolist()))
        own = {label: counts.places for label, counts in by_label.items()}
        sets += [frozenset(one.tolist()) for one in own.values()]
        sets += behind_shares({"": places, **own})
    return sets, made


def behind_shares(own: Mapping[str, Places]) -> list[frozenset[int]]:
    """Return the reports behind each share of a round, from the reports of each label."""
    kinds = len(OF_STATES.categories)
    counts = {
        label: counts_of(OF_STATES, numbers % kinds, np.zeros(len(numbers), np.uint8))
        for label, numbers in own.items()
    }
    whole = counts.pop("")
    found = []
    for key, share in estimate_parts(OF_STATES, whole, counts).items():
        behind = own[key.label]
        if share.n != len(behind):
            behind = behind[behind % kinds == OF_STATES.categories.index(key.category)]
        assert share.n == len(behind)
        found.append(frozenset(behind.tolist()))
    return found


@given(rounds)
@settings(max_examples=150)
def test_no_combination_of_answers_is_about_a_few(happened: list[Round]) -> None:
    """Whatever is added up or subtracted of rounds, labels, states, windows and periods."""
    sets, count = released(happened)
    assert all(len(one) >= K_MIN for one in sets)
    assert not isolated(sets, count, K_MIN)


@pytest.mark.parametrize("broken", ["merging", "the rest", "states"])
def test_the_model_finds_a_way_where_the_rule_is_broken(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels unmerged, those below k_min withheld beside a total, states of their own reports."""

    def unmerged(counts: dict[int, int], *, k_min: int, other: int) -> dict[int, int]:
        return {
            label: label if broken == "merging" or count >= k_min else other
            for label, count in counts.items()
        }

    def of_each(counts: Counts, *, randomizer: CategoryRandomizer) -> dict[str, Estimate]:
        sizes = dict(zip(counts.places.tolist(), counts.counts.tolist(), strict=True))
        return {
            name: replace(share, n=sizes[place])
            for place, (name, share) in enumerate(shares(counts, randomizer=randomizer).items())
            if place in sizes
        }

    if broken == "states":
        monkeypatch.setattr(parts, "shares", of_each)
    else:
        monkeypatch.setattr(parts, "merge_small", unmerged)
    rng, found = np.random.default_rng(1), 0
    for _ in range(200):
        labels = rng.choice(4, size=20, p=[0.1, 0.4, 0.4, 0.1]).tolist()
        refused = frozenset(rng.choice(20, size=3, replace=False).tolist())
        sets, count = released([Round(labels, [0] * 20, refused, is_outage=False)])
        found += isolated(sets, count, K_MIN)
    assert found
