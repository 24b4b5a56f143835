"""What the owner of a device writes down: device.toml, then the environment, all mistakes at once.

Plain dataclasses, because the agent must start quickly on small machines.

One table lists the keys of device.toml: type, default, and how the text is read.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rase.accounting.ledger import OwnerLimits
from rase.accounting.ledger.limits import (
    MOST_DELTA,
    UNASKED_DAY_EPSILON,
    UNASKED_REPORT_EPSILON,
    UNASKED_TOTAL_EPSILON,
)
from rase.device.collection import AGGREGATES
from rase.device.sources import SOURCES
from rase.device.terms import OwnerRules
from rase.errors import ConfigurationError
from rase.wire.signed import PinnedKeys

__all__ = [
    "AT_HOME",
    "KEYS",
    "READS",
    "REQUIRED",
    "SCHEDULES",
    "THE_HOME",
    "DeviceSettings",
    "FleetSettings",
    "HomeSettings",
    "SourceSettings",
    "is_plain_name",
    "key_bytes",
    "read_section",
    "read_settings",
    "settings_of",
]

SCHEDULES: Final = ("every-round", "rotate", "turns")
# Stands for the owner's own broker, where the fleet's estimates may be passed on to.
THE_HOME: Final = "home"
# What the owner's own broker gets of the comparison with the fleet.
AT_HOME: Final = ("nothing", "words", "difference")
_STATES: Final = "states"
# What a further quantity has of its own, besides its source; all else is the device's.
_OF_QUANTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "device": ("campaign", "campaign_hash", "label", "cover", "turns"),
    "owner": ("low", "high", "least_k", "epsilon_may_rise", "most_alpha", "shares_label"),
}
_FIRST_ALONE: Final = frozenset(
    f"RASE_{section}__{name}".upper() for section, names in _OF_QUANTITY.items() for name in names
)
READS: Final = ("numbers", _STATES)
_PLAIN_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_PINNED: Final = ("fusion_key", "shuffler_key", "registrar_key")
_TLS_FILES: Final = ("tls_ca_file", "tls_certificate_file", "tls_key_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where readings come from; what a kind does not need is None."""

    kind: str
    every_s: float | None
    scale: float
    timeout_s: float
    path: str | None
    column: str | None
    command: tuple[str, ...] | None
    url: str | None
    json_path: str
    function: str | None
    preset: str | None
    meter: str | None
    quantity: str
    channel: int
    topic: str | None
    entity: str | None
    token_file: str | None
    unit: str | None
    aggregate: str
    reads: str
    states: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeSettings:
    """The broker in the owner's home; None if there is none."""

    broker: str | None
    user: str | None
    password_file: str | None
    tls_ca_file: str | None
    name: str | None
    discovery: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """The broker with the fleet's public estimates; None if the owner named none."""

    broker: str | None
    user: str | None
    password_file: str | None
    tls_ca_file: str | None
    at_home: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """All settings of a device, checked.

    Args:
        shuffler: The address of the shuffler.
        campaign: The campaign's id.
        pinned: The public keys of both servers, and of the registrar.
        registrar: The address of the registrar.
        campaign_hash: CH of the first campaign to accept, if the owner was shown it.
        tls_ca_file: The only authority for TLS; None for the system's.
        tls_certificate_file: The device's certificate, where the shuffler asks for one.
        tls_key_file: Its private key; None if it is in the same file.
        broker: The broker through which reports go; None for HTTP.
        broker_user: The name to show there; None for the device's handle.
        broker_password_file: The file of its password.
        timeout_s: How long to wait for the shuffler.
        sends_cover: Whether to send cover reports, where the campaign has them.
        schedule: One of `SCHEDULES`.
        turn_s: How long it is one quantity's turn.
        turns: How many turns of a cycle this quantity has.
        ledger: The ledger that this device shares with others of its owner; None for its own.
        rules: What the owner demands of a campaign.
        limits: What the owner allows to be spent.
        source: Where readings come from.
        home: The broker in the owner's home.
        fleet: The broker with the fleet's public estimates.
        page_port: The port of the owner's page on this machine; None for no page.
    """

    shuffler: str
    campaign: str
    pinned: PinnedKeys = field(repr=False)
    registrar: str
    campaign_hash: bytes | None
    tls_ca_file: Path | None
    tls_certificate_file: Path | None
    tls_key_file: Path | None
    broker: str | None
    broker_user: str | None
    broker_password_file: Path | None
    timeout_s: float
    sends_cover: bool
    schedule: str
    turn_s: int
    turns: int
    ledger: Path | None
    rules: OwnerRules
    limits: OwnerLimits
    source: SourceSettings
    home: HomeSettings
    fleet: FleetSettings
    page_port: int | None


