"""``rase doctor``: look at an installation and say what is wrong and what to do.

A server's database shows the work that waits, whether the server runs or not.
"""

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.doctor.broker import (
    examine_device_broker,
    examine_home_broker,
    examine_server_broker,
)
from rase.cli.doctor.registrar import check_registrar, examine_registrar
from rase.cli.doctor.servers import SERVER_FILE, fetch, own_server, server_settings
from rase.clock import Clock, SystemClock
from rase.errors import ConfigurationError, RaseError, StorageError, WireError

if TYPE_CHECKING:
    from ssl import SSLContext

    from rase.device.folder import DeviceFolder
    from rase.service.doctor import Finding
    from rase.storage.interface import Transaction
    from rase.wire.keys import Role
    from rase.wire.signed import PinnedKeys

__all__ = ["Unwell", "command", "examine", "examine_work"]

_DEVICE_FILE = "device.toml"
_DEVICE_KEY_FILES = ("device.key", "credential", _DEVICE_FILE)


class Unwell(RaseError):
    """The doctor found problems; the exit code says of which kind.

    Args:
        count: How many.
        exit_code: 3 for files and settings, 4 for the network.
    """

    def __init__(self, count: int, *, exit_code: int) -> None:
        super().__init__(f"{count} problem{'s' if count > 1 else ''}; see what to do above.")
        self.exit_code = exit_code


@click.command(
    "doctor",
    short_help="Check settings, keys, clocks, peers, databases, work that waits, brokers and disk.",
)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(folder: Path, as_json: bool) -> None:
    """Check settings, keys, clocks, peers, databases, work that waits, brokers and disk.

    One line for each check; nothing is changed. FOLDER is what rase init made, or the folder of one
    server or device in it.
    """
    from rase.service.doctor import Level, as_document, exit_code_of

    findings = examine(folder, SystemClock())
    code = exit_code_of(findings)
    if as_json:
        document = {"schema": "rase/doctor/1", "exit_code": code, "checks": as_document(findings)}
        click.echo(json.dumps(document))
    else:
        for one in findings:
            click.echo(f"{one.level:<8} {one.where}: {one.check}: {' '.join(one.text.split())}")
    count = sum(one.level is Level.PROBLEM for one in findings)
    if code:
        raise Unwell(count, exit_code=code)


def examine(folder: Path, clock: Clock) -> "list[Finding]":
    """Return the findings on a folder or on all servers and devices in it.

    Args:
        folder: As ``rase init`` made it, or a part of it.
        clock: The time, compared with that of peers.

    Raises:
        ConfigurationError: If there is nothing to look at.
    """
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    findings: list[Finding] = []
    servers: dict[Role, Path] = {}
    for place in places:
        role = _role_of(place)
        if role is not None:
            servers[role] = place
    for place in places:
        role = _role_of(place)
        if role is not None:
            findings += _examine_server(place, role, servers, clock)
        if "registrar" in _sections_of(place):
            findings += examine_registrar(place, servers, clock)
        elif role is None and (place / _DEVICE_FILE).exists():
            findings += _examine_device(place, clock)
    if not findings:
        raise ConfigurationError(
            [f"{folder} must hold {SERVER_FILE} or {_DEVICE_FILE}, or folders that do."]
        )
    return findings


def _role_of(place: Path) -> "Role | None":
    from rase.wire.keys import Role

    sections = _sections_of(place)
    return next((role for role in Role if role in sections), None)


def _sections_of(place: Path) -> Mapping[str, Any]:
    from rase.toml import parse_toml

    try:
        text = (place / SERVER_FILE).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    try:
        return parse_toml(text)
    except ValueError:
        # A broken file is reported by whoever loads it; its folder's name says whose it is.
        return {place.name: {}}


