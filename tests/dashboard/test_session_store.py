"""Sessions that outlive the server, and what somebody finds who reads its database."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.dashboard.conftest import Desk, add_rounds
from tests.fusion.conftest import ROUND, Centre, made_centre

from rase.clock import FakeClock
from rase.dashboard.session_store import SessionStore
from rase.dashboard.sessions import IDLE_S, LONGEST_S, Session, Sessions
from rase.errors import StorageBusy
from rase.storage.interface import Transaction

TOKEN = "rase_a-token-that-opens-everything"  # noqa: S105 - made up
SCOPES = frozenset({"read:estimates"})


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[Centre]:
    """A fusion centre with a database."""
    with made_centre(tmp_path / "fusion.sqlite") as made:
        yield made


def sessions(centre: Centre, clock: FakeClock | None = None) -> Sessions:
    """Return the sessions of a process that has just been started."""
    clock = clock or FakeClock(centre.clock.now_s())
    return Sessions(clock, store=SessionStore(centre.database, clock, LONGEST_S))


def begun(one: Sessions) -> str:
    """Begin a session."""
    return asyncio.run(one.begin(TOKEN, name="reader", scopes=SCOPES))


def recalled(one: Sessions, session_id: str | None) -> Session | None:
    """Look for a session."""
    return asyncio.run(one.recall(session_id))


def test_a_restart_logs_nobody_out(centre: Centre) -> None:
    """A new process knows the session with token, name and scopes, and none of another id."""
    made = begun(sessions(centre))
    found = recalled(sessions(centre), made)
    assert found is not None
    assert (found.token, found.name, found.scopes) == (TOKEN, "reader", SCOPES)
    for other in (None, "", "x", "x" * 43, made[:-1] + ("a" if made[-1] != "a" else "b")):
        assert recalled(sessions(centre), other) is None


def test_a_form_is_ours_after_a_restart_too(centre: Centre) -> None:
    """Its proof follows from the cookie; a proof of another cookie is none."""
    first, second = sessions(centre), sessions(centre)
    assert second.is_proof("v" * 43, first.proof("v" * 43))
    assert not second.is_proof("w" * 43, first.proof("v" * 43))


@pytest.mark.parametrize(("idle_s", "is_there"), [(IDLE_S - 120, True), (IDLE_S + 1, False)])
def test_a_restart_makes_no_session_longer(
    centre: Centre, idle_s: float, *, is_there: bool
) -> None:
    """An hour without use ends it, and so do twelve hours in any case."""
    clock = FakeClock(centre.clock.now_s())
    made = begun(sessions(centre, clock))
    later = FakeClock(clock.now_s() + idle_s)
    assert (recalled(sessions(centre, later), made) is not None) is is_there


def test_twelve_hours_are_the_end_however_often_it_is_used(centre: Centre) -> None:
    """Uses are noted in the store, so a process that comes later knows them; the end stays."""
    clock = FakeClock(centre.clock.now_s())
    made = begun(sessions(centre, clock))
    one = sessions(centre, clock)
    for _ in range(23):
        clock.advance(30 * 60)
        assert recalled(one, made) is not None
        # The second look notes the use in the store.
        assert recalled(one, made) is not None
        assert recalled(sessions(centre, clock), made) is not None
    clock.advance(30 * 60)
    assert recalled(one, made) is None
    assert recalled(sessions(centre, clock), made) is None


def test_logging_out_ends_it_in_every_process(centre: Centre) -> None:
    """At once in those that did not know it, within a minute in those that did."""
    clock = FakeClock(centre.clock.now_s())
    one, other = sessions(centre, clock), sessions(centre, clock)
    made = begun(one)
    assert recalled(other, made) is not None
    asyncio.run(one.end(made))
    asyncio.run(one.end(None))
    assert recalled(one, made) is None
    assert recalled(sessions(centre, clock), made) is None
    clock.advance(61)
    assert recalled(other, made) is None


def test_the_database_opens_nothing(centre: Centre, tmp_path: Path) -> None:
    """Neither the id nor the token nor the name is in it, and a changed row is no session."""
    made = begun(sessions(centre))
    with centre.database.snapshot() as transaction:
        rows = transaction.execute("SELECT session, sealed FROM dashboard_sessions")
    assert len(rows) == 1
    held = b"".join(path.read_bytes() for path in tmp_path.glob("fusion.sqlite*"))
    for secret in (made, TOKEN, '"reader"'):
        assert secret.encode() not in held
    name, sealed = rows[0]
    with centre.database.transaction() as transaction:
        changed = bytes([sealed[0], *sealed[1:-1], sealed[-1] ^ 1])
        transaction.execute("UPDATE dashboard_sessions SET sealed = ?", (changed,))
    assert recalled(sessions(centre), made) is None
    assert len(name) == 32


def test_old_and_too_many_rows_go(centre: Centre, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login removes what is over, and the oldest beyond a limit."""
    clock = FakeClock(centre.clock.now_s())
    one = sessions(centre, clock)
    begun(one)
    clock.advance(LONGEST_S)
    monkeypatch.setattr("rase.dashboard.session_store._MOST", 3)
    made = []
    for _ in range(5):
        clock.advance(1)
        made.append(begun(one))
    with centre.database.snapshot() as transaction:
        ((count,),) = transaction.execute("SELECT COUNT(*) FROM dashboard_sessions")
    assert count == 3
    assert recalled(sessions(centre, clock), made[-1]) is not None
    assert recalled(sessions(centre, clock), made[0]) is None


def test_a_store_that_does_not_answer_costs_a_login_at_most(
    centre: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One can log in, go on and log out; only a restart ends what was not written down."""

    @contextmanager
    def busy() -> Iterator[Transaction]:
        raise StorageBusy("the disk is asleep.")
        yield

    clock = FakeClock(centre.clock.now_s())
    one = sessions(centre, clock)
    monkeypatch.setattr(centre.database, "transaction", busy)
    monkeypatch.setattr(centre.database, "snapshot", busy)
    made = begun(one)
    clock.advance(61)
    assert recalled(one, made) is not None
    assert recalled(sessions(centre, clock), made) is None
    asyncio.run(one.end(made))
    assert recalled(one, made) is None


def test_a_visitor_stays_logged_in_over_a_restart(centre: Centre) -> None:
    """With the same cookies a new server shows the page, takes the old form, and then logs out."""
    add_rounds(centre, {ROUND: [0] * 5})

    def started(before: Desk | None = None) -> Desk:
        desk = Desk(centre, store=SessionStore(centre.database, centre.clock, LONGEST_S))
        if before is not None:
            desk.cookies = before.cookies
        return desk

    first = started()
    first.log_in(first.operator)
    form = Desk.proof(first.get("/live").text)
    second = started(first)
    assert second.get("/live").status_code == 200
    left = second.ask("POST", "/logout", data={"proof": form})
    assert left.headers["location"] == "/login?why=left"
    assert started(first).get("/live").headers["location"].startswith("/login")
