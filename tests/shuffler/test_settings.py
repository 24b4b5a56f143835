"""The shuffler's settings: the guide's example is valid, and the guide names every setting."""

import base64
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from rase.errors import ConfigurationError
from rase.service.settings import load_settings
from rase.shuffler.settings import ShufflerSettings

GUIDES = Path(__file__).parents[2] / "docs/guides"
GUIDE = "".join(
    (GUIDES / page).read_text(encoding="utf-8") for page in ("shuffler.md", "shuffler-settings.md")
)
EXAMPLE = GUIDE.split("```toml\n", 1)[1].split("```", 1)[0]


def names_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Return the names of all settings, those of tables with the table's name."""
    found = set()
    for name, field in model.model_fields.items():
        # A table that may be left out is typed as itself or None.
        kinds = get_args(field.annotation) or (field.annotation,)
        tables = [one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)]
        if tables:
            found |= names_of(tables[0], f"{prefix}{name}.")
        else:
            found.add(f"{prefix}{name}")
    return found


def test_the_example_of_the_guide_can_be_used(tmp_path: Path) -> None:
    """What the guide shows is complete and valid."""
    path = tmp_path / "rase.toml"
    path.write_text(EXAMPLE)
    settings = load_settings(ShufflerSettings, "shuffler", path=path, environment={})
    assert settings.database == tmp_path / "shuffler.db"
    policy = settings.policy.policy()
    assert (policy.max_epsilon, policy.max_window_budget, policy.min_k_min) == (2.0, 20.0, 50)


def test_the_guide_names_every_setting() -> None:
    """A setting without a row in the guide fails the build, and so does a row without one."""
    table = (GUIDES / "shuffler-settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)}
    assert documented == names_of(ShufflerSettings)


@pytest.mark.parametrize(
    ("key", "is_right"),
    [
        ("00" * 32, True),
        (base64.urlsafe_b64encode(bytes(32)).decode(), True),
        (base64.urlsafe_b64encode(bytes(32)).decode().rstrip("="), True),
        ("00" * 31, False),
        ("zz" * 32, False),
        ("", False),
    ],
)
def test_public_keys_in_both_forms(key: str, is_right: bool) -> None:
    """The pinned key may be written in hex or in base64url, and nothing else is one."""
    values = tomllib.loads(EXAMPLE)["shuffler"] | {"fusion_key": key}
    if is_right:
        settings = load_settings(ShufflerSettings, "shuffler", environment={}, flags=values)
        assert settings.fusion_key == key
    else:
        with pytest.raises(ConfigurationError, match="32 bytes of a public Ed25519 key"):
            load_settings(ShufflerSettings, "shuffler", environment={}, flags=values)