def _examine_server(
    place: Path, role: "Role", servers: "Mapping[Role, Path]", clock: Clock
) -> "list[Finding]":
    from rase.service import doctor
    from rase.service.keyring import PUBLIC_FILE, read_public_keys
    from rase.wire.keys import Role

    where, now_s = str(place), clock.now_s()
    findings = [doctor.check_disk(where, place)]
    try:
        settings = server_settings(place, role)
    except ConfigurationError as error:
        return findings + doctor.findings_of(where, "settings", error.mistakes, "")
    findings += doctor.findings_of(where, "settings", (), f"{SERVER_FILE} can be used.")
    peer = Role.FUSION if role is Role.SHUFFLER else Role.SHUFFLER
    finding, signing = doctor.check_signing_key(where, settings.signing_key_file, role)
    findings.append(finding)
    try:
        public = read_public_keys(place / PUBLIC_FILE)
    except ConfigurationError as error:
        findings += doctor.findings_of(where, "public keys", error.mistakes, "")
        configs: Any = ()
    else:
        configs = public.configs
        findings.append(doctor.check_configs(where, configs, role=role, now_s=now_s))
        if signing is not None and signing.public_bytes() != public.signing_key:
            mistake = f"{PUBLIC_FILE} names another signing key; put the private one back."
            findings += doctor.findings_of(where, "public keys", [mistake], "")
    findings += doctor.check_opening_keys(
        where, settings.opening_key_files, configs, role=role, now_s=now_s
    )
    if isinstance(settings.database, Path):
        findings.append(doctor.check_database(where, settings.database, role=role))
    else:
        findings.append(doctor.check_server_database(where, settings.database, role=role))
    pinned = _read_pinned(settings, peer, signing)
    if signing is not None and pinned is None:
        mistake = f"{peer}_key is this server's own key; run rase keys adopt with the other's."
        findings += doctor.findings_of(where, "pinned key", [mistake], "")
    if peer in servers and pinned is not None:
        findings += _against(where, servers[peer], peer, pinned)
    url = getattr(settings, f"{peer}_url")
    found = doctor.check_peer(where, peer, url, clock=clock)
    findings += found
    findings.append(own_server(where, role, settings))
    findings += examine_work(where, role, settings, clock)
    findings += examine_server_broker(where, role, settings, pinned)
    if role is Role.FUSION:
        findings += _campaign_file(where, place)
        if len(found) > 1 and pinned is not None:
            findings += _published_keyset(where, place, url, pinned)
    return findings


def _read_pinned(settings: Any, peer: "Role", signing: Any) -> "PinnedKeys | None":
    from rase.service.key_settings import public_key_bytes
    from rase.wire.keys import Role
    from rase.wire.signed import PinnedKeys

    if signing is None:
        return None
    theirs = public_key_bytes(getattr(settings, f"{peer}_key"))
    ours, registrar = signing.public_bytes(), public_key_bytes(settings.registrar_key)
    fusion, shuffler = (theirs, ours) if peer is Role.FUSION else (ours, theirs)
    try:
        return PinnedKeys(fusion, shuffler, registrar)
    except ValueError:
        return None


def _against(where: str, place: Path, peer: "Role", pinned: "PinnedKeys") -> "list[Finding]":
    """Compare a pinned key with the peer's own folder, where that is on this machine, too."""
    from rase.service import doctor
    from rase.service.keyring import PUBLIC_FILE, read_public_keys

    try:
        public = read_public_keys(place / PUBLIC_FILE)
    except ConfigurationError:
        return []
    return [doctor.check_pin(where, peer, pinned.of(peer), public.signing_key)]


def _campaign_file(where: str, place: Path) -> "list[Finding]":
    from rase.fusion.mechanism import campaign_of
    from rase.service import doctor
    from rase.service.installation import CAMPAIGN_FILE
    from rase.toml import parse_toml
    from rase.validation import CampaignInvalid

    path = place / CAMPAIGN_FILE
    if not path.exists():
        return []
    mistakes: tuple[str, ...] = ()
    try:
        values = parse_toml(path.read_bytes())
        campaign_of(values.get("campaign", values))
    except CampaignInvalid as error:
        mistakes = error.mistakes
    except (ValueError, OSError) as error:
        mistakes = (f"{path} is not TOML: {error}.",)
    return doctor.findings_of(where, "campaign", mistakes, f"{CAMPAIGN_FILE} can be published.")


def _published_keyset(where: str, place: Path, url: str, pinned: "PinnedKeys") -> "list[Finding]":
    """Check what the shuffler gives to devices against the pinned keys and our own file."""
    from rase.service import doctor
    from rase.service.keyring import KEYSET_FILE, read_keyset
    from rase.wire.signed import SignedKeyset

    answer = fetch(url, "/v1/keyset")
    if answer is None or answer.status != 200:
        text = "no keyset is published yet: rase fusion publish-keys."
        return [doctor.Finding(where, "keyset", doctor.Level.WARNING, text, is_network=True)]
    try:
        published = SignedKeyset.from_bytes(answer.body, pinned).keyset
        ours = read_keyset(place / KEYSET_FILE)
    except WireError as error:
        text = f"the shuffler gives devices another keyset than ours: {error} Ask its operator."
        return [doctor.Finding(where, "keyset", doctor.Level.PROBLEM, text, is_network=True)]
    except ConfigurationError as error:
        return doctor.findings_of(where, "keyset", error.mistakes, "")
    if published.version < ours.version:
        text = (
            f"version {published.version} is published, {KEYSET_FILE} is {ours.version}: "
            "rase fusion publish-keys."
        )
        return [doctor.Finding(where, "keyset", doctor.Level.WARNING, text)]
    text = f"version {published.version} is published, signed by both pinned keys."
    return [doctor.Finding(where, "keyset", doctor.Level.OK, text)]


