"""What each party can learn: nobody has identity and value together."""

import asyncio
import re
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cryptography.exceptions import InvalidTag
from tests.simulation.attacker import (
    batch_of,
    closed_and_forwarded,
    identities,
    opened,
    put,
)
from tests.simulation.setting import (
    CAMPAIGN,
    FIRST,
    OUTER_KEYS,
)
from tests.simulation.world import World

from rase.fusion.app import fusion_app
from rase.fusion.subscribers import READ_ESTIMATES, add_subscriber
from rase.wire.messages import (
    HEADER_SIZE,
    Batch,
    inner_info,
    outer_info,
)
from rase.wire.outer import OuterOpener
from rase.wire.suites import private_key, suite

if TYPE_CHECKING:
    from tests.simulation.conftest import MakeWorld

ROUND = ("round",)
# Numbers that a log line may hold: they count and time, they do not measure.
HARMLESS_FIELDS = {
    "time",
    "round",
    "refresh_round",
    "attempt",
    "attempts",
    "batches",
    "n",
    "version",
    "wait_s",
    "retry_s",
}


def test_the_shuffler_can_read_no_value(make_world: "MakeWorld") -> None:
    """Its files and logs hold no content, and its keys open nothing but the outer envelopes."""
    world = make_world()
    round = world.upload_round()
    stored = [bytes(wire) for (wire,) in world.rows(world.closer, "SELECT wire FROM report")]
    assert len(stored) == 5
    files = world.files_of("shuffler") + world.log.getvalue().encode()
    assert all(wire in files for wire in stored)
    for wire in stored:
        assert opened(world, wire).to_bytes() not in files
        inner = OuterOpener(world.hash, OUTER_KEYS).open(wire).inner
        infos = (inner_info(world.hash, round), outer_info(world.hash, wire[:HEADER_SIZE]), b"")
        for key, info in product(OUTER_KEYS[:3], infos):
            private = private_key(key.kem, key.secret)
            with pytest.raises(InvalidTag):
                suite(key.kem, key.aead).decrypt(inner, private, info)
    world.close_and_estimate()
    after = world.files_of("shuffler")
    assert all(opened(world, wire).to_bytes() not in after for wire in stored)


def test_the_fusion_centre_can_read_no_identity(make_world: "MakeWorld") -> None:
    """Neither its files, nor what reaches it, nor its log name a device or an outer envelope."""
    world = make_world()
    round = world.upload_round()
    closed_and_forwarded(world)
    seen = [world.files_of("fusion")]
    world.close_and_estimate()
    world.round += 1
    world.run([ROUND, ROUND])
    seen += [world.files_of("fusion"), world.log.getvalue().encode()]
    seen += [payload for puts in world.puts.values() for payload in puts.values()]
    names = identities(world)
    names += [wire[HEADER_SIZE : HEADER_SIZE + 32] for _, wire in world.wires[round]]
    for place, name in product(seen, names):
        assert name not in place
    # The search does find what is there: the shuffler knows its devices.
    assert any(name in world.files_of("shuffler") for name in identities(world))


def test_reports_leave_no_trace_once_a_round_is_final(make_world: "MakeWorld") -> None:
    """Places, tags and envelopes are gone from every file of the fusion centre."""
    world = make_world().run([ROUND])
    _, _, batch = batch_of(world, FIRST)
    left = world.files_of("fusion")
    assert not any(inner[:32] in left or inner[-32:] in left for inner in batch.inner)
    places = sorted(opened(world, wire).place for _, wire in world.wires[FIRST])
    packed = b"".join(place.to_bytes(8, "little", signed=True) for place in places)
    assert packed not in left


def test_no_log_line_has_an_identity_or_a_value(make_world: "MakeWorld") -> None:
    """The logs of all roles over a run with faults name nobody and measure nothing."""
    operations: list[tuple[Any, ...]] = [ROUND]
    for fault in ("tamper", "lose", "drop", "late", "replay", "tamper-key"):
        operations += [("message", 1, fault), ("death", "close", 12), ("death", "put", 3), ROUND]
    world = make_world().run(operations)
    lines = world.log.getvalue().splitlines()
    assert len(lines) > 50
    names = [name.decode() for name in identities(world) if name.isascii()]
    values = {str(opened(world, wire).place) for wires in world.wires.values() for _, wire in wires}
    readings = {
        float((round * 37 + device.place * 611) % 3000)
        for round in world.wires
        for device in world.devices
    }
    values |= {f"{reading:g}" for reading in readings} | {str(reading) for reading in readings}
    for line in lines:
        assert not any(name in line for name in names), line
        for field, number in re.findall(r"(\w+)=(-?[\d.]+)\b", line):
            assert field in HARMLESS_FIELDS or number not in values, line


