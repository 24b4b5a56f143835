"""Compare published keys with those that a process holds."""

from rase.service.heartbeat import KeyRow, key_row
from rase.wire.keys import Keyset, Role

__all__ = ["missing_keys"]


def missing_keys(
    keyset: Keyset, held: frozenset[KeyRow], *, now_s: float, in_use: bool = False
) -> list[int]:
    """Return the numbers of the fusion centre's keys that a process must hold and does not.

    Args:
        keyset: The published keys.
        held: The public halves of what the process holds.
        now_s: The time: keys that are long past use may be erased.
        in_use: Whether to leave out keys that have not begun.
    """
    return [
        config.id
        for config in keyset.configs
        if config.role is Role.FUSION
        and now_s < config.not_after_s + 2 * keyset.cache_s
        and not (in_use and now_s < config.not_before_s)
        and key_row(config) not in held
    ]
