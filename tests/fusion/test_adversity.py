"""Wrong clocks, full disks, damaged files, races: each a named problem, and nothing else disturbed.

Each test keeps something that once went wrong, or that would go unseen if it did.
"""

import csv
import io
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from tests.fusion.conftest import (
    CAMPAIGN,
    ROUND,
    Centre,
    Parcel,
    app_of,
    ask,
    parcel,
    reports,
    served,
)
from tests.patience import until

from rase.campaign import ShufflePlan
from rase.errors import StorageBusy, WireError
from rase.fusion.formats import as_csv, as_influx
from rase.fusion.intake import Receipt
from rase.fusion.settings import FusionPolicy
from rase.fusion.subscribers import ADMIN_CAMPAIGN, add_subscriber, list_access
from rase.series.rounds import estimate_round
from rase.storage.sqlite import SqliteDatabase


def put(app: FastAPI, one: Parcel) -> httpx.Response:
    """Put a batch."""
    return ask(app, "PUT", one.path, content=one.body, headers=one.headers)


def counted(app: FastAPI, name: str) -> int:
    """Return a counter of an app."""
    return int(app.state.centre.telemetry.counters().get(f"rase_fusion_{name}_total", 0))


def limit_pages(database: SqliteDatabase, more: int | None) -> None:
    """Leave room for so many more pages on a simulated disk; None for plenty."""
    with database._connection(may_write=True) as connection:
        ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
        most = 2**31 if more is None else pages + more
        connection.execute(f"PRAGMA max_page_count = {most}")


def test_the_same_batch_many_times_at_once_is_taken_once(centre: Centre) -> None:
    """Threads that put two batches of a round, again and again, while rounds become final."""
    batches = [parcel(reports([place] * 5)) for place in (100, 200)]
    begin = threading.Barrier(9)

    def deliver(number: int) -> Receipt | str:
        begin.wait()
        one = batches[number % 2]
        try:
            return one.deliver(centre.intake)
        except WireError as error:
            return error.problem

    def tick() -> int:
        begin.wait()
        return sum(len(centre.rounds.tick()) for _ in range(20))

    with ThreadPoolExecutor(9) as threads:
        delivered = [threads.submit(deliver, number) for number in range(8)]
        ticked = threads.submit(tick)
        outcomes = [one.result() for one in delivered]
    assert ticked.result() + len(centre.rounds.tick()) == 1
    new = [one for one in outcomes if isinstance(one, Receipt) and one.is_new]
    assert len(new) == centre.count("batches")
    # What came too late was told so; what was taken in is counted, once.
    assert {one for one in outcomes if isinstance(one, str)} <= {"final-round"}
    answer = centre.questions.at(CAMPAIGN, ROUND)
    assert (answer.status, answer.n) == ("ok", 5 * len(new))
    assert centre.count("opened") == 0


