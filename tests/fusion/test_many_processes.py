"""Several fusion centres on one PostgreSQL: batches count once, rounds are numbered in order."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    ROUND,
    Centre,
    Pasts,
    keyset,
    made_centre,
    parcel,
    reports,
)

from rase.errors import StorageBusy, WireError
from rase.fusion.subscribers import list_access, record_access
from rase.storage.interface import Database, Transaction
from rase.storage.opening import open_database
from rase.storage.postgres import _OPTIONS

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer


@pytest.fixture
def centres(
    postgres: "PostgresServer", pasts: Callable[["PostgresServer | None"], Pasts], path: Path
) -> Iterator[list[Centre]]:
    """Three processes of one fusion centre."""
    with ExitStack() as stack:
        first = stack.enter_context(pasts(postgres).centre(path))
        others = [open_database(first.address, migrations="fusion") for _ in range(2)]
        for database in others:
            stack.callback(database.close)
        yield [first, *(Centre(database, first.clock) for database in others)]


class Overtaken:
    """A database in which another process is faster, just before the transaction."""

    def __init__(self, database: Database, overtake: Callable[[], object]) -> None:
        self._database = database
        self._overtake = overtake
        self.snapshot = database.snapshot

    @contextmanager
    def share(self) -> Iterator[Transaction]:
        """Let the other one go first."""
        self._overtake()
        with self._database.share() as transaction:
            yield transaction


def test_a_batch_that_another_process_takes_meanwhile_is_known(centres: list[Centre]) -> None:
    """Both senders are told that it is there, and it counts once."""
    one, other, _ = centres
    sent = parcel(reports([1, 2, 3, 4]))
    database = one.database
    one.database = Overtaken(  # type: ignore[assignment]
        database, lambda: sent.deliver(other.intake)
    )
    one.__post_init__()
    assert not sent.deliver(one.intake).is_new
    with database.snapshot() as transaction:
        assert transaction.execute("SELECT batches FROM rounds") == [(1,)]


def test_a_round_that_another_process_made_final_takes_no_batch(centres: list[Centre]) -> None:
    """What comes too late is refused, and leaves nothing."""
    one, other, _ = centres
    first, late = parcel(reports([1, 2, 3, 4])), parcel(reports([5, 6, 7, 8]))
    first.deliver(other.intake)
    one.database = Overtaken(one.database, other.rounds.tick)  # type: ignore[assignment]
    one.__post_init__()
    with pytest.raises(WireError, match="final"):
        late.deliver(one.intake)
    with other.database.snapshot() as transaction:
        assert transaction.execute("SELECT batches, state FROM rounds") == [(1, "final")]


def test_batches_and_ends_of_rounds_at_once(centres: list[Centre]) -> None:
    """Every batch is sent to all three, which also finalise: numbers have no gap and no double."""
    rounds = range(ROUND, ROUND + 12)
    centres[0].publisher.publish_keyset(keyset(7, version=2))
    centres[0].clock.jump(CAMPAIGN.closes_s(rounds[-1]) + 60 - centres[0].clock.now_s())
    parcels = [parcel(reports([1, 2, 3, 4], round=round), round=round) for round in rounds]
    seen: list[int] = []

    def work(centre: Centre) -> int:
        news = 0
        for sent in parcels:
            # Another process may have made the round final already.
            with suppress(WireError):
                news += sent.deliver(centre.intake).is_new
            centre.rounds.tick()
            with centre.database.snapshot() as transaction:
                ((last, count),) = transaction.execute(
                    "SELECT MAX(sequence), COUNT(sequence) FROM rounds"
                )
            # Whoever follows the numbers has seen all before the last one.
            seen.append((last or 0) - count)
        return news

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(work, centres)) == len(rounds)
    with centres[0].database.snapshot() as transaction:
        rows = transaction.execute("SELECT sequence, batches, state FROM rounds ORDER BY sequence")
    assert rows == [(number, 1, "final") for number in range(1, len(rounds) + 1)]
    assert set(seen) == {0}
    assert centres[0].count("answers") == len(rounds) * len(CAMPAIGN.estimators)


class Numbering:
    """A database in which another process finalises just after a number was looked up."""

    def __init__(self, database: Database, meanwhile: Callable[[], object]) -> None:
        self._database = database
        self._meanwhile = meanwhile
        self.snapshot = database.snapshot
        self.scrub = database.scrub

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Let the other one try in the middle."""
        with self._database.transaction() as transaction:
            self._transaction = transaction
            yield self

    def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run a statement."""
        found = self._transaction.execute(sql, parameters)
        if "MAX(sequence)" in sql:
            self._meanwhile()
        return found

    def execute_many(self, sql: str, rows: Any) -> int:
        """Run a statement for each row."""
        return self._transaction.execute_many(sql, rows)


def test_who_looked_up_a_number_is_not_overtaken(
    postgres: "PostgresServer", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process cannot take the same number, nor a later one before it."""
    monkeypatch.setitem(_OPTIONS, "lock_timeout", "50ms")
    address, waited = postgres.new_database(), []
    with made_centre(address) as one, closing(open_database(address, migrations="fusion")) as two:
        other = Centre(two, one.clock)
        one.clock.jump(CAMPAIGN.closes_s(ROUND + 1) + 60 - one.clock.now_s())
        for round in (ROUND, ROUND + 1):
            sent = parcel(reports([1, 2, 3, 4], round=round), round=round)
            sent.deliver(one.intake)

        def meanwhile() -> None:
            with pytest.raises(StorageBusy):
                other.rounds.finalise_due()
            waited.append(1)

        one.database = Numbering(one.database, meanwhile)  # type: ignore[assignment]
        one.__post_init__()
        assert len(one.rounds.finalise_due()) == 2
        assert one.rounds.take_failed() == []
    assert len(waited) == 2


def test_every_question_has_a_line_in_the_log(centres: list[Centre]) -> None:
    """Lines that several processes write at once are all there."""

    def ask(centre: Centre) -> None:
        for number in range(10):
            record_access(
                centre.database, centre.clock, subscriber="me", question=str(number), answer="200"
            )

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(ask, centres))
    assert len(list_access(centres[0].database)) == 30
