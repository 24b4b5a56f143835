"""Which key of the fusion centre a round is sealed for, and how soon that may change.

Reports of one round that are sealed for two keys are released apart, so whoever chooses the keys
could split a crowd into those who had fetched a keyset and those who had not. The rule that
excludes it: a keyset leaves the choice as it is until two cache times after it is agreed. A device
fetches at least once in a cache time, so at the end of a round it holds a keyset that was the
newest within the last cache time, and all keysets of that time choose the same key.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from rase.errors import UnknownKey
from rase.wire.keys import KeyConfig, Keyset, Role

__all__ = ["LEAD_CACHES", "MAX_KEYS", "MAX_PENDING", "limit_mistakes", "sudden_changes"]

LEAD_CACHES: Final = 2
"""How many cache times before its first use a key of the fusion centre must be agreed."""

MAX_PENDING: Final = 2
"""The most keys of the fusion centre, of one KEM, that wait for their time."""

MAX_KEYS: Final = 6
"""The most keys of the fusion centre, of one KEM, in a keyset."""


def limit_mistakes(keyset: Keyset, *, now_s: float) -> list[str]:
    """Return what is wrong with a keyset's number of fusion keys and with their distance.

    Args:
        keyset: The keyset.
        now_s: The time from which a key counts as pending.
    """
    mistakes = []
    least_s = LEAD_CACHES * keyset.cache_s
    for kem in _kems(keyset):
        own = _own(keyset, kem)
        if len(own) > MAX_KEYS:
            mistakes.append(
                f"the fusion centre's keys must be at most {MAX_KEYS} of one KEM, got {len(own)}."
            )
        pending = sum(now_s < config.not_before_s for config in own)
        if pending > MAX_PENDING:
            mistakes.append(
                f"the fusion centre's pending keys must be at most {MAX_PENDING}, got {pending}."
            )
        moments = [moment_s for moment_s, chosen in _switches(keyset, kem) if chosen is not None]
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        if gaps and min(gaps) < least_s:
            mistakes.append(
                f"the fusion centre's keys must follow each other after at least {least_s} s, "
                f"{LEAD_CACHES} cache times, got {min(gaps)} s."
            )
    return mistakes


def sudden_changes(
    keyset: Keyset, previous: Keyset, *, since_s: float, until_s: float
) -> list[str]:
    """Return where a keyset chooses other fusion keys than the one before it, in a span of time.

    Where the earlier one has no key nobody seals by it, so nothing is split.

    Args:
        keyset: The newer keyset.
        previous: The one that devices go by.
        since_s: From the ends of rounds at this second,
        until_s: up to, but not including, this one.
    """
    mistakes = []
    for kem in _kems(previous):
        moments = {since_s} | {
            float(moment_s)
            for one in (previous, keyset)
            for moment_s, _ in _switches(one, kem)
            if since_s < moment_s
        }
        for moment_s in sorted(moments):
            if moment_s >= until_s:
                break
            before, after = _choice(previous, kem, moment_s), _choice(keyset, kem, moment_s)
            if before is not None and (after is None or _bare(before) != _bare(after)):
                instead = "there is none" if after is None else f"key {after.id} is another"
                mistakes.append(
                    f"rounds that end before {until_s:.0f} must be sealed for key {before.id} of "
                    f"the fusion centre as agreed before; from {moment_s:.0f} on {instead}."
                )
                break
    return mistakes


def _kems(keyset: Keyset) -> list[int]:
    return sorted({config.kem for config in keyset.configs if config.role is Role.FUSION})


def _own(keyset: Keyset, kem: int) -> list[KeyConfig]:
    return [config for config in keyset.configs if (config.role, config.kem) == (Role.FUSION, kem)]


def _choice(keyset: Keyset, kem: int, moment_s: float) -> KeyConfig | None:
    try:
        return keyset.active(Role.FUSION, moment_s, kem=kem)
    except UnknownKey:
        return None


def _switches(keyset: Keyset, kem: int) -> Iterator[tuple[int, KeyConfig | None]]:
    """Go through the moments from which another key is chosen, or none."""
    own = _own(keyset, kem)
    chosen = None
    moments = {moment for one in own for moment in (one.not_before_s, one.not_after_s)}
    for moment_s in sorted(moments):
        following = _choice(keyset, kem, moment_s)
        if following != chosen:
            yield moment_s, following
        chosen = following


def _bare(config: KeyConfig) -> tuple[int, int, int, bytes]:
    """Return what an envelope depends on; times do not matter once a key is chosen."""
    return config.id, config.kdf, config.aead, config.public_key
