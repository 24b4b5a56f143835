"""The paper's attacker: a Random Forest that learns senders from labelled released records.

The files beside this one say which features it sees.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rase.errors import DataError
from rase.lab.attacks.protocol import Case, Codes, Floats, Guesses, Knowledge, Target, Unit
from rase.lab.attacks.ranking import RANKED

__all__ = ["ForestAttack", "forest_guesses"]

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
    parts = list(_predicted(forest, asked, min(RANKED, classes)))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _predicted(forest: Any, asked: Floats, keep: int) -> Iterator[tuple[Codes, Floats]]:
    """Yield a block of rows at a time, since rows x classes may be too many numbers."""
    for first in range(0, len(asked), _ROWS_AT_ONCE):
        shares = forest.predict_proba(asked[first : first + _ROWS_AT_ONCE])
        best = np.argsort(-shares, axis=1, kind="stable")[:, :keep]
        yield forest.classes_[best], np.take_along_axis(shares, best[:, :1], axis=1)[:, 0]
