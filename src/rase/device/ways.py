"""How a device reaches others: shuffler, registrar and brokers, from its settings and its files."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rase.device.folder import secret_in
from rase.device.settings import THE_HOME, DeviceSettings, HomeSettings, is_plain_name
from rase.transport.interface import Transport

if TYPE_CHECKING:
    from rase.transport.broker import Broker
    from rase.transport.http import ClientTls

__all__ = [
    "broker_at_home",
    "broker_of_fleet",
    "name_at_home",
    "registrar_transport_of",
    "report_transport_of",
    "tls_of",
    "transport_of",
]

# Below the 75 s for which a server keeps an idle connection.
_KEPT_S: Final = 65.0


def transport_of(settings: DeviceSettings, folder: Path) -> Transport:
    """Return the way to the shuffler over HTTP.

    Raises:
        ConfigurationError: If the address or a file for TLS cannot be used.
    """
    from rase.transport.http import HttpTransport

    tls = tls_of(settings, folder)
    return HttpTransport(settings.shuffler, tls=tls, timeout_s=settings.timeout_s, kept_s=_KEPT_S)


def registrar_transport_of(settings: DeviceSettings, folder: Path) -> Transport:
    """Return the way to the registrar.

    Raises:
        ConfigurationError: If the address or a file for TLS cannot be used.
    """
    from rase.transport.http import ClientTls, HttpTransport

    authority = settings.tls_ca_file
    # The certificate of the device, if it has one, is for the shuffler.
    tls = ClientTls(None if authority is None else folder / authority)
    return HttpTransport(settings.registrar, tls=tls, timeout_s=settings.timeout_s)


def report_transport_of(settings: DeviceSettings, folder: Path, credential: str) -> Transport:
    """Return the way of reports: through a broker if one is named, else over HTTP.

    Raises:
        ConfigurationError: If the address or a file cannot be used.
    """
    if settings.broker is None:
        return transport_of(settings, folder)
    # Only now: the package for MQTT is loaded for those alone who use it.
    from rase.transport.broker import Broker
    from rase.transport.mqtt import MqttTransport

    password = settings.broker_password_file
    broker = Broker(
        url=settings.broker,
        user=settings.broker_user,
        password=None if password is None else secret_in(folder / password),
        tls=tls_of(settings, folder),
        timeout_s=settings.timeout_s,
    )
    return MqttTransport(broker, campaign=settings.campaign, credential=credential)


def name_at_home(settings: HomeSettings, folder: Path, quantity: str | None = None) -> str:
    """Return what a device is called at home: as its owner says, else as its folder.

    Args:
        settings: The section [home].
        folder: The device's folder.
        quantity: The campaign of a further quantity of the device, which is a device there.
    """
    name = settings.name or folder.resolve().name.lower()
    name = name if is_plain_name(name) else "rase"
    return name if quantity is None else f"{name}-{quantity}"


def broker_at_home(settings: HomeSettings, folder: Path) -> "Broker | None":
    """Return how the broker in the home is reached; None if there is none.

    Raises:
        ConfigurationError: If the address or a file cannot be used.
    """
    if settings.broker is None:
        return None
    from rase.transport.broker import Broker
    from rase.transport.http import ClientTls

    authority, password = settings.tls_ca_file, settings.password_file
    return Broker(
        url=settings.broker,
        user=settings.user,
        password=None if password is None else secret_in(folder / password),
        tls=ClientTls(None if authority is None else folder / authority),
        insecure_mqtt=True,
    )


def tls_of(settings: DeviceSettings, folder: Path) -> "ClientTls":
    """Return authority and certificate of the settings; relative paths start in the folder."""
    from rase.transport.http import ClientTls

    files = (settings.tls_ca_file, settings.tls_certificate_file, settings.tls_key_file)
    return ClientTls(*(None if file is None else folder / file for file in files))


def broker_of_fleet(settings: DeviceSettings, folder: Path) -> "Broker | None":
    """Return how the fleet's public estimates are reached; None if the owner named no broker.

    Raises:
        ConfigurationError: If the address or a file cannot be used.
    """
    fleet = settings.fleet
    if fleet.broker is None:
        return None
    if fleet.broker == THE_HOME:
        return broker_at_home(settings.home, folder)
    from rase.transport.broker import Broker
    from rase.transport.http import ClientTls

    authority, password = fleet.tls_ca_file, fleet.password_file
    return Broker(
        url=fleet.broker,
        user=fleet.user,
        password=None if password is None else secret_in(folder / password),
        tls=ClientTls(None if authority is None else folder / authority),
    )
