"""A whole system in one process: devices, shuffler, fusion centre, one clock, and a bad network.

A run is a list of plain operations. Faults are named first and happen in the next round:

- ``("round",)``: a round passes, with all its uploads, its close, batch and estimate.
- ``("death", step, point)``: the process of a step of `STEPS` dies at its point-th write or commit.
- ``("death", "device", point, device)``: a device dies at its point-th call after a round's end.
- ``("message", device, fault)``: the device's next report meets one of `MESSAGE_FAULTS`.
- ``("batch", fault)``: the next batch meets one of `BATCH_FAULTS`.
- ``("outage", role)``: the "shuffler" or the "fusion" centre cannot be reached for a while, or the
  "registrar" for a round.

No fault, but part of both worlds: ``("version",)`` publishes a new version of the campaign for the
round after the next, if there is none for it yet; ``("keys",)`` a new key of the shuffler in the
place of the old one; ``("fusion-keys",)`` a new key of the fusion centre for rounds to come. Steps
of `DOCUMENT_STEPS` die while these are published.

Messages, batches and documents go through the apps of both servers, with all of their own code.
"""

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_bytes
from typing import Any

import httpx
from tests.enrolling import asked, credential_of
from tests.simulation.hosting import Server
from tests.simulation.processes import Device
from tests.simulation.registrar import Parts, certify
from tests.simulation.servers import Carrier, centre_of, closer_of, intake_of
from tests.simulation.setting import FIRST, MOST_OUTER, PINNED, ROUND_S, SIGNERS, Setting
from tests.storage.faults import SimulatedDeath

from rase.clock import FakeClock
from rase.fusion.app import fusion_app
from rase.fusion.campaigns import Publisher
from rase.fusion.countersign import HttpCountersigner, NotCountersigned
from rase.fusion.token_keys import TokenKeys
from rase.fusion.tracking import PATIENCE_S
from rase.shuffler.documents import load_documents
from rase.shuffler.enrolment import make_tokens
from rase.storage.address import DatabaseAddress, PostgresAddress
from rase.storage.interface import Database
from rase.transport.interface import Answer, Unreachable
from rase.transport.memory import Message
from rase.wire.frames import authorization_of
from rase.wire.keys import Keyset, Role
from rase.wire.messages import HEADER_SIZE, REPORT_TYPE, Batch, Header
from rase.wire.parcel import MANIFEST_HEADER
from rase.wire.signed import campaign_hash

__all__ = [
    "BATCH_FAULTS",
    "DOCUMENT_STEPS",
    "HARMLESS",
    "MESSAGE_FAULTS",
    "STEPS",
    "TOKEN_STEPS",
    "Operation",
    "World",
]

Operation = tuple[Any, ...]
STEPS = ("intake", "close", "forward", "erase", "put", "finalise")
# Of the registrar.
TOKEN_STEPS = ("issue", "upkeep")
DOCUMENT_STEPS = ("publish", "countersign")
MESSAGE_FAULTS = (
    "drop",
    "lose-answer",
    "duplicate",
    "delay",
    "late",
    "replay",
    "tamper",
    "tamper-key",
    "lose",
)
BATCH_FAULTS = ("drop", "lose-answer", "duplicate", "delay", "replay", "tamper")
HARMLESS: tuple[Operation, ...] = (("round",), ("version",), ("keys",), ("fusion-keys",))
# A device sends about ten times before a round closes; if so many fail, it may be too late.
MOST_RETRIES = 5
# Devices fetch keys at least once in a cache time, which is shorter than so many rounds.
SWITCH_ROUNDS = 4


