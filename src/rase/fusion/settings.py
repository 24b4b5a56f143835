"""What the fusion centre's operator decides: the section ``[fusion]`` of rase.toml."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pydantic import Field

from rase.clock import Clock
from rase.errors import ConfigurationError
from rase.fusion.campaigns import Publisher
from rase.fusion.centre import FusionCentre
from rase.fusion.countersign import HttpCountersigner
from rase.fusion.health import space_of
from rase.fusion.intake import MAX_BATCH_BYTES, FusionPolicy, Intake
from rase.fusion.mqtt import FusionBrokerSettings
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.service.connections import ConnectionSettings
from rase.service.heartbeat import Heartbeat
from rase.service.key_settings import (
    AddressSetting,
    PublicKeySetting,
    public_key_bytes,
    read_opening_keys,
    read_signing_key,
)
from rase.service.live_keys import LiveKeys
from rase.service.settings import DatabaseSetting, PathSetting, Settings, load_settings
from rase.service.telemetry import Telemetry
from rase.service.tracing import TraceSettings
from rase.storage.opening import open_database
from rase.wire.keys import OpeningKey, Role, SigningKey
from rase.wire.signed import PinnedKeys

__all__ = ["FusionSettings", "open_centre", "open_publisher"]


class FusionSettings(Settings):
    """All settings of a fusion centre.

    Args:
        host: The address to listen on.
        port: The port; 0 for any free one.
        database: Its state: a file, or postgresql://user@host/database.
        signing_key_file: Its private Ed25519 key.
        opening_key_files: Its private HPKE keys, also old ones whose reports may still come.
        shuffler_key: The shuffler's public Ed25519 key, in hex or base64url.
        shuffler_url: Where campaigns and keysets are countersigned.
        workers: How many processes open large batches; 0 for none, None for one a core.
        keep_values_s: How long noisy reports are kept after their round is final.
        settle_s: How long a round waits for a second batch while two keys are in use, or after a
            batch that came before the grace was over.
        max_batch_bytes: The largest batch.
        keep_access_log_s: How long it is kept who asked what.
        questions_per_minute: How often one token may ask.
        streams_per_token: How many streams one token may have open.
        max_streams: How many streams may be open in all.
        batches_at_once: How many batches may be on their way at once.
        admin_over_http: Whether tokens with the scope admin:campaign may publish new versions,
            and make and revoke tokens.
        dashboard: Whether its pages are served too.
        limits: What it takes from the network.
        mqtt: The broker to which estimates are published; None for none.
        traces: The collector of spans; None for none.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8702, ge=0, le=65535)
    database: DatabaseSetting
    signing_key_file: PathSetting
    opening_key_files: list[PathSetting] = Field(min_length=1)
    shuffler_key: PublicKeySetting
    shuffler_url: AddressSetting
    workers: int | None = Field(default=None, ge=0, le=256)
    keep_values_s: int = Field(default=0, ge=0)
    settle_s: int = Field(default=60, ge=0)
    max_batch_bytes: int = Field(default=MAX_BATCH_BYTES, ge=1024)
    keep_access_log_s: int = Field(default=90 * 86400, ge=86400)
    questions_per_minute: int = Field(default=600, ge=1)
    streams_per_token: int = Field(default=8, ge=1)
    max_streams: int = Field(default=256, ge=1)
    batches_at_once: int = Field(default=4, ge=1)
    admin_over_http: bool = False
    dashboard: bool = True
    limits: ConnectionSettings = ConnectionSettings()
    mqtt: FusionBrokerSettings | None = None
    traces: TraceSettings | None = None

    def policy(self) -> FusionPolicy:
        """Return what the operator decided as a value."""
        return FusionPolicy(
            keep_values_s=self.keep_values_s,
            settle_s=self.settle_s,
            max_batch_bytes=self.max_batch_bytes,
            keep_access_log_s=self.keep_access_log_s,
            questions_per_minute=self.questions_per_minute,
            streams_per_token=self.streams_per_token,
            max_streams=self.max_streams,
            batches_at_once=self.batches_at_once,
        )


@contextmanager
def open_centre(settings: FusionSettings, clock: Clock) -> Iterator[FusionCentre]:
    """Open a fusion centre with its database, keys and processes.

    Raises:
        ConfigurationError: With every key that cannot be used.
        StorageError: Named, if the database cannot.
    """
    signer, _ = _keys(settings)
    pinned = _pinned_keys(settings, signer)
    countersigner = HttpCountersigner(settings.shuffler_url)
    policy = settings.policy()
    database = open_database(settings.database, migrations="fusion")
    publisher = Publisher(database, clock, key=signer, pinned=pinned, countersigner=countersigner)
    telemetry = Telemetry("fusion")
    try:
        keys = LiveKeys(
            Role.FUSION,
            lambda: _opening_key_files(settings),
            settings=settings.source,
            clock=clock,
            telemetry=telemetry,
        )
        with BatchOpener(keys(), processes=settings.workers, renewed=keys) as opener:
            heart = Heartbeat(database, clock, part="fusion", keys=lambda: opener.keys)
            yield FusionCentre(
                database=database,
                clock=clock,
                intake=Intake(database, clock, pinned=pinned, opener=opener, policy=policy),
                rounds=Rounds(database, clock, policy=policy),
                questions=Questions(database),
                publisher=publisher if settings.admin_over_http else None,
                policy=policy,
                telemetry=telemetry,
                space=(
                    partial(space_of, settings.database)
                    if isinstance(settings.database, Path)
                    else None
                ),
                heart=heart,
            )
            heart.stop()
    finally:
        database.close()


@contextmanager
def open_publisher(settings: FusionSettings, clock: Clock) -> Iterator[tuple[Publisher, Questions]]:
    """Open what publishes campaigns and keysets; it reads no key that opens reports.

    Raises:
        ConfigurationError: If the signing key cannot be used.
        StorageError: Named, if the database cannot.
    """
    signer = read_signing_key(settings.signing_key_file, role=Role.FUSION)
    pinned = _pinned_keys(settings, signer)
    countersigner = HttpCountersigner(settings.shuffler_url)
    database = open_database(settings.database, migrations="fusion")
    try:
        yield (
            Publisher(database, clock, key=signer, pinned=pinned, countersigner=countersigner),
            Questions(database),
        )
    finally:
        database.close()


def _opening_key_files(settings: FusionSettings) -> list[Path]:
    """Return the private opening keys that the settings file names now."""
    if settings.source is None:
        return settings.opening_key_files
    return load_settings(FusionSettings, Role.FUSION, path=settings.source).opening_key_files


def _keys(settings: FusionSettings) -> tuple[SigningKey, tuple[OpeningKey, ...]]:
    """Read all keys, so that every mistake is told at once."""
    mistakes: list[str] = []
    keys: tuple[OpeningKey, ...] = ()
    try:
        keys = read_opening_keys(settings.opening_key_files, role=Role.FUSION)
    except ConfigurationError as error:
        mistakes += error.mistakes
    try:
        signer = read_signing_key(settings.signing_key_file, role=Role.FUSION)
    except ConfigurationError as error:
        raise ConfigurationError([*mistakes, *error.mistakes]) from None
    if mistakes:
        raise ConfigurationError(mistakes)
    return signer, keys


def _pinned_keys(settings: FusionSettings, signer: SigningKey) -> PinnedKeys:
    try:
        return PinnedKeys(signer.public_bytes(), public_key_bytes(settings.shuffler_key))
    except ValueError as error:
        raise ConfigurationError([f"fusion.shuffler_key: {error}"]) from None
