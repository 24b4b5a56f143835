"""The closer: due rounds, leases, retries, and going on after failures."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import httpx
import pytest

from rase.errors import StorageBusy, StorageUnusable
from rase.shuffler.forward import Answer, HttpSender
from rase.shuffler.rounds import begin_rounds, claim_round
from rase.wire.parcel import header_of
from rase.wire.problems import PROBLEM_TYPES, Problem

if TYPE_CHECKING:
    from tests.shuffler.conftest import World


def test_silent_rounds_are_told_too(world: "World") -> None:
    """After an outage every round that passed is withheld by name, none twice."""
    world.close_time(104)
    closer = world.closer()
    while closer.step():
        pass
    assert sorted(round for round, _ in world.ear.batches) == [100, 101, 102, 103, 104]
    assert closer.step() is False
    assert world.counters()["rounds_below_k"] == 5


def test_a_long_outage_is_caught_up_in_portions(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begin tells whether more rounds are left."""
    monkeypatch.setattr("rase.shuffler.rounds._MOST_AT_ONCE", 3)
    world.close_time(104)
    now_s = world.clock.now_s()
    assert begin_rounds(world.database, world.documents, now_s=now_s)
    assert not begin_rounds(world.database, world.documents, now_s=now_s)
    assert world.rows("SELECT count(*) FROM round") == [(5,)]


def test_an_ended_campaign_has_no_more_rounds(world: "World") -> None:
    """Rounds of a version end where the next begins, and each round belongs to one version."""
    second = world.campaign_of(version=2, not_before=102, not_after=103)
    world.countersigner.campaign(world.proposal_of(second), now_s=world.clock.now_s())
    world.close_time(110)
    closer = world.closer()
    while closer.step():
        pass
    assert sorted(round for round, _ in world.ear.batches) == [100, 101, 102, 103]


def test_one_holder_at_a_time(world: "World") -> None:
    """A lease keeps others out until it ends; then the next holder has a new token."""
    world.close_time(100)
    now_s = world.clock.now_s()
    begin_rounds(world.database, world.documents, now_s=now_s)
    first = claim_round(world.database, now_s=now_s, lease_s=10)
    assert first is not None
    assert claim_round(world.database, now_s=now_s + 9, lease_s=10) is None
    second = claim_round(world.database, now_s=now_s + 10, lease_s=10)
    assert second is not None
    assert (second.round, second.attempt) == (100, 2)
    assert second.token != first.token
    assert claim_round(world.database, now_s=now_s + 29, lease_s=10) is None
    assert claim_round(world.database, now_s=now_s + 30, lease_s=10) is not None


def test_a_lease_of_a_clock_that_was_ahead_holds_nobody_off(world: "World") -> None:
    """A year ahead by mistake, then dead: the round is closed as soon as the clock is right."""
    world.close_time(100)
    now_s = world.clock.now_s()
    begin_rounds(world.database, world.documents, now_s=now_s)
    ahead = claim_round(world.database, now_s=now_s + 31_536_000, lease_s=10)
    assert ahead is not None
    again = claim_round(world.database, now_s=now_s, lease_s=10)
    assert again is not None
    assert (again.round, again.attempt) == (100, 2)


