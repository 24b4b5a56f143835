"""Who learns what: files, keys and traffic of each server after a real round, and what they give.

Both servers run as processes; what passes between closer and fusion centre passes a recorder. Then
each party computes all that its own files, the private keys in them and what reached it allow.
What a registrar holds is tried in tests/registrar.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.live.installed import Fleet, Installed
from tests.patience import PATIENCE_S, until

from rase.campaign import Campaign
from rase.errors import WireError
from rase.wire import cbor
from rase.wire.frames import frame_of, handle_of
from rase.wire.inner import InnerOpener
from rase.wire.keys import OpeningKey, Role, SigningKey
from rase.wire.messages import Batch, Header
from rase.wire.outer import OuterOpener
from rase.wire.seal import seal_cover
from rase.wire.signed import campaign_hash

PLACES = {0: 11, 1: 222, 2: 3333, 3: 44}
COVER = 4


@dataclass
class Party:
    """What one server has: its files by name, what devices sent it, and the batches it saw."""

    files: dict[str, bytes]
    reports: list[tuple[str, bytes]] = field(default_factory=list)
    batches: list[bytes] = field(default_factory=list)

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
        read: tuple[Callable[[str], object], ...] = (OpeningKey.from_text, SigningKey.from_text)
        for (name, data), kind in product(self.files.items(), read):
            with suppress(WireError, UnicodeDecodeError):
                kind(data.decode("ascii"))
                found.add(name)
        return found

    def names(self, wanted: Iterable[str]) -> set[str]:
        """Return which handles occur, as text or as the number that databases keep."""
        batches = b"".join(self.batches)
        everything = [*self.files.values(), batches, *(name.encode() for name, _ in self.reports)]
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
    """What follows from that: who sent, who sent a cover, values, and values with their senders."""

    senders: set[str]
    covers: dict[str, bool]
    values: list[int]
    joined: dict[str, int]


def learn(party: Party, campaign: Campaign, handles: Iterable[str]) -> Learned:
    """Return all that a party can compute."""
    code = campaign_hash(campaign)
    outer = OuterOpener(code, party.keys(Role.SHUFFLER))
    inner = InnerOpener(code, party.keys(Role.FUSION), class_count=len(campaign.epsilon))
    learned = Learned(party.names(handles), {}, [], {})
    for handle, wire in party.reports:
        with suppress(WireError):
            opened = outer.open(wire)
            learned.covers[handle] = opened.mark.is_cover
            content = inner.open(
                opened.inner, key_id=opened.mark.fusion_key_id, round=Header.from_report(wire).round
            )
            learned.joined[handle] = content.place
    for body in party.batches:
        batch = Batch.from_bytes(body)
        for one in batch.inner:
            with suppress(WireError):
                learned.values.append(inner.open(one, key_id=batch.key_id, round=batch.round).place)
    learned.values.sort()
    return learned


@contextmanager
def recorder() -> Iterator[tuple[ThreadingHTTPServer, dict[str, Any]]]:
    """Pass requests on to a fusion centre, and keep what passed."""
    seen: dict[str, Any] = {"target": "", "batches": []}

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept = {name: text for name, text in self.headers.items() if name.lower() != "host"}
            answer = httpx.put(seen["target"] + self.path, content=body, headers=kept)
            if answer.status_code == 201:
                seen["batches"].append(body)
            self.send_response(answer.status_code)
            for name in ("Content-Type", "Content-Length"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server, seen
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
    """Four devices and a cover report in a round of two servers; what each has in the end."""
    with recorder() as (proxy, seen):
        monkeypatch.setenv("RASE_SHUFFLER__FUSION_URL", f"http://127.0.0.1:{proxy.server_port}")
        installed = Installed(tmp_path, capsys)
        seen["target"] = installed.fusion_url
        try:
            installed.publish()
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
            until(lambda: bool(seen["batches"]), logs=tmp_path)
            until(lambda: bool(installed.rows(Role.FUSION, "SELECT n FROM answers")), logs=tmp_path)
            after = files_in(folder / "shuffler") | {
                "log": b"".join(
                    tmp_path.joinpath(f"{part}.log").read_bytes() for part in ("intake", "closer")
                )
            }
            fusion = files_in(folder / "fusion") | {"log": (tmp_path / "fusion.log").read_bytes()}
        finally:
            installed.kill()
        closer = {name: data for name, data in before.items() if name.startswith("keys")}
        found = {
            "intake": Party(
                {name: data for name, data in before.items() if name not in closer}, sent
            ),
            "shuffler": Party({**after, **before}, sent, seen["batches"]),
            "shuffler, after the round": Party(after),
            "fusion": Party(fusion, [], seen["batches"]),
        }
        yield found, fleet.campaign, handles


def test_each_server_and_pair_learns_what_the_threat_model_says(
    parties: tuple[dict[str, Party], Campaign, dict[int, str]],
) -> None:
    """By files, keys and traffic: nobody alone has name and value; both together have all."""
    found, campaign, handles = parties
    everybody = set(handles.values())
    covers = {handle: number == COVER for number, handle in handles.items()}
    learned = {name: learn(party, campaign, everybody) for name, party in found.items()}
    # The intake: who sent, and nothing of what.
    assert found["intake"].private_files == set()
    assert learned["intake"] == Learned(everybody, {}, [], {})
    # The shuffler as a whole: also who had something to say.
    assert found["shuffler"].private_files == {"keys/signing.key", "keys/opening-1.key"}
    assert learned["shuffler"] == Learned(everybody, covers, [], {})
    # … of which nothing is left once the round is closed, but who is enrolled.
    assert learned["shuffler, after the round"] == Learned(everybody, {}, [], {})
    left = b"".join(found["shuffler, after the round"].files.values())
    assert not any(wire[14:46] in left for _, wire in found["shuffler"].reports)
    # The fusion centre: values that nobody's name belongs to, and no cover report.
    assert found["fusion"].private_files == {"keys/signing.key", "keys/opening-1.key"}
    assert learned["fusion"] == Learned(set(), {}, sorted(PLACES.values()), {})
    # Both: everything but the reading behind the noise.
    both = learn(found["shuffler"] + found["fusion"], campaign, everybody)
    assert both.joined == {handles[number]: place for number, place in PLACES.items()}
    assert both.covers == covers
    # A subscriber adds estimates, which the fusion centre has; the network what the intake has.
    assert learn(found["fusion"] + Party({}), campaign, everybody) == learned["fusion"]
    network = learn(found["fusion"] + Party({}, found["intake"].reports), campaign, everybody)
    assert (network.senders, network.joined) == (everybody, {})
