"""What waits for the fusion centre is listed, sent again unchanged, and seen by operators."""

import io
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.shuffler.test_app import talk

from rase.service.heartbeat import ALIVE_S, Heartbeat, key_rows, running
from rase.service.telemetry import Telemetry
from rase.shuffler.closer import Closer
from rase.shuffler.forward import Answer, HttpSender
from rase.shuffler.health import backlog_of, trouble_in
from rase.shuffler.opening import OuterOpenerPool
from rase.shuffler.outbox import discard_batches, list_outbox, retry_batches
from rase.shuffler.public_keys import ForeignKey
from rase.shuffler.release import Releaser
from rase.wire.keys import OpeningKey, Role
from rase.wire.problems import PROBLEM_TYPES, Problem

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

    from rase.shuffler.health import Backlog


def released(world: "World", *rounds: int) -> None:
    """Have rounds closed, and their batches wait."""
    closer = world.closer()
    for round in rounds:
        world.upload_time(round)
        world.send_each(0, [world.seal(round) for _ in world.devices])
        world.close_time(round)
        while closer.close_one() is not None:
            pass


def backlog(world: "World") -> "Backlog":
    """Return what is not done."""
    with world.database.snapshot() as transaction:
        return backlog_of(transaction, now_s=world.clock.now_s())


@pytest.mark.any_store
def test_the_list_says_why_and_never_what(world: "World") -> None:
    """Round, age, attempts and the last problem; no byte of an envelope."""
    released(world, 100, 101)
    world.ear.answers, world.ear.problem = [Answer.REFUSED] * 4, "bad-batch"
    closer = world.closer()
    for _ in range(4):
        assert closer.forward_one() is not None
        world.clock.advance(400)
    first, second = list_outbox(world.database, now_s=world.clock.now_s())
    assert (first.campaign, first.round, second.round) == ("homes", 100, 101)
    assert first.age_s == world.clock.now_s() - world.campaign.closes_s(100)
    assert {first.problem, second.problem} == {"bad-batch"}
    assert first.attempts + second.attempts == first.refusals + second.refusals == 4
    text = json.dumps([asdict(first), asdict(second)])
    for (body,) in world.rows("SELECT body FROM outbox"):
        assert bytes(body)[-40:].hex() not in text


@pytest.mark.any_store
def test_retry_sends_the_same_bytes_again(world: "World") -> None:
    """What was refused for good is taken once the fusion centre is well; the bytes are the same."""
    released(world, 100)
    world.ear.answers = [Answer.REFUSED] * 4
    closer = world.closer()
    for _ in range(4):
        closer.forward_one()
        world.clock.advance(400)
    assert closer.forward_one() is None
    (found,) = list_outbox(world.database, now_s=world.clock.now_s())
    assert found.state == "refused"
    assert retry_batches(world.database, [found.batch[:9].upper()]) == [found.batch]
    # The ear checks that a batch never changes.
    taken = closer.forward_one()
    assert taken is not None
    assert taken.answer is Answer.ACCEPTED
    assert list_outbox(world.database, now_s=world.clock.now_s()) == []


def test_names_must_be_of_one_batch(world: "World") -> None:
    """Unknown and ambiguous names change nothing; all are meant only by retry."""
    released(world, 100, 101)
    names = [one.batch for one in list_outbox(world.database, now_s=0)]
    for name, said in (("zz", "no batch"), ("", "2 batches")):
        with pytest.raises(LookupError, match=said):
            retry_batches(world.database, [names[0], name])
    assert retry_batches(world.database) == sorted(names)
    assert discard_batches(world.database, []) == []
    assert discard_batches(world.database, names[:1]) == names[:1]
    assert [one.batch for one in list_outbox(world.database, now_s=0)] == names[1:]


@pytest.mark.uncovered
def test_a_missing_key_is_waited_for(world: "World") -> None:
    """Four refusals for a key that the fusion centre lacks park nothing; a day of them does."""
    released(world, 100)
    closer = world.closer()
    world.ear.answers, world.ear.problem = [Answer.NO_KEY] * 288, "key-not-held"
    for _ in range(287):
        assert closer.forward_one() is not None
        world.clock.advance(400)
    assert world.rows("SELECT state, refusals, problem FROM outbox") == [
        ("waiting", 287, "key-not-held")
    ]
    assert closer.forward_one() is not None
    assert world.rows("SELECT state FROM outbox") == [("refused",)]
    assert world.counters()["batches_no_key"] == 288


def test_the_sender_knows_the_problem() -> None:
    """By the name of the problem, the status of a proxy, or that nobody answered."""
    problem = Problem(PROBLEM_TYPES["key-not-held"], "key 2.")
    answers = {
        "key-not-held": lambda: httpx.Response(409, content=problem.to_json()),
        "http-502": lambda: httpx.Response(502, text="proxy"),
        "": lambda: httpx.Response(201),
    }
    for name, answer in answers.items():
        client = httpx.Client(transport=httpx.MockTransport(lambda _, answer=answer: answer()))
        sender = HttpSender("http://fusion", client=client)
        sender.send(bytes(32), b"body", b"manifest")
        assert sender.problem == name


