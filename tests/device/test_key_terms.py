"""A device takes no keys that could tell its report apart, even if both servers signed them."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rase.device.memory import Memory
from rase.device.state import DeviceState
from rase.device.terms import TermsRefused
from rase.kernels.entropy import SeededEntropy
from rase.transport.memory import MemoryTransport
from rase.wire.keys import Keyset, OpeningKey, Role
from rase.wire.messages import Header
from rase.wire.outer import OuterOpener
from rase.wire.signed import campaign_hash

HOUR = 3600
CACHE_S = 2 * HOUR
END_S = 2**39


def keyset_with(shuffler: Any, number: int, begin_s: float, *, version: int = 2) -> Keyset:
    """Return the first keyset with one more key of the fusion centre."""
    key = OpeningKey.generate(Role.FUSION, number)
    added = key.config(not_before_s=int(begin_s), not_after_s=END_S)
    configs = (*shuffler.keyset.configs, added)
    return Keyset(version=version, cache_s=CACHE_S, configs=configs)


def reason_of(offer: Callable[[bytes], object], data: bytes) -> str | None:
    """Return why a document is refused; None if it is not."""
    try:
        offer(data)
    except TermsRefused as error:
        return error.reason
    return None


def test_a_change_sooner_than_a_cache_time_is_refused(world: Any) -> None:
    """From when the keyset that is held was last seen as the newest; the first has none before."""
    shuffler = world.shuffler
    for seen_s, now_s, begin_s, reason in (
        (None, 10**6, 10**6 - 5, None),
        (10**6, 10**6 + 9, 10**6 + 4, "keys-too-soon"),
        (10**6, 10**6 + 9, 10**6 + CACHE_S - 1, "keys-too-soon"),
        (10**6, 10**6 + 9, 10**6 + CACHE_S, None),
        # A clock that went back since then: as if it had been seen now.
        (10**7, 10**6, 10**6 + CACHE_S - 1, "keys-too-soon"),
        (10**7, 10**6, 10**6 + CACHE_S, None),
        # A device that slept for long takes what the others have.
        (10**6, 10**6 + 4 * CACHE_S, 10**6 + CACHE_S - 1, None),
    ):
        terms = world.terms()
        if seen_s is not None:
            assert terms.offer_keyset(shuffler.signed_keyset(), now_s=seen_s)
        data = shuffler.signed_keyset(keyset_with(shuffler, 9, begin_s))
        assert reason_of(partial(terms.offer_keyset, now_s=now_s), data) == reason
        assert terms.accepted_terms[1].keyset.version == (2 if reason is None else 1)


def test_too_many_keys_are_refused(world: Any) -> None:
    """Also in the first keyset; a clock that is slow by less than a cache time refuses nothing."""
    shuffler = world.shuffler
    configs = list(shuffler.keyset.configs)
    for number in (7, 8):
        key = OpeningKey.generate(Role.FUSION, number)
        configs.append(
            key.config(not_before_s=10**6 + 2 * CACHE_S * (number - 7), not_after_s=END_S)
        )
    two = Keyset(version=1, cache_s=CACHE_S, configs=tuple(configs))
    assert world.terms().offer_keyset(shuffler.signed_keyset(two), now_s=10**6 - CACHE_S)
    keys = [OpeningKey.generate(Role.FUSION, number) for number in range(10, 210)]
    many = [key.config(not_before_s=10**6, not_after_s=END_S) for key in keys]
    keyset = Keyset(version=1, cache_s=CACHE_S, configs=(*shuffler.keyset.configs, *many))
    offer = partial(world.terms().offer_keyset, now_s=10**6)
    assert reason_of(offer, shuffler.signed_keyset(keyset)) == "too-many-keys"


def test_a_refusal_is_not_forgotten(world: Any) -> None:
    """What was refused is still refused after a long time, and by the next program as well."""
    shuffler, store = world.shuffler, world.store()
    store.save(DeviceState())
    memory = Memory(world.terms(), store)
    assert memory.offer_keyset(shuffler.signed_keyset(), now_s=1e6)
    bad = shuffler.signed_keyset(keyset_with(shuffler, 9, 10**6 + 5))
    for step in range(1, 9):
        memory = Memory(world.terms(), store)
        offer = partial(memory.offer_keyset, now_s=1e6 + step * CACHE_S / 2)
        assert reason_of(offer, bad) == "keys-too-soon"
    # What did not come from both servers says nothing of the time.
    assert reason_of(partial(memory.offer_keyset, now_s=10**9), b"") == "malformed"
    assert store.load().keyset_seen_s == 1e6 + 4 * CACHE_S


def test_each_fetch_is_noted(world: Any) -> None:
    """The same keyset again, as a document or as 304, moves the time from which changes count."""
    agent = world.agent()
    agent.step()
    first_s = world.store().load().keyset_seen_s
    assert first_s == world.clock.now_s()
    world.run(agent, 3 * CACHE_S)
    assert world.store().load().keyset_seen_s > first_s + CACHE_S


def live(
    make_world: Callable[[str], Any], name: str, keyset: Callable[[Any, float], Keyset], hours: int
) -> tuple[dict[int, set[int]], Any]:
    """Let twelve devices report for hours; return the fusion keys of each round, and the world."""
    world = make_world(name)
    shuffler = world.shuffler
    published = shuffler.signed_keyset
    begin_s = world.clock.now_s()
    shuffler.signed_keyset = lambda: published(keyset(shuffler, world.clock.now_s() - begin_s))
    names = [f"device-{place}" for place in range(12)]
    shuffler.credentials |= set(names)
    world.source.always = 800.0
    fleet = [
        world.agent(
            one,
            credential=one,
            transport=MemoryTransport(shuffler.handle),
            entropy=SeededEntropy(one),
        )
        for one in names
    ]
    due = [0.0] * len(fleet)
    while world.clock.now_s() < begin_s + hours * HOUR:
        for place, agent in enumerate(fleet):
            if due[place] <= world.clock.monotonic_s():
                due[place] = world.clock.monotonic_s() + max(agent.step(), 0.01)
        world.clock.advance(max(min(due) - world.clock.monotonic_s(), 0.0) + 0.01)
    opener = OuterOpener(campaign_hash(shuffler.campaign), [shuffler.keys[Role.SHUFFLER]])
    keys: dict[int, set[int]] = defaultdict(set)
    for report in shuffler.stored.values():
        keys[Header.from_report(report).round].add(opener.open(report).mark.fusion_key_id)
    return keys, world


def attack(shuffler: Any, elapsed_s: float) -> Keyset:
    """Return what a fusion centre publishes that changes its key each second, at once."""
    second = int(elapsed_s) - 3 * HOUR
    if second < 0:
        return _first(shuffler)
    number = min(second, 200) + 2
    if number not in _ATTACKS:
        begin_s = shuffler.clock.now_s() - 5
        _ATTACKS[number] = keyset_with(shuffler, number, begin_s, version=number)
    return _ATTACKS[number]


_ATTACKS: dict[int, Keyset] = {}


def _first(shuffler: Any) -> Keyset:
    keyset: Keyset = shuffler.keyset
    return keyset


@pytest.mark.uncovered
def test_a_fleet_stays_together_when_keys_are_active_at_once(
    make_world: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred keys, one each second, active since five seconds: no round has two keys.

    Without the rule it has, so this test can fail.
    """
    _ATTACKS.clear()
    keys, world = live(make_world, "together", attack, hours=9)
    assert len(keys) >= 8
    assert all(found == {1} for found in keys.values())
    assert {note["reason"] for note in world.notes.of("terms-refused")} == {"keys-too-soon"}
    monkeypatch.setattr("rase.device.terms.sudden_changes", lambda *_, **__: [])
    _ATTACKS.clear()
    keys, _ = live(make_world, "apart", attack, hours=9)
    assert any(len(found) > 1 for found in keys.values())


def rotation(shuffler: Any, elapsed_s: float) -> Keyset:
    """Return what a fusion centre publishes that rotates its key as it must."""
    if elapsed_s < 3 * HOUR + 100:
        return _first(shuffler)
    if not _ATTACKS:
        _ATTACKS[2] = keyset_with(shuffler, 2, shuffler.clock.now_s() + 2 * CACHE_S)
    return _ATTACKS[2]


@pytest.mark.uncovered
def test_a_rotation_splits_no_round(make_world: Callable[[str], Any]) -> None:
    """Two cache times after it was published all devices take the new key in the same round."""
    _ATTACKS.clear()
    keys, world = live(make_world, "rotation", rotation, hours=12)
    assert [len(found) for found in keys.values()] == [1] * len(keys)
    chosen = [next(iter(keys[round])) for round in sorted(keys)]
    assert chosen == sorted(chosen)
    assert set(chosen) == {1, 2}
    assert world.notes.of("terms-refused") == []
