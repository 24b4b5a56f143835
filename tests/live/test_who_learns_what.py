"""Who learns what: files, keys and traffic of each server after a real round, and what they give.

All servers run as processes; what passes between closer and fusion centre passes a recorder, and so
does what devices ask the registrar. Then each party computes all that its own files, the private
keys in them and what reached it allow.
"""

import base64
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from tests.live.installed import Fleet, Installed
from tests.patience import PATIENCE_S, until
from tests.registering import hiding_factor, is_token_of

from rase.campaign import Campaign
from rase.errors import WireError
from rase.wire import cbor
from rase.wire.frames import frame_of, handle_of
from rase.wire.inner import InnerOpener
from rase.wire.issuing import Issuer
from rase.wire.keys import OpeningKey, Role, SigningKey
from rase.wire.messages import Batch, Header
from rase.wire.outer import OuterOpener
from rase.wire.seal import seal_cover
from rase.wire.signed import campaign_hash, public_key_of
from rase.wire.tokens import CERTIFICATES_PATH, TOKENS_PATH, requests_from_bytes

PLACES = {0: 11, 1: 222, 2: 3333, 3: 44}
COVER = 4


@dataclass
class Party:
    """What one server has: its files by name, what devices sent it, and the batches it saw.

    Of a registrar, ``asked`` is what devices asked it for certificates and for tokens.
    """

    files: dict[str, bytes]
    reports: list[tuple[str, bytes]] = field(default_factory=list)
    batches: list[bytes] = field(default_factory=list)
    asked: list[tuple[str, bytes]] = field(default_factory=list)

    def __add__(self, other: "Party") -> "Party":
        """Return both together."""
        return Party(
            {
                f"{at}{name}": data
                for at, one in enumerate((self, other))
                for name, data in one.files.items()
            },
            [*self.reports, *other.reports],
            [*self.batches, *other.batches],
            [*self.asked, *other.asked],
        )

    def keys(self, role: Role) -> list[OpeningKey]:
        """Return the keys of a role that open envelopes, out of whatever file holds one."""
        found = []
        for data in self.files.values():
            with suppress(WireError, UnicodeDecodeError):
                key = OpeningKey.from_text(data.decode("ascii"))
                found += [key] if key.role is role else []
        return found

    @property
    def private_files(self) -> set[str]:
        """The names of the files that hold a private key of any kind."""
        found = set()
        read: tuple[Callable[[str], object], ...] = (
            OpeningKey.from_text,
            SigningKey.from_text,
            _registrars_key,
        )
        for (name, data), kind in product(self.files.items(), read):
            with suppress(WireError, ValueError):
                kind(data.decode("ascii"))
                found.add(name)
        return found

    @property
    def everything(self) -> list[bytes]:
        """All bytes that it has."""
        asked = [body for _, body in self.asked]
        return [*self.files.values(), b"".join(self.batches), *asked]

    def issuers(self) -> dict[int, Issuer]:
        """Return the private keys of token windows by first round, out of whatever database."""
        found = dict[int, Issuer]()
        for name in [name for name in self.files if name.endswith("registrar.db")]:
            with TemporaryDirectory() as folder:
                for end in ("", "-wal"):
                    Path(folder, f"copy{end}").write_bytes(self.files.get(name + end, b""))
                with closing(sqlite3.connect(Path(folder, "copy"))) as database:
                    rows = database.execute("SELECT first_round, private FROM token_key")
                    found |= {first: Issuer.from_der(der) for first, der in rows if der}
        return found

    def blinded(self) -> list[tuple[int, bytes, bytes]]:
        """Return first round, device key and blinded bytes of all that was asked to be signed."""
        return [
            (one.first_round, one.device_key, blinded)
            for path, body in self.asked
            if path == TOKENS_PATH
            for one in requests_from_bytes(body, max_size=1 << 24)
            for blinded in one.blinded
        ]

    def names(self, wanted: Iterable[str]) -> set[str]:
        """Return which handles occur, as text or as the number that databases keep."""
        everything = [*self.everything, *(name.encode() for name, _ in self.reports)]
        return {
            handle
            for handle in wanted
            if any(
                form in data
                for data in everything
                for form in (handle.encode(), bytes.fromhex(handle), bytes.fromhex(handle)[::-1])
            )
        }


@dataclass
class Learned:
    """What follows from that.

    Args:
        senders: Who sent.
        covers: Of whom it is known whether it was a cover.
        values: Noisy values.
        joined: Noisy values with their senders.
        certified: Whose public keys are known, as numbers of devices.
        suspects: For each token that was spent, how many devices it may be of, by what they asked.
    """

    senders: set[str]
    covers: dict[str, bool]
    values: list[int]
    joined: dict[str, int]
    certified: set[int] = field(default_factory=set)
    suspects: list[int] = field(default_factory=list)


def _registrars_key(text: str) -> bytes:
    secret = base64.b64decode(text.strip(), validate=True)
    if len(secret) != 32:
        raise ValueError("no key.")
    return secret


