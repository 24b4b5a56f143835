"""What ``rase doctor`` looks at in a registrar's folder: key, peers, and windows that run out."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rase.cli.doctor.servers import SERVER_FILE, fetch, own_server, server_settings
from rase.clock import Clock, round_start_s
from rase.errors import ConfigurationError, StorageError, WireError

if TYPE_CHECKING:
    from rase.campaign import Campaign
    from rase.service.doctor import Finding
    from rase.storage.interface import Transaction
    from rase.wire.keys import Role
    from rase.wire.signed import PinnedKeys

__all__ = ["check_registrar", "examine_registrar"]


def examine_registrar(place: Path, servers: "Mapping[Role, Path]", clock: Clock) -> "list[Finding]":
    """Check settings, key, database, peers and clock, and that tokens do not run out.

    Args:
        place: The registrar's folder.
        servers: The folders of both servers, where they are on this machine, too.
        clock: The time.
    """
    from rase.registrar.settings import RegistrarSettings, own_secret
    from rase.service import doctor
    from rase.service.settings import load_settings
    from rase.wire.keys import Role

    where = str(place)
    findings = [doctor.check_disk(where, place)]
    try:
        settings = load_settings(RegistrarSettings, "registrar", path=place / SERVER_FILE)
    except ConfigurationError as error:
        return findings + doctor.findings_of(where, "settings", error.mistakes, "")
    findings += doctor.findings_of(where, "settings", (), f"{SERVER_FILE} can be used.")
    pinned = None
    try:
        _, pinned = own_secret(settings)
    except ConfigurationError as error:
        findings += doctor.findings_of(where, "signing key", error.mistakes, "")
    else:
        text = f"{settings.signing_key_file.name} is readable by you only."
        findings += doctor.findings_of(where, "signing key", (), text)
    if isinstance(settings.database, Path):
        findings.append(doctor.check_database(where, settings.database, role="registrar"))
    else:
        findings.append(doctor.check_server_database(where, settings.database, role="registrar"))
    if pinned is not None:
        for role, folder in servers.items():
            findings += _pins(where, role, folder, pinned)
    findings += doctor.check_peer(where, Role.SHUFFLER, settings.shuffler_url, clock=clock)
    findings.append(own_server(where, "registrar", settings))
    return findings + _examine_windows(where, settings, pinned, now_s=clock.now_s())


def check_registrar(where: str, place: Path, settings: Any, clock: Clock) -> "list[Finding]":
    """Check that a device's registrar answers, and goes by the same time.

    Args:
        where: The device's folder.
        place: The same, as a path.
        settings: The device's settings.
        clock: The time.
    """
    from rase.service import doctor
    from rase.transport.http import ClientTls

    authority = settings.tls_ca_file
    tls = None
    if settings.registrar.startswith("https:"):
        # The file itself was checked for the shuffler, without which it is not given.
        tls = ClientTls(None if authority is None else place / authority).context()
    return doctor.check_peer(where, "registrar", settings.registrar, clock=clock, tls=tls)


def _pins(where: str, role: "Role", folder: Path, pinned: "PinnedKeys") -> "list[Finding]":
    """Compare what both sides pin, where the other server's folder is on this machine, too."""
    from rase.service.doctor import Finding, Level
    from rase.service.key_settings import public_key_bytes
    from rase.service.keyring import PUBLIC_FILE, public_text, read_public_keys

    try:
        signs_with = read_public_keys(folder / PUBLIC_FILE).signing_key
        pins = server_settings(folder, role).registrar_key
    except ConfigurationError:
        return []
    own = public_text(pinned.registrar)
    texts = []
    if pinned.of(role) != signs_with:
        texts.append(
            f"{role}_key is not the key that {folder} signs with; compare fingerprints with its "
            f"operator, then set {role}_key."
        )
    if public_key_bytes(pins) != pinned.registrar:
        texts.append(f"{folder} pins another registrar; set registrar_key = {own!r} there.")
    if not texts:
        return [Finding(where, "pinned key", Level.OK, f"{folder} and we pin each other's key.")]
    return [Finding(where, "pinned key", Level.PROBLEM, text) for text in texts]


