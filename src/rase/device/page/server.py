"""Serves the owner's page on this machine: to whoever has its secret address, and to no other site.

Every address begins with a secret that is new at each start and lies in a file for the owner only.
There is no cookie for it, because browsers send cookies to every port of a machine. A request must
name this machine as its host (so no other site's name can be made to point here), and a form must
bring its proof.
"""

import csv
import hmac
import io
import secrets
import threading
from contextlib import suppress
from http.client import HTTPException, HTTPMessage, parse_headers, responses
from pathlib import Path
from socket import SHUT_WR
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, Final
from urllib.parse import parse_qs

from rase import theme
from rase.device.folder import DeviceFolder
from rase.device.page import several, views
from rase.device.page.markup import Child, Markup, tag
from rase.device.page.owner import Owner
from rase.errors import ConfigurationError, RaseError
from rase.theme.formatting import moment

__all__ = ["OwnerPage"]

_HOST: Final = "127.0.0.1"
_MOST_BODY: Final = 4096
_MOST_LINE: Final = 4096
_MOST_AT_ONCE: Final = 8
_PATIENCE_S: Final = 10.0
_LINGER_S: Final = 1.0
_START_S: Final = 10.0
_PIECE: Final = 1 << 16
_MOST_UNREAD: Final = 4
_HTML: Final = "text/html; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not "no-referrer": forms would then come from nowhere, as those of other sites do.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_HERE: Final = Path(__file__).parent
_LOOK: Final = Path(theme.__file__).parent / "static"
_FILES: Final = {
    "rase.css": (_LOOK, "text/css; charset=utf-8"),
    "icon.svg": (_LOOK, "image/svg+xml"),
    "owner.css": (_HERE, "text/css; charset=utf-8"),
    "owner.js": (_HERE, "text/javascript; charset=utf-8"),
}
_THEME_COOKIE: Final = "rase_theme"


class OwnerPage:
    """Serve the page in a thread of its own until closed.

    Args:
        folder: The device's.
        port: Where, on the loopback address; 0 for any that is free.

    Raises:
        ConfigurationError: If the port is taken.
    """

    def __init__(self, folder: DeviceFolder, port: int) -> None:
        self.folder = folder
        self.owners: dict[str, Owner] = {}
        self.token = secrets.token_urlsafe(24)
        self.proof = secrets.token_hex(32)
        # Set by the page, and looked at by the agent between two steps.
        self.is_to_forget = threading.Event()
        self.is_forgotten = threading.Event()
        # There is something to show, or there never will be.
        self.is_settled = threading.Event()
        try:
            self._server = _Server((_HOST, port), self)
        except OSError as error:
            raise ConfigurationError(
                [f"page.port must be free, got {port}: {error.strerror}. Choose another, or 0."]
            ) from None
        self.port: int = self._server.server_address[1]
        self.hosts = (f"{_HOST}:{self.port}", f"localhost:{self.port}")
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where the page is; knowing it opens the page."""
        return f"http://{_HOST}:{self.port}/{self.token}/"

    def show(self, owner: Owner) -> None:
        """Show one of the device's quantities, from now on."""
        self.owners = {**self.owners, owner.settings.campaign: owner}
        self.is_settled.set()

    def close(self) -> None:
        """End, when the answers that are under way are given."""
        self.is_settled.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = False
    block_on_close = True

    def __init__(self, address: tuple[str, int], page: OwnerPage) -> None:
        self.page = page
        self._free = threading.Semaphore(_MOST_AT_ONCE)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        # Whoever opens many connections takes the page away, never the agent's memory.
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a broken connection is nobody's business, and a trace could hold values."""


