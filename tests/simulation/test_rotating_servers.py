"""Both servers rotate their keys by themselves for a year: no report is refused for good, or lost.

The folders, rotations, databases and countersignatures are the real ones; devices seal every day
with the keyset that they fetched last, and both servers open with the keys that their settings name
when the round is closed.
"""

import asyncio
import io
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from tests.registering import REGISTRAR_KEY
from tests.simulation.setting import POLICY, Setting

from rase.cli import main
from rase.clock import FakeClock, SystemClock
from rase.errors import BadSignature, RaseError, WireError
from rase.fusion.rotation import KeyPublication, offered_at
from rase.fusion.settings import FusionSettings
from rase.service.key_offer import offer_bytes, offer_from_bytes
from rase.service.key_settings import read_opening_keys, read_signing_key
from rase.service.keyring import PUBLIC_FILE, read_keyset, read_public_keys
from rase.service.rotation import KeyRotation
from rase.service.settings import load_settings
from rase.service.telemetry import Telemetry
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.documents import Countersigner, Documents, load_documents
from rase.shuffler.intake import check_report
from rase.shuffler.public_keys import keep_offer, keep_own_keys
from rase.shuffler.settings import ShufflerSettings
from rase.storage.interface import Database
from rase.storage.opening import open_database
from rase.wire import cbor
from rase.wire.inner import InnerOpener
from rase.wire.keys import Keyset, OpeningKey, Role
from rase.wire.messages import Content
from rase.wire.outer import OuterOpener
from rase.wire.seal import seal_report
from rase.wire.signed import PinnedKeys, campaign_bytes, campaign_hash, signature_of

DAY_S = 86_400
NOW_S = 20_000 * DAY_S
DEVICES = 3
CAMPAIGN = Setting().campaign
TOKEN = bytes(288)