def _suspects(party: Party, tokens: Iterable[bytes]) -> list[int]:
    """Return for each token how many devices may have got it, with all that a party holds.

    Who has a window's private key computes by which factor a request would hide a token. A request
    that no factor explains is excluded; one that the factor 1 explains, or that has bytes in common
    with the token, gives its device away.
    """
    issuers, asked, found = party.issuers(), party.blinded(), []
    for token in tokens:
        first = next((at for at, one in issuers.items() if is_token_of(one, token)), None)
        if first is None:
            continue
        of_window = [(device, blinded) for at, device, blinded in asked if at == first]
        pieces = [token[at : at + 16] for at in range(0, len(token), 16)]
        surely, maybe = set(), set()
        for device, blinded in of_window:
            factor = hiding_factor(issuers[first], token, blinded)
            maybe |= {device} if factor else set()
            if factor == 1 or any(piece in blinded for piece in pieces):
                surely.add(device)
        found.append(len(surely or maybe))
    return found


def learn(
    party: Party, campaign: Campaign, handles: Iterable[str], devices: Mapping[int, bytes]
) -> Learned:
    """Return all that a party can compute."""
    code = campaign_hash(campaign)
    outer = OuterOpener(code, party.keys(Role.SHUFFLER))
    inner = InnerOpener(code, party.keys(Role.FUSION), class_count=len(campaign.epsilon))
    learned = Learned(party.names(handles), {}, [], {})
    known = b"".join(party.everything)
    texts = {number: base64.urlsafe_b64encode(key)[:42] for number, key in devices.items()}
    learned.certified |= {at for at, key in devices.items() if key in known or texts[at] in known}
    tokens = list[bytes]()
    for handle, wire in party.reports:
        with suppress(WireError):
            opened = outer.open(wire)
            learned.covers[handle] = opened.mark.is_cover
            content = inner.open(
                opened.inner, key_id=opened.mark.fusion_key_id, round=Header.from_report(wire).round
            )
            learned.joined[handle] = content.place
    for body in dict.fromkeys(party.batches):
        batch = Batch.from_bytes(body)
        for one in batch.inner:
            with suppress(WireError):
                content = inner.open(one, key_id=batch.key_id, round=batch.round)
                learned.values.append(content.place)
                tokens.append(content.token)
    learned.values.sort()
    learned.suspects = _suspects(party, tokens)
    return learned


