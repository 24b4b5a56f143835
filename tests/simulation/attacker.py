"""What a curious or dishonest party does in a simulated world, and what it gets for it."""

from typing import Any

from tests.simulation.setting import (
    CAMPAIGN,
    INNER_KEY,
    OUTER_KEYS,
    SIGNERS,
    keyset_of,
)
from tests.simulation.world import World

from rase.transport.memory import Message
from rase.wire.inner import InnerOpener
from rase.wire.keys import Role, SigningKey
from rase.wire.messages import (
    Batch,
    BatchManifest,
    Content,
    Header,
    batch_id,
)
from rase.wire.outer import OuterOpener
from rase.wire.parcel import header_of, manifest_of
from rase.wire.problems import Problem
from rase.wire.seal import seal_report
from rase.wire.signed import SignedManifest, signature_of

__all__ = [
    "batch_of",
    "closed_and_forwarded",
    "counts",
    "identities",
    "opened",
    "put",
    "received",
    "sealed",
    "sent_by",
]


def opened(world: World, wire: bytes) -> Content:
    """Open both envelopes, as only both servers together could."""
    outer = OuterOpener(world.hash, OUTER_KEYS).open(wire)
    round = Header.from_report(wire).round
    opener = InnerOpener(world.hash, [INNER_KEY], class_count=1)
    return opener.open(outer.inner, key_id=7, round=round)


def identities(world: World) -> list[bytes]:
    """Return everything that names a device, in every form in which it could be written.

    The shortest has 8 bytes: one of them is found in a megabyte of random bytes with a chance of
    6e-14.
    """
    found: list[bytes] = []
    rows = world.rows(world.closer, "SELECT id, digest, device_key FROM device")
    assert len(rows) >= len(world.devices)
    for number, digest, key in rows:
        found += [f"{number:016x}".encode(), str(number).encode(), number.to_bytes(8, "big")]
        found += [number.to_bytes(8, "little"), bytes(digest), bytes(key)]
        found += [bytes(digest).hex().encode(), bytes(key).hex().encode()]
    for device in world.devices:
        found += [device.credential.encode(), device.credential.partition(".")[2].encode()]
    return found


def sent_by(world: World, credential: str, wire: bytes) -> str:
    """Send a report as somebody; return the status, or the name of the problem."""
    answer = world.handle(Message("POST", "/v1/reports", wire, credential=credential))
    if answer.status in (200, 201):
        return str(answer.status)
    return Problem.from_json(answer.body).type.name


def put(world: World, batch: Batch, *, signer: SigningKey | None = None, **changes: Any) -> str:
    """Put a batch with a manifest that fits it; return the status, or the name of the problem."""
    body = batch.to_bytes()
    said: dict[str, Any] = {
        "batch_id": batch_id(body),
        "shuffler": "simulated",
        "n": len(batch.inner),
        "k_min": CAMPAIGN.k_min,
        "method": "uniform",
        "theta": None,
        "alpha": 0.0,
        "real_loss": 0.0,
        "attacker_success": 1 / max(len(batch.inner), 1),
    }
    manifest = BatchManifest(**(said | changes))
    signed = SignedManifest(manifest, signature_of(manifest, signer or SIGNERS[Role.SHUFFLER]))
    return received(world, batch_id(body), body, signed.to_bytes())


def received(world: World, name: bytes, body: bytes, manifest: bytes) -> str:
    """Put bytes under an id; return the status, or the name of the problem."""
    answer = world.receive(name.hex(), body, header_of(manifest))
    if answer.status_code in (200, 201):
        return str(answer.status_code)
    return Problem.from_json(answer.content).type.name


def batch_of(world: World, round: int) -> tuple[bytes, bytes, Batch]:
    """Return the batch of a round as it passed the network: id, signed manifest, content."""
    ((name, body),) = world.puts[round].items()
    return bytes.fromhex(name), manifest_of(world.manifests[name]), Batch.from_bytes(body)


def counts(world: World, round: int) -> tuple[int, ...]:
    """Return how many reports each estimate of a round counts."""
    return tuple(estimate[-1] for estimate in world.estimates()[round][1:])


def closed_and_forwarded(world: World) -> None:
    """Close the round that waits and forward its batch, without making it final."""
    assert world.closer.parts.close_one() is not None
    assert world.closer.parts.forward_one() is not None


def sealed(world: World, round: int, place: int, *, token: bytes = b"") -> bytes:
    """Return a report of anybody's making, with a token if there is one."""
    shuffler, fusion = keyset_of(1).configs
    return seal_report(
        Content(round, place, 0, token),
        campaign_hash=world.hash,
        shuffler=shuffler,
        fusion=fusion,
        keyset=1,
    )