def _examine_device(place: Path, clock: Clock) -> "list[Finding]":
    from rase.device.folder import DeviceFolder
    from rase.device.ways import tls_of
    from rase.service import doctor
    from rase.wire.keys import Role

    where, folder = str(place), DeviceFolder(place)
    findings = [doctor.check_disk(where, place), *_private_files(where, place)]
    try:
        settings = folder.settings(os.environ)
    except ConfigurationError as error:
        return findings + doctor.findings_of(where, "settings", error.mistakes, "")
    findings += doctor.findings_of(where, "settings", (), f"{_DEVICE_FILE} can be used.")
    if folder.is_enrolled:
        findings.append(doctor.check_database(where, folder.ledger_path(settings)))
    else:
        text = f"not yet: rase device enrol --folder {place} --token-file FILE."
        findings.append(doctor.Finding(where, "enrolment", doctor.Level.WARNING, text))
    tls = None
    if settings.shuffler.startswith("https:"):
        try:
            tls = tls_of(settings, place).context()
        except ConfigurationError as error:
            return findings + doctor.findings_of(where, "TLS files", error.mistakes, "")
    findings += examine_device_broker(where, place, settings)
    findings += examine_home_broker(where, place, settings)
    found = doctor.check_peer(where, Role.SHUFFLER, settings.shuffler, clock=clock, tls=tls)
    findings += found
    findings += check_registrar(where, place, settings, clock)
    ask = None
    if len(found) > 1:
        ask = partial(_terms, tls=tls, clock=clock)
        findings += ask(where, folder, settings)
    return findings + _further_quantities(folder, settings, ask)


def _further_quantities(
    folder: "DeviceFolder", first: Any, ask: "Callable[..., list[Finding]] | None"
) -> "list[Finding]":
    """Look at the further quantities of a device: settings, the campaign of each, all together.

    Args:
        folder: The device's folder.
        first: Its settings.
        ask: Checks the terms of a campaign; None where the shuffler does not answer.
    """
    from rase.device.quantities import shared_mistakes
    from rase.service import doctor

    findings, found = [], [(folder, first)]
    for one in folder.quantities():
        where = str(one.path)
        try:
            settings = one.settings(os.environ)
        except ConfigurationError as error:
            findings += doctor.findings_of(where, "settings", error.mistakes, "")
            continue
        found.append((one, settings))
        text = f"{one.settings_file.name} can be used."
        findings += doctor.findings_of(where, "settings", (), text)
        findings += examine_device_broker(where, folder.path, settings)
        findings += [] if ask is None else ask(where, one, settings)
    if len(found) > 1:
        names = ", ".join(settings.campaign for _, settings in found)
        text = f"{len(found)} under one ledger, schedule {first.schedule}: {names}."
        where, mistakes = str(folder.path), shared_mistakes(found)
        findings += doctor.findings_of(where, "quantities", mistakes, text)
    return findings


def _private_files(where: str, place: Path) -> "list[Finding]":
    from rase.service import doctor

    paths = [place, *(place / name for name in _DEVICE_KEY_FILES if (place / name).exists())]
    mistakes = [
        f"{path} must be for its owner only: chmod {'700' if path == place else '600'} {path}."
        for path in paths
        if path.stat().st_mode & 0o077
    ]
    return doctor.findings_of(where, "key files", mistakes, "readable by you only.")