def test_a_round_is_gone_on_with_once_the_database_can_be_used(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a full disk kept from its end waits for no lease: the closer still holds it."""
    world.close_time(100)
    closer = world.closer(lease_s=3600)

    def full(*arguments: object, **named: object) -> None:
        raise StorageBusy("the disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr("rase.shuffler.release.check_lease", full)
        for _ in range(3):
            with pytest.raises(StorageBusy):
                closer.close_one()
    assert closer.close_one() is not None
    assert world.rows("SELECT round, state, attempts FROM round") == [(100, "below_k", 1)]


def test_losing_the_lease_is_counted(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """A closer that was overtaken says so and goes on."""
    from rase.shuffler.rounds import LeaseLost

    def lose(*arguments: object, **named: object) -> None:
        raise LeaseLost("gone")

    monkeypatch.setattr("rase.shuffler.release.check_lease", lose)
    world.close_time(100)
    assert world.closer().close_one() is None
    assert world.counters()["leases_lost"] == 1


def test_a_round_of_a_campaign_not_seen_yet_waits(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a campaign was agreed after the closer looked, its round is left for the next step."""
    from rase.shuffler.documents import Documents

    world.close_time(100)
    begin_rounds(world.database, world.documents, now_s=world.clock.now_s())
    monkeypatch.setattr("rase.shuffler.closer.load_documents", lambda *_: Documents())
    assert world.closer().close_one() is None
    monkeypatch.undo()
    world.clock.advance(2)
    assert world.closer().close_one() is not None


def test_the_outbox_is_sent_until_taken(world: "World") -> None:
    """LATER repeats the same bytes after a pause; taken and final end it."""
    world.close_time(101)
    closer = world.closer()
    for _ in range(2):
        closer.close_one()
    world.ear.answers = [Answer.LATER, Answer.FINAL]
    for _ in range(2):
        closer.forward_one()
    assert world.rows("SELECT state, attempts FROM outbox") == [("waiting", 1)]
    assert closer.forward_one() is None
    world.clock.advance(300)
    forwarded = closer.forward_one()
    assert forwarded is not None
    assert (forwarded.answer, forwarded.attempt) == (Answer.ACCEPTED, 2)
    assert world.rows("SELECT state FROM outbox") == []
    counters = world.counters()
    assert {name: counters[f"batches_{name}"] for name in ("later", "final")} == {
        "later": 1,
        "final": 1,
    }


def test_one_batch_that_is_taken_hurries_the_others(world: "World") -> None:
    """After an outage with many attempts nothing waits out its long pause: the centre is there."""
    world.close_time(100)
    closer = world.closer()
    closer.close_one()
    world.ear.answers = [Answer.LATER] * 8
    for _ in range(8):
        assert closer.forward_one() is not None
        world.clock.advance(300)
    ((due_s, attempts),) = world.rows("SELECT next_s, attempts FROM outbox")
    world.clock.jump(due_s - 120 - world.clock.now_s())
    assert (attempts, closer.forward_one()) == (8, None)
    world.close_time(101)
    world.clock.jump(min(due_s - 120 - world.clock.now_s(), 0))
    assert closer.close_one() is not None
    taken = closer.forward_one()
    assert taken is not None
    assert (taken.round, taken.answer) == (101, Answer.ACCEPTED)
    world.clock.advance(2)
    late = closer.forward_one()
    assert late is not None
    assert (late.round, late.attempt, late.answer) == (100, 9, Answer.ACCEPTED)
    assert world.rows("SELECT batch FROM outbox") == []


@pytest.mark.parametrize(("ahead_s", "attempts"), [(100, 0), (31_536_000, 0), (31_536_000, 1)])
def test_a_batch_of_a_clock_that_was_ahead_is_sent_now(
    world: "World", ahead_s: int, attempts: int
) -> None:
    """Neither its first attempt nor a later one waits until the wrong time has come."""
    world.close_time(100)
    world.clock.jump(ahead_s)
    closer = world.closer()
    closer.close_one()
    world.ear.answers = [Answer.LATER] * attempts
    for _ in range(attempts):
        assert closer.forward_one() is not None
    world.clock.jump(-ahead_s)
    forwarded = closer.forward_one()
    assert forwarded is not None
    assert (forwarded.round, forwarded.answer) == (100, Answer.ACCEPTED)


def test_attempts_that_met_nobody_are_no_refusals(world: "World") -> None:
    """After an outage one damaged transfer does not end the sending of a sound batch."""
    world.close_time(100)
    closer = world.closer()
    closer.close_one()
    world.ear.answers = [Answer.LATER] * 5 + [Answer.REFUSED]
    for _ in range(6):
        assert closer.forward_one() is not None
        world.clock.advance(600)
    assert world.rows("SELECT state, attempts, refusals FROM outbox") == [("waiting", 6, 1)]
    taken = closer.forward_one()
    assert taken is not None
    assert taken.answer is Answer.ACCEPTED


def test_a_refused_batch_is_tried_again_and_then_kept(world: "World") -> None:
    """Damage on the way is mended by the same bytes; what stays refused waits for operators."""
    world.close_time(100)
    closer = world.closer()
    closer.close_one()
    world.ear.answers = [Answer.REFUSED] * 4
    for attempt in range(1, 5):
        forwarded = closer.forward_one()
        assert forwarded is not None
        assert (forwarded.answer, forwarded.attempt) == (Answer.REFUSED, attempt)
        assert 2**attempt // 2 < forwarded.retry_s <= 2**attempt
        world.clock.advance(600)
    assert world.rows("SELECT state, attempts FROM outbox") == [("refused", 4)]
    assert closer.forward_one() is None
    assert world.counters()["batches_refused"] == 4


@pytest.mark.parametrize(
    ("status", "problem", "answer"),
    [
        (201, None, Answer.ACCEPTED),
        (200, None, Answer.ACCEPTED),
        (409, "final-round", Answer.FINAL),
        (400, "bad-batch", Answer.REFUSED),
        (422, "below-k", Answer.REFUSED),
        (404, "unknown-campaign", Answer.LATER),
        (503, "unavailable", Answer.LATER),
        (409, None, Answer.LATER),
        (502, None, Answer.LATER),
        (None, None, Answer.LATER),
    ],
)
def test_answers_over_http(status: int | None, problem: str | None, answer: Answer) -> None:
    """Only the protocol's own words end the sending; proxies and outages do not."""
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if status is None:
            raise httpx.ConnectError("no")
        body = b"<html>" if problem is None else Problem(PROBLEM_TYPES[problem]).to_json()
        return httpx.Response(status, content=body)

    client = httpx.Client(transport=httpx.MockTransport(handle))
    sender = HttpSender("http://localhost:1/", client=client)
    assert sender.send(b"\x01" * 32, b"body", b"manifest") is answer
    assert str(seen[0].url) == f"http://localhost:1/v1/batches/{'01' * 32}"
    assert (seen[0].method, seen[0].content) == ("PUT", b"body")
    # The manifest goes ahead: the fusion centre reads no body without one.
    assert header_of(b"manifest").items() <= {
        (name, seen[0].headers.get(name, "")) for name in header_of(b"")
    }
    assert seen[0].headers["Content-Type"] == "application/rase-batch"
    sender.close()


class Listener(HTTPServer):
    """Take any batch, and remember which address was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.asked: list[str] = []

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Listen in a thread; give the address."""
        thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{self.server_port}"
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class _Taking(BaseHTTPRequestHandler):
    server: Listener

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(self.path)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def test_a_proxy_is_asked_for_others_and_never_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proxy variables of the environment count, except for loopback addresses."""
    fusion, proxy = Listener(), Listener()
    with fusion.listening() as fusion_url, proxy.listening() as proxy_url:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy_url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for url in (fusion_url, fusion_url.replace("127.0.0.1", "localhost")):
            with closing(HttpSender(url)) as sender:
                assert sender.send(bytes(32), b"body", b"manifest") is Answer.ACCEPTED
        assert (len(fusion.asked), proxy.asked) == (2, [])
        with closing(HttpSender("http://fusion.example")) as sender:
            assert sender.send(bytes(32), b"body", b"manifest") is Answer.ACCEPTED
        assert proxy.asked == [f"http://fusion.example/v1/batches/{'00' * 32}"]


def test_the_loop_goes_on_after_failures(
    world: "World", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A database that cannot be used now is told, and tried again until told to stop."""
    monkeypatch.setattr("rase.shuffler.closer._WAIT_S", 0)
    world.close_time(100)
    closer, stop = world.closer(), threading.Event()
    steps = iter([StorageBusy("the disk is full."), None, None])
    original = closer.step

    def step() -> bool:
        error = next(steps, None)
        if error is not None:
            raise error
        if world.ear.batches:
            stop.set()
        return original()

    monkeypatch.setattr(closer, "step", step)
    closer.run(stop)
    assert world.rows("SELECT count(*) FROM enrolment_token") == [(0,)], "old tokens are forgotten"
    assert list(world.ear.batches) == [(100, 0)]
    assert 'closer_failed error="the disk is full."' in capsys.readouterr().err
    assert world.counters()["closer_failures"] == 1


def test_pauses_begin_anew_after_a_step_that_worked(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures with work between them do not add up to a long pause."""
    closer, stop = world.closer(), threading.Event()
    steps = iter([False, True, False, True, False, None])
    pauses: list[float | None] = []

    def step() -> bool:
        works = next(steps)
        if works is None:
            stop.set()
        if works is False:
            raise StorageBusy("the disk is full.")
        return bool(works)

    monkeypatch.setattr(closer, "step", step)
    monkeypatch.setattr(stop, "wait", pauses.append)
    closer.run(stop)
    assert pauses == [0.5, 0.5, 0.5, 0.5]


def test_a_damaged_database_ends_the_loop(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """What trying again cannot mend is raised, so that the program ends with its code."""
    closer = world.closer()

    def step() -> bool:
        raise StorageUnusable("the database is damaged.")

    monkeypatch.setattr(closer, "step", step)
    with pytest.raises(StorageUnusable):
        closer.run(threading.Event())
