"""Anything to every page: no 5xx, no markup that came from outside, headers on every answer.

The routes of dashboard and studio are asked for by name and with what their forms offer; the
owner's page reads HTTP by itself, so it is sent bytes, too.
"""

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.routing import Route
from tests.dashboard.conftest import Desk, add_rounds
from tests.device.owning import Owned, owned
from tests.fusion.conftest import ROUND, made_centre
from tests.studio.conftest import Visitor

from rase.dashboard.app import dashboard_app
from rase.dashboard.guard import HEADERS
from rase.dashboard.page import SESSION_COOKIE, VISIT_COOKIE
from rase.device.page.server import _HEADERS as OWNER_HEADERS
from rase.fusion.subscribers import ADMIN_CAMPAIGN, READ_ESTIMATES, add_subscriber
from rase.studio.attack import RUNS
from rase.studio.attack.jobs import TooManyRuns

# A stream does not end by itself; its own tests are in tests/dashboard/test_stream.py.
ENDLESS = "/live/events"
MARK = "b4711"
# Stands for more than a line may have; written out only where it is sent.
LONG = "@long@"
HOSTILE = (
    f"<{MARK}>",
    f'"><{MARK} src=x>',
    f'\'" on{MARK}="1" on{MARK}=\'1',
    f"javascript:{MARK}",
    f"//{MARK}.example/",
    f"/\\{MARK}.example",
    f"x\r\nX-{MARK}: 1\r\n\r\n<{MARK}>",
    f"{{{{ {MARK} }}}}<{MARK}>",
    "//[",
    "\x00",
    "\ud7ff\U0001f4a9",
)
# What is asked for in addresses, beside the fields of forms.
MORE_NAMES = ("before", "campaign", "done", "method", "part", "range", "why")
NUMBERS = ("0", "-1", "1", "2", "1e999", "nan", "inf", "-0.0", "9" * 400, "٣", "0x10", "1_0", "")
USUAL: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
VALUES = st.one_of(st.sampled_from(HOSTILE), st.sampled_from(NUMBERS), st.text(max_size=30))


class Visits:
    """A dashboard, who may be logged in there, and what its forms offer."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._count = 0
        self.renew()
        pages = [route.path for route in self.routes() if "GET" in (route.methods or ())]
        texts = [
            desk.get(path, headers={"cookie": self.cookies(who)}).text
            for path in pages
            for who in ("nobody", "operator")
            if "{" not in path and path != ENDLESS
        ]
        text = "\n".join(texts)
        self.names = sorted({*MORE_NAMES, *re.findall(r'name="([\w-]+)"', text)})
        self.offered = sorted(set(re.findall(r'value="([^"]{1,40})"', text)))
        assert {"token", "proof", "next"} <= set(self.names)

    @staticmethod
    def routes() -> list[Route]:
        """Return all routes of the dashboard, also those that are added later."""
        app = dashboard_app(lambda token: None, None)  # type: ignore[arg-type, return-value]
        return [one for one in app.routes if isinstance(one, Route)]

    def renew(self) -> None:
        """Give everybody a new token and a new session."""
        self._count += 1
        scopes = {"reader": (READ_ESTIMATES,), "operator": (READ_ESTIMATES, ADMIN_CAMPAIGN)}
        self.ids = {
            name: asyncio.run(
                self.desk.sessions.begin(
                    add_subscriber(
                        self.desk.centre.database, f"{name} of {self._count}", scopes=some
                    ),
                    name=name,
                    scopes=frozenset(some),
                )
            )
            for name, some in scopes.items()
        }

    def cookies(self, who: str) -> str:
        """Return the header of the cookies of a visitor."""
        if who == "nobody":
            return f"{VISIT_COOKIE}={'v' * 43}"
        return f"{SESSION_COOKIE}={self.ids[who]}"

    def proof(self, who: str) -> str:
        """Return the proof that stands in the forms of a visitor."""
        return self.desk.sessions.proof("v" * 43 if who == "nobody" else self.ids[who])


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visits]:
    """A dashboard with rounds."""
    with made_centre(tmp_path_factory.mktemp("pages") / "fusion.sqlite") as centre:
        add_rounds(centre, {ROUND: [0] * 5, ROUND + 1: [], ROUND + 2: [2000] * 9})
        yield Visits(Desk(centre))


class StudioVisits:
    """The studio's pages, and somebody who has its address."""

    def __init__(self) -> None:
        self.desk = Visitor()
        pages = [route.path for route in self.routes() if "GET" in (route.methods or ())]
        text = "\n".join(self.desk.get(path).text for path in pages if "{" not in path)
        self.names = sorted({*MORE_NAMES, *re.findall(r'name="([\w-]+)"', text)})
        self.offered = sorted(set(re.findall(r'value="([^"]{1,40})"', text)))
        assert {"epsilon", "attacks", "proof", "next"} <= set(self.names)

    def routes(self) -> list[Route]:
        """Return all routes of the studio."""
        return [one for one in self.desk.app.pages.routes if isinstance(one, Route)]

    def cookies(self, who: str) -> str:
        """Return the header of the cookies of a visitor."""
        return f"{VISIT_COOKIE}={'v' * 43}"

    def proof(self, who: str) -> str:
        """Return the proof that stands in the forms of a visitor."""
        return self.desk.app.pages.state.site.sessions.proof("v" * 43)  # type: ignore[no-any-return]

    def renew(self) -> None:
        """There is nobody to log in."""