class _Window(NamedTuple):
    first: int
    last: int
    issue_until_s: int
    has_private: bool
    is_signed: bool


def _examine_windows(
    where: str, settings: Any, pinned: "PinnedKeys | None", *, now_s: float
) -> "list[Finding]":
    """Look for windows without a key that devices can use; another check looks at the database."""
    from rase.storage.opening import looked_into

    try:
        with looked_into(settings.database, role="registrar") as transaction:
            if transaction is None:
                return []
            kept = {name: _windows_of(transaction, name) for name in settings.campaigns}
    except (StorageError, ModuleNotFoundError):
        return []
    findings: list[Finding] = []
    for name, windows in kept.items():
        campaign = _fetch_campaign(settings.shuffler_url, name, pinned)
        findings += _tokens(where, name, windows, campaign, settings, now_s=now_s)
    return findings


def _windows_of(transaction: "Transaction", campaign: str) -> list[_Window]:
    rows = transaction.execute(
        "SELECT first_round, last_round, issue_until_s, private IS NOT NULL, signed IS NOT NULL "
        "FROM token_key WHERE campaign = ? ORDER BY first_round",
        (campaign,),
    )
    return [_Window(a, b, until, bool(held), bool(signed)) for a, b, until, held, signed in rows]


def _fetch_campaign(url: str, name: str, pinned: "PinnedKeys | None") -> "Campaign | None":
    from rase.wire.signed import SignedCampaign, versions_from_bytes

    answer = None if pinned is None else fetch(url, f"/v1/campaigns/{name}/versions")
    if pinned is None or answer is None or answer.status != 200:
        return None
    try:
        newest = versions_from_bytes(answer.body)[-1]
        return SignedCampaign.from_bytes(newest, pinned).campaign
    except WireError:
        return None


def _tokens(
    where: str,
    name: str,
    windows: list[_Window],
    campaign: "Campaign | None",
    settings: Any,
    *,
    now_s: float,
) -> "list[Finding]":
    """Say how far ahead devices can fetch tokens, and what keeps them from more."""
    from rase.registrar.upkeep import windows_ahead
    from rase.service.doctor import Finding, Level

    if campaign is None:
        text = f"{name} could not be read at the shuffler; no window is made without it."
        return [Finding(where, "tokens", Level.WARNING, text, is_network=True)]
    ahead = [one for one in windows if one.is_signed and one.issue_until_s > now_s]
    late = Level.WARNING if ahead else Level.PROBLEM
    signed = [one.last for one in windows if one.is_signed]
    until_s = round_start_s(max(signed, default=-1) + 1, campaign.round_s)
    rest = f"tokens of {name} last {max(0.0, until_s - now_s) / 3600:.1f} h more"
    due = list(
        windows_ahead(
            campaign,
            last_round=max((one.last for one in windows), default=None),
            now_s=now_s,
            window_rounds=settings.window_rounds,
            lead_s=settings.lead_s,
            windows=settings.windows_ahead,
        )
    )
    findings = []
    if due:
        text = f"{rest}, and {len(due)} windows that are due have no key; does the registrar run?"
        findings.append(Finding(where, "tokens", late, text))
    for one in windows:
        rounds = f"rounds {one.first} to {one.last} of {name}"
        if not one.is_signed and one.has_private:
            text = f"{rest}; the key of {rounds} waits for the shuffler's signature, see the log."
            findings.append(Finding(where, "tokens", late, text))
        elif not one.is_signed:
            text = (
                f"{rounds} get no tokens: the shuffler had signed another key, as after an older "
                "backup was put back. Devices go on after them."
            )
            findings.append(Finding(where, "tokens", Level.WARNING, text))
    if findings:
        return findings
    if not ahead:
        text = f"no window of {name} is due."
        return [Finding(where, "tokens", Level.OK, text)]
    text = f"{rest}; {len(ahead)} windows ahead are published."
    return [Finding(where, "tokens", Level.OK, text)]
