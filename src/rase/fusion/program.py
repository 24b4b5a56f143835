"""Where a fusion centre is put together: settings become databases, keys, processes and parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rase.clock import Clock
from rase.errors import ConfigurationError
from rase.fusion.alarms import Alarms
from rase.fusion.campaigns import Publisher, current_keyset
from rase.fusion.centre import FusionCentre
from rase.fusion.countersign import HttpCountersigner
from rase.fusion.health import space_of
from rase.fusion.held_keys import check_held
from rase.fusion.intake import Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rotation import KeyPublication, offered_at
from rase.fusion.rounds import Rounds
from rase.fusion.settings import FusionSettings
from rase.fusion.token_keys import TokenKeys, token_keys_at
from rase.service.acts import AUTOMATIC
from rase.service.heartbeat import Heartbeat
from rase.service.key_settings import public_key_bytes, read_opening_keys, read_signing_key
from rase.service.live_keys import LiveKeys
from rase.service.rotation import KeyRotation
from rase.service.telemetry import Telemetry
from rase.storage.interface import Database
from rase.storage.opening import open_database
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.signed import PinnedKeys

__all__ = ["open_centre", "open_publisher"]


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
    database = open_database(settings.database, migrations="fusion")
    publisher = Publisher(
        database,
        clock,
        key=signer,
        pinned=pinned,
        countersigner=countersigner,
        max_batch_bytes=settings.limits.max_batch_bytes,
    )
    telemetry = Telemetry("fusion")
    try:
        keys = LiveKeys(
            Role.FUSION,
            lambda: settings.current_opening_key_files(Role.FUSION),
            settings=settings.source,
            clock=clock,
            telemetry=telemetry,
        )
        with BatchOpener(keys(), processes=settings.workers, renewed=keys) as opener:
            heart = Heartbeat(database, clock, part="fusion", keys=lambda: opener.keys)
            questions = Questions(database)
            yield FusionCentre(
                database=database,
                clock=clock,
                intake=Intake(
                    database,
                    clock,
                    pinned=pinned,
                    opener=opener,
                    policy=settings,
                    token_keys=TokenKeys(
                        database, clock, pinned=pinned, fetch=token_keys_at(settings.shuffler_url)
                    ),
                ),
                rounds=Rounds(database, clock, policy=settings),
                questions=questions,
                alarms=Alarms(database, questions, settings.alarms) if settings.alarms else None,
                publisher=publisher if settings.admin_over_http else None,
                policy=settings,
                telemetry=telemetry,
                space=(
                    partial(space_of, settings.database)
                    if isinstance(settings.database, Path)
                    else None
                ),
                heart=heart,
                rotation=_rotation(settings, database, publisher, clock, telemetry),
            )
            heart.stop()
    finally:
        database.close()


def _rotation(
    settings: FusionSettings,
    database: Database,
    publisher: Publisher,
    clock: Clock,
    telemetry: Telemetry,
) -> KeyRotation | None:
    if not settings.rotate_keys_s and not settings.adopt_shuffler_keys:
        return None
    if settings.source is None:
        names = "fusion.rotate_keys_s and adopt_shuffler_keys"
        raise ConfigurationError([f"{names} must stand in a settings file."])
    shuffler_key = public_key_bytes(settings.shuffler_key)
    publication = KeyPublication(
        folder=settings.source.parent,
        check_held=partial(_check_held, database, settings, clock),
        publish=partial(publisher.publish_keyset, by=AUTOMATIC),
        offered=(
            offered_at(settings.shuffler_url, shuffler_key)
            if settings.adopt_shuffler_keys
            else None
        ),
        telemetry=telemetry,
    )

    def published() -> Keyset | None:
        with database.snapshot() as transaction:
            newest = current_keyset(transaction)
        return None if newest is None else newest.keyset

    return KeyRotation(
        settings.source.parent,
        role=Role.FUSION,
        every_s=settings.rotate_keys_s,
        files=partial(settings.current_opening_key_files, Role.FUSION),
        published=published,
        offer=publication,
        clock=clock,
        telemetry=telemetry,
    )


def _check_held(database: Database, settings: FusionSettings, clock: Clock, keyset: Keyset) -> None:
    check_held(database, keyset, settings=settings, clock=clock)


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
            Publisher(
                database,
                clock,
                key=signer,
                pinned=pinned,
                countersigner=countersigner,
                max_batch_bytes=settings.limits.max_batch_bytes,
            ),
            Questions(database),
        )
    finally:
        database.close()


def _keys(settings: FusionSettings) -> tuple[SigningKey, tuple[OpeningKey, ...]]:
    """Read all keys, so that all mistakes are reported at once."""
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
        return PinnedKeys(
            signer.public_bytes(),
            public_key_bytes(settings.shuffler_key),
            public_key_bytes(settings.registrar_key),
        )
    except ValueError as error:
        raise ConfigurationError([f"fusion.shuffler_key, fusion.registrar_key: {error}"]) from None
