"""``rase ha``: show a fleet, or a device to its owner, in Home Assistant, and take it back."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from rase.transport.broker import Broker
    from rase.transport.discovery import Discovery

__all__ = ["command"]

_PATIENCE_S = 10.0


def _where(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--folder",
            type=click.Path(path_type=Path, file_okay=False),
            help="The owner's entities: the device's folder, whose [home] names the broker.",
        ),
        click.option(
            "--config",
            type=click.Path(path_type=Path),
            help="The fleet's entities: settings whose [fusion.mqtt] names the broker.",
        ),
    ):
        function = option(function)
    return function


@click.group("ha", short_help="Show a fleet or a device in Home Assistant.")
def command() -> None:
    """Show a fleet or a device in Home Assistant.

    By its MQTT discovery: entities appear by themselves, and vanish with rase ha clean.
    """


@command.command("publish")
@_where
def publish(config: Path | None, folder: Path | None) -> None:
    """Publish the discovery messages, retained; one device for each campaign, or for the agent."""
    broker, found = _find_discoveries(config, folder)
    _send(broker, {one.topic: one.payload() for one in found})
    for one in found:
        click.echo(one.topic)


@command.command("clean")
@_where
def clean(config: Path | None, folder: Path | None) -> None:
    """Remove the entities: an empty retained message in the place of each discovery message."""
    broker, found = _find_discoveries(config, folder)
    topics = [one.topic for one in found]
    if folder is not None:
        # A device's state is for Home Assistant alone; a fleet's estimates have other readers.
        topics += [one.state_topic for one in found]
        topics += [one.shared["avty_t"] for one in found if "avty_t" in one.shared]
    _send(broker, dict.fromkeys(topics, b""))
    for topic in topics:
        click.echo(topic)


def _find_discoveries(config: Path | None, folder: Path | None) -> "tuple[Broker, list[Discovery]]":
    if (config is None) == (folder is None):
        raise click.UsageError("give --config for a fleet, or --folder for a device.")
    if folder is not None:
        return _of_owner(folder)
    return _of_fleet(config or Path())


def _of_owner(folder: Path) -> "tuple[Broker, list[Discovery]]":
    from rase.device.folder import DeviceFolder
    from rase.device.home import owner_discovery
    from rase.device.quantities import quantities_of
    from rase.device.ways import broker_at_home, name_at_home

    found = quantities_of(DeviceFolder(folder), os.environ)
    broker = broker_at_home(found[0][1].home, folder)
    if broker is None:
        raise ConfigurationError(["home.broker is missing: entities are published there."])
    return broker, [
        owner_discovery(name_at_home(settings.home, folder, place.quantity), settings.fleet.at_home)
        for place, settings in found
    ]


def _of_fleet(config: Path) -> "tuple[Broker, list[Discovery]]":
    from rase.cli.fusion import fusion_settings
    from rase.fusion.campaigns import known_campaigns
    from rase.fusion.mqtt import fleet_discovery
    from rase.fusion.query import Questions
    from rase.storage.opening import open_database
    from rase.transport.broker import Broker

    settings = fusion_settings(config)
    if settings.mqtt is None:
        raise ConfigurationError(["fusion.mqtt is missing: entities are published there."])
    with closing(open_database(settings.database, migrations="fusion")) as database:
        with database.snapshot() as transaction:
            names = known_campaigns(transaction)
        questions = Questions(database)
        found = [fleet_discovery(questions.campaign(name)) for name in names]
    if not found:
        raise ConfigurationError(["no campaign is published yet; see rase campaign publish."])
    return Broker.of(settings.mqtt), found


def _send(broker: "Broker", messages: "dict[str, bytes]") -> None:
    from rase.transport.interface import Unreachable
    from rase.transport.session import BrokerSession

    reasons: list[str | None] = []
    session = BrokerSession(broker, "rase-ha", on_change=reasons.append)
    session.start()
    is_up = session.wait_up(_PATIENCE_S)
    sent = [
        session.publish(topic, payload, is_retained=True)
        for topic, payload in messages.items()
        if is_up
    ]
    session.stop(*sent)
    if not is_up or not all(one.is_published() for one in sent):
        why = next((f": {reason}" for reason in reasons if reason), "")
        raise Unreachable(f"{broker.host} does not take the messages{why}.")