@pytest.mark.any_store
def test_a_closer_is_seen_while_it_runs(world: "World") -> None:
    """With the keys it holds; after a death for a while, after a good end not at all."""
    heart = Heartbeat(
        world.database, world.clock, part="closer", keys=lambda: [world.openers["shuffler"]]
    )
    assert heart.beat()
    assert not heart.beat()

    def seen(part: str = "closer") -> list[object]:
        with world.database.snapshot() as transaction:
            return [one.keys for one in running(transaction, now_s=world.clock.now_s(), part=part)]

    assert seen() == [frozenset(key_rows([world.openers["shuffler"]]))]
    assert seen("intake") == []
    world.clock.advance(ALIVE_S - 1)
    assert len(seen()) == 1
    world.clock.advance(1)
    assert seen() == []
    assert heart.beat()
    heart.stop()
    assert seen() == []
    world.clock.advance(2 * 86400)
    other = Heartbeat(world.database, world.clock, part="closer")
    heart.beat()
    world.clock.advance(2 * 86400)
    assert other.beat()
    assert world.rows("SELECT COUNT(*) FROM heartbeat") == [(1,)]


@pytest.mark.any_store
def test_a_backlog_without_a_closer_is_seen(world: "World") -> None:
    """Rounds that nobody closes, in number and age, and that nobody is there to do it."""
    world.close_time(100)
    world.closer().close_one()
    world.close_time(104)
    found = backlog(world)
    assert (found.closers, found.rounds_due) == (0, 4)
    assert found.oldest_s == world.clock.now_s() - world.campaign.closes_s(100)
    assert found.rounds_behind == {"homes": found.oldest_s / world.campaign.round_s}
    assert any("no closer runs, and 4 rounds wait" in text for text in trouble_in(found))
    heart = Heartbeat(world.database, world.clock, part="closer")
    heart.beat()
    (text,) = trouble_in(backlog(world))
    assert "4 rounds and 1 batches wait, the oldest for 4001 s" in text


def test_all_is_well_when_all_is_done(world: "World") -> None:
    """With a closer, and every round taken, there is nothing to say."""
    heart = Heartbeat(world.database, world.clock, part="closer")
    closer = world.closer()
    world.close_time(102)
    while closer.step():
        pass
    heart.beat()
    found = backlog(world)
    assert (found.rounds_due, found.batches_waiting, found.oldest_s) == (0, 0, 0)
    assert trouble_in(found) == ()


def test_a_closer_that_holds_a_round_counts(world: "World") -> None:
    """A large round takes longer than a heartbeat; its lease says that somebody works on it."""
    world.close_time(100)
    closer = world.closer(lease_s=1000)
    closer.close_one()
    with world.database.transaction() as transaction:
        transaction.execute(
            "UPDATE round SET state = 'closing', lease_until_s = ?",
            (int(world.clock.now_s()) + 5,),
        )
    assert backlog(world).closers == 1
    world.clock.advance(6)
    assert backlog(world).closers == 0


def test_stuck_batches_are_seen_over_http(world: "World") -> None:
    """The intake takes reports, so a balancer sends them there; monitoring sees the trouble."""
    released(world, 100)
    with world.database.transaction() as transaction:
        transaction.execute("UPDATE outbox SET state = 'refused', problem = 'bad-batch'")

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.get("/readyz")
        assert answer.status_code == 200
        assert answer.text.startswith("degraded\n")
        assert "refused 1 batches (bad-batch)" in answer.text
        assert "no closer runs" in answer.text
        assert (await client.get("/readyz/all")).status_code == 503
        metrics = (await client.get("/metrics")).text
        assert "\nrase_shuffler_closers 0\n" in metrics
        assert "\nrase_shuffler_batches_stuck 1\n" in metrics
        assert 'rase_shuffler_backlog_rounds{campaign="homes"} 0.001' in metrics

    talk(world, work)


class Renewing:
    """A closer whose keys can be changed, as by a rotation."""

    def __init__(self, world: "World", *keys: OpeningKey) -> None:
        self.keys = keys
        self.opener = OuterOpenerPool(keys, renewed=lambda: self.keys)
        self.log = io.StringIO()
        telemetry = Telemetry("shuffler", stream=self.log)
        self.heart = Heartbeat(
            world.database, world.clock, part="closer", keys=lambda: self.opener.keys
        )
        self.closer = Closer(
            world.database,
            world.clock,
            releaser=Releaser(
                world.database,
                opener=self.opener,
                key=world.signers[Role.SHUFFLER],
                name="test",
            ),
            sender=world.ear,
            pinned=world.pinned,
            telemetry=telemetry,
            heart=self.heart,
        )

    def turn(self) -> None:
        """Go once around the closer's loop."""
        stop = _Once()
        self.closer.run(stop)  # type: ignore[arg-type]


class _Once:
    """Stop after one turn."""

    def __init__(self) -> None:
        self.turns = 0

    def is_set(self) -> bool:
        self.turns += 1
        return self.turns > 1

    def wait(self, seconds: float) -> None:
        """Do not wait."""


def test_a_rotated_key_is_told_without_a_restart(world: "World") -> None:
    """A keyset with the new key is signed once every closer that runs holds it."""
    old, new = world.openers["shuffler"], world.openers["unknown"]
    first = Renewing(world, old)
    first.turn()
    second = Heartbeat(world.database, world.clock, part="closer", keys=lambda: held)
    held = [old]
    second.beat()
    keyset = world.keyset_of(2)
    proposal = world.proposal_of(
        type(keyset)(
            version=2,
            cache_s=3600,
            configs=(*keyset.configs, new.config(not_before_s=0, not_after_s=10**9)),
        )
    )
    first.keys = (old, new)
    first.turn()
    assert first.opener.keys == (old, new)
    with pytest.raises(ForeignKey, match="every closer"):
        world.countersigner.keyset(proposal, now_s=world.clock.now_s())
    held.append(new)
    assert second.beat()
    assert world.countersigner.keyset(proposal, now_s=world.clock.now_s())[1]
