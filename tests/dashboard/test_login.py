"""Logging in and out, sessions that end, forms that are not ours, and limits on guessing."""

import asyncio

import pytest
from tests.dashboard.conftest import Desk

from rase.dashboard.sessions import IDLE_S, LONGEST_S, Sessions
from rase.fusion.subscribers import revoke_subscriber

WRONG = "rase_0000000000000000_" + "A" * 43


def test_a_token_opens_the_first_page(desk: Desk) -> None:
    """After the form one is where one wanted to be, with a cookie that scripts cannot read."""
    answer = desk.log_in(desk.reader)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "; Secure" not in cookie
    assert desk.reader not in cookie
    assert desk.get("/").headers["location"] == "/live"
    assert desk.get("/live").status_code == 200
    assert desk.get("/login?next=/rounds").headers["location"] == "/rounds"


def test_cookies_are_secure_where_the_connection_is(desk: Desk) -> None:
    """Over https the cookie never leaves on a plain connection."""
    answer = desk.get("https://desk.test/login")
    assert "; Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "rase_x", WRONG, "ü", "a\nb"])
def test_a_wrong_token_is_told_and_can_be_mended(desk: Desk, token: str) -> None:
    """The page says so and shows the form again; nothing is logged in."""
    answer = desk.log_in(token)
    assert answer.status_code == 401
    assert "This token is not valid" in answer.text
    assert desk.get("/live").headers["location"] == "/login?next=%2Flive"
    assert desk.log_in(desk.reader).status_code == 303


def test_guessing_is_limited(desk: Desk) -> None:
    """After ten wrong tokens another has to wait a minute; who has a right one is let in."""
    for _ in range(2):
        for _ in range(10):
            assert desk.log_in(WRONG).status_code == 401
        answer = desk.log_in(WRONG)
        assert answer.status_code == 429
        assert "Wait a minute" in answer.text
        desk.centre.clock.advance(61)
    for _ in range(11):
        desk.log_in(WRONG)
    assert desk.log_in(desk.reader).status_code == 303


def test_one_comes_back_to_where_one_was(desk: Desk) -> None:
    """The address of the page that needed a login is kept through the form."""
    address = desk.get("/live?range=7d&zone=UTC").headers["location"]
    page = desk.get(address)
    assert "your session has expired" in page.text
    assert 'value="/live?range=7d&amp;zone=UTC"' in page.text
    answer = desk.send(address, "/login", token=desk.reader, next="/live?range=7d&zone=UTC")
    assert answer.headers["location"] == "/live?range=7d&zone=UTC"


@pytest.mark.uncovered
@pytest.mark.parametrize(
    "after",
    ["https://evil.test/", "//evil.test", "/\\evil.test", "javascript:x", "", "/login", "/a\tb"],
)
def test_login_never_leads_to_another_site(desk: Desk, after: str) -> None:
    """Only addresses of ours are gone to."""
    answer = desk.send("/login", "/login", token=desk.reader, next=after)
    assert answer.headers["location"] == "/"


def test_logging_out_ends_the_session_itself(desk: Desk) -> None:
    """A copy of the cookie opens nothing afterwards."""
    desk.log_in(desk.reader)
    copy = desk.cookies.get("rase_session")
    assert desk.send("/live", "/logout").headers["location"] == "/login?why=left"
    assert "You are logged out" in desk.get("/login?why=left").text
    desk.cookies.set("rase_session", str(copy), domain="desk.test")
    assert desk.get("/live").status_code == 303


@pytest.mark.parametrize("idle_s", [IDLE_S, LONGEST_S])
def test_sessions_expire(desk: Desk, idle_s: float) -> None:
    """After an hour without use the page asks for the token again."""
    desk.log_in(desk.reader)
    desk.centre.clock.advance(idle_s)
    assert desk.get("/live").headers["location"] == "/login?next=%2Flive"


def test_sessions_end_after_half_a_day_of_use(desk: Desk) -> None:
    """Use prolongs a session, but not for ever."""
    desk.log_in(desk.reader)
    for _ in range(int(LONGEST_S / IDLE_S * 2) - 1):
        desk.centre.clock.advance(IDLE_S / 2)
        assert desk.get("/campaign").status_code == 200
    desk.centre.clock.advance(IDLE_S / 2)
    assert desk.get("/campaign").status_code == 303


def test_a_revoked_token_ends_the_session(desk: Desk) -> None:
    """The next page says why."""
    desk.log_in(desk.reader)
    revoke_subscriber(desk.centre.database, desk.centre.clock, name="reader")
    answer = desk.get("/live")
    assert answer.headers["location"] == "/login?next=%2Flive&why=ended"
    assert "revoked or has expired" in desk.follow(answer).text


def test_a_link_logs_in_once(desk: Desk) -> None:
    """The second use, and one that comes too late, ask for a token."""
    code = desk.sessions.offer_once(desk.operator)
    assert desk.get(f"/login/once/{code}").headers["location"] == "/"
    assert desk.get("/health").status_code == 200
    desk.cookies.clear()
    assert desk.get(f"/login/once/{code}").headers["location"] == "/login?why=once"
    late = desk.sessions.offer_once(desk.operator)
    desk.centre.clock.advance(3601)
    assert desk.get(f"/login/once/{late}").headers["location"] == "/login?why=once"


@pytest.mark.uncovered
@pytest.mark.parametrize("path", ["/login", "/logout", "/theme", "/campaign", "/subscribers"])
def test_forms_of_other_sites_are_refused(desk: Desk, path: str) -> None:
    """Without the proof, with a wrong one, and with one of another session nothing happens."""
    desk.log_in(desk.operator)
    other = Desk.proof(desk.get("/live").text)
    desk.cookies.clear()
    desk.log_in(desk.operator)
    for proof in ({}, {"proof": ""}, {"proof": "é"}, {"proof": other}):
        answer = desk.ask("POST", path, data={**proof, "token": desk.reader, "theme": "dark"})
        assert answer.status_code == 403
        assert "was not made here" in answer.text


def test_the_theme_is_remembered(desk: Desk) -> None:
    """Light and dark are chosen by a form, without scripts and before login."""
    assert '<html lang="en">' in desk.get("/login").text
    answer = desk.send("/login", "/theme", theme="dark", next="/login?next=/live")
    assert answer.headers["location"] == "/"
    assert '<html lang="en" data-theme="dark">' in desk.get("/login").text
    desk.send("/login", "/theme", theme="blue", next="/live?x=1")
    assert '<html lang="en" data-theme="dark">' in desk.get("/login").text


def test_sessions_and_failures_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither logins nor guesses can fill the memory: the oldest go first."""
    monkeypatch.setattr("rase.dashboard.sessions._MOST_SESSIONS", 2)
    monkeypatch.setattr("rase.dashboard.sessions._MOST_ADDRESSES", 2)
    sessions = Sessions(desk.centre.clock)
    made = [asyncio.run(sessions.begin("t", name="n", scopes=frozenset())) for _ in range(3)]
    assert [sessions.find(one) is None for one in made] == [True, False, False]
    for address in ("a", "b", "c"):
        for _ in range(10):
            sessions.count_failure(address)
    assert [sessions.may_try(address) for address in ("a", "b", "c")] == [True, False, False]
    assert "token" not in repr(sessions.find(made[2])).replace("Session(", "")