@pytest.fixture(scope="module")
def studio() -> Iterator[StudioVisits]:
    """A studio; attacks are not really begun."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RUNS, "start", _no_run)
        yield StudioVisits()


def _no_run(*_: Any, **__: Any) -> None:
    raise TooManyRuns("there are enough runs.")


def check_answer(answer: httpx.Response, told: Any) -> None:
    """Whatever was asked, an answer is no failure and carries nothing from outside."""
    assert answer.status_code < 500, told
    for name, value in HEADERS.items():
        if name != "Referrer-Policy":
            assert answer.headers.get(name) == value, told
    assert answer.headers["Referrer-Policy"] in ("no-referrer", "same-origin"), told
    for name in answer.headers:
        assert MARK not in name, told
    for cookie in answer.headers.get_list("set-cookie"):
        assert "HttpOnly; SameSite=Strict" in cookie, told
    location = answer.headers.get("location", "/")
    assert location.startswith("/"), told
    assert not location.startswith(("//", "/\\")), told
    if "html" in answer.headers.get("content-type", ""):
        check_markup(answer.text, told)


def check_markup(text: str, told: Any) -> None:
    """Nothing that was sent has become an element, an attribute or an address of the page."""
    assert f"<{MARK}" not in text, told
    assert f' on{MARK}="' not in text, told
    assert f" on{MARK}='" not in text, told
    assert not re.search(rf"""(?:href|src|action)=["'](?:javascript:|//|/\\){MARK}""", text), told


KINDS = (
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "multipart/form-data; boundary=x",
    "x/y",
    "",
)
SENT = st.fixed_dictionaries(
    {},
    optional={
        "accept": st.sampled_from(["*/*", "text/html", "application/json", "", "x"]),
        "content-type": st.sampled_from(KINDS),
        "content-length": st.sampled_from(["0", "9" * 5000, "-1", "\u00b2", "x"]),
        "if-none-match": st.sampled_from(['"a"', "*", ""]),
        "origin": st.sampled_from(["http://desk.test", "http://evil.example", "null"]),
        "x-forwarded-host": st.just("evil.example"),
    },
)
JUNK = ("", f"; rase_theme=<{MARK}>", '; rase_theme="x', "; =; ;", f"; {VISIT_COOKIE}=x")
PART = re.compile(r"\{(\w+)[^}]*\}")


def attack(visits: Visits | StudioVisits, examples: int) -> set[int]:
    """Send examples to every route of the dashboard; return all statuses."""
    return {status for route in visits.routes() for status in press(visits, route, examples)}


