"""Public labels of reports: those that too few of a round share are released as one of any other.

Whoever knows a label knows who could have sent under it, so each label of a release has to hide
its senders by itself: below k_min it is merged into label 0 before anything is forwarded.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

__all__ = ["OTHER", "merge_labels"]

OTHER: Final = 0


def merge_labels(labels: Sequence[int], *, k_min: int) -> list[int]:
    """Return each report's label with those that have fewer than k_min reports replaced by 0.

    If those that were merged are themselves fewer than k_min, the smallest of the other labels
    joins them, so that no label of the result, 0 included, has fewer.

    Guarantee: each label of the result has at least k_min reports if there are as many at all
    (tests/shuffler/test_labels.py).

    Args:
        labels: The label of each report of a round that is to be released.
        k_min: The fewest reports of a label.

    Example:
        >>> merge_labels([1, 1, 1, 2, 3, 3], k_min=3)
        [1, 1, 1, 0, 0, 0]
        >>> merge_labels([1, 1, 1, 1, 2, 2, 2, 3], k_min=3)
        [1, 1, 1, 1, 0, 0, 0, 0]
    """
    counts = Counter(labels)
    others = counts.pop(OTHER, 0)
    kept = sorted(counts, key=lambda label: (counts[label], label))
    while kept and (counts[kept[0]] < k_min or 0 < others < k_min):
        others += counts[kept.pop(0)]
    large = set(kept)
    return [label if label in large else OTHER for label in labels]
