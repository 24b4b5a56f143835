"""Settings: a table of rase.toml, then RASE_SECTION__KEY, then flags; all mistakes at once."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
)

from rase.errors import ConfigurationError
from rase.storage.address import DatabaseAddress, parse_address
from rase.toml import parse_toml
from rase.wire.private_files import read_secret

__all__ = ["DatabaseSetting", "PathSetting", "Settings", "load_settings"]


class Settings(BaseModel):
    """The settings of one section; a field that is not known is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    _source: Path | None = PrivateAttr(default=None)

    @property
    def source(self) -> Path | None:
        """The file they were read from; None if there was none."""
        return self._source


def _relative_to_file(value: Any, info: ValidationInfo) -> Any:
    folder = (info.context or {}).get("folder", Path())
    return folder / value if isinstance(value, str | Path) else value


PathSetting = Annotated[Path, BeforeValidator(_relative_to_file)]
"""A path; a relative one starts where the settings file is."""


def _file_or_server(value: Any, info: ValidationInfo) -> Any:
    folder = (info.context or {}).get("folder", Path())
    return parse_address(value, folder=folder) if isinstance(value, str | Path) else value


DatabaseSetting = Annotated[DatabaseAddress, BeforeValidator(_file_or_server)]
"""A path, or the address of a database of PostgreSQL."""

_S = TypeVar("_S", bound=Settings)


def load_settings(
    model: type[_S],
    section: str,
    *,
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> _S:
    """Return the settings of one section, the later source overruling the earlier.

    A secret may be kept in a file of its own: ``token_file`` (or ``RASE_SECTION__TOKEN_FILE``)
    names the file whose text is ``token``.

    Args:
        model: What the section holds.
        section: Its name in the file and, in capitals, in the environment.
        path: The TOML file; None for none.
        environment: The environment variables; those of the process if None.
        flags: What was typed; None values are left out.

    Raises:
        ConfigurationError: With every mistake of all three sources.
    """
    mistakes: list[str] = []
    values = _table(path, section, mistakes)
    # Without the file or its section everything is missing, which goes without saying.
    is_read = not mistakes
    for keys, text in _variables(section, os.environ if environment is None else environment):
        _put(values, keys, text)
    for name, value in (flags or {}).items():
        if value is not None:
            _put(values, name.split("."), value)
    folder = path.parent if path else Path()
    _read_secrets(model, values, section=section, folder=folder, mistakes=mistakes)
    try:
        settings = model.model_validate(values, context={"folder": folder})
    except ValidationError as error:
        if path is not None and not values and is_read:
            mistakes.append(f"{path} has no settings in a section [{section}].")
            is_read = False
        mistakes += [
            _sentence(section, problem)
            for problem in error.errors()
            if is_read or problem["type"] != "missing"
        ]
    if mistakes:
        raise ConfigurationError(mistakes)
    if isinstance(settings, Settings):
        settings._source = path
    return settings


def _table(path: Path | None, section: str, mistakes: list[str]) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        table = parse_toml(path.read_bytes()).get(section, {})
    except OSError as error:
        mistakes.append(f"{path}: {error.strerror}.")
        return {}
    except ValueError as error:
        mistakes.append(f"{path} is not TOML: {error}.")
        return {}
    if not isinstance(table, dict):
        mistakes.append(f"{section} must be a table in {path}.")
        return {}
    return table


def _variables(section: str, environment: Mapping[str, str]) -> list[tuple[list[str], str]]:
    prefix = f"RASE_{section.upper()}__"
    return [
        (name.removeprefix(prefix).lower().split("__"), text)
        for name, text in sorted(environment.items())
        if name.startswith(prefix)
    ]


def _put(values: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        below = values.setdefault(key, {})
        if not isinstance(below, dict):
            below = values[key] = {}
        values = below
    values[keys[-1]] = value


def _read_secrets(
    model: type[BaseModel],
    values: dict[str, Any],
    *,
    section: str,
    folder: Path,
    mistakes: list[str],
) -> None:
    for key in [key for key in values if key.endswith("_file")]:
        name = key.removesuffix("_file")
        if key in model.model_fields or name not in model.model_fields:
            continue
        try:
            values[name] = read_secret(folder / str(values.pop(key)))
        except (OSError, UnicodeDecodeError) as error:
            # The text of a file of secrets is never quoted.
            reason = getattr(error, "strerror", None) or "not a text"
            mistakes.append(f"{section}.{key} must name a file that can be read: {reason}.")


def _sentence(section: str, problem: Any) -> str:
    name = ".".join([section, *(str(part) for part in problem["loc"])])
    if problem["type"] == "missing":
        return f"{name} must be given."
    if problem["type"] == "extra_forbidden":
        return f"{name} is not a setting."
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{name}: {message[0].lower()}{message[1:]}."
