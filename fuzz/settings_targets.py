"""Targets for what people write: TOML of devices, servers and campaigns, and the kept state."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fuzz.scratch import written
from rase.cli.attack import ConfigurationInvalid, read_configuration
from rase.cli.campaign import _read as read_campaign_file
from rase.device.settings import read_settings
from rase.device.sources.presets import meter_of
from rase.device.state import StateFile, StateUnusable
from rase.errors import ConfigurationError
from rase.fusion.settings import FusionSettings
from rase.service.settings import load_settings
from rase.shuffler.settings import ShufflerSettings

__all__ = ["SETTINGS_TARGETS"]


def read_device(data: bytes) -> None:
    """Read device.toml, and where its meter publishes."""
    with suppress(ConfigurationError):
        settings = read_settings(written("device.toml", data), {})
        if settings.source.kind == "mqtt":
            meter_of(settings.source)


def read_servers(data: bytes) -> None:
    """Read rase.toml as both servers do."""
    path = written("rase.toml", data)
    with suppress(ConfigurationError):
        load_settings(ShufflerSettings, "shuffler", path=path, environment={})
    with suppress(ConfigurationError):
        load_settings(FusionSettings, "fusion", path=path, environment={})


def read_campaign(data: bytes) -> None:
    """Read campaign.toml as publishing and the attack do."""
    path = written("campaign.toml", data)
    with suppress(ConfigurationError):
        read_campaign_file(path)
    with suppress(ConfigurationInvalid):
        read_configuration(path)


def read_state(data: bytes) -> None:
    """Read what a device remembers, as it is and under a right checksum."""
    with suppress(StateUnusable):
        StateFile(written("state.json", data)).load()
    try:
        body = json.loads(data)
        checksum = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    except (ValueError, RecursionError):
        return
    whole = json.dumps({"schema": "rase/device-state/1", "sha256": checksum, "state": body})
    with suppress(StateUnusable):
        StateFile(written("state.json", whole.encode())).load()


SETTINGS_TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "device_toml": read_device,
    "server_toml": read_servers,
    "campaign_toml": read_campaign,
    "device_state": read_state,
}
