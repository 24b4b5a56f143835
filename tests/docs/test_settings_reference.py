"""The page of settings keeps up with the settings: each has its row, with the default it has."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from rase.device import settings as device
from rase.fusion.settings import FusionSettings
from rase.registrar.settings import RegistrarSettings
from rase.service.settings import Settings
from rase.shuffler.settings import ShufflerSettings

PAGE = Path(__file__).parents[2] / "docs/reference/configuration.md"


def test_the_page_holds_every_setting_with_its_default_and_no_other() -> None:
    """A setting that is new, gone, or has another default fails the build."""
    wanted = {
        *server_rows("shuffler", ShufflerSettings),
        *server_rows("fusion", FusionSettings),
        *server_rows("registrar", RegistrarSettings),
        *device_rows(),
    }
    assert rows_of(PAGE.read_text(encoding="utf-8")) == wanted


@pytest.mark.parametrize("section", ["shuffler.policy", "fusion.mqtt", "page"])
def test_nested_sections_are_looked_at(section: str) -> None:
    """The comparison above goes down to the last section."""
    assert any(row[0] == section for row in rows_of(PAGE.read_text(encoding="utf-8")))


def rows_of(page: str) -> set[tuple[str, str, str]]:
    """Return section, setting and default of each row."""
    found, section = set(), ""
    for line in page.splitlines():
        if heading := re.fullmatch(r"### `\[(.+)\]`", line):
            section = heading[1]
        elif row := re.match(r"\| `(\w+)` \| (.+?) \| \S.* \|$", line):
            found.add((section, row[1], row[2]))
    return found


def server_rows(section: str, model: type[Settings]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows that a server's section should have."""
    for name, info in model.model_fields.items():
        kinds = [info.annotation, *get_args(info.annotation)]
        below = [k for k in kinds if isinstance(k, type) and issubclass(k, Settings)]
        if below:
            yield from server_rows(f"{section}.{name}", below[0])
        elif info.is_required():
            yield section, name, "required"
        else:
            yield section, name, shown(info.get_default(call_default_factory=True))


def device_rows() -> Iterator[tuple[str, str, str]]:
    """Yield the rows that the sections of device.toml should have."""
    for section, keys in device.KEYS.items():
        for name, (_, default) in keys.items():
            is_needed = default is device.REQUIRED
            yield section, name, "required" if is_needed else shown(default)


def shown(default: Any) -> str:
    """Return a default as TOML writes it."""
    if default is None:
        return "none"
    text = str(default).lower() if isinstance(default, bool) else repr(default).replace("'", '"')
    return f"`{text}`"
