"""The shuffler countersigns no keyset by which a round could be sealed for two keys."""

from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.shuffler.test_app import check_problem, talk

from rase.shuffler.documents import PolicyRefused
from rase.wire.key_schedule import MAX_KEYS
from rase.wire.keys import Keyset, OpeningKey, Role

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

END_S = 10**9
LEAD_S = 2 * 3600


def with_key(world: "World", number: int, begin_s: float, *, version: int = 2) -> Keyset:
    """Return the first keyset with one more key of the fusion centre."""
    added = OpeningKey.generate(Role.FUSION, number)
    keyset = world.keyset_of(version)
    config = added.config(not_before_s=int(begin_s), not_after_s=END_S)
    return replace(keyset, configs=(*keyset.configs, config))


def sign(world: "World", keyset: Keyset) -> bool:
    """Have a keyset countersigned; return whether it is new."""
    return world.countersigner.keyset(world.proposal_of(keyset), now_s=world.clock.now_s())[1]


@pytest.mark.any_store
def test_a_key_that_is_active_already_is_refused(world: "World") -> None:
    """Five seconds ago, now, and one second sooner than two cache times: each is refused."""
    now_s = world.clock.now_s()
    for begin_s in (now_s - 5, now_s, now_s + LEAD_S - 1):
        with pytest.raises(PolicyRefused, match=r"sealed for key 1 .* key 40 is another") as caught:
            sign(world, with_key(world, 40, begin_s))
        assert caught.value.problem == "policy-refused"
        assert "must wait 7200 s, 2 cache times" in str(caught.value)
    assert world.documents.keyset == world.keyset_of()
    assert sign(world, with_key(world, 40, now_s + LEAD_S))


@pytest.mark.uncovered
def test_two_hundred_keys_are_refused(world: "World") -> None:
    """Together in one keyset, or one more each second: devices never see any of them."""
    keyset = world.keyset_of(2)
    many = [
        OpeningKey.generate(Role.FUSION, number).config(
            not_before_s=int(world.clock.now_s()) + LEAD_S * number, not_after_s=END_S
        )
        for number in range(10, 210)
    ]
    with pytest.raises(PolicyRefused, match=rf"at most {MAX_KEYS} of one KEM, got 202.*pending"):
        sign(world, replace(keyset, configs=(*keyset.configs, *many)))
    for number in range(10, 210):
        with pytest.raises(PolicyRefused):
            sign(world, with_key(world, number, world.clock.now_s(), version=number))
        world.clock.advance(1)
    assert world.documents.keyset == world.keyset_of()


def test_over_http_the_refusal_says_what_to_do(world: "World") -> None:
    """The fusion centre's operator reads the reason and the way out."""

    async def work(client: httpx.AsyncClient) -> None:
        keyset = with_key(world, 40, world.clock.now_s() - 5)
        answer = await client.put("/v1/keyset", content=world.proposal_of(keyset))
        check_problem(answer, 403, "policy-refused")
        assert "rase keys rotate --replace-pending" in answer.json()["detail"]

    talk(world, work)


def test_what_is_announced_stays(world: "World") -> None:
    """A pending key is replaced by no other once it is within two cache times."""
    now_s = world.clock.now_s()
    assert sign(world, with_key(world, 40, now_s + LEAD_S))
    world.clock.advance(1)
    with pytest.raises(PolicyRefused, match="sealed for key 40"):
        sign(world, with_key(world, 41, now_s + 1 + LEAD_S, version=3))


def test_a_shorter_cache_time_shortens_no_lead_at_once(world: "World") -> None:
    """Devices keep the earlier keyset as long as it said; only then its time counts no more."""
    assert sign(world, world.keyset_of(2, cache_s=10))
    world.clock.advance(3599)

    def fast(version: int) -> Keyset:
        later_s = world.clock.now_s() + 20
        return replace(with_key(world, 40, later_s, version=version), cache_s=10)

    with pytest.raises(PolicyRefused, match="must wait 7200 s"):
        sign(world, fast(3))
    world.clock.advance(1)
    assert sign(world, fast(3))


def test_keysets_of_unknown_age_count(world: "World") -> None:
    """A database of before has no times: then the longest cache time of all is waited for."""
    assert sign(world, world.keyset_of(2, cache_s=10))
    with world.database.transaction() as transaction:
        transaction.execute("UPDATE keyset SET agreed_s = NULL")
    world.clock.advance(10**6)
    keyset = replace(with_key(world, 40, world.clock.now_s() + 20, version=3), cache_s=10)
    with pytest.raises(PolicyRefused, match="must wait 7200 s"):
        sign(world, keyset)


def test_rotation_goes_on_for_ever(world: "World") -> None:
    """A key a month, announced two cache times ahead, retired after its time: none is refused."""
    held = list(world.keyset_of().configs)
    for number in range(40, 52):
        now_s = int(world.clock.now_s())
        begin_s = now_s + LEAD_S
        held = [
            replace(config, not_after_s=min(config.not_after_s, begin_s))
            if config.id == 1 or config.id >= 40
            else config
            for config in held
            if now_s < config.not_after_s + LEAD_S
        ]
        key = OpeningKey.generate(Role.FUSION, number)
        held.append(key.config(not_before_s=begin_s, not_after_s=END_S))
        assert sign(world, replace(world.keyset_of(number), configs=tuple(held)))
        world.clock.advance(30 * 86400)