def press(visits: Visits | StudioVisits, route: Route, examples: int) -> set[int]:
    """Send examples to one route; return all statuses."""
    seen: set[int] = set()
    values = st.one_of(VALUES, st.sampled_from(visits.offered))
    names = st.one_of(st.sampled_from(visits.names), st.sampled_from(HOSTILE))
    fields = st.lists(st.tuples(names, values), max_size=12)
    methods = st.sampled_from([*sorted(route.methods or ()) * 2, "POST", "GET", "PUT"])
    visitors = ["nobody"] if route.path == ENDLESS else ["nobody", "reader", "operator", "operator"]

    @settings(max_examples=examples, **USUAL)
    @given(data=st.data())
    def send(data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(visitors))
        path = PART.sub(lambda _: quote(data.draw(values), safe=""), route.path)
        query, form = data.draw(fields), data.draw(fields)
        if data.draw(st.booleans()):
            form.append(("proof", visits.proof(who)))
        method = data.draw(methods)
        bodies = [st.just(urlencode(form, errors="replace").encode()), st.binary(max_size=200)]
        body = b"" if method in ("GET", "HEAD") else data.draw(st.one_of(bodies))
        headers = {"content-type": KINDS[0], **data.draw(SENT)}
        headers["cookie"] = visits.cookies(who) + data.draw(st.sampled_from(JUNK))
        visits.desk.cookies.clear()
        answer = visits.desk.ask(
            method,
            f"{path}?{urlencode(query, errors='replace')}",
            content=body,
            headers={name: text.encode("latin-1", "replace") for name, text in headers.items()},
        )
        seen.add(answer.status_code)
        check_answer(answer, (method, path, query, body, headers))
        if who != "nobody" and answer.headers.get("location", "").startswith("/login"):
            visits.renew()

    send()
    return seen


def test_the_dashboard_answers_anything(visits: Visits) -> None:
    """Every route, its forms, query strings and cookies."""
    assert {200, 303, 400, 403, 404, 405} <= attack(visits, 4)


def test_the_studio_answers_anything(studio: StudioVisits) -> None:
    """Every route below the secret, its forms, query strings and cookies."""
    assert {200, 303, 400, 403, 404, 405} <= attack(studio, 4)


@pytest.mark.slow
def test_the_studio_answers_anything_for_long(studio: StudioVisits) -> None:
    """The same, a hundred times as many."""
    attack(studio, 400)


@pytest.mark.slow
def test_the_dashboard_answers_anything_for_long(visits: Visits) -> None:
    """The same, a hundred times as many."""
    attack(visits, 400)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owned]:
    """A device that has sent some reports."""
    with owned(tmp_path_factory.mktemp("owner") / "device") as one:
        one.folder.switch(is_on=True)
        one.run(3)
        yield one


