"""The paper's attacker: a Random Forest that learns senders from labelled released records.

The other modules of this package say which features it sees. The attack `profile` sees the daily
profile of a slot and is scored by slot: the set-up in which the paper's ordering raw >> BR >
shuffled appears.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rase.errors import DataError
from rase.lab.attacks.protocol import Case, Codes, Floats, Guesses, Knowledge, Target, Unit
from rase.lab.attacks.ranking import RANKED

__all__ = ["ForestAttack", "ProfileAttack", "forest_guesses"]

# Trees keep a share for each class in each leaf; this many numbers (400 MB) must hold them all.
_TABLE_CELLS = 50_000_000
_MAX_LEAVES = 4096
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class ForestAttack(ABC):
    """Classify single records; subclasses choose the features.

    Args:
        trees: How many trees.
        jobs: How many processor cores to use.
    """

    trees: int = 50
    jobs: int = 1

    name: ClassVar[str]
    knows: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.LABELS})
    unit: ClassVar[Unit] = "record"
    target: ClassVar[Target] = "sender"
    cost: ClassVar[str] = "n^2"

    @abstractmethod
    def features(self, case: Case) -> Floats:
        """Return the features of all cells, rounds x slots x features."""

    def guess(self, case: Case) -> Guesses:
        """Train on the labelled cells and classify the test cells."""
        features = self.features(case)
        labels = case.known_labels()
        trained = case.is_train & (labels >= 0)
        rounds, slots = np.nonzero(case.is_test)
        ranked, confidence = forest_guesses(
            features[trained],
            labels[trained],
            features[rounds, slots],
            trees=self.trees,
            jobs=self.jobs,
            seed=case.seed,
        )
        return Guesses(rounds, slots, ranked, confidence, clusters=rounds)


def forest_guesses(
    features: Floats, labels: Codes, asked: Floats, *, trees: int, jobs: int, seed: int
) -> tuple[Codes, Floats]:
    """Fit a Random Forest and return the ranked classes of each row asked, and the best's share.

    The number of leaves is bounded so that the trees fit into memory for many classes. Time is
    trees x records x (log records + classes); records and classes both grow with the devices.

    Raises:
        DataError: If there is nothing to train on or to classify.
    """
    from sklearn.ensemble import RandomForestClassifier

    if not len(labels) or not len(asked):
        raise DataError("training and test must both hold a record; take more rounds.")
    classes = len(np.unique(labels))
    leaves = int(np.clip(_TABLE_CELLS // (2 * trees * classes), 16, _MAX_LEAVES))
    forest = RandomForestClassifier(
        n_estimators=trees, max_leaf_nodes=leaves, n_jobs=jobs, random_state=seed
    )
    forest.fit(features, labels)
    parts = list(_predict_blocks(forest, asked, min(RANKED, classes)))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _predict_blocks(forest: Any, asked: Floats, keep: int) -> Iterator[tuple[Codes, Floats]]:
    """Yield blocks of rows, because rows x classes may be too large."""
    for first in range(0, len(asked), _ROWS_AT_ONCE):
        shares = forest.predict_proba(asked[first : first + _ROWS_AT_ONCE])
        best = np.argsort(-shares, axis=1, kind="stable")[:, :keep]
        yield forest.classes_[best], np.take_along_axis(shares, best[:, :1], axis=1)[:, 0]


_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ProfileAttack:
    """Classify the 24 hourly values of a slot on a day by the slot they came from.

    What counts as right is the slot, not the sender: with a fixed order and no shuffle they are
    the same, after a shuffle a slot is nobody, and the attack must fall to chance whatever the
    noise. It shows that a shuffle breaks profiles, not that senders are safe.

    Knowledge:
        Knows which slot each training day came from, which is public. Sees the values of a slot
        over a day. Cost n^2 (profiles x classes) at a fixed number of rounds.

    Args:
        trees: How many trees.
        jobs: How many processor cores to use.
    """

    trees: int = 50
    jobs: int = 1

    name: ClassVar[str] = "profile"
    knows: ClassVar[frozenset[Knowledge]] = frozenset()
    unit: ClassVar[Unit] = "day"
    target: ClassVar[Target] = "slot"
    cost: ClassVar[str] = "n^2"

    def guess(self, case: Case) -> Guesses:
        """Train on the profiles of the training days and classify the others."""
        profiles, first_rounds = _profiles(case)
        has_value = ~np.isnan(profiles).all(axis=2)
        is_train = case.is_train[first_rounds] & has_value
        days, slots = np.nonzero(~is_train & has_value)
        ranked, confidence = forest_guesses(
            profiles[is_train],
            np.nonzero(is_train)[1],
            profiles[days, slots],
            trees=self.trees,
            jobs=self.jobs,
            seed=case.seed,
        )
        return Guesses(first_rounds[days], slots, ranked, confidence, clusters=days)


def _profiles(case: Case) -> tuple[Floats, Codes]:
    """Return hourly means, days x slots x hours, and the first round of each day."""
    hours = case.times_ms // _HOUR_MS
    _, first_rounds, day = np.unique(hours // 24, return_index=True, return_inverse=True)
    slots = case.values.shape[1]
    sums = np.zeros((len(first_rounds), 24, slots))
    counts = np.zeros_like(sums)
    has_value = ~np.isnan(case.values)
    np.add.at(sums, (day, hours % 24), np.where(has_value, case.values, 0.0))
    np.add.at(counts, (day, hours % 24), has_value.astype(np.float64))
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    # An hour in which no round falls on any day shows nothing.
    has_rounds = (counts > 0).any(axis=(0, 2))
    return means[:, has_rounds].transpose(0, 2, 1), first_rounds.astype(np.int64)