def _terms(
    where: str, folder: "DeviceFolder", settings: Any, *, tls: "SSLContext | None", clock: Clock
) -> "list[Finding]":
    """Check campaign and keyset as the device would, by what it has accepted, before it has to."""
    from rase.device.state import StateFile, StateUnusable
    from rase.device.terms import Terms, TermsRefused
    from rase.service import doctor

    terms = Terms(
        settings.campaign,
        pinned=settings.pinned,
        rules=settings.rules,
        first_hash=settings.campaign_hash,
    )
    if folder.is_enrolled:
        try:
            state = StateFile(folder.state_file).load()
            terms.restore(
                state.campaigns,
                state.keyset,
                consent=state.consent,
                keyset_seen_s=state.keyset_seen_s,
            )
        except (StateUnusable, TermsRefused) as error:
            return doctor.findings_of(where, "state", [str(error)], "")

    def offer_versions(data: bytes) -> None:
        for version in terms.new_versions(data):
            terms.offer_campaign(version)
        if terms.latest is not None:
            terms.admit(terms.latest.campaign)

    findings: list[Finding] = []
    offers: tuple[tuple[str, str, Callable[[bytes], Any]], ...] = (
        ("keyset", "/v1/keyset", partial(terms.offer_keyset, now_s=clock.now_s())),
        ("campaign", f"/v1/campaigns/{settings.campaign}/versions", offer_versions),
    )
    for check, path, offer in offers:
        answer = fetch(settings.shuffler, path, tls=tls)
        if answer is None or answer.status != 200:
            text = f"the shuffler has no {check} {'' if check == 'keyset' else settings.campaign}"
            text = f"{text.rstrip()} yet; its operator and the fusion centre's publish it."
            level = doctor.Level.WARNING
        else:
            try:
                offer(answer.body)
                text, level = "signed by both pinned keys and within your rules.", doctor.Level.OK
            except TermsRefused as error:
                text, level = f"this device refuses it: {error}", doctor.Level.PROBLEM
        findings.append(doctor.Finding(where, check, level, text))
    return findings


def examine_work(where: str, role: "Role", settings: Any, clock: Clock) -> "list[Finding]":
    """Look into the database of a server for work that is not done, and keys that are not held.

    Nothing is said of a database that is not there, not of this release, or cannot be read: another
    check does so.

    Args:
        where: The folder.
        role: The server.
        settings: Its settings.
        clock: The time.
    """
    from rase.storage.opening import looked_into
    from rase.wire.keys import Role

    try:
        with looked_into(settings.database, role=role) as transaction:
            if transaction is None:
                return []
            if role is Role.SHUFFLER:
                return _shuffler(where, transaction, now_s=clock.now_s())
            return _fusion(where, transaction, settings, now_s=clock.now_s())
    except (StorageError, WireError, ModuleNotFoundError):
        return []


def _shuffler(where: str, transaction: "Transaction", *, now_s: float) -> "list[Finding]":
    from rase.service.doctor import Finding, Level
    from rase.shuffler.health import backlog_of, keyset_trouble, trouble_in

    found = [
        Finding(where, "keysets", Level.WARNING, text)
        for text in keyset_trouble(transaction, now_s=now_s)
    ]
    backlog = backlog_of(transaction, now_s=now_s)
    waiting = backlog.rounds_due + backlog.batches_waiting + backlog.batches_stuck
    # Before the first round there is nothing to close.
    level = Level.PROBLEM if waiting else Level.WARNING
    trouble = trouble_in(backlog)
    if trouble:
        return found + [Finding(where, "backlog", level, text) for text in trouble]
    text = (
        f"closers that run: {backlog.closers}; rounds to close: {backlog.rounds_due}; batches "
        f"on their way: {backlog.batches_waiting}."
    )
    return [*found, Finding(where, "backlog", Level.OK, text)]


def _fusion(
    where: str, transaction: "Transaction", settings: Any, *, now_s: float
) -> "list[Finding]":
    from rase.fusion.campaigns import current_keyset
    from rase.fusion.health import LATE_ROUNDS, rounds_behind
    from rase.fusion.key_check import missing_keys
    from rase.service.doctor import Finding, Level
    from rase.service.heartbeat import running

    findings = []
    keyset = current_keyset(transaction)
    processes = running(transaction, now_s=now_s, part="fusion")
    if keyset is not None and processes:
        lacks = [missing_keys(keyset.keyset, one.keys, now_s=now_s) for one in processes]
        findings += [
            Finding(
                where,
                "held keys",
                Level.PROBLEM,
                f"key {number} is published, but a running fusion centre does not hold it: add "
                "its file to opening_key_files, and see in the log that it was read.",
            )
            for number in sorted({number for numbers in lacks for number in numbers})
        ]
        if not findings:
            text = f"all {len(processes)} that run hold every published key."
            findings.append(Finding(where, "held keys", Level.OK, text))
    behind = rounds_behind(transaction, now_s=now_s, settle_s=settings.settle_s)
    for name, count in behind.items():
        if count >= LATE_ROUNDS:
            text = f"campaign {name} is {count} rounds behind: look at the shuffler's backlog."
            findings.append(Finding(where, "rounds", Level.PROBLEM, text))
    return findings