def test_a_batch_below_k_min_releases_nothing(make_world: "MakeWorld") -> None:
    """Two reports of three stay with the shuffler and are erased; only the withholding is told."""
    world = make_world(devices=2)
    world.run([ROUND])
    _, payload, batch = batch_of(world, FIRST)
    assert batch.inner == ()
    assert world.estimates() == {FIRST: ("withheld",)}
    inner = [OuterOpener(world.hash, OUTER_KEYS).open(w).inner for _, w in world.wires[FIRST]]
    everything = payload + world.files_of("fusion") + world.files_of("shuffler")
    assert not any(envelope[:32] in everything for envelope in inner)


def test_a_shuffler_that_releases_too_few_is_refused(make_world: "MakeWorld") -> None:
    """A rightly signed batch below k_min is refused, whatever its manifest says of k_min."""
    world = make_world(devices=2)
    round = world.upload_round()
    wires = [wire for _, wire in world.wires[round]]
    inner = tuple(OuterOpener(world.hash, OUTER_KEYS).open(wire).inner for wire in wires)
    batch = Batch(world.hash, round, 7, inner)
    assert put(world, batch) == "below-k"
    assert put(world, batch, k_min=2) == "bad-batch"
    assert put(world, batch, n=3) == "bad-batch"
    world.fusion.parts.tick()
    assert world.estimates() == {}


def test_a_subscriber_token_reads_estimates_and_changes_nothing(make_world: "MakeWorld") -> None:
    """Every address and method of the fusion centre is tried; only the access log grows."""
    world = make_world().run([ROUND, ROUND])
    # Reports are there to be read: a round that is not final yet.
    world.upload_round()
    closed_and_forwarded(world)
    token = add_subscriber(world.fusion.database, "curious", scopes=(READ_ESTIMATES,))
    app = fusion_app(world.fusion.parts)
    before = tables(world)
    assert before["opened"]
    paths = sorted(app.openapi()["paths"])
    assert not any("report" in path or "device" in path for path in paths)
    answers = asyncio.run(every_request(app, paths, token))
    assert {name: rows for name, rows in tables(world).items() if name != "access_log"} == {
        name: rows for name, rows in before.items() if name != "access_log"
    }
    assert len(tables(world)["access_log"]) > len(before["access_log"])
    names = identities(world)
    inner = batch_of(world, world.round)[2].inner
    for method, path, answer in answers:
        assert method == "GET" or answer.status_code >= 400, (method, path)
        assert not any(name in answer.content for name in names)
        assert not any(envelope[:16] in answer.content for envelope in inner)
        # As a word of its own: keys and signatures are random letters.
        assert not re.search(rb"(?<![\w+/=-])places?(?![\w+/=-])", answer.content), path
    allowed = {path for method, path, answer in answers if answer.status_code == 200}
    assert "/v1/estimates" in allowed
    assert not any("effect" in path or "access" in path for path in allowed)


def tables(world: World) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that the fusion centre keeps."""
    names = world.rows(world.fusion, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name: world.rows(world.fusion, f"SELECT * FROM {name}") for (name,) in names}  # noqa: S608


async def every_request(
    app: Any, paths: Sequence[str], token: str
) -> list[tuple[str, str, httpx.Response]]:
    """Try every method on every path with a token; the endless stream is left out."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    found = []
    async with httpx.AsyncClient(
        transport=transport,
        base_url="http://fusion",
        headers={"Authorization": f"Bearer {token}"},
    ) as client:
        for path, method in product(paths, ("GET", "PUT", "POST", "PATCH", "DELETE")):
            if path.endswith("/stream") and method == "GET":
                continue
            filled = path.replace("{campaign_id}", CAMPAIGN.id).replace("{batch_id}", "00" * 32)
            body = {} if method == "GET" else {"json": {"beta": 0.4, "not_before": FIRST + 50}}
            query = {"w": "2"} if path.endswith("/windows") else {}
            found.append((method, path, await client.request(method, filled, params=query, **body)))  # type: ignore[arg-type]
    return found
