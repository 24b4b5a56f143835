"""The one rule of answers by label: labels that too few reports of a round have are merged.

Pure Python, because it is a rule about counts alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["merge_small"]


def merge_small(counts: Mapping[int, int], *, k_min: int, other: int) -> dict[int, int] | None:
    """Return under which label each label's reports of a round are released.

    Args:
        counts: How many reports each label has in the round.
        k_min: The fewest that a released label may have.
        other: The label of those that are merged.

    Returns:
        The label of each; None where the round has fewer than ``k_min`` and is withheld.

    Example:
        >>> merge_small({0: 40, 1: 12, 2: 3}, k_min=10, other=9)
        {0: 0, 1: 9, 2: 9}
    """
    if sum(counts.values()) < k_min:
        return None
    merged = {label for label, count in counts.items() if count < k_min or label == other}
    ascending = sorted(counts, key=lambda label: (counts[label], label))
    for label in ascending:
        if not merged or sum(counts[one] for one in merged) >= k_min:
            break
        merged.add(label)
    return {label: other if label in merged else label for label in counts}