class Way(httpx.BaseTransport):
    """Reach an app, unless the line is cut."""

    def __init__(self, app: object) -> None:
        self.app = app
        self.is_cut = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request."""
        if self.is_cut:
            raise httpx.ConnectError("cut.")

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="http://shuffler") as there:
                return await there.get(request.url.path)

        found = asyncio.run(ask())
        return httpx.Response(found.status_code, content=found.content)


class Servers:
    """Both servers' folders, the shuffler's database, and devices that fetch when they like."""

    def __init__(self, root: Path, database: Database, *, months: tuple[int, int]) -> None:
        self.folders = {role: root / role for role in (Role.SHUFFLER, Role.FUSION)}
        self.signers = {
            role: read_signing_key(folder / "keys/signing.key", role=role)
            for role, folder in self.folders.items()
        }
        self.pinned = PinnedKeys(
            self.signers[Role.FUSION].public_bytes(),
            self.signers[Role.SHUFFLER].public_bytes(),
            REGISTRAR_KEY,
        )
        self.clock = FakeClock(NOW_S)
        self.database = database
        self.log = io.StringIO()
        telemetry = Telemetry("both", stream=self.log)
        self.countersigner = Countersigner(
            database, key=self.signers[Role.SHUFFLER], pinned=self.pinned, policy=POLICY
        )
        self.way = Way(
            create_shuffler_app(database, self.clock, pinned=self.pinned, telemetry=telemetry)
        )
        fusion, shuffler = self.folders[Role.FUSION], self.folders[Role.SHUFFLER]
        offered = offered_at("http://shuffler", self.pinned.shuffler, transport=self.way)
        offers: dict[Role, Callable[[Keyset], object]] = {
            Role.SHUFFLER: lambda _: keep_offer(
                database,
                read_public_keys(shuffler / PUBLIC_FILE),
                key=self.signers[Role.SHUFFLER],
            ),
            Role.FUSION: KeyPublication(
                folder=fusion,
                check_held=lambda keyset: None,
                publish=self.publish,
                offered=offered,
                telemetry=telemetry,
            ),
        }
        self.publish(read_keyset(fusion / "keyset.json"))
        self.rotations = {
            role: KeyRotation(
                self.folders[role],
                role=role,
                every_s=months[at] * 30 * DAY_S,
                files=lambda role=role: self.files(role),  # type: ignore[misc]
                published=lambda: self.documents().keyset,
                offer=offers[role],
                clock=self.clock,
                telemetry=telemetry,
            )
            for at, role in enumerate((Role.SHUFFLER, Role.FUSION))
        }
        signature = signature_of(CAMPAIGN, self.signers[Role.FUSION])
        proposal = cbor.encode([campaign_bytes(CAMPAIGN), signature])
        self.countersigner.campaign(proposal, now_s=NOW_S)
        self.cache_s = self.keyset().cache_s
        self.known = [self.keyset()] * DEVICES
        self.fetched_s = [NOW_S - self.cache_s * at / DEVICES for at in range(DEVICES)]
        self.lost = list[str]()
        self.sealed_again = self.opened = 0
        self.begins: dict[Role, set[int]] = {role: set() for role in self.folders}

    def files(self, role: Role) -> list[Path]:
        """Return the private files that a server's settings name now."""
        kind = ShufflerSettings if role is Role.SHUFFLER else FusionSettings
        path = self.folders[role] / "rase.toml"
        return load_settings(kind, role, path=path, environment={}).opening_key_files

    def keys(self, role: Role) -> tuple[OpeningKey, ...]:
        """Return the private keys that a server holds now."""
        return read_opening_keys(self.files(role), role=role)

    def documents(self) -> Documents:
        """Return what was agreed."""
        return load_documents(self.database, self.pinned)

    def keyset(self) -> Keyset:
        """Return the published keyset."""
        found = self.documents().keyset
        assert found is not None
        return found

    def publish(self, keyset: Keyset) -> None:
        """Have a keyset signed by both; the shuffler refuses what breaks its rules."""
        if hasattr(self, "way") and self.way.is_cut:
            raise RaseError("cut.")
        # As the running closer does, within a second of a change.
        keep_own_keys(self.database, self.keys(Role.SHUFFLER))
        signature = signature_of(keyset, self.signers[Role.FUSION])
        proposal = cbor.encode([keyset.to_bytes(), signature])
        self.countersigner.keyset(proposal, now_s=self.clock.now_s())

    def live(self, days: int) -> None:
        """Let days pass: a look at the end of every round, then a report of every device."""
        until_s = self.clock.now_s() + days * DAY_S
        while self.clock.now_s() < until_s:
            round = int(self.clock.now_s()) // CAMPAIGN.round_s
            end_s = CAMPAIGN.round_end_s(round) + CAMPAIGN.grace_s / 2
            self.clock.advance(end_s - self.clock.now_s())
            # What a look left to do is done at the next, ten seconds later.
            for _ in range(2):
                for rotation in self.rotations.values():
                    rotation.step()
                self.clock.advance(11)
            for one in self.keyset().configs:
                self.begins[one.role].add(one.not_before_s)
            self._report(round)

    def _report(self, round: int) -> None:
        now_s = self.clock.now_s()
        code = campaign_hash(CAMPAIGN)
        outer = OuterOpener(code, self.keys(Role.SHUFFLER))
        inner = InnerOpener(code, self.keys(Role.FUSION), class_count=1)
        documents = self.documents()
        for device in range(DEVICES):
            if now_s >= self.fetched_s[device] + self.cache_s:
                self._fetch(device)
            wire = self._sealed(device, round)
            try:
                check_report(wire, device, documents=documents, now_s=now_s)
            except WireError as error:
                if error.problem not in ("outdated-config", "other-keyset"):
                    self.lost.append(f"{error.problem}: {error}")
                    continue
                self._fetch(device)
                self.sealed_again += 1
                wire = self._sealed(device, round)
                try:
                    check_report(wire, device, documents=documents, now_s=now_s)
                except WireError as again:
                    self.lost.append(f"again {again.problem}: {again}")
                    continue
            try:
                found = outer.open(wire)
                expected = documents.fusion_key(self.known[device].version, CAMPAIGN, round)
                assert found.mark.fusion_key_id == expected
                content = inner.open(found.inner, key_id=found.mark.fusion_key_id, round=round)
                assert content.place == device
                self.opened += 1
            except WireError as error:
                self.lost.append(f"not opened: {error}")

    def _fetch(self, device: int) -> None:
        self.known[device] = self.keyset()
        self.fetched_s[device] = self.clock.now_s()

    def _sealed(self, device: int, round: int) -> bytes:
        keyset, end_s = self.known[device], CAMPAIGN.round_end_s(round)
        return seal_report(
            Content(round, device, 0, TOKEN),
            campaign_hash=campaign_hash(CAMPAIGN),
            shuffler=keyset.active(Role.SHUFFLER, now_s=self.clock.now_s()),
            fusion=keyset.active(Role.FUSION, now_s=end_s),
            keyset=keyset.version,
        )


