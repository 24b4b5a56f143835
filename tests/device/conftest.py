"""A small world for devices: keys of two servers, a shuffler in memory, a clock of its own."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.registering import REGISTRAR_KEY, Stocked, certify, keep_tokens

from rase.accounting.ledger import Ledger, OwnerLimits, create_ledger
from rase.campaign import Campaign
from rase.clock import Clock, FakeClock, SystemClock
from rase.device.agent import Agent
from rase.device.behaviour import Behaviour
from rase.device.memory import Memory
from rase.device.state import DeviceState, StateFile
from rase.device.terms import OwnerRules, Terms
from rase.kernels.entropy import SeededEntropy
from rase.transport.interface import Answer
from rase.transport.memory import MemoryTransport, Message
from rase.wire.agreement import Agreement, Application, agree, is_proven
from rase.wire.frames import (
    authorization_of,
    credential_key,
    read_authorization,
    read_report,
)
from rase.wire.inner import InnerOpener
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.messages import Header
from rase.wire.outer import OuterOpener
from rase.wire.problems import PROBLEM_TYPES, Problem
from rase.wire.signed import (
    PinnedKeys,
    SignedCampaign,
    SignedKeyset,
    campaign_hash,
    signature_of,
    versions_bytes,
)
from rase.wire.tokens import CERTIFICATES_PATH, TOKEN_KEYS_PATH, token_keys_bytes

START_ROUND = 495_000
CAMPAIGN = Campaign(
    id="street-power",
    version=1,
    quantity="power",
    unit="W",
    low=0,
    high=3000,
    mechanism="budget-aware",
    epsilon=(1.0,),
    window=24,
    window_budget=24.0,
    round_s=3600,
    upload_s=300,
    grace_s=600,
    k_min=20,
    not_before=0,
    not_after=2**31,
)


class ListSource:
    """Give readings that a test puts in."""

    def __init__(self, always: float | None = None) -> None:
        self.always = always
        self.readings: list[float] = []
        self.is_closed = False

    def read(self) -> list[float]:
        """Return what was put in, or the same reading always."""
        found, self.readings = self.readings, []
        return found if self.always is None else [*found, self.always]

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True


class Notes:
    """A journal that keeps its events, and checks them as the real one does."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []
        self.study_marks: list[object] = []

    def note(self, event: str, **fields: object) -> None:
        """Keep the event."""
        from rase.device.journal import EVENTS

        self.study_marks.append(fields.pop("study", None))
        assert set(fields) <= set(EVENTS[event])
        self.events.append((event, fields))

    def of(self, event: str) -> list[dict[str, object]]:
        """Return the fields of all events of a name."""
        return [fields for name, fields in self.events if name == event]


@dataclass(frozen=True)
class Seen:
    """What both servers together find in a report."""

    round: int
    place: int
    epsilon_class: int = 0
    is_cover: bool = False