class _Handler(StreamRequestHandler):
    """Answer one request, and close.

    http.server would do it, but brings along what copies and compresses files: half a megabyte.
    """

    server: _Server
    timeout = _PATIENCE_S

    def handle(self) -> None:
        """Read a request, and show or do what it asks for."""
        words = self.rfile.readline(_MOST_LINE).decode("latin-1").split()
        self.method, self.path, self.headers = "GET", "", HTTPMessage()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._answer(400, b"This is no request.\n", kind=_TEXT)
            return
        self.method, self.path, _ = words
        try:
            self.headers = parse_headers(self.rfile)
        except HTTPException:
            self._answer(431, b"The head of the request is too large.\n", kind=_TEXT)
            return
        work = {"GET": self._show, "HEAD": self._show, "POST": self._obey}.get(self.method)
        if work is None:
            self._answer(501, b"There is nothing but GET and POST.\n", kind=_TEXT)
            return
        name = self._name()
        if name is not None:
            # Whoever opens the page while the agent starts waits a moment.
            self.server.page.is_settled.wait(_START_S)
            self._run_guarded(work, name)

    def finish(self) -> None:
        """Hear the sender out for a moment: closing on unread bytes takes the answer back."""
        # RFC 9112, 9.6: half a close, and the other half when the sender is done.
        with suppress(OSError):
            self.connection.shutdown(SHUT_WR)
            self.connection.settimeout(_LINGER_S)
            for _ in range(_MOST_UNREAD):
                if not self.connection.recv(_PIECE):
                    break
        super().finish()

    def _name(self) -> str | None:
        """Return what is asked for below the secret; answer and return None if it is not ours."""
        page = self.server.page
        if self.headers.get("Host", "").lower() not in page.hosts:
            self._answer(421, b"This is not the name of this machine.\n", kind=_TEXT)
            return None
        token, _, name = self.path.split("?", 1)[0].removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), page.token.encode()):
            text = b"The address is not right. It is new at each start: rase device page\n"
            self._answer(403, text, kind=_TEXT)
            return None
        return name

    def _run_guarded(self, work: Any, name: str) -> None:
        try:
            work(name)
        except (RaseError, OSError) as error:
            page = views.problem("It did not work", str(error), form=self._form, theme=self._theme)
            self._answer(503, page)

    def _choose(self, name: str) -> tuple[Owner | None, str]:
        """Return which quantity is asked for, and what of it; None for all of several."""
        owners = self.server.page.owners
        campaign, slash, rest = name.partition("/")
        if slash and campaign in owners:
            return owners[campaign], rest
        return (next(iter(owners.values())) if len(owners) == 1 else None), name

    def _show(self, name: str) -> None:
        owner, name = self._choose(name)
        if name in _FILES:
            folder, kind = _FILES[name]
            self._answer(200, (folder / name).read_bytes(), kind=kind)
        elif not self.server.page.owners:
            text = "The agent is starting. Reload the page in a moment."
            page = views.problem("Not yet", text, form=self._form, theme=self._theme)
            self._answer(503, page)
        elif owner is None and name == "":
            moments = {name: one.moment() for name, one in self.server.page.owners.items()}
            self._answer(200, several.overview(moments, self._form, theme=self._theme))
        elif name == "ledger.csv":
            some = owner or next(iter(self.server.page.owners.values()))
            self._answer(200, _ledger_csv(some), kind="text/csv; charset=utf-8")
        elif owner is not None:
            self._show_one(owner, name)
        else:
            text = "There is no such page."
            page = views.problem("Not found", text, form=self._form, theme=self._theme)
            self._answer(404, page)

    def _show_one(self, owner: Owner, name: str) -> None:
        if name == "":
            moment_ = owner.moment()
            page = views.home(moment_, self._form, theme=self._theme, name=owner.settings.campaign)
            self._answer(200, page)
        elif name == "payload":
            page = views.payload(owner.example(), owner.moment(), self._form, theme=self._theme)
            self._answer(200, page)
        else:
            text = "There is no such page."
            page = views.problem("Not found", text, form=self._form, theme=self._theme)
            self._answer(404, page)

    def _obey(self, name: str) -> None:
        page = self.server.page
        owner, name = self._choose(name)
        # What is said of one of several is about it alone; the switch is the device's.
        folder, is_alone = page.folder, owner is not None and len(page.owners) > 1
        if is_alone and owner is not None:
            folder = owner.folder
        form = self._read_form()
        if form is None:
            return
        match name:
            case "share":
                folder.switch(is_on=True)
            case "off":
                folder.switch(is_on=False)
            case "pause":
                folder.pause(is_alone=is_alone)
            case "resume":
                folder.resume(is_alone=is_alone)
            case "theme" if form.get("theme") in views.THEMES:
                self._go_back(f"{_THEME_COOKIE}={form['theme']}")
                return
            case "forget" if form.get("sure") == "yes":
                self._forget()
                return
            case "forget":
                text = "Nothing was erased: tick the box to say that you are sure."
                answer = views.problem("Are you sure?", text, form=self._form, theme=self._theme)
                self._answer(400, answer)
                return
            case _:
                text = "There is nothing of that name to do."
                answer = views.problem("Not found", text, form=self._form, theme=self._theme)
                self._answer(404, answer)
                return
        self._go_back()

    def _forget(self) -> None:
        """Let the agent stop and forget; answer when it has."""
        page = self.server.page
        page.is_to_forget.set()
        if page.is_forgotten.wait(_PATIENCE_S):
            self._answer(200, views.forgotten_page(theme=self._theme))
            return
        text = "The agent is busy; it stops and forgets as soon as it can."
        self._answer(202, views.problem("Not yet", text, form=self._form, theme=self._theme))

    def _read_form(self) -> dict[str, str] | None:
        """Return the fields of a form that is ours; answer and return None if it is not."""
        length = self.headers.get("Content-Length", "")
        # A number of thousands of digits is none to int.
        if not length.isdecimal() or int(length[:20]) > _MOST_BODY:
            self._answer(413, b"The form is too large.\n", kind=_TEXT)
            return None
        text = self.rfile.read(int(length[:20])).decode("utf-8", "replace")
        form = {key: values[-1] for key, values in parse_qs(text).items()}
        origin = self.headers.get("Origin")
        is_ours = origin is None or origin in [f"http://{host}" for host in self.server.page.hosts]
        proof = form.pop("proof", "")
        if not is_ours or not hmac.compare_digest(proof.encode(), self.server.page.proof.encode()):
            text = "The form was not made by this page, or by an agent before it. Reload the page."
            answer = views.problem("Refused", text, form=self._form, theme=self._theme)
            self._answer(403, answer)
            return None
        return form

    @property
    def _theme(self) -> str:
        for word in self.headers.get("Cookie", "").split(";"):
            name, _, value = word.strip().partition("=")
            if name == _THEME_COOKIE and value in views.THEMES:
                return value
        return "auto"

    def _form(self, action: str, *children: Child, class_: str | None = None) -> Markup:
        proof = tag("input", type="hidden", name="proof", value=self.server.page.proof)
        return tag("form", proof, *children, method="post", action=action, class_=class_)

    def _go_back(self, cookie: str | None = None) -> None:
        # The form's own page: a quantity's, or the device's.
        headers = {"Location": f"{self.path.split('?', 1)[0].rpartition('/')[0]}/"}
        if cookie is not None:
            year_s = 365 * 86400
            headers["Set-Cookie"] = f"{cookie}; Path=/; Max-Age={year_s}; HttpOnly; SameSite=Strict"
        self._end(303, headers, b"")

    def _answer(self, status: int, body: bytes, *, kind: str = _HTML) -> None:
        self._end(status, {"Content-Type": kind}, body)

    def _end(self, status: int, headers: dict[str, str], body: bytes) -> None:
        lines = [f"HTTP/1.0 {status} {responses[status]}"]
        lines += [f"{name}: {value}" for name, value in (headers | _HEADERS).items()]
        lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
        head = "\r\n".join(lines).encode("latin-1")
        self.wfile.write(head if self.method == "HEAD" else head + body)


def _ledger_csv(owner: Owner) -> bytes:
    status, entries = owner.entries()
    lengths = {item.limits.campaign: item.limits.round_s for item in status.campaigns}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["time", "campaign", "round", "epsilon"])
    for one in entries:
        began = moment(one.round * lengths[one.campaign], "%Y-%m-%dT%H:%M:%SZ")
        table.writerow([began, one.campaign, one.round, one.epsilon])
    return text.getvalue().encode()