@contextmanager
def recorder() -> Iterator[tuple[str, dict[str, Any]]]:
    """Pass requests on to a server, and keep what passed; yield its address and what it keeps."""
    seen: dict[str, Any] = {"target": "", "passed": [], "after": lambda path: None}

    class Handler(BaseHTTPRequestHandler):
        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kept = {name: text for name, text in self.headers.items() if name.lower() != "host"}
            answer = httpx.request(
                self.command,
                seen["target"] + self.path,
                content=body,
                headers=kept,
                timeout=PATIENCE_S,
            )
            if body and answer.status_code in (200, 201):
                seen["passed"].append((self.path, body))
                seen["after"](self.path)
            self.send_response(answer.status_code)
            for name in ("Content-Type", "Content-Length"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            self.wfile.write(answer.content)

        def do_GET(self) -> None:
            self._pass()

        def do_POST(self) -> None:
            self._pass()

        def do_PUT(self) -> None:
            self._pass()

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def files_in(folder: Path) -> dict[str, bytes]:
    """Return every file of a server's folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


@pytest.fixture
def parties(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[dict[str, Party], Campaign, dict[int, str]]]:
    """Four devices and a cover report in a round of three servers; what each has in the end."""
    with recorder() as (before_fusion, seen), recorder() as (before_registrar, asked):
        monkeypatch.setenv("RASE_SHUFFLER__FUSION_URL", before_fusion)
        installed = Installed(tmp_path, capsys)
        seen["target"], asked["target"] = installed.fusion_url, installed.registrar_url
        held: dict[str, bytes] = {}

        def hold(path: str) -> None:
            # While a window's tokens are fetched its private key is there; it is erased before
            # the window begins.
            if path == TOKENS_PATH:
                number = sum(name.endswith("rase.toml") for name in held)
                files = files_in(installed.registrar_config.parent)
                held.update({f"{number}/{name}": data for name, data in files.items()})

        asked["after"] = hold
        try:
            installed.publish()
            installed.registrar_url = before_registrar
            fleet = Fleet(installed, COVER + 1, starts=False)
            round = fleet.tokened_round()
            wires = {
                number: fleet._sealed(
                    round, place=one, token=fleet.wallets.take(number, round)
                ).wire
                for number, one in PLACES.items()
            }
            end_s = fleet.campaign.round_end_s(round)
            wires[COVER] = seal_cover(
                round=round,
                block=round,
                campaign_hash=campaign_hash(fleet.campaign),
                shuffler=fleet._keyset.active(Role.SHUFFLER, now_s=end_s),
                fusion=fleet._keyset.active(Role.FUSION, now_s=end_s),
                keyset=fleet._keyset.version,
            )
            handles = {number: handle_of(fleet._credentials[number]) for number in wires}
            answer = httpx.post(
                f"{installed.shuffler_url}/v1/reports",
                content=cbor.encode(
                    [
                        [handles[at], frame_of(wire, fleet._credentials[at])]
                        for at, wire in wires.items()
                    ]
                ),
                headers={"Content-Type": "application/cbor"},
                timeout=PATIENCE_S,
            )
            assert {one["status"] for one in cbor.decode(answer.content, max_size=4096)} == {201}
            sent = [(handles[at], wire) for at, wire in wires.items()]
            folder = tmp_path / "installed"
            before = files_in(folder / "shuffler")
            until(lambda: bool(seen["passed"]), logs=tmp_path)
            until(lambda: bool(installed.rows(Role.FUSION, "SELECT n FROM answers")), logs=tmp_path)
            after = files_in(folder / "shuffler") | {
                "log": b"".join(
                    tmp_path.joinpath(f"{part}.log").read_bytes() for part in ("intake", "closer")
                )
            }
            fusion = files_in(folder / "fusion") | {"log": (tmp_path / "fusion.log").read_bytes()}
            registrar = files_in(folder / "registrar") | {
                "log": (tmp_path / "registrar.log").read_bytes()
            }
        finally:
            installed.kill()
        batches = [body for _, body in seen["passed"]]
        closer = {name: data for name, data in before.items() if name.startswith("keys")}
        found = {
            "intake": Party(
                {name: data for name, data in before.items() if name not in closer}, sent
            ),
            "shuffler": Party({**after, **before}, sent, batches),
            "shuffler, after the round": Party(after),
            "fusion": Party(fusion, [], batches),
            "registrar": Party({**registrar, **held}, asked=asked["passed"]),
        }
        yield found, fleet.campaign, handles


def test_each_server_and_pair_learns_what_the_threat_model_says(
    parties: tuple[dict[str, Party], Campaign, dict[int, str]],
) -> None:
    """By files, keys and traffic: nobody alone has name and value; two together as the page says.

    Shuffler and fusion centre have all; a registrar adds whose keys are certified, and no pair that
    it is part of can tell which of the devices that fetched tokens spent one.
    """
    found, campaign, handles = parties
    everybody, all_of_them = set(handles.values()), set(handles)
    covers = {handle: number == COVER for number, handle in handles.items()}
    values = sorted(PLACES.values())
    joined = {handles[number]: place for number, place in PLACES.items()}
    devices = {number: public_key_of((number + 1).to_bytes(32, "big")) for number in handles}

    def learned(*names: str) -> Learned:
        together = found[names[0]]
        for name in names[1:]:
            together += found[name]
        return learn(together, campaign, everybody, devices)

    # The intake: who sent, and nothing of what.
    assert found["intake"].private_files == set()
    assert learned("intake") == Learned(everybody, {}, [], {}, all_of_them)
    # The shuffler as a whole: also who had something to say.
    assert found["shuffler"].private_files == {"keys/signing.key", "keys/opening-1.key"}
    assert learned("shuffler") == Learned(everybody, covers, [], {}, all_of_them)
    # … of which nothing is left once the round is closed, but who is enrolled.
    assert learned("shuffler, after the round") == Learned(everybody, {}, [], {}, all_of_them)
    left = b"".join(found["shuffler, after the round"].files.values())
    assert not any(wire[14:46] in left for _, wire in found["shuffler"].reports)
    # The fusion centre: values that nobody's name belongs to, and no cover report.
    assert found["fusion"].private_files == {"keys/signing.key", "keys/opening-1.key"}
    assert learned("fusion") == Learned(set(), {}, values, {})
    # The registrar: whose keys are certified and who fetched; it holds the keys of windows.
    registrar = found["registrar"]
    assert {name.split("/", 1)[1] for name in registrar.private_files} >= {"keys/signing.key"}
    assert len(registrar.issuers()) >= 1
    assert {device for _, device, _ in registrar.blinded()} == set(devices.values())
    assert CERTIFICATES_PATH in {path for path, _ in registrar.asked}
    assert learned("registrar") == Learned(set(), {}, [], {}, all_of_them)
    # With the shuffler: names, keys and covers, and no value.
    assert learned("registrar", "shuffler") == learned("shuffler")
    # With the fusion centre: every token may be that of every device that fetched.
    suspects = [len(devices)] * len(values)
    both = learned("registrar", "fusion")
    assert both == Learned(set(), {}, values, {}, all_of_them, suspects)
    # Shuffler and fusion centre: everything but the reading behind the noise; no more with all.
    both = learned("shuffler", "fusion")
    assert both == Learned(everybody, covers, values, joined, all_of_them)
    every = learned("shuffler", "fusion", "registrar")
    assert every == Learned(everybody, covers, values, joined, all_of_them, suspects)
    # A subscriber adds estimates, which the fusion centre has; the network what the intake has.
    network = found["fusion"] + Party({}, found["intake"].reports)
    heard = learn(network, campaign, everybody, devices)
    assert (heard.senders, heard.joined) == (everybody, {})
