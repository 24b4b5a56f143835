"""What the fusion centre's operator decides: the section ``[fusion]`` of rase.toml."""

from typing import Annotated, Final

from pydantic import Field

from rase.fusion.query import MAX_ROUNDS
from rase.service.broker_settings import BrokerSettings
from rase.service.connections import ConnectionSettings
from rase.service.key_settings import AddressSetting, PublicKeySetting
from rase.service.server_settings import ServerSettings
from rase.service.settings import Settings

__all__ = [
    "MAX_BATCH_BYTES",
    "FusionBrokerSettings",
    "FusionLimits",
    "FusionPolicy",
    "FusionSettings",
]

MAX_BATCH_BYTES: Final = 1 << 26


class FusionLimits(ConnectionSettings):
    """How much is taken in; what it does not name here is that of every server.

    Args:
        max_batch_bytes: The largest batch.
        questions_per_minute: How often one token may ask.
        streams_per_token: How many streams one token may have open.
        max_streams: How many streams may be open in all.
        batches_at_once: How many batches may be on their way at once.
    """

    max_batch_bytes: int = Field(default=MAX_BATCH_BYTES, ge=1024)
    questions_per_minute: int = Field(default=600, ge=1)
    streams_per_token: int = Field(default=8, ge=1)
    max_streams: int = Field(default=256, ge=1)
    batches_at_once: int = Field(default=4, ge=1)


class FusionPolicy(Settings):
    """What the parts of a fusion centre need to know of its settings.

    Args:
        keep_values_s: How long noisy reports are kept after their round is final; 0 deletes them
            in the transaction that writes the estimate.
        settle_s: How long a round waits for a second batch when devices may have sealed for two
            keys of the fusion centre, and at most after a batch that came before the round's grace
            was over.
        keep_access_log_s: How long it is kept who asked what; 90 days.
        limits: How much is taken in.
    """

    keep_values_s: int = Field(default=0, ge=0)
    settle_s: int = Field(default=60, ge=0)
    keep_access_log_s: int = Field(default=90 * 86400, ge=86400)
    limits: FusionLimits = FusionLimits()


class FusionBrokerSettings(BrokerSettings):
    """How the fusion centre reaches its broker, and what it publishes there.

    Args:
        windows: Over how many rounds means are published, besides the one of each round.
        strict: Whether a window that lacks a round has no mean.
        discovery: Whether Home Assistant is sent the fleet's entities.
    """

    windows: list[Annotated[int, Field(ge=1, le=MAX_ROUNDS)]] = Field(
        default_factory=list, max_length=16
    )
    strict: bool = False
    discovery: bool = False


class FusionSettings(ServerSettings, FusionPolicy):
    """All settings of a fusion centre.

    Args:
        port: The port; 0 for any free one.
        shuffler_key: The shuffler's public Ed25519 key, in hex or base64url.
        shuffler_url: Where campaigns and keysets are countersigned.
        registrar_key: The registrar's public Ed25519 key: only reports with a token of its count.
        admin_over_http: Whether tokens with the scope admin:campaign may publish new versions,
            and make and revoke tokens.
        dashboard: Whether its pages are served too.
        mqtt: The broker to which estimates are published; None for none.
    """

    port: int = Field(default=8702, ge=0, le=65535)
    shuffler_key: PublicKeySetting
    shuffler_url: AddressSetting
    registrar_key: PublicKeySetting | None = None
    admin_over_http: bool = False
    dashboard: bool = True
    mqtt: FusionBrokerSettings | None = None
