"""The keys of device.toml: of which kind each is, its default, and how its text is read."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["KEYS", "REQUIRED", "read_section"]

REQUIRED: Final = object()
_NUMBER = (int, float)
KEYS: Final[Mapping[str, Mapping[str, tuple[Any, Any]]]] = {
    "device": {
        "shuffler": (str, REQUIRED),
        "campaign": (str, REQUIRED),
        "fusion_key": (str, REQUIRED),
        "shuffler_key": (str, REQUIRED),
        "campaign_hash": (str, None),
        "tls_ca_file": (str, None),
        "tls_certificate_file": (str, None),
        "tls_key_file": (str, None),
        "broker": (str, None),
        "broker_user": (str, None),
        "broker_password_file": (str, None),
        "timeout_s": (_NUMBER, 30.0),
        "cover": (bool, True),
        "schedule": (str, "every-round"),
    },
    "owner": {
        "report_epsilon": (_NUMBER, REQUIRED),
        "span_epsilon": (_NUMBER, REQUIRED),
        "total_epsilon": (_NUMBER, REQUIRED),
        "span_s": (int, 86_400),
        "low": (_NUMBER, None),
        "high": (_NUMBER, None),
        "least_k": (int, 2),
        "epsilon_may_rise": (bool, False),
        "most_alpha": (_NUMBER, None),
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
    },
    "home": {
        "broker": (str, None),
        "user": (str, None),
        "password_file": (str, None),
        "tls_ca_file": (str, None),
        "name": (str, None),
        "discovery": (bool, True),
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
            value = _typed(environment[variable], kind)
        if value is REQUIRED:
            mistakes.append(f"{section}.{name} is missing.")
            value = None
        elif value is not None and not _is_of(value, kind):
            mistakes.append(f"{section}.{name} must be {_WORDS[kind]}, got {value!r}.")
            value = None
        values[name] = value
    return values


def _typed(text: str, kind: Any) -> Any:
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
