"""What the registrar's operator decides: the section ``[registrar]`` of rase.toml."""

from pathlib import Path

from pydantic import Field

from rase.errors import ConfigurationError
from rase.service.connections import ConnectionSettings
from rase.service.key_settings import (
    AddressSetting,
    PublicKeySetting,
    public_key_bytes,
    read_secret_key,
)
from rase.service.settings import DatabaseSetting, PathSetting, Settings
from rase.wire.signed import PinnedKeys, public_key_of

__all__ = ["RegistrarLimits", "RegistrarSettings", "own_secret"]


class RegistrarLimits(ConnectionSettings):
    """How much is taken in; what it does not name here is that of every server.

    Args:
        requests_per_minute: How often one device may ask for tokens of one campaign, from whatever
            address.
        certificates_per_minute: The most wrong tries of one address.
    """

    requests_per_minute: int = Field(default=10, ge=1)
    certificates_per_minute: int = Field(default=60, ge=1)


class RegistrarSettings(Settings):
    """All settings of a registrar.

    Args:
        host: The address to listen on.
        port: The port; 0 for any free one.
        database: Its state: a file, or postgresql://user@host/database.
        signing_key_file: Its private Ed25519 key.
        fusion_key: The fusion centre's public Ed25519 key, in hex or base64url.
        shuffler_key: The shuffler's likewise.
        shuffler_url: Where campaigns are read, and keys countersigned.
        campaigns: The ids of the campaigns whose devices get tokens.
        window_rounds: How many rounds a token window has; 0 for the window of the campaign.
        lead_s: How long before a window its tokens can be fetched at least; 0 for a round.
        windows_ahead: For how many windows keys are made ahead.
        limits: How much is taken in.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8704, ge=0, le=65535)
    database: DatabaseSetting
    signing_key_file: PathSetting
    fusion_key: PublicKeySetting
    shuffler_key: PublicKeySetting
    shuffler_url: AddressSetting
    campaigns: list[str] = Field(min_length=1)
    window_rounds: int = Field(default=0, ge=0)
    lead_s: int = Field(default=0, ge=0)
    windows_ahead: int = Field(default=2, ge=1, le=32)
    limits: RegistrarLimits = RegistrarLimits()


def own_secret(settings: RegistrarSettings) -> tuple[bytes, PinnedKeys]:
    """Return the registrar's signing key and the public ones of all three.

    Raises:
        ConfigurationError: If a key file cannot be read, or two keys are the same.
    """
    secret = read_secret_key(Path(settings.signing_key_file), "registrar.signing_key_file")
    try:
        return secret, PinnedKeys(
            public_key_bytes(settings.fusion_key),
            public_key_bytes(settings.shuffler_key),
            public_key_of(secret),
        )
    except ValueError as error:
        raise ConfigurationError([f"registrar: {error}"]) from None