@pytest.fixture
def make_servers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Servers]]:
    """Make both servers, of which each rotates every so many months."""
    monkeypatch.setattr(SystemClock, "now_s", lambda clock: float(NOW_S))
    opened: list[Database] = []

    def make(*, months: tuple[int, int] = (1, 1)) -> Servers:
        root = tmp_path / f"x{len(opened)}"
        assert main(["init", str(root), "--range", "0", "1", "--epsilon", "1"]) == 0
        opened.append(open_database(root / "shuffler.db", migrations="shuffler"))
        return Servers(root, opened[-1], months=months)

    yield make
    for database in opened:
        closing(database).__exit__(None, None, None)


def test_a_year_in_which_both_rotate_loses_no_report(
    make_servers: Callable[..., Servers],
) -> None:
    """A key a month on each side, nobody's hand in it: every report of every device is opened."""
    servers = make_servers()
    servers.live(365)
    assert servers.lost == []
    assert servers.opened >= 365 * DAY_S // CAMPAIGN.round_s * DEVICES
    for role in (Role.SHUFFLER, Role.FUSION):
        begins = sorted(servers.begins[role])
        assert len(begins) == 13, [round((b - NOW_S) / DAY_S, 2) for b in begins]
        assert all(abs(b - a - 30 * DAY_S) <= DAY_S for a, b in pairwise(begins[1:]))
    assert "rotation_failed" not in servers.log.getvalue()
    # Old private files are named until no report needs them, and not for ever.
    assert all(len(servers.files(role)) <= 3 for role in servers.folders)


@pytest.mark.parametrize(
    ("from_day", "days"),
    [(25, 12), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((27, 2), (20, 60)))],
)
def test_outages_between_the_servers_lose_no_report(
    make_servers: Callable[..., Servers], from_day: int, days: int
) -> None:
    """A line that is cut for days or months when keys are due delays them, and nothing else."""
    servers = make_servers()
    servers.live(from_day)
    servers.way.is_cut = True
    servers.live(days)
    servers.way.is_cut = False
    servers.live(120)
    assert servers.lost == []
    assert servers.opened > (from_day + days + 120) * DEVICES
    for role in (Role.SHUFFLER, Role.FUSION):
        assert len(servers.begins[role]) >= 4
        assert len(servers.files(role)) <= 4
    assert "rotation_failed" in servers.log.getvalue()


def test_an_offer_is_believed_only_if_the_shuffler_signed_it(
    make_servers: Callable[..., Servers],
) -> None:
    """Whoever carries it can change nothing in it, and an older one brings nothing back."""
    servers = make_servers()
    public = read_public_keys(servers.folders[Role.SHUFFLER] / PUBLIC_FILE)
    key = servers.signers[Role.SHUFFLER]
    signed = offer_bytes(public, key)
    assert offer_from_bytes(signed, key.public_bytes()) == public
    name, text, signature = cbor.decode(signed, max_size=1 << 18)
    changed = cbor.encode([name, text.replace('"cache_s": ', '"cache_s": 1'), signature])
    with pytest.raises(BadSignature):
        offer_from_bytes(changed, key.public_bytes())
    with pytest.raises(BadSignature):
        offer_from_bytes(signed, servers.signers[Role.FUSION].public_bytes())
    for bad in (b"", cbor.encode([name, text]), cbor.encode(["other", text, signature])):
        with pytest.raises(WireError):
            offer_from_bytes(bad, key.public_bytes())
    servers.live(70)
    before = read_keyset(servers.folders[Role.FUSION] / "keyset.json")
    with servers.database.transaction() as transaction:
        transaction.execute("UPDATE key_offer SET signed = ?", (signed,))
    servers.rotations[Role.FUSION].step()
    assert read_keyset(servers.folders[Role.FUSION] / "keyset.json") == before