@dataclass
class Shuffler:
    """Take reports as the protocol says, and open them for the test."""

    clock: Clock
    campaign: Campaign = CAMPAIGN
    grace_open_s: float = 0.0
    credentials: set[str] = field(default_factory=lambda: {"credential"})
    signers: dict[Role, SigningKey] = field(
        default_factory=lambda: {role: SigningKey.generate(role) for role in Role}
    )
    received: list[bytes] = field(default_factory=list)
    stored: dict[tuple[str, int], bytes] = field(default_factory=dict)
    answers: list[Answer | BaseException] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.keys = {role: OpeningKey.generate(role, 1) for role in Role}
        self.versions = [self.campaign]
        self.keyset = self._keyset(1)
        self.tokens = {"a1": credential_key("token")}
        self.enrolled: dict[str, bytes] = {}

    @property
    def pinned(self) -> PinnedKeys:
        """The public keys of both servers."""
        return PinnedKeys(
            self.signers[Role.FUSION].public_bytes(),
            self.signers[Role.SHUFFLER].public_bytes(),
            REGISTRAR_KEY,
        )

    def publish(self, **changes: Any) -> Campaign:
        """Publish the next version of the campaign."""
        changes = {"version": self.campaign.version + 1, **changes}
        self.campaign = replace(self.campaign, **changes)
        self.versions.append(self.campaign)
        return self.campaign

    def rotate(self) -> None:
        """Publish a new key of the shuffler; reports for the old one are outdated at once."""
        version = self.keyset.version + 1
        self.keys = {**self.keys, Role.SHUFFLER: OpeningKey.generate(Role.SHUFFLER, version)}
        self.keyset = self._keyset(version)

    def signed_campaign(self, campaign: Campaign | None = None) -> bytes:
        """Return the campaign as it is published."""
        value = campaign or self.campaign
        return SignedCampaign(
            value,
            signature_of(value, self.signers[Role.FUSION]),
            signature_of(value, self.signers[Role.SHUFFLER]),
        ).to_bytes()

    def published(self) -> bytes:
        """Return the versions up to the present one whose rounds are not all closed."""
        versions = self.versions[: self.versions.index(self.campaign) + 1]
        return versions_bytes(
            self.signed_campaign(version)
            for version, following in zip(versions, [*versions[1:], None], strict=True)
            if following is None or self.clock.now_s() < version.closes_s(following.not_before - 1)
        )

    def signed_keyset(self, keyset: Keyset | None = None) -> bytes:
        """Return the keyset as it is published."""
        value = keyset or self.keyset
        return SignedKeyset(
            value,
            signature_of(value, self.signers[Role.FUSION]),
            signature_of(value, self.signers[Role.SHUFFLER]),
        ).to_bytes()

    def handle(self, message: Message) -> Answer:
        """Answer a message."""
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer
        if message.method == "GET":
            return self._document(message)
        if message.path == "/v1/enrolments":
            return self._enrol(message)
        if message.path == CERTIFICATES_PATH:
            return certify(message)
        return self._report(message)

    def content(self, report: bytes) -> "Seen":
        """Open both envelopes of a report, or the outer one of a cover report."""
        header = Header.from_report(report)
        for campaign in reversed(self.versions):
            ch = campaign_hash(campaign)
            if ch.startswith(header.campaign_tag):
                opened = OuterOpener(ch, [self.keys[Role.SHUFFLER]]).open(report)
                opener = InnerOpener(
                    ch, [self.keys[Role.FUSION]], class_count=len(campaign.epsilon)
                )
                first = campaign.block_start(header.round)
                if opened.mark.is_cover:
                    return Seen(first, 0, 0, is_cover=True)
                key_id = self.keys[Role.FUSION].id
                content = opener.open(opened.inner, key_id=key_id, round=first)
                return Seen(content.round, content.place, content.epsilon_class)
        raise AssertionError("a report of an unknown campaign")

    def _keyset(self, version: int) -> Keyset:
        configs = tuple(key.config(not_before_s=0, not_after_s=2**39) for key in self.keys.values())
        return Keyset(version=version, cache_s=7200, configs=configs)

    def _document(self, message: Message) -> Answer:
        data = (
            self.signed_keyset()
            if message.path == "/v1/keyset"
            else self.published()
            if message.path == f"/v1/campaigns/{self.campaign.id}/versions"
            else token_keys_bytes([])
            if message.path == TOKEN_KEYS_PATH
            else None
        )
        if data is None:
            return _problem("unknown-campaign")
        etag = f'"{hash(data):x}"'
        return Answer(304) if message.etag == etag else Answer(200, data, etag=etag)

    def _enrol(self, message: Message) -> Answer:
        told = json.loads(message.body)
        assert told.pop("certificate")
        asked = Application(**told)
        token_key = self.tokens.pop(asked.token, bytes(32))
        if not is_proven(asked, token_key):
            return _problem("not-enrolled")
        server_key, self.enrolled["00000000000000d1"] = agree(asked, token_key)
        answer = Agreement.of(
            "00000000000000d1", server_key=server_key, key=self.enrolled["00000000000000d1"]
        )
        return Answer(201, json.dumps(answer._asdict()).encode())

    def knows(self, credential: str | None) -> bool:
        """Return whether a credential is one of those given or agreed."""
        handle, _, secret = (credential or "").partition(".")
        return credential in self.credentials or self.enrolled.get(handle) == credential_key(secret)

    def proven(self, body: bytes, proof: str) -> str | None:
        """Return who made a header, under a name that is known here."""
        known = [one for one in self.credentials if authorization_of(body, one) == proof]
        named = read_authorization(proof.encode())
        if known or named is None or named[0] not in self.enrolled:
            return known[0] if known else None
        key = self.enrolled[named[0]]
        is_right = read_report(body + named[1], named[0], key) is not None
        self.credentials |= {named[0]} if is_right else set()
        return named[0] if is_right else None

    def _report(self, message: Message) -> Answer:
        assert message.content_type == "application/rase-report"
        self.received.append(message.body)
        if not self.knows(message.credential):
            return _problem("not-enrolled")
        header = Header.from_report(message.body)
        now_s = self.clock.now_s()
        campaign = next(
            (item for item in self.versions if campaign_hash(item).startswith(header.campaign_tag)),
            None,
        )
        current = [item for item in self.versions if item.holds_in(header.round)]
        is_current = campaign is current[-1] and header.key_id == self.keys[Role.SHUFFLER].id
        if campaign is None or not is_current:
            return _problem("outdated-config")
        is_early = now_s < campaign.round_end_s(header.round)
        if is_early or now_s >= campaign.closes_s(header.round):
            return _problem("round-not-open" if is_early else "round-closed")
        place = (message.credential or "", header.round)
        if place in self.stored:
            self.counts["same" if self.stored[place] == message.body else "different"] += 1
            return Answer(200)
        self.stored[place] = message.body
        return Answer(201)