def read_settings(
    path: Path, environment: Mapping[str, str], *, further: Path | None = None
) -> DeviceSettings:
    """Read device.toml; ``RASE_SECTION__KEY`` of the environment goes before it.

    Args:
        path: The file.
        environment: The environment variables.
        further: The file of a further quantity of the device, whose settings are wanted.

    Raises:
        ConfigurationError: With all mistakes.
    """
    tables = _tables_in(path, environment)
    if further is None:
        return settings_of(tables, environment)
    mistakes: list[str] = []
    merged = _merge_quantity(tables, _tables_in(further, environment), mistakes)
    if mistakes:
        raise ConfigurationError([f"{further}: {one}" for one in mistakes])
    return settings_of(merged, _for_all(environment))


def _for_all(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the environment says of all quantities; the rest is about the first."""
    return {
        name: text
        for name, text in environment.items()
        if not name.startswith("RASE_SOURCE__") and name not in _FIRST_ALONE
    }


def _tables_in(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    from rase.toml import parse_toml

    try:
        tables = parse_toml(path.read_bytes())
    except OSError as error:
        raise ConfigurationError([f"{path}: {error.strerror}; enrolment makes it."]) from None
    except ValueError as error:
        raise ConfigurationError([f"{path} must be TOML: {error}."]) from None
    return tables


def _merge_quantity(
    device: Mapping[str, Any], quantity: Mapping[str, Any], mistakes: list[str]
) -> dict[str, Any]:
    """Return the device's settings with those of one of its further quantities."""
    merged = {name: table for name, table in device.items() if name not in ("source", _STATES)}
    for section, table in quantity.items():
        own = _OF_QUANTITY.get(section)
        if not isinstance(table, Mapping) or (section not in ("source", _STATES) and own is None):
            mistakes.append(f"[{section}] must stand in device.toml, or not at all.")
        elif own is None:
            merged[section] = table
        else:
            mistakes += [
                f"{section}.{name} must stand in device.toml: it is for all quantities."
                for name in table
                if name not in own
            ]
            kept = {name: one for name, one in device.get(section, {}).items() if name not in own}
            merged[section] = {**kept, **table}
    for section, own in _OF_QUANTITY.items():
        if section not in quantity:
            table = device.get(section, {})
            merged[section] = {name: one for name, one in table.items() if name not in own}
    return merged


def settings_of(tables: Mapping[str, Any], environment: Mapping[str, str]) -> DeviceSettings:
    """Check settings and give them their types.

    Raises:
        ConfigurationError: With all mistakes.
    """
    mistakes: list[str] = []
    values = {
        section: read_section(section, tables.get(section, {}), environment, mistakes)
        for section in KEYS
    }
    mistakes += [
        f"[{name}] is not a section of device.toml."
        for name in tables
        if name not in (*KEYS, _STATES)
    ]
    states = _read_states(tables.get(_STATES, {}), mistakes)
    if not mistakes:
        mistakes += _contradictions(values)
    device, owner = values["device"], values["owner"]
    if device["label"] is not None and owner["shares_label"] is None:
        mistakes.append(
            f"owner.shares_label must be true where device.label is set, or false to keep it: "
            f"the shuffler learns that this device is of {device['label']!r}, and answers are "
            "given for each label."
        )
    pinned = None if mistakes else _read_pinned(device, mistakes)
    campaign_hash = None if mistakes else _hash(device["campaign_hash"], mistakes)
    rules = limits = None
    if not mistakes:
        try:
            limits = OwnerLimits(
                report_epsilon=owner["report_epsilon"],
                span_epsilon=owner["span_epsilon"],
                total_epsilon=owner["total_epsilon"],
                span_s=owner["span_s"],
                shuffled_epsilon=owner["shuffled_epsilon"],
                span_shuffled_epsilon=owner["span_shuffled_epsilon"],
                most_delta=owner["most_delta"],
            )
            rules = OwnerRules(
                report_epsilon=owner["report_epsilon"],
                low=owner["low"],
                high=owner["high"],
                least_k=owner["least_k"],
                epsilon_may_rise=owner["epsilon_may_rise"],
                most_alpha=owner["most_alpha"],
                shuffled_epsilon=owner["shuffled_epsilon"],
                span_shuffled_epsilon=owner["span_shuffled_epsilon"],
                most_delta=owner["most_delta"],
                demands_cover=device["cover"] is True,
                label=device["label"] if owner["shares_label"] else None,
            )
        except (ValueError, ConfigurationError) as error:
            mistakes.append(f"[owner] {error}")
    if mistakes or pinned is None or limits is None or rules is None:
        raise ConfigurationError(mistakes)
    command, password = values["source"]["command"], device["broker_password_file"]
    return DeviceSettings(
        shuffler=device["shuffler"],
        campaign=device["campaign"],
        pinned=pinned,
        registrar=device["registrar"],
        campaign_hash=campaign_hash,
        **{name: None if device[name] is None else Path(device[name]) for name in _TLS_FILES},
        broker=device["broker"],
        broker_user=device["broker_user"],
        broker_password_file=None if password is None else Path(password),
        timeout_s=device["timeout_s"],
        sends_cover=device["cover"] is not False,
        schedule=device["schedule"],
        turn_s=device["turn_s"],
        turns=device["turns"],
        ledger=None if device["ledger"] is None else Path(device["ledger"]),
        rules=rules,
        limits=limits,
        source=SourceSettings(
            **{**values["source"], "command": None if command is None else tuple(command)},
            states=states if states or values["source"]["reads"] == _STATES else None,
        ),
        home=HomeSettings(**values["home"]),
        fleet=FleetSettings(**values["fleet"]),
        page_port=values["page"]["port"],
    )


def key_bytes(text: str) -> bytes:
    """Return the 32 bytes of a public key in hex or in base64, of either alphabet.

    Raises:
        ValueError: If the text is not a public key.
    """
    plain = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
    try:
        if len(plain) == 64:
            data = bytes.fromhex(plain)
        else:
            data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        data = b""
    if len(data) != 32:
        raise ValueError("must be the 32 bytes of a public Ed25519 key in hex or base64")
    return data


def is_plain_name(name: str) -> bool:
    """Return whether a name may stand in topics and identifiers."""
    return bool(name) and set(name) <= _PLAIN_NAME


def _contradictions(values: Mapping[str, Mapping[str, Any]]) -> list[str]:
    mistakes: list[str] = []
    device, source = values["device"], values["source"]
    if device["schedule"] not in SCHEDULES:
        mistakes.append(f"device.schedule must be one of {', '.join(SCHEDULES)}.")
    if source["kind"] not in SOURCES:
        mistakes.append(f"source.kind must be one of {', '.join(SOURCES)}.")
    else:
        mistakes += [
            f"source.{name} is missing: the source {source['kind']} needs it."
            for name in SOURCES[source["kind"]].needs
            if source[name] is None
        ]
    if device["tls_key_file"] is not None and device["tls_certificate_file"] is None:
        mistakes.append("device.tls_certificate_file is missing: device.tls_key_file needs it.")
    mistakes += _broker_mistakes(values)
    addresses = (device["shuffler"], device["broker"] or "")
    if not any(address.startswith(("https:", "mqtts:")) for address in addresses):
        mistakes += [
            f"device.{name} must be left out unless device.shuffler begins with https://."
            for name in _TLS_FILES
            if device[name] is not None
        ]
    for name, least, most in (("turn_s", 1, 10**9), ("turns", 1, 64)):
        if not least <= device[name] <= most:
            mistakes.append(f"device.{name} must be from {least} to {most}, got {device[name]}.")
    port = values["page"]["port"]
    if port is not None and not 0 <= port < 65536:
        mistakes.append(f"page.port must be between 0 and 65535, got {port}.")
    for section, name in (("source", "every_s"), ("source", "timeout_s"), ("device", "timeout_s")):
        value = values[section][name]
        if value is not None and not 0 < value < 1e6:
            mistakes.append(
                f"{section}.{name} must be greater than 0 and below 1000000, got {value}."
            )
    return mistakes


def _read_states(table: Any, mistakes: list[str]) -> dict[str, str]:
    """Return the names of states by what the source says."""
    is_table = isinstance(table, Mapping) and all(isinstance(one, str) for one in table.values())
    if not is_table:
        mistakes.append('[states] must have lines such as "ON" = "on".')
        return {}
    return dict(table)


def _broker_mistakes(values: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what is wrong about brokers, and about sources that need one."""
    device, source, home = values["device"], values["source"], values["home"]
    mistakes = []
    if device["broker"] is None and (device["broker_user"] or device["broker_password_file"]):
        mistakes.append("device.broker is missing: device.broker_user needs it.")
    if source["kind"] == "mqtt":
        from rase.device.sources.presets import PRESETS

        if home["broker"] is None:
            mistakes.append("home.broker is missing: the source mqtt needs it.")
        if source["preset"] is None and source["topic"] is None:
            mistakes.append("source.preset or source.topic is missing: the source mqtt needs one.")
        elif source["preset"] is not None and source["preset"] not in PRESETS:
            mistakes.append(f"source.preset must be one of {', '.join(PRESETS)}.")
        elif source["preset"] is not None and source["meter"] is None:
            mistakes.append("source.meter is missing: a preset needs the name of the meter.")
    if source["reads"] not in READS:
        mistakes.append(f"source.reads must be one of {', '.join(READS)}.")
    if source["aggregate"] not in AGGREGATES:
        mistakes.append(f"source.aggregate must be one of {', '.join(AGGREGATES)}.")
    mistakes += _fleet_mistakes(values["fleet"], home)
    if home["name"] is not None and not is_plain_name(home["name"]):
        mistakes.append("home.name must have small letters, digits, - and _ only.")
    return mistakes


def _fleet_mistakes(fleet: Mapping[str, Any], home: Mapping[str, Any]) -> list[str]:
    mistakes = []
    if fleet["at_home"] not in AT_HOME:
        mistakes.append(f"fleet.at_home must be one of {', '.join(AT_HOME)}.")
    elif fleet["at_home"] != "nothing" and (fleet["broker"] is None or home["broker"] is None):
        mistakes.append("fleet.broker and home.broker must be given: fleet.at_home needs both.")
    if fleet["broker"] == THE_HOME and home["broker"] is None:
        mistakes.append("home.broker is missing: fleet.broker names it.")
    if fleet["broker"] is None and (fleet["user"] or fleet["password_file"]):
        mistakes.append("fleet.broker is missing: fleet.user needs it.")
    return mistakes


def _read_pinned(device: Mapping[str, Any], mistakes: list[str]) -> PinnedKeys | None:
    keys: dict[str, bytes] = {}
    for name in _PINNED:
        try:
            keys[name] = key_bytes(device[name])
        except ValueError as error:
            mistakes.append(f"device.{name} {error}.")
    if len(keys) < len(_PINNED):
        return None
    try:
        return PinnedKeys(keys["fusion_key"], keys["shuffler_key"], keys["registrar_key"])
    except ValueError as error:
        mistakes.append(f"[device] {error}")
        return None


def _hash(text: str | None, mistakes: list[str]) -> bytes | None:
    if text is None:
        return None
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) != 32:
        mistakes.append("device.campaign_hash must be the 64 hexadecimal digits of a SHA-256.")
    return data


REQUIRED: Final = object()
_NUMBER = (int, float)
KEYS: Final[Mapping[str, Mapping[str, tuple[Any, Any]]]] = {
    "device": {
        "shuffler": (str, REQUIRED),
        "campaign": (str, REQUIRED),
        "fusion_key": (str, REQUIRED),
        "shuffler_key": (str, REQUIRED),
        "registrar": (str, REQUIRED),
        "registrar_key": (str, REQUIRED),
        "campaign_hash": (str, None),
        "tls_ca_file": (str, None),
        "tls_certificate_file": (str, None),
        "tls_key_file": (str, None),
        "broker": (str, None),
        "broker_user": (str, None),
        "broker_password_file": (str, None),
        "timeout_s": (_NUMBER, 30.0),
        "cover": (bool, None),
        "schedule": (str, "every-round"),
        "turn_s": (int, 3600),
        "turns": (int, 1),
        "label": (str, None),
        "ledger": (str, None),
    },
    "owner": {
        "report_epsilon": (_NUMBER, UNASKED_REPORT_EPSILON),
        "span_epsilon": (_NUMBER, UNASKED_DAY_EPSILON),
        "total_epsilon": (_NUMBER, UNASKED_TOTAL_EPSILON),
        "span_s": (int, 86_400),
        "low": (_NUMBER, None),
        "high": (_NUMBER, None),
        "least_k": (int, 2),
        "epsilon_may_rise": (bool, False),
        "most_alpha": (_NUMBER, None),
        "shuffled_epsilon": (_NUMBER, None),
        "span_shuffled_epsilon": (_NUMBER, None),
        "most_delta": (_NUMBER, MOST_DELTA),
        "shares_label": (bool, None),
    },
    "source": {
        "kind": (str, REQUIRED),
        "every_s": (_NUMBER, None),
        "scale": (_NUMBER, 1.0),
        "timeout_s": (_NUMBER, 10.0),
        "path": (str, None),
        "column": (str, None),
        "command": (list, None),
        "url": (str, None),
        "json_path": (str, ""),
        "function": (str, None),
        "preset": (str, None),
        "meter": (str, None),
        "quantity": (str, "power"),
        "channel": (int, 0),
        "topic": (str, None),
        "entity": (str, None),
        "token_file": (str, None),
        "unit": (str, None),
        "aggregate": (str, "mean"),
        "reads": (str, "numbers"),
    },
    "home": {
        "broker": (str, None),
        "user": (str, None),
        "password_file": (str, None),
        "tls_ca_file": (str, None),
        "name": (str, None),
        "discovery": (bool, True),
    },
    "fleet": {
        "broker": (str, None),
        "user": (str, None),
        "password_file": (str, None),
        "tls_ca_file": (str, None),
        "at_home": (str, "nothing"),
    },
    "page": {"port": (int, None)},
}
_WORDS: Final = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    list: "a list of texts",
    _NUMBER: "a number",
}


def read_section(
    section: str, table: Any, environment: Mapping[str, str], mistakes: list[str]
) -> dict[str, Any]:
    """Return the values of a section; a mistake leaves its value None."""
    if not isinstance(table, Mapping):
        mistakes.append(f"[{section}] must be a section.")
        table = {}
    mistakes += [
        f"{section}.{name} is not a setting." for name in table if name not in KEYS[section]
    ]
    values: dict[str, Any] = {}
    for name, (kind, default) in KEYS[section].items():
        variable = f"RASE_{section}__{name}".upper()
        value = table.get(name, default)
        if variable in environment:
            value = _parse_typed(environment[variable], kind)
        if value is REQUIRED:
            mistakes.append(f"{section}.{name} is missing.")
            value = None
        elif value is not None and not _is_of(value, kind):
            mistakes.append(f"{section}.{name} must be {_WORDS[kind]}, got {value!r}.")
            value = None
        values[name] = value
    return values


def _parse_typed(text: str, kind: Any) -> Any:
    """Read a value of the environment; what cannot be read stays a text, and is refused later."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind is list:
        return text.split()
    if kind is str:
        return text
    try:
        return int(text) if kind is int or text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return text


def _is_of(value: Any, kind: Any) -> bool:
    if kind is list:
        return (
            isinstance(value, list) and all(isinstance(item, str) for item in value) and value != []
        )
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
