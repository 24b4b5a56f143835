"""Which key a round is sealed for: limits of a keyset, and what the next one may not change."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase.errors import UnknownKey
from rase.wire.key_schedule import (
    LEAD_CACHES,
    MAX_KEYS,
    MAX_PENDING,
    limit_mistakes,
    sudden_changes,
)
from rase.wire.keys import KeyConfig, Keyset, Role
from rase.wire.suites import PUBLIC_SIZES, X25519, X_WING

CACHE_S = 100
LEAD_S = LEAD_CACHES * CACHE_S


def key(number: int, begin_s: int, end_s: int = 10**6, **more: Any) -> KeyConfig:
    """Return a key of the fusion centre."""
    kem = more.setdefault("kem", X25519)
    public = bytes([number]) * PUBLIC_SIZES[kem]
    fields = {"role": Role.FUSION, "public_key": public, **more}
    return KeyConfig(id=number, not_before_s=begin_s, not_after_s=end_s, **fields)


def keyset(*fusion: KeyConfig, version: int = 1) -> Keyset:
    """Return a keyset with these keys of the fusion centre."""
    shuffler = key(0, 0, role=Role.SHUFFLER)
    return Keyset(version=version, cache_s=CACHE_S, configs=(shuffler, *fusion))


def test_an_ordinary_keyset_keeps_the_limits() -> None:
    """One key in use and two that wait, apart by two cache times; another KEM counts by itself."""
    keys = [key(number, number * LEAD_S) for number in range(1, 4)]
    assert limit_mistakes(keyset(*keys, key(9, 10, kem=X_WING)), now_s=LEAD_S) == []
    assert limit_mistakes(keyset(keys[0], replace(keys[0], id=2)), now_s=0) == []


@each_case(
    ("keys", "said"),
    [
        ([key(n, 10) for n in range(1, MAX_KEYS + 2)], f"at most {MAX_KEYS} of one KEM, got 7"),
        (
            [key(n, n * LEAD_S) for n in range(1, MAX_PENDING + 2)],
            f"pending keys must be at most {MAX_PENDING}, got 3",
        ),
        ([key(1, 0), key(2, LEAD_S - 1)], "after at least 200 s, 2 cache times, got 199 s"),
        # Back to the first key when the second ends is a change as well.
        ([key(1, 0), key(2, 500, 699)], "got 199 s"),
    ],
)
def test_more_or_faster_is_a_mistake(keys: list[KeyConfig], said: str) -> None:
    """Each limit has its own sentence with its number."""
    (mistake,) = limit_mistakes(keyset(*keys), now_s=10)
    assert said in mistake


def changes(after: Keyset, before: Keyset, now_s: int = 1000) -> list[str]:
    """Return what changes within two cache times of a moment."""
    return sudden_changes(after, before, since_s=now_s - LEAD_S, until_s=now_s + LEAD_S)


def test_a_change_two_cache_times_ahead_is_none() -> None:
    """Times of the old key may change, and keys of another KEM may come; the choice stays."""
    before = keyset(key(1, 0))
    for after in (
        keyset(key(1, 0, 1000 + LEAD_S), key(2, 1000 + LEAD_S)),
        keyset(key(1, 800), key(3, 5, 10)),
        keyset(key(1, 0), key(2, 1000, kem=X_WING)),
        # Never chosen, because the first of two that begin together is.
        keyset(key(1, 0), key(2, 0, 1100)),
    ):
        assert changes(after, before) == []
    assert sudden_changes(before, before, since_s=-1, until_s=2e6) == []


@each_case(
    "after",
    [
        keyset(key(1, 0), key(2, 995)),
        keyset(key(1, 0), key(2, 1000 + LEAD_S - 1)),
        keyset(key(2, 0)),
        keyset(key(1, 0, public_key=bytes(32))),
        keyset(key(1, 0, aead=1)),
    ],
)
def test_a_sooner_change_is_named(after: Keyset) -> None:
    """Another number, other bytes under the number, another cipher, from the past or soon."""
    (mistake,) = changes(after, keyset(key(1, 0)))
    assert "before 1200 must be sealed for key 1" in mistake
    assert "is another" in mistake


def test_an_end_that_comes_early_is_named() -> None:
    """A key that was promised and ends without another leaves devices without one."""
    (mistake,) = changes(keyset(key(1, 0, 1100)), keyset(key(1, 0)))
    assert mistake.endswith("from 1100 on there is none.")


def test_where_there_was_no_key_any_may_come() -> None:
    """Nobody seals by a keyset that has none, so nothing is split."""
    assert changes(keyset(key(1, 0, 500), key(2, 1000)), keyset(key(1, 0, 500))) == []
    assert changes(keyset(key(1, 0)), keyset(key(1, 0), key(2, 5, kem=X_WING))) != []


@given(st.data())
def test_keysets_of_the_last_cache_time_choose_alike(data: st.DataObject) -> None:
    """However keys are renewed, all that were newest within two cache times agree on a round."""
    history = [(0, keyset(key(1, 0)))]
    now_s = 0
    for number in range(2, 9):
        now_s += data.draw(st.integers(0, 3 * CACHE_S))
        begin_s = now_s + data.draw(st.integers(-LEAD_S, 3 * LEAD_S))
        kept = [one for one in history[-1][1].configs[1:] if one.not_before_s < begin_s]
        offered = keyset(*kept, key(number, max(begin_s, 0)), version=number)
        if not changes(offered, history[-1][1], now_s):
            history.append((now_s, offered))
    moment_s = data.draw(st.integers(0, now_s + 5 * LEAD_S))
    ends = [later for later, _ in history[1:]] + [10**9]
    recent = [
        one
        for (begin, one), end in zip(history, ends, strict=True)
        if begin <= moment_s and end > moment_s - LEAD_S
    ]
    chosen: set[int | None] = set()
    for one in recent:
        try:
            chosen.add(one.active(Role.FUSION, moment_s).id)
        except UnknownKey:
            chosen.add(None)
    assert len(chosen) <= 1