def test_a_batch_that_comes_while_its_round_is_estimated_is_in_it(
    centre: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate of what was read before is thrown away, not written."""
    from rase.fusion import rounds

    first, second = parcel(reports([0] * 5)), parcel(reports([4096] * 5))
    first.deliver(centre.intake)

    def slowly(*args: object, **more: object) -> object:
        estimates = estimate_round(*args, **more)  # type: ignore[arg-type]
        second.deliver(centre.intake)
        return estimates

    monkeypatch.setattr(rounds, "estimate_round", slowly)
    assert centre.rounds.tick() == []
    assert len(centre.rounds.tick()) == 1
    assert centre.questions.at(CAMPAIGN, ROUND).n == 10


def test_a_round_stamped_by_a_wrong_clock_does_not_wait_for_it(centre: Centre) -> None:
    """A clock that was a year ahead for a while leaves no round behind."""
    centre.clock.jump(365 * 86400)
    one = parcel(reports([1] * 5))
    one.deliver(centre.intake)
    centre.clock.jump(-365 * 86400)
    assert [done.round for done in centre.rounds.tick()] == [ROUND]


def test_reports_kept_by_a_wrong_clock_are_deleted_in_time(centre: Centre) -> None:
    """No report outlives the policy because the clock was wrong when its round became final."""
    centre.policy = FusionPolicy(keep_values_s=3600)
    centre.__post_init__()
    one = parcel(reports([1] * 5))
    centre.clock.jump(365 * 86400)
    one.deliver(centre.intake)
    centre.rounds.tick()
    assert centre.count("opened") == 1
    centre.clock.jump(-365 * 86400)
    centre.rounds.tick()
    assert centre.count("opened") == 0


def test_a_clock_that_goes_back_refuses_what_has_not_ended(centre: Centre) -> None:
    """The shuffler is told to come again, and later the same bytes are taken."""
    app = app_of(centre)
    one = parcel(reports([1] * 5))
    centre.clock.jump(-7200)
    answer = put(app, one)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:rase:problem:round-not-open")
    centre.clock.jump(7200)
    assert put(app, one).status_code == 201


@pytest.mark.uncovered
@pytest.mark.sqlite
def test_a_full_disk_stops_nothing_for_good(centre: Centre) -> None:
    """Batches, questions and rounds wait for room, by name; then all goes on."""
    token = {"Authorization": f"Bearer {add_subscriber(centre.database, 'a')}"}
    app = app_of(centre)
    first, second = (parcel(reports([1] * 40, round=r), round=r) for r in (ROUND - 1, ROUND))
    assert put(app, first).status_code == 201
    database = centre.database
    assert isinstance(database, SqliteDatabase)
    limit_pages(database, 0)
    # More than fits into the pages that a migration left free.
    large = parcel(reports([2] * 1600))
    answer = put(app, large)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:rase:problem:unavailable")
    assert counted(app, "problem_unavailable") == 1
    assert ask(app, "GET", "/readyz").status_code == 200
    limit_pages(database, None)
    assert put(app, second).status_code == 201
    app.state.centre.tick()
    rows = ask(app, "GET", "/v1/estimates", headers=token).json()
    assert [row["n"] for row in rows] == [40, 40]


def test_a_disk_that_fills_while_rounds_become_final(
    centre: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds that were final before are told; the others become it later, with nothing lost."""
    for round in (ROUND - 1, ROUND):
        one = parcel(reports([1] * 5, round=round), round=round)
        one.deliver(centre.intake)
    real = centre.rounds._finalise

    def filling(campaign: str, round: int) -> object:
        if round == ROUND:
            raise StorageBusy("the database cannot be used now: disk full.")
        return real(campaign, round)

    with monkeypatch.context() as full:
        full.setattr(centre.rounds, "_finalise", filling)
        assert [done.round for done in centre.rounds.tick()] == [ROUND - 1]
        with pytest.raises(StorageBusy):
            centre.rounds.tick()
        assert centre.rounds.take_failed() == []
    assert [done.round for done in centre.rounds.tick()] == [ROUND]


def test_failures_of_the_work_are_counted_and_rest(centre: Centre) -> None:
    """A server whose database fails says so ever less often, and goes on when it is mended."""
    with centre.database.transaction() as transaction:
        transaction.execute("ALTER TABLE rounds RENAME TO gone")
    app = app_of(centre)
    log = app.state.centre.telemetry._stream
    assert isinstance(log, io.StringIO)
    with served(app):
        until(lambda: counted(app, "ticks_failed") >= 3)
        with centre.database.transaction() as transaction:
            transaction.execute("ALTER TABLE gone RENAME TO rounds")
    waits = [float(line.rpartition("=")[2]) for line in log.getvalue().splitlines()]
    assert waits[:3] == [0.1, 0.2, 0.4]
    assert "tick_failed error=StorageError" in log.getvalue()


def test_one_damaged_round_is_named_and_harms_no_other(centre: Centre) -> None:
    """Bytes that were cut off on the disk spoil their round alone."""
    for round in (ROUND - 1, ROUND):
        one = parcel(reports([1] * 5, round=round), round=round)
        one.deliver(centre.intake)
    with centre.database.transaction() as transaction:
        transaction.execute("UPDATE opened SET places = ? WHERE round = ?", (b"xyz", ROUND - 1))
    app = app_of(centre)
    assert [done.round for done in app.state.centre.tick()] == [ROUND]
    assert counted(app, "rounds_failed") == 1
    log = app.state.centre.telemetry._stream.getvalue()
    assert f"round_failed campaign=street-power round={ROUND - 1} error=ValueError" in log
    assert centre.questions.at(CAMPAIGN, ROUND).status == "ok"
    assert centre.questions.at(CAMPAIGN, ROUND - 1).status == "gap"


@pytest.mark.sqlite
def test_a_damaged_database_is_named(path: Path, centre: Centre) -> None:
    """Every route says that nothing can be stored; the server lives and is not ready."""
    token = {"Authorization": f"Bearer {add_subscriber(centre.database, 'a')}"}
    app = app_of(centre)
    centre.database.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    path.write_bytes(b"no database at all" * 1000)
    for answer in (
        put(app, parcel(reports([1] * 5))),
        ask(app, "GET", "/v1/estimates", headers=token),
        ask(app, "GET", "/v1/stream", headers=token),
    ):
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:rase:problem:unavailable")
        assert str(path) not in answer.text
    assert counted(app, "problem_unavailable") == 3
    assert ask(app, "GET", "/readyz").status_code == 503
    assert ask(app, "GET", "/healthz").status_code == 200


def test_a_manifest_that_cannot_be_told_is_refused_at_once(centre: Centre) -> None:
    """A signed success above 1 once left its round open for ever."""
    asked = replace(
        CAMPAIGN, id="mallows-street", shuffle=ShufflePlan("mallows", alpha=2.0, groups=("a", "b"))
    )
    centre.clock.jump(-3 * 3600)
    centre.publisher.publish(asked)
    centre.clock.jump(3 * 3600)
    said = {"method": "mallows", "theta": 0.5, "alpha": 1.0, "campaign": asked}
    envelopes = reports([1] * 5, campaign=asked)
    for success, problem in ((5.0, "bad-batch"), (1.0 + 1e-12, None)):
        one = parcel(envelopes, attacker_success=success, **said)  # type: ignore[arg-type]
        if problem is None:
            assert one.deliver(centre.intake).is_new
        else:
            with pytest.raises(WireError) as refused:
                one.deliver(centre.intake)
            assert refused.value.problem == problem
    assert [done.campaign for done in centre.rounds.tick()] == [asked.id]
    assert centre.rounds.take_failed() == []


def test_a_version_is_of_the_campaign_that_was_named(centre: Centre) -> None:
    """A token for new versions makes no campaign of another name, nor skips a version."""
    token = add_subscriber(centre.database, "admin", scopes=(ADMIN_CAMPAIGN,))
    app = app_of(centre, publisher=centre.publisher)
    for more in ({"id": "another-street", "version": 1}, {"version": 7}):
        answer = ask(
            app,
            "POST",
            "/v1/campaigns/street-power/versions",
            headers={"Authorization": f"Bearer {token}"},
            json={"not_before": ROUND + 9, **more},
        )
        assert (answer.status_code, answer.json()["type"]) == (400, "urn:rase:problem:bad-question")
    assert centre.count("campaigns") == 1


def test_no_line_of_the_access_log_can_be_forged(centre: Centre) -> None:
    """An address with line breaks and escapes in it is written as it was sent."""
    token = add_subscriber(centre.database, "admin", scopes=(ADMIN_CAMPAIGN,))
    path = "/v1/campaigns/x%0Aadmin%20GET%1B%5B2J/effect"
    ask(app_of(centre), "GET", path, headers={"Authorization": f"Bearer {token}"})
    (line,) = list_access(centre.database)
    assert line.question == f"GET {path}"


def test_windows_from_a_time_reach_to_the_newest_round(centre: Centre) -> None:
    """Without an end all windows since a time are told, not refused as too many."""
    for round in (ROUND - 1, ROUND):
        one = parcel(reports([1] * 5, round=round), round=round)
        one.deliver(centre.intake)
    centre.rounds.tick()
    token = {"Authorization": f"Bearer {add_subscriber(centre.database, 'a')}"}
    app = app_of(centre)
    for begin, expected in ((ROUND - 1, ["gap", "ok"]), (ROUND + 5, ["gap"])):
        query = f"/v1/windows?w=2&from={begin * 3600 * 1000}"
        answer = ask(app, "GET", query, headers=token)
        assert [row["status"] for row in answer.json()] == expected


@pytest.mark.parametrize("w", ["9" * 5000, "9" * 5000 + "h", "0" * 41])
def test_endless_numbers_are_refused_in_our_words(centre: Centre, w: str) -> None:
    """What Python would say of them is not told."""
    one = parcel(reports([1] * 5))
    one.deliver(centre.intake)
    centre.rounds.tick()
    token = {"Authorization": f"Bearer {add_subscriber(centre.database, 'a')}"}
    answer = ask(app_of(centre), "GET", f"/v1/windows?w={w}", headers=token)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("w must be a number of rounds or a duration")


def test_words_with_commas_and_quotes_stay_in_their_cells(centre: Centre) -> None:
    """CSV is read back as it was; Influx lines hold no words but those we chose."""
    one = parcel(reports([1] * 5))
    one.deliver(centre.intake)
    centre.rounds.tick()
    odd = "a,\"b\";'c' =d e\\"
    answer = replace(centre.questions.at(CAMPAIGN, ROUND), unit=odd, shuffle=odd)
    (row,) = csv.DictReader(io.StringIO(as_csv([answer]).decode()))
    assert (row["unit"], row["shuffle"], row["n"]) == (odd, odd, "5")
    (line,) = as_influx([answer]).decode().splitlines()
    assert len(line.split(" ")) == 3
    assert odd not in line