class World:
    """Hold everything that takes part.

    Args:
        folder: Where all files are.
        devices: How many there are.
        silent: The (device, round) pairs in which a device has no reading.
        lost: The rounds whose batches are changed on their way every time.
        setting: In what it differs from the plainest world.
        database: Where the servers keep their state, if not in files of their own.
    """

    def __init__(
        self,
        folder: Path,
        *,
        devices: int = 5,
        silent: frozenset[tuple[int, int]] = frozenset(),
        lost: frozenset[int] = frozenset(),
        setting: Setting | None = None,
        database: PostgresAddress | None = None,
    ) -> None:
        folder.mkdir()
        self.folder = folder
        self._database = database
        self.setting = setting or Setting()
        # Tokens of the first rounds are fetched before these begin.
        self.clock = FakeClock((FIRST - 2) * ROUND_S + 100)
        self.campaign = self.setting.campaign
        self.hash = campaign_hash(self.campaign)
        self._keyset_version = self._outer = 1
        self._switches_s: tuple[int, ...] = ()
        self.round = FIRST
        self.silent, self._lost = silent, lost
        self.log = io.StringIO()
        self.deaths: Counter[tuple[str, str]] = Counter()
        # What passed the network, for whoever compares or attacks.
        self.wires: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self.puts: defaultdict[int, dict[str, bytes]] = defaultdict(dict)
        self.manifests: dict[str, str] = {}
        self.spoilt: set[tuple[int, int]] = set()
        self.spoilt_batches: set[int] = set()
        self._deaths_due: defaultdict[str, list[int]] = defaultdict(list)
        self._message_faults: defaultdict[int, list[str]] = defaultdict(list)
        self._met: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        self._batch_faults: list[str] = []
        self._held: dict[str, list[Callable[[], object]]] = {"soon": [], "late": [], "next": []}
        self._unreachable: dict[str, float] = {}
        self._start_servers()
        self._start_registrar(devices)
        self.devices = [self._device(place) for place in range(devices)]
        while self.clock.now_s() < FIRST * ROUND_S:
            for device in self.devices:
                device.step()
            self._go_to(self.clock.now_s() + ROUND_S / 4)

    def run(self, operations: Sequence[Operation]) -> "World":
        """Live through a list of operations, and then until nothing is under way."""
        for operation in operations:
            match operation:
                case ("round",):
                    self._pass_round()
                case ("version",):
                    self.publish_version()
                case ("keys",):
                    self._publish_keys()
                case ("fusion-keys",):
                    self._publish_fusion_keys()
                case ("death", "device", int(point), int(device)):
                    self.devices[device % len(self.devices)].fuse.due.append(point)
                case ("death", str(step), int(point)):
                    self._deaths_due[step].append(point)
                case ("message", int(device), str(fault)):
                    self._message_faults[device % len(self.devices)].append(fault)
                case ("batch", str(fault)):
                    self._batch_faults.append(fault)
                case ("outage", str(role)):
                    self._unreachable[role] = 0.0
                case _:
                    raise AssertionError(f"no operation: {operation}")
        self._unreachable.clear()
        self._forward_all()
        self._deliver("next")
        self._finalise()
        return self

    def estimates(self) -> dict[int, tuple[Any, ...]]:
        """Return what became of each round that is over: its state and every estimate."""
        states = self.rows(self.fusion, "SELECT round, state FROM rounds WHERE state <> 'open'")
        found: dict[int, tuple[Any, ...]] = {round: (state,) for round, state in states}
        for round, *estimate in self.rows(
            self.fusion,
            "SELECT round, method, value, standard_error, degrees_of_freedom, n FROM answers "
            "ORDER BY round, method",
        ):
            found[round] += (tuple(estimate),)
        return found

    def all_deaths(self) -> Counter[tuple[str, str]]:
        """Return how often which step died at what."""
        found = Counter(self.deaths)
        for device in self.devices:
            for label, count in device.deaths.items():
                found["device", label] += count
        return found

    def close(self) -> None:
        """Give everything back."""
        for device in self.devices:
            device.close()
        for server in (self.intake, self.closer, self.fusion, self.registrar):
            server.close()

    def rows(self, server: Server, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return what a server's database holds."""
        with server.database.snapshot() as transaction:
            return transaction.execute(sql, parameters)

    def files_of(self, name: str) -> bytes:
        """Return every byte of a server's own files; those of PostgreSQL are none."""
        paths = sorted(self.folder.glob(f"{name}.db*"))
        return b"".join(path.read_bytes() for path in paths if not path.name.endswith("-shm"))

    def handle(self, message: Message, *, copies: int = 1) -> Answer:
        """Answer as the shuffler's intake does; its death looks like silence."""
        if self.clock.now_s() < self._unreachable.get("shuffler", 0):
            raise Unreachable("the shuffler is down.")
        headers = {
            "Content-Type": message.content_type or REPORT_TYPE,
            "Authorization": message.credential
            and authorization_of(message.body, message.credential),
            "If-None-Match": message.etag,
        }
        asked = [
            httpx.Request(
                message.method,
                f"http://shuffler{message.path}",
                content=message.body,
                headers={name: text for name, text in headers.items() if text is not None},
            )
            for _ in range(copies)
        ]
        try:
            # Copies that arrive together share a commit.
            first, *_ = self._asked(
                self.intake, asked, step="intake" if message.method == "POST" else None
            )
        except SimulatedDeath:
            raise Unreachable("the shuffler died.") from None
        retry = first.headers.get("retry-after")
        return Answer(
            first.status_code,
            first.content,
            etag=first.headers.get("etag"),
            retry_after_s=None if retry is None else float(retry),
        )

    def put(self, url: str, *, content: bytes, headers: dict[str, str]) -> httpx.Response:
        """Carry a batch to the fusion centre, as an HTTP client does."""
        batch = url.rpartition("/")[2]
        round = Batch.from_bytes(content).round
        self.puts[round][batch] = content
        self.manifests[batch] = headers[MANIFEST_HEADER]
        if "fusion" in self._unreachable:
            raise httpx.ConnectError("the fusion centre is down.")
        fault = self._batch_faults.pop(0) if self._batch_faults else None
        fault = "tamper" if round in self._lost else fault
        if fault == "drop":
            raise httpx.ReadTimeout("lost.")
        if fault == "delay":
            self._held["next"].append(lambda: self.receive(batch, content, headers))
            raise httpx.ReadTimeout("late.")
        if fault == "replay":
            self._held["next"].append(lambda: self.receive(batch, content, headers))
        if fault == "duplicate":
            self.receive(batch, content, headers)
        if fault == "tamper":
            self.spoilt_batches.add(round)
            content = content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]
        answer = self.receive(batch, content, headers)
        if fault == "lose-answer":
            raise httpx.ReadTimeout("the answer was lost.")
        return answer

    def receive(self, batch: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
        """Answer as the fusion centre does; its death looks like silence."""
        asked = httpx.Request(
            "PUT", f"http://fusion/v1/batches/{batch}", content=content, headers=headers
        )
        try:
            return self._asked(self.fusion, [asked], step="put")[0]
        except SimulatedDeath:
            raise httpx.RemoteProtocolError("the fusion centre died.") from None

    def _asked(
        self, server: Server, requests: Sequence[httpx.Request], *, step: str | None
    ) -> list[httpx.Response]:
        server.database.arm(None if step is None else self._next_death(step))
        try:
            return server.ask(requests)
        except SimulatedDeath:
            self._died(step or "", server)
            raise
        finally:
            server.database.arm(None)

    def enrolled(self, group: str = "") -> str:
        """Enrol one more device and return its credential."""
        expires_s = int(self.clock.now_s()) + 60
        (token,) = make_tokens(self.closer.database, 1, expires_s=expires_s, group=group)
        number = int.from_bytes(token_bytes(16))
        body = asked(token, number)
        request = httpx.Request("POST", "http://shuffler/v1/enrolments", json=body)
        (answer,) = self._asked(self.intake, [request], step=None)
        return credential_of(token, answer.json(), number)

    def _start_registrar(self, devices: int) -> None:
        self.registrar = Server(
            self.folder / "registrar.db",
            migrations="registrar",
            build=lambda database: Parts(
                database, self.clock, shuffler=Carrier(self._signed), log=self.log
            ),
            app=lambda parts: parts.app,
        )
        certify(self.registrar.database, devices)
        self._keep_up()

    def _keep_up(self) -> None:
        """Make keys of token windows, in a process that is restarted when it dies."""
        while True:
            self.registrar.database.arm(self._next_death("upkeep"))
            try:
                self.registrar.parts.upkeep.step()
            except SimulatedDeath:
                self._died("upkeep", self.registrar)
            else:
                self.registrar.database.arm(None)
                return

    def _ask_registrar(self, message: Message) -> Answer:
        """Answer a device as the registrar does; its death looks like silence."""
        if "registrar" in self._unreachable:
            raise Unreachable("the registrar is down.")
        request = httpx.Request(
            message.method, f"http://registrar{message.path}", content=message.body
        )
        try:
            step = "issue" if message.method == "POST" else None
            (answer,) = self._asked(self.registrar, [request], step=step)
        except SimulatedDeath:
            raise Unreachable("the registrar died.") from None
        return Answer(answer.status_code, answer.content)

    def _token_keys(self, database: Database) -> TokenKeys:
        def fetch() -> bytes:
            request = httpx.Request("GET", "http://shuffler/v1/token-keys")
            return self._asked(self.intake, [request], step=None)[0].content

        return TokenKeys(database, self.clock, pinned=PINNED, fetch=fetch)

    def upload_round(self) -> int:
        """Let a round pass, and its devices send; return the round, which waits for its close."""
        campaign, round = self.campaign, self.round
        self._go_to(round * ROUND_S + 20_000)
        for device in self.devices:
            device.step()
        self._go_to(campaign.round_end_s(round) + 1)
        for role in self._unreachable:
            self._unreachable[role] = campaign.upload_end_s(round) + 300
        for device in self.devices:
            device.fuse.arm()
            device.step()
        self._upload(round)
        self._deliver("soon")
        self._go_to(campaign.closes_s(round))
        self._deliver("late")
        self._unreachable.pop("shuffler", None)
        self._message_faults.clear()
        for device in self.devices:
            device.fuse.disarm()
            device.step()
        self._note_spoilt(round)
        return round

    def close_and_estimate(self) -> None:
        """Close what is due, forward it and make it final, whatever dies meanwhile."""
        while self._live("close", "close_one", wait_s=10.0):
            pass
        self._forward_all()
        self._live("erase", "step", wait_s=10.0)
        self._finalise()

    def _finalise(self) -> None:
        ((settles_s,),) = self.rows(
            self.fusion, "SELECT max(settles_s) FROM rounds WHERE state = 'open'"
        )
        # While devices may use two keys, a round waits for a second batch; one waits for the last.
        self._go_to(settles_s + PATIENCE_S if settles_s else 0)
        self._live("finalise", "tick")

    def _pass_round(self) -> None:
        self._keep_up()
        round = self.upload_round()
        late, self._held["next"] = self._held["next"], []
        self.close_and_estimate()
        self._unreachable.pop("fusion", None)
        self._unreachable.pop("registrar", None)
        for deliver in late:
            self._shrugging(deliver)
        self._batch_faults.clear()
        self._deaths_due.clear()
        self._check_erased(round)
        self.round += 1

    def _upload(self, round: int) -> None:
        """Let every device send until all have arrived or the round is about to close."""
        end_s = self.campaign.closes_s(round) - 5 - self.clock.now_s() + self.clock.monotonic_s()
        while True:
            due = [(device.due_s(), device) for device in self.devices]
            waiting = [(when, device.place) for when, device in due if when is not None]
            if not waiting or min(waiting)[0] >= end_s:
                return
            when, place = min(waiting)
            self.clock.advance(max(when - self.clock.monotonic_s(), 0.0) + 0.1)
            self.devices[place].step()

    def _note_spoilt(self, round: int) -> None:
        """Note who paid for a report that the shuffler does not hold, if that may happen at all."""
        rows = self.rows(self.intake, "SELECT wire FROM report WHERE round = ?", round)
        stored = {bytes(wire) for (wire,) in rows}
        arrived = {device for device, wire in self.wires[round] if wire in stored}
        for device in self.devices:
            if round in device.spent and device.place not in arrived:
                met = self._met[device.place, round]
                is_allowed = {"lose", "tamper"} & set(met) or len(met) > MOST_RETRIES
                assert is_allowed, f"the report of device {device.place} in {round} is lost"
                self.spoilt.add((device.place, round))

    def _carry(self, device: int, message: Message) -> Answer:
        """Bring a device's message to the shuffler, or not."""
        if message.method == "GET":
            return self.handle(message)
        round = Header.from_report(message.body).round
        self.wires[round].append((device, message.body))
        faults = self._message_faults[device]
        fault = faults.pop(0) if faults and round == self.round else None
        if fault is not None:
            self._met[device, round].append(fault)
        if fault == "lose":
            faults.insert(0, "lose")
        if fault in ("drop", "lose"):
            raise Unreachable("lost.")
        if fault in ("delay", "late"):
            self._held["soon" if fault == "delay" else "late"].append(lambda: self.handle(message))
            raise Unreachable("late.")
        if fault == "replay":
            self._held["late"].append(lambda: self.handle(message))
            self._held["next"].append(lambda: self.handle(message))
        if fault == "tamper":
            message = _changed(message, HEADER_SIZE + 40)
        elif fault == "tamper-key":
            message = _changed(message, 1)
        try:
            answer = self.handle(message, copies=2 if fault == "duplicate" else 1)
        except Unreachable:
            # Several deaths of the intake in a row may outlast a round's window.
            self._met[device, round].append("death")
            raise
        if fault == "lose-answer":
            raise Unreachable("the answer was lost.")
        return answer

    def _forward_all(self) -> None:
        for tries in range(60):
            (waiting,) = self.rows(
                self.closer, "SELECT count(*), min(next_s) FROM outbox WHERE state = 'waiting'"
            )
            if not waiting[0] or ("fusion" in self._unreachable and tries > 1):
                return
            self._go_to(waiting[1])
            self._live("forward", "forward_one", wait_s=301.0)
        raise AssertionError("a batch is never taken")

    def _live(self, step: str, action: str, *, wait_s: float = 1.0) -> Any:
        """Do a step by its name, again after each death, in a process that is restarted."""
        server = self.fusion if step == "finalise" else self.closer
        while True:
            server.database.arm(self._next_death(step))
            try:
                answer = getattr(server.parts, action)()
            except SimulatedDeath:
                self._died(step, server)
                # The lease of the dead runs out before anybody goes on.
                self.clock.advance(wait_s)
                continue
            server.database.arm(None)
            return answer

    def _died(self, step: str, server: Server) -> None:
        self.deaths[step, server.database.label] += 1
        server.restart()

    def _next_death(self, step: str) -> int | None:
        due = self._deaths_due[step]
        return due.pop(0) if due else None

    def _deliver(self, when: str) -> None:
        held, self._held[when] = self._held[when], []
        for deliver in reversed(held):
            self._shrugging(deliver)

    @staticmethod
    def _shrugging(deliver: Callable[[], object]) -> None:
        try:
            deliver()
        except (Unreachable, httpx.HTTPError):
            return

    def _go_to(self, time_s: float) -> None:
        self.clock.advance(max(time_s - self.clock.now_s(), 0.0))

    def block_of(self, round: int) -> range:
        """Return the rounds that may be released together with a round, as the shuffler sees it."""
        documents = load_documents(self.closer.database, PINNED)
        agreed = documents.of_round(self.campaign.id, round)
        assert agreed is not None
        end = min(agreed.campaign.block_end(round), documents.last_round(agreed))
        return range(agreed.campaign.block_start(round), end + 1)

    def _check_erased(self, round: int) -> None:
        """After the close no payload is linked to a device, in no byte of the shuffler's files.

        Where rounds are carried, fewer than k_min wait, one of each device, within their block.
        """
        block = self.block_of(round)
        waiting = self.rows(
            self.closer, "SELECT round, device, wire FROM report WHERE round <= ?", round
        )
        assert {row[0] for row in waiting} <= set(block[:-1] if round < block[-1] else ())
        assert len({row[1] for row in waiting}) == len(waiting) < self.campaign.k_min
        kept, left = {bytes(row[2]) for row in waiting}, self.files_of("shuffler")
        for _, wire in (one for number in block for one in self.wires[number]):
            if wire not in kept:
                assert wire[HEADER_SIZE : HEADER_SIZE + 32] not in left, "a payload is left"
                assert wire[-32:] not in left, "a payload is left"

    def _start_servers(self) -> None:
        shuffler: DatabaseAddress = self._database or self.folder / "shuffler.db"
        fusion: DatabaseAddress = self._database or self.folder / "fusion.db"
        self.closer = Server(
            shuffler,
            migrations="shuffler",
            build=lambda database: closer_of(
                database, self.clock, setting=self.setting, client=self, log=self.log
            ),
        )
        self.fusion = Server(
            fusion,
            migrations="fusion",
            build=lambda database: centre_of(
                database,
                self.clock,
                setting=self.setting,
                log=self.log,
                token_keys=self._token_keys(database),
            ),
            app=fusion_app,
        )
        self.intake = Server(
            shuffler,
            migrations="shuffler",
            build=lambda database: database,
            app=lambda database: intake_of(
                database,
                self.clock,
                log=self.log,
            ),
        )
        self.publisher().publish(self.campaign)
        self.publisher().publish_keyset(self._keyset())

    def publisher(self) -> Publisher:
        """Return what publishes documents, as an operator's command does."""
        return Publisher(
            self.fusion.database,
            self.clock,
            key=SIGNERS[Role.FUSION],
            pinned=PINNED,
            countersigner=HttpCountersigner("http://localhost", transport=Carrier(self._signed)),
        )

    def _signed(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._asked(self.intake, [request], step="countersign")[0]
        except SimulatedDeath:
            raise httpx.RemoteProtocolError("the shuffler died.") from None

    def _publish(self, publish: Callable[[Publisher], object]) -> None:
        """Publish as an operator who tries until it is done."""
        while True:
            self.fusion.database.arm(self._next_death("publish"))
            try:
                publish(self.publisher())
            except SimulatedDeath:
                self._died("publish", self.fusion)
            except NotCountersigned:
                continue
            else:
                self.fusion.database.arm(None)
                return

    def publish_version(self) -> None:
        """Publish a new version for the round after the next, whoever saw the last one."""
        if self.campaign.not_before >= self.round + 2:
            return
        # Another precision of the same law: reports drawn under the old version stay readable.
        self.campaign = replace(
            self.campaign,
            version=self.campaign.version + 1,
            rho=self.campaign.rho - 0.001,
            not_before=self.round + 2,
        )
        self._publish(lambda publisher: publisher.publish(self.campaign))

    def _publish_keys(self) -> None:
        # Whoever runs out of numbers keeps the last key, in both worlds.
        self._outer = min(self._outer + 1, MOST_OUTER - 1)
        self._publish_keyset()

    def _publish_fusion_keys(self) -> None:
        """Let all devices seal for another key at the same moment, which they know long before."""
        # In the middle of a round: none seals then. A switch that is announced is waited for.
        switch_s = (self.round + SWITCH_ROUNDS) * ROUND_S + ROUND_S // 2
        if not self._switches_s or self._switches_s[-1] < self.clock.now_s():
            self._switches_s += (switch_s,)
            self._publish_keyset()

    def _publish_keyset(self) -> None:
        self._keyset_version += 1
        self._publish(lambda publisher: publisher.publish_keyset(self._keyset()))

    def _keyset(self) -> Keyset:
        return self.setting.keyset(
            self._keyset_version, outer=self._outer, switches_s=self._switches_s
        )

    def _device(self, place: int) -> Device:
        return Device(
            place,
            self.folder,
            credential=self.enrolled(self.setting.groups[place % len(self.setting.groups)]),
            clock=self.clock,
            campaign_id=self.campaign.id,
            pinned=PINNED,
            handler=lambda message: self._carry(place, message),
            reading=self._reading,
            log=self.log,
            sends_cover=self.setting.sends_cover,
            registrar=self._ask_registrar,
        )

    def _reading(self, device: int) -> float | None:
        """Return a whole number, always the same in a round, so that means are exact."""
        round = int(self.clock.now_s() // ROUND_S)
        if (device, round) in self.silent or not self.setting.has_turn(device, round):
            return None
        return float((round * 37 + device * 611) % 3000)


def _changed(message: Message, place: int) -> Message:
    # The highest bit: a key's number then becomes that of no key.
    changed = bytes([message.body[place] ^ 0x80])
    body = message.body[:place] + changed + message.body[place + 1 :]
    return Message(
        message.method,
        message.path,
        body,
        content_type=message.content_type,
        credential=message.credential,
    )