def exchange(device: Owned, request: bytes) -> bytes:
    """Send bytes to the owner's page and return all that it answers."""
    with socket.create_connection(("127.0.0.1", device.page.port), 30) as connection:
        connection.sendall(request)
        # Whoever promises more than they send has nothing more to say; the page may know before.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def storm(device: Owned, examples: int) -> set[int]:
    """Send anything to the owner's page; return all statuses."""
    seen: set[int] = set()
    token, proof = device.page.token, device.page.proof
    ours = f"127.0.0.1:{device.page.port}"
    views = ["", "payload", "ledger.csv", "owner.js", "share", "off", "pause", "resume", "theme"]
    # Forgetting ends the agent; its own test is in tests/device/page/test_server.py.
    fields = st.lists(st.tuples(st.sampled_from(["theme", "x", *HOSTILE]), VALUES), max_size=4)
    lines = st.sampled_from(
        [
            "Cookie: rase_theme=dark",
            f"Cookie: rase_theme=<{MARK}>; =",
            "Origin: http://evil.example",
            f"Origin: http://{ours}",
            f"Content-Length: {'9' * 5000}",
            "Content-Length: -1",
            "Content-Length: \u00b2",
            "Transfer-Encoding: chunked",
            "no colon",
            " folded",
            f"X: {LONG}",
            *HOSTILE,
        ]
    )
    right = st.tuples(
        st.sampled_from(["GET", "POST"]),
        st.just(f"/{token}/"),
        st.sampled_from(views),
        st.just(""),
        st.just("HTTP/1.1"),
        st.just(ours),
        st.lists(lines, max_size=1),
        fields,
        st.just(True),
    )
    wrong = st.tuples(
        st.sampled_from(["GET", "POST", "HEAD", "PUT", "\u00e9", ""]),
        st.sampled_from([f"/{token}/", "/", "//", f"/{token}x/", "*", "\u00e9/"]),
        st.one_of(st.sampled_from([*views, "forget"]), VALUES.map(quote), VALUES),
        st.one_of(st.just(""), fields.map(lambda one: f"?{urlencode(one, errors='replace')}")),
        st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/2", "x"]),
        st.sampled_from([ours, "evil.example", ""]),
        st.lists(lines, max_size=3),
        fields,
        st.booleans(),
    )

    def written(parts: Any) -> bytes:
        method, start, name, query, version, host, more, form, is_ours = parts
        body = urlencode([*form, *([("proof", proof)] if is_ours else [])], errors="replace")
        head = [f"{method} {start}{name}{query} {version}", f"Host: {host}", *more]
        head += [f"Content-Length: {len(body)}", "", body]
        return "\r\n".join(head).encode("latin-1", "replace")

    @settings(max_examples=examples, **USUAL)
    @given(request=st.one_of(right.map(written), wrong.map(written), st.binary(max_size=100)))
    def send(request: bytes) -> None:
        answer = exchange(device, request.replace(LONG.encode(), b"y" * 70_000))
        head, end, body = answer.partition(b"\r\n\r\n")
        assert end, request
        first, *rest = head.decode("latin-1").split("\r\n")
        status = int(first.split()[1])
        seen.add(status)
        # 501 is for methods that there are not.
        assert status < 500 or status == 501, request
        headers = dict(line.split(": ", 1) for line in rest)
        assert OWNER_HEADERS.items() <= headers.items(), request
        assert not any(MARK in name.lower() for name in headers), request
        assert headers.get("Location", f"/{token}/") == f"/{token}/", request
        check_markup(body.decode("utf-8"), request)

    send()
    return seen


def test_the_owners_page_answers_anything(device: Owned) -> None:
    """Also what is no request is answered, with all headers and without a trace."""
    assert {200, 303, 400, 403, 404, 413, 421, 501} <= storm(device, 300)
    assert device.get().status == 200


@pytest.mark.slow
def test_the_owners_page_answers_anything_for_long(device: Owned) -> None:
    """The same, sixty times as many."""
    storm(device, 20_000)
    assert device.get().status == 200


@pytest.mark.parametrize("length", ["9" * 5000, "\u00b2"])
def test_a_length_that_is_no_number_is_no_failure(
    visits: Visits, device: Owned, length: str
) -> None:
    """Lengths of thousands of digits, or in superscript, once failed where they were read."""
    headers = {"content-length": length.encode("latin-1"), "cookie": visits.cookies("nobody")}
    for path in ("/login", "/v1/campaigns"):
        answer = visits.desk.ask("POST", path, content=b"x", headers=headers)
        assert 400 <= answer.status_code < 500
    request = f"POST /{device.page.token}/share HTTP/1.1\r\nHost: 127.0.0.1:{device.page.port}\r\n"
    request += f"Content-Length: {length}\r\n\r\n"
    assert exchange(device, request.encode("latin-1")).startswith(b"HTTP/1.0 413 ")


def test_an_address_that_cannot_be_split_is_not_gone_to(visits: Visits) -> None:
    """Python refuses to split //[; the login page once failed on it."""
    assert visits.desk.get("/login?next=//%5B").status_code == 200


def test_nobody_is_led_to_the_host_that_a_request_names(visits: Visits) -> None:
    """An address with one slash too many is none; it once led to the name in the header Host."""
    for path in ("/live/", "/login/", "/v1/campaigns/", "/healthz/"):
        answer = visits.desk.ask("GET", path, headers={"host": "evil.example"})
        assert answer.status_code in (303, 401, 404)
        assert "evil" not in answer.headers.get("location", "")


def test_an_answer_outlives_what_was_not_read(device: Owned) -> None:
    """A refusal reaches a sender whose body nobody read; closing at once took it back."""
    body = b"x" * 100_000
    request = f"POST /wrong/ HTTP/1.1\r\nHost: 127.0.0.1:{device.page.port}\r\n\r\n".encode()
    assert exchange(device, request + body).startswith(b"HTTP/1.0 403 ")
