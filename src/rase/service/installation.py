"""A new installation: one folder for each server and one for a device, made whole or not at all.

Whoever installs both servers on one machine holds all keys; operators who do not trust each other
keep their own half each and exchange public keys.
"""

import base64
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rase.address import split_address
from rase.atomic_files import replacing_folder
from rase.campaign import Campaign
from rase.errors import ConfigurationError
from rase.service.keyring import (
    KEYS_FOLDER,
    KEYSET_FILE,
    PUBLIC_FILE,
    SETTINGS_FILE,
    PublicKeys,
    keyset_text,
    opening_key_name,
    public_text,
)
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.private_files import write_private
from rase.wire.signed import public_key_of
from rase.wire.suites import KEM_NUMBERS, X25519

__all__ = [
    "CAMPAIGN_FILE",
    "REGISTRAR_FOLDER",
    "STEPS_FILE",
    "Installed",
    "Plan",
    "campaign_text",
    "install",
    "next_steps",
]

CAMPAIGN_FILE = "campaign.toml"
STEPS_FILE = "NEXT.txt"
REGISTRAR_FOLDER = "registrar"
_PORTS = {Role.SHUFFLER: 8701, Role.FUSION: 8702}
_REGISTRAR_PORT = 8704
# With shorter rounds an installation is tried out: who enrols is not to wait for long.
_SHORT_ROUND_S = 600
_SHORT_WINDOW_S = 60

_SHUFFLER = """\
# The shuffler: knows who sends, not what: sealed. Its operator must not be the fusion centre's.
# RASE_SHUFFLER__PORT and the like in the environment go before this file.

[shuffler]
name = "shuffler"
host = {host}
port = {port}
database = "shuffler.db"
# Private keys, for their owner only (0600); `rase keys show` prints their fingerprints.
signing_key_file = {signing_key_file}
opening_key_files = [{opening_key_file}]
# The fusion centre's public signing key; compare fingerprints with its operator.
fusion_key = {peer_key}
# Where batches go; https, except on this machine.
fusion_url = {peer_url}
# The registrar's public key: only reports with its tokens count.
registrar_key = {registrar_key}
# lease_s = 60                 # how long one closer may take for a round
# workers = 1                  # processes that open large rounds

[shuffler.policy]
# What this operator countersigns, on behalf of the owners of devices.
max_epsilon = {max_epsilon!r}
max_window_budget = {window_budget!r}
min_k_min = {k_min}
# The most rounds that reports of too small a round may wait here for company; 0 drops them.
max_carry_rounds = {carry_rounds}
{promise_lines}

# [shuffler.limits]
# reports_per_minute = 60      # of one device
# enrolments_per_minute = 60   # wrong tries of one address; tries with one token
"""

_FUSION = """\
# The fusion centre: reads noisy values, never knows whose they are.
# RASE_FUSION__PORT and the like in the environment go before this file.

[fusion]
host = {host}
port = {port}
database = "fusion.db"
# Private keys, for their owner only (0600); `rase keys show` prints their fingerprints.
signing_key_file = {signing_key_file}
opening_key_files = [{opening_key_file}]
# The shuffler's public signing key; compare fingerprints with its operator.
shuffler_key = {peer_key}
# Where campaigns and keysets are countersigned; https, except on this machine.
shuffler_url = {peer_url}
# The registrar's public key: only reports with its tokens count.
registrar_key = {registrar_key}
# workers = 2                  # processes that open large batches; one a core if not given
# keep_values_s = 0            # how long noisy reports are kept after their round is final
# admin_over_http = false      # whether tokens of the scope admin:campaign may publish
"""

_REGISTRAR = """\
# The registrar: certifies devices and signs their tokens blindly. Its operator must not be the
# shuffler's. RASE_REGISTRAR__PORT and the like in the environment go before this file.

[registrar]
host = {host}
port = {port}
database = "registrar.db"
# A private key, for its owner only (0600); `rase registrar keys` prints its public side.
signing_key_file = "keys/signing.key"
# The public keys of both servers; compare fingerprints with their operators.
fusion_key = {fusion_key}
shuffler_key = {shuffler_key}
# Where campaigns are read and keys countersigned; https, except on this machine.
shuffler_url = {shuffler_url}
campaigns = [{campaign}]
{window_line}
# lead_s = 0                   # how long tokens can be fetched at least; 0 for a round
"""