def _problem(name: str) -> Answer:
    kind = PROBLEM_TYPES[name]
    return Answer(kind.status, Problem(kind).to_json())


class World:
    """Everything around one device or a fleet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock(START_ROUND * CAMPAIGN.round_s)
        self.shuffler = Shuffler(self.clock)
        self.notes = Notes()
        self.source = ListSource()
        self.rules = OwnerRules(report_epsilon=1.0)
        self.limits = OwnerLimits(report_epsilon=1.0, span_epsilon=24.0, total_epsilon=1000.0)
        self.ledgers: list[Ledger] = []
        self.is_paused = False
        self.entropy = SeededEntropy(2026)

    def ledger(self, name: str = "device", *, tokens: int = 400) -> Ledger:
        """Open a device's ledger, made with tokens when it is not there."""
        path = self.folder / f"{name}.db"
        if not path.exists():
            create_ledger(path)
            if tokens:
                with closing(Ledger(path, self.limits)) as made:
                    keep_tokens(made, CAMPAIGN.id, count=tokens)
        self.ledgers.append(Ledger(path, self.limits))
        return self.ledgers[-1]

    def store(self, name: str = "device") -> StateFile:
        """Return a device's state, made when it is not there."""
        path = self.folder / f"{name}.json"
        store = StateFile(path)
        if not path.exists():
            store.save(DeviceState())
        return store

    def terms(self, first_hash: bytes | None = None) -> Terms:
        """Return empty terms."""
        return Terms(
            CAMPAIGN.id, pinned=self.shuffler.pinned, rules=self.rules, first_hash=first_hash
        )

    def agent(self, name: str = "device", **changes: Any) -> Agent:
        """Start a device's agent."""
        parts: dict[str, Any] = {
            "tokens": Stocked(),
            "transport": MemoryTransport(self.shuffler.handle),
            "source": self.source,
            "credential": "credential",
            "clock": self.clock,
            "entropy": self.entropy,
            "study": True,
            "journal": self.notes,
            "behaviour": Behaviour(),
            "is_paused": lambda: self.is_paused,
        }
        ledger = changes.pop("ledger", None) or self.ledger(name)
        memory = changes.pop("memory", None) or Memory(self.terms(), self.store(name))
        return Agent(memory, ledger, **{**parts, **changes})

    def run(self, agent: Agent, seconds: float, *, least_s: float = 0.001) -> None:
        """Let an agent work for some time."""
        left_s = seconds
        while left_s > 0:
            wait_s = min(max(agent.step(), least_s), left_s)
            self.clock.advance(wait_s)
            left_s -= wait_s
        agent.step()

    def contents(self) -> dict[int, Seen]:
        """Open what the shuffler holds, by round."""
        return {
            round: self.shuffler.content(report)
            for (_, round), report in self.shuffler.stored.items()
        }


class HttpShuffler(HTTPServer):
    """The same shuffler behind a real socket, by the real clock."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.shuffler = Shuffler(SystemClock(), campaign)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HttpShuffler

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proof = self.headers.get("Authorization") or ""
        message = Message(
            self.command,
            self.path,
            body,
            content_type=self.headers.get("Content-Type"),
            credential=self.server.shuffler.proven(body, proof),
            etag=self.headers.get("If-None-Match"),
        )
        answer = self.server.shuffler.handle(message)
        self.send_response(answer.status)
        if answer.etag is not None:
            self.send_header("ETag", answer.etag)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST  # noqa: N815 - the name that the base class looks for

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def http_shuffler() -> Iterator[HttpShuffler]:
    """A shuffler on this machine, with rounds of a second."""
    campaign = replace(CAMPAIGN, round_s=1, upload_s=1, grace_s=3, window=600, window_budget=600.0)
    server = HttpShuffler(campaign)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def make_world(quick_folder: Path) -> Iterator[Callable[[str], World]]:
    """Make worlds in folders of their own, each with one device that has not started yet."""
    made: list[World] = []

    def make(name: str) -> World:
        folder = quick_folder / name
        folder.mkdir()
        made.append(World(folder))
        return made[-1]

    yield make
    for world in made:
        for ledger in world.ledgers:
            ledger.close()


@pytest.fixture
def world(make_world: Callable[[str], World]) -> World:
    """One world."""
    return make_world("world")
