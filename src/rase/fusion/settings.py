"""What the fusion centre's operator decides: the section ``[fusion]`` of rase.toml."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from rase.fusion.query import MAX_ROUNDS
from rase.service.broker_settings import BrokerSettings
from rase.service.connections import ConnectionSettings
from rase.service.key_settings import AddressSetting, PublicKeySetting
from rase.service.server_settings import ServerSettings
from rase.service.settings import Settings

__all__ = [
    "MAX_BATCH_BYTES",
    "AlarmSettings",
    "FusionBrokerSettings",
    "FusionLimits",
    "FusionPolicy",
    "FusionSettings",
]

MAX_BATCH_BYTES: Final = 1 << 26


class FusionLimits(ConnectionSettings):
    """How much is taken in; what it does not name here is that of every server.

    Args:
        max_batch_bytes: The largest batch, or part of one: 16 MiB, or twice `k_min` reports if that
            is more; a campaign for which it is too small is not published.
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


class AlarmSettings(Settings):
    """An alarm on an answer of a campaign.

    Args:
        name: Its name: lower-case letters, digits and hyphens.
        campaign: The campaign's id.
        label: One of its labels; None for all devices.
        category: The state, or the bound, whose share it is about; None for a number.
        kind: `above` or `below` a level, or `change` from an earlier mean.
        level: The level; for a change how far the means must differ at least.
        rounds: Over how many rounds the mean is taken.
        against: For a change: how many rounds earlier the other mean ends; `rounds` unless given.
        per_month: How many false alarms a month are expected at most.
        webhook: Where a change of the alarm is posted as JSON; None for no such place.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    campaign: str
    label: str | None = None
    category: str | None = None
    kind: Literal["above", "below", "change"]
    level: float = 0.0
    rounds: int = Field(default=1, ge=1, le=MAX_ROUNDS)
    against: int | None = Field(default=None, ge=1, le=MAX_ROUNDS)
    per_month: float = Field(default=0.1, gt=0, le=100)
    webhook: AddressSetting | None = None


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
        alarms: Alarms on answers, each in a table of its own; none unless given.
        adopt_shuffler_keys: Whether new keys that the shuffler signs are taken into the keyset and
            published by themselves.
    """

    port: int = Field(default=8702, ge=0, le=65535)
    shuffler_key: PublicKeySetting
    shuffler_url: AddressSetting
    registrar_key: PublicKeySetting
    admin_over_http: bool = False
    dashboard: bool = True
    mqtt: FusionBrokerSettings | None = None
    alarms: list[AlarmSettings] = Field(default_factory=list, max_length=256)
    adopt_shuffler_keys: bool = False

    @model_validator(mode="after")
    def _check_alarms(self) -> Self:
        names = [one.name for one in self.alarms]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"alarms must have different names, got {twice[0]!r} twice.")
        for one in self.alarms:
            if one.kind == "change" and (one.against or one.rounds) < one.rounds:
                raise ValueError(
                    f"against must be at least rounds, {one.rounds}, in the alarm {one.name!r}."
                )
            if one.kind == "change" and one.level < 0:
                raise ValueError(f"level must be 0 or more in the alarm {one.name!r}.")
        return self