_CAMPAIGN = """\
# What the fleet agrees to: rase campaign publish campaign.toml. A change is a new version for later
# rounds: rase campaign update.

[campaign]
{lines}

[campaign.shuffle]
{shuffle}
"""

_WHY = {
    "low": "readings are clipped to this range",
    "steps": "of the public grid",
    "mechanism": "the law that every device draws its reports from",
    "beta": "the precision that budget-aware noise aims at: relative half-width ...",
    "rho": "... and probability",
    "epsilon": "budget of one report; up to four classes",
    "window": "rounds over which a device's budget is counted",
    "window_budget": "epsilon that a device may spend in a window",
    "upload_s": "reports are sent at random moments of this time after a round",
    "grace_s": "after a round, until the shuffler closes it",
    "k_min": "fewest reports ever released together",
    "carry_rounds": "rounds that those of too small a round wait at most",
    "shuffled_epsilon": "what one report gives away to the fusion centre at most",
    "delta": "that belongs to shuffled_epsilon",
    "colluding": "reports of a round that may be of whoever looks",
    "cover": "whether cover reports hide from the network when a device has nothing to say",
    "not_before": "first round of this version",
    "not_after": "last round of this version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an installation should be.

    Args:
        campaign: What the fleet agrees to.
        shuffler_url: The shuffler's address; a server on this machine listens where it says.
        fusion_url: The fusion centre's address likewise.
        registrar_url: The registrar's likewise.
        cache_s: How long devices may keep a keyset.
        keys_valid_s: How long the first opening keys are used.
        takes_turns: Whether each device reports once in a window, in a round of its own.

    Raises:
        ConfigurationError: With every address that cannot be used.
    """

    campaign: Campaign
    shuffler_url: str
    fusion_url: str
    registrar_url: str
    cache_s: int
    keys_valid_s: int
    takes_turns: bool = False

    def __post_init__(self) -> None:
        """Check the addresses once."""
        mistakes = []
        for name, url in (
            ("--shuffler-url", self.shuffler_url),
            ("--fusion-url", self.fusion_url),
            ("--registrar-url", self.registrar_url),
        ):
            try:
                split_address(url, plain="http", secure="https")
            except ValueError as error:
                mistakes.append(f"{name} {error}")
        if not mistakes and self.shuffler_url in (self.fusion_url, self.registrar_url):
            mistakes.append(
                "--shuffler-url must be different from --fusion-url and --registrar-url."
            )
        if mistakes:
            raise ConfigurationError(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What was made.

    Args:
        folder: Where.
        public: The public keys of both servers.
        registrar: The registrar's public key.
    """

    folder: Path
    public: tuple[PublicKeys, PublicKeys]
    registrar: bytes


def install(
    folder: Path,
    plan: Plan,
    *,
    now_s: int,
    device_text: Callable[[str, str, str], str],
    device_file: str,
) -> Installed:
    """Make the folders ``shuffler``, ``fusion``, ``registrar`` and ``device``, all or none.

    Args:
        folder: Where; it must not exist, or be empty.
        plan: What they should hold.
        now_s: The time, from which the keys are used.
        device_text: Makes a device's settings of the public signing keys of fusion centre,
            shuffler and registrar, in base64url.
        device_file: The name of that file.

    Raises:
        ConfigurationError: If there is something in the folder already, or it cannot be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError([f"{folder} is there already; nothing was changed. Name another."])
    try:
        # Takes the place of an empty folder, and of nothing else.
        with replacing_folder(folder, mode=0o700) as made:
            registrar = os.urandom(32)
            registrar_key = public_key_of(registrar)
            public = _fill(made, plan, now_s, registrar_key)
            shuffler, fusion = public
            _fill_registrar(made, plan, public, registrar)
            device = made / "device"
            device.mkdir(mode=0o700)
            text = device_text(
                public_text(fusion.signing_key),
                public_text(shuffler.signing_key),
                public_text(registrar_key),
            )
            write_private(device / device_file, text)
            (made / STEPS_FILE).write_text("\n".join(next_steps(folder, plan)) + "\n", "utf-8")
    except OSError as error:
        raise ConfigurationError([f"{folder}: {error.strerror}; nothing was made."]) from None
    return Installed(folder=folder, public=public, registrar=registrar_key)


def next_steps(folder: Path, plan: Plan) -> list[str]:
    """Return the commands to run next, in order, with a word on each."""
    shuffler, fusion, device = (folder / name for name in ("shuffler", "fusion", "device"))
    at_shuffler, at_fusion = (f"--config {path / SETTINGS_FILE}" for path in (shuffler, fusion))
    at_registrar = f"--config {folder / REGISTRAR_FOLDER / SETTINGS_FILE}"
    return [
        "# 1. Run the servers, and leave them running.",
        f"rase shuffler run {at_shuffler}",
        f"rase fusion run {at_fusion}",
        f"rase registrar run {at_registrar}",
        "# 2. Publish keys, then the campaign; the shuffler countersigns both.",
        f"rase fusion publish-keys {fusion / KEYSET_FILE} {at_fusion}",
        f"rase campaign publish {fusion / CAMPAIGN_FILE} {at_fusion}",
        "# What is made from here on is for you only.",
        "umask 077",
        "# 3. Enrol a device: a token and an approval each. For more, copy the folder first.",
        f"rase shuffler enrol {at_shuffler} > token.txt",
        f"rase registrar approve {at_registrar} > approval.txt",
        f"rase device enrol --folder {device} --token-file token.txt --approval-file approval.txt",
        f"# 4. Set [source] in its settings, and run it. {_company(plan)}",
        f"rase device run --folder {device}",
        "# 5. Ask.",
        f"rase fusion subscribers add me {at_fusion} > subscriber.txt",
        f"rase query avg --url {plan.fusion_url} --token-file subscriber.txt",
        "# Whenever something seems wrong:",
        f"rase doctor {folder}",
    ]


def _company(plan: Plan) -> str:
    """Say how many devices a round needs before it is released."""
    campaign = plan.campaign
    if not plan.takes_turns or campaign.window == 1:
        return f"A round needs {campaign.k_min} devices (k_min)."
    return (
        f"A round needs {campaign.k_min} reports (k_min), and devices take turns over "
        f"{campaign.window} rounds: about {campaign.k_min * campaign.window} devices or more."
    )


def _fill_registrar(
    folder: Path, plan: Plan, public: tuple[PublicKeys, PublicKeys], secret: bytes
) -> None:
    """Write the registrar's folder: its settings and its key."""
    shuffler, fusion = public
    place = folder / REGISTRAR_FOLDER
    place.mkdir(mode=0o700)
    (place / KEYS_FOLDER).mkdir(mode=0o700)
    text = base64.b64encode(secret).decode() + "\n"
    write_private(place / KEYS_FOLDER / "signing.key", text)
    host, port = _listens(plan.registrar_url, _REGISTRAR_PORT)
    settings = _REGISTRAR.format(
        host=json.dumps(host),
        port=port,
        fusion_key=json.dumps(public_text(fusion.signing_key)),
        shuffler_key=json.dumps(public_text(shuffler.signing_key)),
        shuffler_url=json.dumps(plan.shuffler_url),
        campaign=json.dumps(plan.campaign.id),
        window_line=_window_line(plan.campaign),
    )
    write_private(place / SETTINGS_FILE, settings)


def _window_line(campaign: Campaign) -> str:
    """Return how long token windows are: of short rounds, so long that nobody waits for a day."""
    rounds, mark = campaign.window, "# "
    if campaign.round_s < _SHORT_ROUND_S:
        rounds, mark = min(max(_SHORT_WINDOW_S // campaign.round_s, 2), rounds), ""
    words = "rounds of a token window; a new device waits for the next one"
    return f"{mark}window_rounds = {rounds}".ljust(31) + f"# {words}"


def _fill(folder: Path, plan: Plan, now_s: int, registrar: bytes) -> tuple[PublicKeys, PublicKeys]:
    signing = {role: SigningKey.generate(role) for role in Role}
    kems = {Role.SHUFFLER: X25519, Role.FUSION: KEM_NUMBERS[plan.campaign.kem]}
    opening = {role: OpeningKey.generate(role, 1, kem=kems[role]) for role in Role}
    public = {
        role: PublicKeys(
            role=role,
            signing_key=signing[role].public_bytes(),
            cache_s=plan.cache_s,
            configs=(
                # A minute back: the clocks of devices and servers differ by seconds.
                opening[role].config(
                    not_before_s=now_s - 60, not_after_s=now_s + plan.keys_valid_s
                ),
            ),
        )
        for role in Role
    }
    for role, peer, template, own_url, peer_url in (
        (Role.SHUFFLER, Role.FUSION, _SHUFFLER, plan.shuffler_url, plan.fusion_url),
        (Role.FUSION, Role.SHUFFLER, _FUSION, plan.fusion_url, plan.shuffler_url),
    ):
        place = folder / role
        place.mkdir(mode=0o700)
        (place / KEYS_FOLDER).mkdir(mode=0o700)
        write_private(place / KEYS_FOLDER / "signing.key", signing[role].to_text())
        write_private(place / opening_key_name(1), opening[role].to_text())
        host, port = _listens(own_url, _PORTS[role])
        text = template.format(
            # JSON texts are TOML texts, too.
            host=json.dumps(host),
            port=port,
            signing_key_file=json.dumps(f"{KEYS_FOLDER}/signing.key"),
            opening_key_file=json.dumps(opening_key_name(1)),
            peer_key=json.dumps(public_text(public[peer].signing_key)),
            peer_url=json.dumps(peer_url),
            registrar_key=json.dumps(public_text(registrar)),
            max_epsilon=max(plan.campaign.epsilon),
            window_budget=plan.campaign.window_budget,
            k_min=plan.campaign.k_min,
            carry_rounds=plan.campaign.carry_rounds,
            promise_lines=_promise_lines(plan.campaign),
        )
        write_private(place / SETTINGS_FILE, text)
        (place / PUBLIC_FILE).write_text(public[role].to_text(), "utf-8")
    configs = tuple(config for role in Role for config in public[role].configs)
    keyset = Keyset(version=1, cache_s=plan.cache_s, configs=configs)
    fusion = folder / Role.FUSION
    (fusion / KEYSET_FILE).write_text(keyset_text(keyset), "utf-8")
    (fusion / CAMPAIGN_FILE).write_text(campaign_text(plan.campaign), "utf-8")
    return public[Role.SHUFFLER], public[Role.FUSION]


def _promise_lines(campaign: Campaign) -> str:
    """Return what the shuffler's operator agrees to towards the fusion centre."""
    shuffled, delta = campaign.shuffled_epsilon, campaign.delta
    mark = "# " if shuffled is None else ""
    return (
        "# The most that one report may give away to the fusion centre; computed before signing.\n"
        f"{mark}max_shuffled_epsilon = {1.0 if shuffled is None else shuffled!r}\n"
        f"{mark}max_delta = {1e-5 if delta is None else delta!r}"
    )


def campaign_text(campaign: Campaign) -> str:
    """Return a campaign as the commented TOML that ``rase campaign publish`` reads.

    The table of claims is left out: it is computed when the campaign is published.
    """
    values = campaign.as_fields()
    values.pop("claims", None)
    shuffle = values.pop("shuffle")
    return _CAMPAIGN.format(
        lines="\n".join(_line(name, value) for name, value in values.items()),
        shuffle="\n".join(_line(name, value) for name, value in shuffle.items()),
    )


def _line(name: str, value: Any) -> str:
    # JSON's texts, numbers and lists of them are TOML's, too.
    text = f"{name} = {json.dumps(value, ensure_ascii=False)}"
    return f"{text:<30} # {_WHY[name]}" if name in _WHY else text


def _listens(url: str, behind_proxy: int) -> tuple[str, int]:
    parts = urlsplit(url)
    if parts.scheme == "http":
        return parts.hostname or "127.0.0.1", parts.port or 80
    # TLS ends in a proxy on the same machine.
    return "127.0.0.1", behind_proxy
