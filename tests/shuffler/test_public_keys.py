"""The shuffler countersigns no keyset that names a key for it which it does not hold."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.shuffler.test_app import check_problem, talk
from tests.storage.faults import FaultyDatabase

from rase.service.key_settings import read_opening_keys
from rase.service.keyring import read_public_keys, rotate_opening_key
from rase.shuffler.public_keys import ForeignKey, keep_own_keys
from rase.wire.keys import KeyConfig, Keyset, OpeningKey, Role
from rase.wire.private_files import write_private

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

TIMES = {"not_before_s": 0, "not_after_s": 10**9}


def keyset_with(world: "World", *configs: KeyConfig, version: int = 2) -> Keyset:
    """Return a keyset with these keys of the shuffler."""
    fusion = [world.openers[name].config(**TIMES) for name in ("fusion", "next", "x-wing")]
    return Keyset(version=version, cache_s=3600, configs=(*configs, *fusion))


def changed(world: "World", **changes: Any) -> KeyConfig:
    """Return the shuffler's key with something else in it."""
    return replace(world.openers["shuffler"].config(**TIMES), **changes)


@pytest.mark.any_store
@pytest.mark.parametrize("name", ["unknown", "number", "cipher", "point"])
def test_a_key_that_is_not_ours_is_refused(world: "World", name: str) -> None:
    """Another key, our key under another number or cipher, and other bytes under our number."""
    config = {
        "unknown": world.openers["unknown"].config(**TIMES),
        "number": changed(world, id=6),
        "cipher": changed(world, aead=1),
        "point": changed(world, public_key=bytes(31) + b"\x01"),
    }[name]
    own = changed(world) if config.id != 7 else world.openers["expired"].config(**TIMES)
    proposal = world.proposal_of(keyset_with(world, own, config))
    with pytest.raises(ForeignKey, match=f"key {config.id} of the keyset is not one") as caught:
        world.countersigner.keyset(proposal, now_s=world.clock.now_s())
    assert caught.value.problem == "foreign-key"
    assert world.documents.keyset == world.keyset_of()


def test_before_the_closer_has_run_nothing_is_signed(world: "World") -> None:
    """The refusal says what to start; the closer tells its keys when it is made."""
    keep_own_keys(world.database, [])
    proposal = world.proposal_of(world.keyset_of(2))
    with pytest.raises(ForeignKey, match="closer has not run yet"):
        world.countersigner.keyset(proposal, now_s=world.clock.now_s())
    world.closer()
    assert world.countersigner.keyset(proposal, now_s=world.clock.now_s())[1]


def test_keys_long_past_use_are_not_compared(world: "World") -> None:
    """Their private halves may be erased, and the intake takes no report for them."""
    old = world.openers["unknown"].config(not_before_s=0, not_after_s=1000)
    proposal = world.proposal_of(keyset_with(world, changed(world), old))
    with pytest.raises(ForeignKey, match="key 9 of"):
        world.countersigner.keyset(proposal, now_s=1000.0 + 2 * 3600 - 1)
    assert world.countersigner.keyset(proposal, now_s=1000.0 + 2 * 3600)[1]


def test_the_same_keys_are_not_written_again(world: "World") -> None:
    """A closer that starts anew leaves the database as it is; one with another key does not."""
    keys = [world.openers["expired"], world.openers["shuffler"]]
    counted = FaultyDatabase(world.database)
    keep_own_keys(counted, keys)
    world.closer(counted)
    assert counted.points == 0
    keep_own_keys(counted, [world.openers["shuffler"]])
    assert counted.points > 0


def test_rotation_goes_on(world: "World", tmp_path: Path) -> None:
    """A rotated key is signed once the closer holds it, and the old one with it."""
    (tmp_path / "keys").mkdir()
    first = OpeningKey.generate(Role.SHUFFLER, 1)
    write_private(tmp_path / "keys" / "opening-1.key", first.to_text())
    (tmp_path / "rase.toml").write_text('opening_key_files = ["keys/opening-1.key"]\n')
    (tmp_path / "public.json").write_text(
        public_text_of(world, first.config(not_before_s=0, not_after_s=10**9))
    )
    files = [tmp_path / "keys" / "opening-1.key"]
    now_s = world.clock.now_s()
    keep_own_keys(world.database, [first])
    done = rotate_opening_key(tmp_path, files, now_s=int(now_s), valid_s=10**6)
    configs = read_public_keys(tmp_path / "public.json").configs
    proposal = world.proposal_of(keyset_with(world, *configs))
    with pytest.raises(ForeignKey, match="that it has reloaded its keys"):
        world.countersigner.keyset(proposal, now_s=now_s)
    held = read_opening_keys([*files, done.key_file], role=Role.SHUFFLER)
    keep_own_keys(world.database, held)
    assert world.countersigner.keyset(proposal, now_s=now_s)[1]


def public_text_of(world: "World", config: KeyConfig) -> str:
    """Return the public.json of the shuffler."""
    from rase.service.keyring import PublicKeys

    return PublicKeys(
        role=Role.SHUFFLER,
        signing_key=world.signers[Role.SHUFFLER].public_bytes(),
        cache_s=3600,
        configs=(config,),
    ).to_text()


def test_over_http_a_closer_that_is_starting_is_waited_for(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keyset for keys that the closer tells soon is signed; one for others is refused."""
    monkeypatch.setattr("rase.shuffler.signing._AGAIN_S", 0.005)
    keep_own_keys(world.database, [])
    proposal = world.proposal_of(world.keyset_of(2))

    async def work(client: httpx.AsyncClient) -> None:
        asked = asyncio.create_task(client.put("/v1/keyset", content=proposal))
        done, _ = await asyncio.wait([asked], timeout=0.05)
        assert not done
        await asyncio.to_thread(world.closer)
        assert (await asked).status_code == 201
        monkeypatch.setattr("rase.shuffler.signing._PATIENCE_S", 0.0)
        foreign = keyset_with(world, world.openers["unknown"].config(**TIMES), version=3)
        answer = await client.put("/v1/keyset", content=world.proposal_of(foreign))
        check_problem(answer, 409, "foreign-key")
        assert "key 9 of the keyset" in answer.json()["detail"]

    talk(world, work)
