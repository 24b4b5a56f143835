"""Who can add devices that count: no operator alone, and of the pairs only one."""

from typing import TYPE_CHECKING

import pytest
from tests.registering import REGISTRAR_SECRET
from tests.simulation.attacker import counts, put, sealed, sent_by
from tests.simulation.setting import CAMPAIGN, FIRST, OUTER_KEYS, PINNED
from tests.simulation.world import World

from rase.registrar.devices import certify_list
from rase.transport.memory import Message
from rase.wire import cbor
from rase.wire.frames import credential_key
from rase.wire.keys import Role, SigningKey
from rase.wire.messages import Batch
from rase.wire.outer import OuterOpener
from rase.wire.signed import public_key_of
from rase.wire.tokens import TOKEN_KEYS_PATH, TOKENS_PATH, requests_bytes, token_keys_from_bytes
from rase.wire.wallet import TokenBatch

if TYPE_CHECKING:
    from tests.simulation.conftest import MakeWorld

ROUND = ("round",)
SYBILS = [bytes([200 + number]) * 32 for number in range(4)]
# A round of the window whose tokens can still be fetched when the world begins.
LATER = FIRST + CAMPAIGN.window


def certified(world: World) -> list[bytes]:
    """Return a token of each made-up device, which the registrar's operator certified."""
    keys = [public_key_of(secret) for secret in SYBILS]
    certify_list(world.registrar.database, keys, secret=REGISTRAR_SECRET)
    return fetched(world)


def fetched(world: World) -> list[bytes]:
    """Return a token of each made-up device that gets some."""
    answer = world._ask_registrar(Message("GET", TOKEN_KEYS_PATH, b""))
    (key,) = (
        one.key for one in token_keys_from_bytes(answer.body, PINNED) if one.key.holds_in(LATER)
    )
    batches = [TokenBatch(key, secret) for secret in SYBILS]
    asked = [batch.request(secret) for batch, secret in zip(batches, SYBILS, strict=True)]
    answer = world._ask_registrar(Message("POST", TOKENS_PATH, requests_bytes(asked)))
    replies = cbor.decode(answer.body, max_size=1 << 20)
    return [
        batch.open(found)[0]
        for batch, (status, found) in zip(batches, replies, strict=True)
        if status == 200
    ]


def admitted(world: World) -> list[str]:
    """Return the credentials of devices that the shuffler's operator wrote into its database."""
    made = [f"{number:016x}.made-up" for number in range(1, 1 + len(SYBILS))]
    with world.closer.database.transaction() as transaction:
        transaction.execute_many(
            "INSERT INTO device (id, digest, device_key, group_name) VALUES (?, ?, ?, '')",
            [
                (int(name[:16], 16), credential_key("made-up"), public_key_of(secret))
                for name, secret in zip(made, SYBILS, strict=True)
            ],
        )
    return made


@pytest.fixture
def world(make_world: "MakeWorld") -> World:
    """Two honest devices, of which alone nothing is released."""
    return make_world(devices=2)


def told(world: World, round: int) -> tuple[str, tuple[int, ...]]:
    """Return whether a round is withheld, and how many reports each of its estimates counts."""
    return str(world.estimates()[round][0]), counts(world, round)


def later(world: World) -> int:
    """Live until the devices have sent for a round of the next window, and return it."""
    world.run([ROUND] * (LATER - FIRST))
    round = world.upload_round()
    world.clock.jump(-1)
    return round


def test_the_registrar_alone_adds_nobody(world: World) -> None:
    """Its devices have tokens, and the shuffler admits none of them."""
    tokens = certified(world)
    assert len(tokens) == len(SYBILS)
    round = later(world)
    wires = [sealed(world, round, 100, token=one) for one in tokens]
    assert {sent_by(world, "0" * 15 + "1.made-up", one) for one in wires} == {"not-enrolled"}
    world.clock.jump(1)
    world.close_and_estimate()
    assert told(world, round) == ("withheld", ())


def test_the_shuffler_alone_adds_nobody(world: World) -> None:
    """Its devices send, get no tokens, and the fusion centre counts none of them."""
    assert fetched(world) == []
    senders = admitted(world)
    round = later(world)
    made = [sealed(world, round, 100, token=bytes(288)) for _ in senders]
    assert {sent_by(world, *pair) for pair in zip(senders, made, strict=True)} == {"201"}
    world.clock.jump(1)
    world.close_and_estimate()
    assert told(world, round) == ("withheld", ())


def test_registrar_and_fusion_centre_together_shrink_no_crowd(world: World) -> None:
    """Tokens of their own reach no round: the shuffler counts whom it admitted, and signs."""
    tokens = certified(world)
    round = later(world)
    world.clock.jump(1)
    wires = [sealed(world, round, 100, token=one) for one in tokens]
    inner = tuple(OuterOpener(world.hash, OUTER_KEYS).open(wire).inner for wire in wires)
    own = SigningKey.generate(Role.SHUFFLER)
    assert put(world, Batch(world.hash, round, 7, inner), signer=own) == "bad-batch"
    world.close_and_estimate()
    assert told(world, round) == ("withheld", ())


def test_registrar_and_shuffler_together_add_devices_that_count(world: World) -> None:
    """What the threat model says is not promised: one operator certifies, the other admits."""
    tokens, senders = certified(world), admitted(world)
    round = later(world)
    made = [sealed(world, round, 100, token=one) for one in tokens]
    assert {sent_by(world, *pair) for pair in zip(senders, made, strict=True)} == {"201"}
    world.clock.jump(1)
    world.close_and_estimate()
    assert told(world, round) == ("final", (6,) * len(CAMPAIGN.estimators))
