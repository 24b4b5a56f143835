"""The page of a shuffler's operator: what it shows, what it changes, and what it never names."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.shuffler.conftest import FIRST, World

from rase.dashboard.shuffler_fleet import shuffler_pages
from rase.shuffler.enrolment import enrolled_devices
from rase.shuffler.participation import devices_by_group, newest_rounds

PORT = 8001


class Operator:
    """The operator of a shuffler at their own machine, without scripts."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.app = shuffler_pages(world.database, world.clock, port=PORT, most_per_owner=3)
        self.root = urlsplit(self.app.address).path.rstrip("/")
        self.cookies = httpx.Cookies()

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request below the secret, with the cookies of all answers before."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url=f"http://127.0.0.1:{PORT}", cookies=self.cookies
            ) as client:
                answer = await client.request(method, self.root + path, **more)
                self.cookies = client.cookies
                return answer

        return asyncio.run(send())

    def look(self) -> str:
        """Open the page."""
        answer = self.ask("GET", "/fleet")
        assert answer.status_code == 200
        return answer.text

    def send(self, **fields: str) -> httpx.Response:
        """Open the page and send a form of it."""
        proof = re.search(r'name="proof" value="([0-9a-f]+)"', self.look())
        assert proof is not None
        return self.ask("POST", "/fleet", data={"proof": proof.group(1), **fields})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A shuffler with six devices in two groups."""
    made = World(tmp_path / "shuffler.db", devices=6, groups=("north", "south"))
    yield made
    made.close()


@pytest.fixture
def operator(world: World) -> Operator:
    """Its operator."""
    return Operator(world)


def run_round(world: World, round: int, *, real: int, cover: int = 0) -> None:
    """Let devices report for a round, and close it."""
    world.upload_time(round)
    world.send_each(0, [world.seal(round) for _ in range(real)])
    if cover:
        world.send_each(real, [world.cover(round) for _ in range(cover)])
    world.close_time(round)
    world.closer().step()


def test_participation_is_shown_with_what_a_round_was_short_of(operator: Operator) -> None:
    """Real reports alone count: those that are short are withheld, whatever cover came."""
    world = operator.world
    first, k_min = FIRST, world.campaign.k_min
    assert "No round is closed yet" in operator.look()
    run_round(world, first, real=k_min)
    run_round(world, first + 1, real=k_min - 1, cover=2)
    (found,) = newest_rounds(world.database, limit=10)
    assert [(one.round, one.state, one.reports) for one in found.rounds] == [
        (first + 1, "below_k", k_min - 1),
        (first, "released", k_min),
    ]
    text = operator.look()
    rows = re.findall(r'<tr><td class="time">.*?</tr>', text, re.DOTALL)
    numbers = [re.findall(r'<td class="number">([^<]*)</td>', row) for row in rows]
    assert numbers == [[str(k_min - 1), "1"], [str(k_min), "–"]]
    assert text.count('class="below"') == 1
    assert "1 of them below" in text


def test_reports_that_wait_are_counted_unopened(operator: Operator) -> None:
    """Before a round is closed nobody knows which of them are cover."""
    world = operator.world
    round = FIRST
    world.upload_time(round)
    world.send_each(0, [world.seal(round), world.cover(round)])
    (found,) = newest_rounds(world.database, limit=10)
    assert (found.rounds, found.waiting) == ((), 2)
    assert "2 reports wait, not opened yet" in operator.look()
    assert devices_by_group(world.database) == {"north": 3, "south": 3}


def test_no_device_stands_next_to_what_it_did(operator: Operator) -> None:
    """The page has counts and no handle: who reported in a round is nobody's business."""
    world = operator.world
    run_round(world, FIRST, real=world.campaign.k_min)
    text = operator.look()
    for one in enrolled_devices(world.database):
        assert one.device not in text


def test_tokens_are_made_and_shown_once(operator: Operator) -> None:
    """Three at once; they enrol devices, and the next look does not have them."""
    made = operator.send(act="enrol", count="3", valid="7d", group="north", owner="anna")
    shown = re.search(r'<pre id="new-tokens"[^>]*><code>([^<]*)</code>', made.text)
    assert shown is not None
    tokens = shown.group(1).split()
    assert len(tokens) == 3
    assert tokens[0] not in operator.look()
    refused = operator.send(act="enrol", count="4", valid="7d", owner="anna")
    assert refused.status_code == 400
    for fields, words in (
        ({"count": "0"}, "devices must be a whole number from 1 to 1000"),
        ({"count": "x"}, "Devices must be a whole number"),
        ({"count": "1", "valid": "soon"}, "Valid for"),
    ):
        wrong = operator.send(act="enrol", **fields)
        assert wrong.status_code == 400
        assert words[1:] in wrong.text


def test_devices_are_revoked_after_a_tick(operator: Operator) -> None:
    """All that are named, or none; a wrong handle is named."""
    handles = [one.device for one in enrolled_devices(operator.world.database)]
    unsure = operator.send(act="revoke", handles=handles[0])
    assert "tick the box" in unsure.text
    wrong = operator.send(act="revoke", handles=f"{handles[0]} nonsense", confirmed="yes")
    assert "16 hexadecimal digits" in wrong.text
    assert "at least one device" in operator.send(act="revoke", handles=" ").text
    assert len(enrolled_devices(operator.world.database)) == 6
    done = operator.send(act="revoke", handles=" ".join(handles[:2]), confirmed="yes")
    assert "2 revoked" in done.text
    assert len(enrolled_devices(operator.world.database)) == 4


def test_refused_batches_are_sent_again(operator: Operator) -> None:
    """The page says why they were not taken, and has them sent again."""
    world = operator.world
    run_round(world, FIRST, real=world.campaign.k_min)
    with world.database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO outbox (batch, campaign, round, body, manifest, state, next_s, attempts, "
            "refusals, problem) VALUES (?, ?, ?, ?, ?, 'refused', 0, 3, 3, 'replayed')",
            (bytes(32), world.hash, FIRST, b"", b""),
        )
    text = operator.look()
    assert "Send all batches again" in text
    assert "replayed" in text
    assert "refused 1 batches" in text
    assert "1 sent again" in operator.send(act="retry").text
    assert "Send all batches again" not in operator.look()
    assert operator.send(act="nonsense").status_code == 400


def test_the_changing_part_comes_alone_and_only_with_the_secret(operator: Operator) -> None:
    """A page that stays open asks for it; nobody else on the machine can."""
    part = operator.ask("GET", "/fleet?part=1").text
    assert part.lstrip().startswith('<div id="part"')
    operator.root = "/nonsense"
    answer = operator.ask("GET", "/fleet")
    assert answer.status_code == 403
    assert "rase shuffler page" in answer.text
