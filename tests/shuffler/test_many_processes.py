"""Several intakes and closers on one PostgreSQL: who may take a round, and what is in it then."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.enrolling import enrol
from tests.shuffler.conftest import FIRST, World

from rase.shuffler.enrolment import NotEnrolled, make_tokens
from rase.shuffler.forward import forward_one
from rase.shuffler.intake import Outcome, Pending, check_report, round_is_open, store_reports
from rase.shuffler.rounds import LeaseLost, begin_rounds, claim_round
from rase.storage.interface import Transaction

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer


class SharedWorld(World):
    """A shuffler whose processes share a database of PostgreSQL."""

    def pending(self, device: int, round: int, wire: bytes | None = None) -> Pending:
        """Return a report that has passed all checks but those of the database."""
        return check_report(
            wire or self.seal(round),
            self.devices[device],
            documents=self.documents,
            now_s=self.clock.now_s(),
        )


@pytest.fixture
def world(postgres: "PostgresServer") -> Iterator[SharedWorld]:
    """A world of four devices."""
    made = SharedWorld(postgres.new_database())
    yield made
    made.close()


def test_no_round_is_taken_while_reports_are_written_to_it(world: SharedWorld) -> None:
    """The closer skips the round until the intake has committed; then the intake finds it shut."""
    world.upload_time(FIRST)
    agreed = world.documents.of_tag(world.hash[:8])
    assert agreed is not None
    assert world.send(0, world.seal(FIRST)) is Outcome.STORED
    intake, closer = world.opened(), world.opened()
    world.close_time(FIRST)
    now_s = world.clock.now_s()
    with intake.share() as transaction:
        assert round_is_open(transaction, agreed, FIRST)
        assert claim_round(closer, now_s=now_s, lease_s=1) is None
    begin_rounds(closer, world.documents, now_s=now_s)
    assert claim_round(closer, now_s=now_s, lease_s=1) is not None
    with intake.share() as transaction:
        assert not round_is_open(transaction, agreed, FIRST)


class Overtaken:
    """A transaction in which other processes are faster, once, after a statement."""

    def __init__(self, transaction: Any, after: str, overtake: Callable[[], object]) -> None:
        self._transaction = transaction
        self._after = after
        self._overtake: Callable[[], object] | None = overtake

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        """Run a statement, and let the others go then."""
        found = self._transaction.execute(sql, parameters)
        if sql.startswith(self._after) and self._overtake is not None:
            overtake, self._overtake = self._overtake, None
            overtake()
        return found


def test_a_round_that_a_closer_began_and_took_is_closed(world: SharedWorld) -> None:
    """An intake that saw no row yet asks whether the closer is past that round."""
    world.upload_time(FIRST)
    report = world.pending(0, FIRST)
    world.close_time(FIRST)
    intake, closer, now_s = world.opened(), world.opened(), world.clock.now_s()

    def take() -> None:
        begin_rounds(closer, world.documents, now_s=now_s)
        assert claim_round(closer, now_s=now_s, lease_s=1) is not None

    with intake.share() as transaction:
        late = Overtaken(transaction, "SELECT state", take)
        assert not round_is_open(cast("Transaction", late), report.agreed, FIRST)


def test_a_round_that_an_intake_began_and_a_closer_took_is_closed(world: SharedWorld) -> None:
    """An intake whose row was there already looks at it again."""
    world.upload_time(FIRST)
    reports = [world.pending(device, FIRST) for device in range(2)]
    world.close_time(FIRST)
    intake, other, closer = world.opened(), world.opened(), world.opened()

    def take() -> None:
        assert store_reports(other, reports[1:]) == [Outcome.STORED]
        assert claim_round(closer, now_s=world.clock.now_s(), lease_s=1) is not None

    with intake.share() as transaction:
        late = Overtaken(transaction, "SELECT next_round", take)
        assert not round_is_open(cast("Transaction", late), reports[0].agreed, FIRST)


def test_reports_are_in_the_batch_or_refused_whatever_the_race(world: SharedWorld) -> None:
    """Three intakes take every report twice while two closers close: none lost, none twice."""
    devices, rounds = 4, range(FIRST, FIRST + 12)
    intakes = [world.opened() for _ in range(3)]
    closers = [world.closer(world.opened(), lease_s=60) for _ in range(2)]
    fates: Counter[str] = Counter()
    with ThreadPoolExecutor(5) as pool:
        for round in rounds:
            world.upload_time(round)
            reports = [world.pending(device, round) for device in range(devices)]
            # Until now the round has no row, or is open with some reports in it.
            early = reports[:2] if round % 2 else []
            if early:
                store_reports(intakes[0], early)
            world.close_time(round)
            parts = [reports[:3], list(reversed(reports)), reports[1:]]
            stored = [
                pool.submit(store_reports, intake, part)
                for intake, part in zip(intakes, parts, strict=True)
            ]
            closing = [pool.submit(closer.close_one) for closer in closers]
            outcomes = [
                (report.wire, outcome)
                for part, future in zip(parts, stored, strict=True)
                for report, outcome in zip(part, future.result(), strict=True)
            ]
            closed = [future.result() for future in closing]
            while not any(closed):
                closed = [closer.close_one() for closer in closers]
            assert sum(one is not None for one in closed) == 1
            taken = {wire for wire, outcome in outcomes if outcome is not Outcome.CLOSED}
            taken |= {report.wire for report in early}
            news = Counter(wire for wire, outcome in outcomes if outcome is Outcome.STORED)
            assert max(news.values(), default=1) == 1
            (one,) = [found for found in closed if found is not None]
            assert one.released + one.dropped == len(taken)
            fates.update(outcome.value for _, outcome in outcomes)
    assert world.rows("SELECT count(*) FROM report") == [(0,)]
    assert fates["stored"] + fates["closed"] > 0


def test_each_closer_takes_another_round_and_forwards_another_batch(world: SharedWorld) -> None:
    """Two that come at once neither wait for each other nor do the same."""
    for round in (FIRST, FIRST + 1):
        world.upload_time(round)
        for device in range(4):
            world.send(device, world.seal(round))
    world.close_time(FIRST + 1)
    now_s = world.clock.now_s()
    one, other = world.opened(), world.opened()
    begin_rounds(one, world.documents, now_s=now_s)
    begin_rounds(other, world.documents, now_s=now_s)
    leases = [claim_round(database, now_s=now_s, lease_s=60) for database in (one, other)]
    assert [lease and lease.round for lease in leases] == [FIRST, FIRST + 1]
    assert claim_round(one, now_s=now_s, lease_s=60) is None
    agreed = world.documents.of_tag(world.hash[:8])
    assert agreed is not None
    for database, lease in zip((one, other), leases, strict=True):
        assert lease is not None
        assert (
            world.releaser(database)
            .close(lease, agreed, documents=world.documents, now_s=now_s)
            .released
            == 4
        )
    forwarded = [forward_one(database, world.ear, now_s=now_s) for database in (one, other)]
    assert {found and found.round for found in forwarded} == {FIRST, FIRST + 1}
    assert forward_one(one, world.ear, now_s=now_s) is None


def test_who_lost_its_lease_writes_nothing(world: SharedWorld) -> None:
    """A closer that was too slow finds that another took over, and only one order is kept."""
    world.upload_time(FIRST)
    for device in range(4):
        world.send(device, world.seal(FIRST))
    world.close_time(FIRST)
    now_s = world.clock.now_s()
    slow, quick = world.opened(), world.opened()
    begin_rounds(slow, world.documents, now_s=now_s)
    old = claim_round(slow, now_s=now_s, lease_s=1)
    new = claim_round(quick, now_s=now_s + 2, lease_s=1)
    agreed = world.documents.of_tag(world.hash[:8])
    assert old is not None
    assert new is not None
    assert agreed is not None
    assert (old.attempt, new.attempt) == (1, 2)
    with pytest.raises(LeaseLost):
        world.releaser(slow).close(old, agreed, documents=world.documents, now_s=now_s)
    assert (
        world.releaser(quick).close(new, agreed, documents=world.documents, now_s=now_s).released
        == 4
    )
    assert world.rows("SELECT count(*) FROM outbox") == [(1,)]


def test_a_token_enrols_one_device_however_many_ask(world: SharedWorld) -> None:
    """Of several that show one token at once, one is enrolled."""
    now_s = world.clock.now_s()
    (token,) = make_tokens(world.database, 1, expires_s=int(now_s) + 100)
    databases = [world.opened() for _ in range(4)]

    def ask(number: int) -> bool:
        try:
            enrol(databases[number], token, number=number, now_s=now_s)
        except NotEnrolled:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(ask, range(4))) == 1
    assert world.rows("SELECT count(*) FROM device") == [(5,)]
