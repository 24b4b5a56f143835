"""How long the fusion centre's keys wait: what is demanded of a keyset before it is countersigned.

It is no setting of the operator: devices go by the same rule, see `rase.wire.key_schedule`.
"""

from collections.abc import Sequence

from rase.wire.key_schedule import LEAD_CACHES, limit_mistakes, sudden_changes
from rase.wire.keys import Keyset

__all__ = ["lead_mistakes"]


def lead_mistakes(
    keyset: Keyset, agreed: Sequence[tuple[Keyset, int | None]], *, now_s: float
) -> list[str]:
    """Return how a keyset could split the reports of a round among two keys; none for the first.

    Args:
        keyset: What is to be countersigned.
        agreed: The keysets that were agreed and when, newest first; None if that was not noted.
        now_s: The time.
    """
    mistakes = limit_mistakes(keyset, now_s=now_s)
    if not agreed:
        return mistakes
    newest, _ = agreed[0]
    caches = [keyset.cache_s, newest.cache_s]
    # Devices that keep an earlier keyset for longer may not have heard of the newest one yet.
    caches += [
        older.cache_s
        for (older, _), (_, replaced_s) in zip(agreed[1:], agreed, strict=False)
        if replaced_s is None or now_s < replaced_s + older.cache_s
    ]
    lead_s = LEAD_CACHES * max(caches)
    changes = sudden_changes(keyset, newest, since_s=now_s - lead_s, until_s=now_s + lead_s)
    if changes:
        changes.append(
            f"A change must wait {lead_s} s, {LEAD_CACHES} cache times: make the key again by rase "
            "keys rotate --replace-pending, and publish it sooner."
        )
    return mistakes + changes
