"""What ``rase doctor`` looks at where a broker is named: connection, TLS, rights, the campaign."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rase.errors import ConfigurationError, WireError

if TYPE_CHECKING:
    from rase.service.doctor import Finding
    from rase.transport.broker import Broker
    from rase.transport.probe import BrokerProbe
    from rase.wire.keys import Role
    from rase.wire.signed import PinnedKeys

__all__ = ["examine_device_broker", "examine_home_broker", "examine_server_broker"]

_MISSING: Final = 'paho is missing; install it with: pip install "rase-iot[mqtt]".'
_ACL: Final = "compare the broker's ACL with deploy/mosquitto/acl"


def examine_server_broker(
    where: str, role: "Role", settings: Any, pinned: "PinnedKeys | None"
) -> "list[Finding]":
    """Check the broker of a server: that it is reached, what it lets us write, what it keeps.

    Args:
        where: The server's folder.
        role: The server.
        settings: Its settings; without a broker there is nothing to check.
        pinned: The public signing keys of both servers, if they are known.
    """
    from rase.transport.broker import Broker
    from rase.transport.interface import Unreachable
    from rase.transport.probe import probing

    if settings.mqtt is None:
        return []
    try:
        broker = Broker.of(settings.mqtt)
        with probing(broker) as probe:
            # First: mosquitto may end a connection on which it denied something.
            kept = probe.read_retained("rase/+/policy")
            return [
                _check_login(where, broker),
                *_rights(where, role, settings.mqtt, probe),
                _campaigns(where, kept, pinned),
            ]
    except ConfigurationError as error:
        return _problems(where, *error.mistakes)
    except ModuleNotFoundError:
        return _problems(where, _MISSING)
    except Unreachable as error:
        return _problems(where, str(error), is_network=True)


def examine_device_broker(where: str, place: Path, settings: Any) -> "list[Finding]":
    """Check that a device is let in by the broker its reports go through, and finds its campaign.

    Args:
        where: The device's folder.
        place: The same, as a path.
        settings: Its settings; without a broker there is nothing to check.
    """
    from rase.device.folder import DeviceFolder
    from rase.device.ways import report_transport_of
    from rase.transport.interface import Unreachable
    from rase.wire.signed import versions_from_bytes

    folder = DeviceFolder(place)
    if settings.broker is None or not folder.is_enrolled:
        return []
    try:
        transport = report_transport_of(settings, place, folder.credential())
        versions = transport.get(f"/v1/campaigns/{settings.campaign}/versions").body
        keyset = transport.get("/v1/keyset").body
        _check_signed(versions_from_bytes(versions), keyset, settings.pinned)
    except ConfigurationError as error:
        return _problems(where, *error.mistakes)
    except ModuleNotFoundError:
        return _problems(where, _MISSING)
    except Unreachable as error:
        text = f"{error} Ask the shuffler's operator whether this device is among the broker's."
        return _problems(where, text, is_network=True)
    except WireError as error:
        text = f"it keeps a campaign that is not signed by both pinned keys: {error}"
        return _problems(where, text, is_network=True)
    text = f"{settings.broker} lets us in and keeps {settings.campaign}, signed by both."
    return [_finding(where, text)]


def examine_home_broker(where: str, place: Path, settings: Any) -> "list[Finding]":
    """Check that the broker in the owner's home is reached, if there is one."""
    from rase.device.ways import broker_at_home
    from rase.transport.interface import Unreachable
    from rase.transport.probe import probing

    try:
        broker = broker_at_home(settings.home, place)
        if broker is None:
            return []
        with probing(broker):
            return [_check_login(where, broker, check="home broker")]
    except ConfigurationError as error:
        return _problems(where, *error.mistakes, check="home broker")
    except ModuleNotFoundError:
        return _problems(where, _MISSING, check="home broker")
    except Unreachable as error:
        return _problems(where, str(error), check="home broker", is_network=True)


def _rights(where: str, role: "Role", settings: Any, probe: "BrokerProbe") -> "list[Finding]":
    from rase.wire.keys import Role

    topics = probe.topics
    needed = [topics.status(role)]
    if role is Role.SHUFFLER:
        needed += [topics.policy, topics.answer("doctor")]
    else:
        needed += [topics.estimate, *(topics.window(w) for w in settings.windows)]
    missing = [topic for topic in needed if not probe.may_write(topic)]
    # What only devices may write: whoever else may can forge their traffic.
    spare = [topic for topic in [topics.report("doctor")] if probe.may_write(topic)]
    if role is Role.FUSION and probe.may_write(topics.policy):
        spare.append(topics.policy)
    shown = ", ".join(_pattern(topic) for topic in missing)
    found = []
    if missing:
        found += _problems(where, f"it does not let us write {shown}; {_ACL}.", is_network=True)
    if spare:
        shown = ", ".join(_pattern(topic) for topic in spare)
        text = f"it lets us write {shown}, which is for others alone; {_ACL}."
        found.append(_finding(where, text, level="warning"))
    return found or [_finding(where, "it lets us write what we must, and no report.")]


def _campaigns(where: str, kept: Mapping[str, bytes], pinned: "PinnedKeys | None") -> "Finding":
    from rase.wire.frames import Policy
    from rase.wire.signed import versions_from_bytes

    names = sorted(topic.split("/")[1] for topic in kept)
    if not names:
        text = "it keeps no campaign; the shuffler puts it there once both servers signed it."
        return _finding(where, text, level="warning")
    for name, message in sorted(kept.items()):
        try:
            policy = Policy.from_bytes(message)
            if pinned is not None:
                _check_signed(versions_from_bytes(policy.versions), policy.keyset, pinned)
        except WireError as error:
            text = f"{name} is not what both pinned keys signed: {error} Who else may write there?"
            (one,) = _problems(where, text, is_network=True)
            return one
    return _finding(where, f"it keeps {', '.join(names)}, signed by both servers.")


def _check_signed(versions: tuple[bytes, ...], keyset: bytes, pinned: "PinnedKeys") -> None:
    from rase.wire.signed import SignedCampaign, SignedKeyset

    SignedKeyset.from_bytes(keyset, pinned)
    for version in versions:
        SignedCampaign.from_bytes(version, pinned)


def _pattern(topic: str) -> str:
    # The campaign of nobody's would only puzzle.
    root, _, *rest = topic.split("/")
    return "/".join([root, "+", *("+" if part == "doctor" else part for part in rest)])


def _check_login(where: str, broker: "Broker", *, check: str = "broker") -> "Finding":
    how = " over TLS" if broker.url.startswith("mqtts:") else ", without TLS"
    user = "" if broker.user is None else f" as {broker.user}"
    return _finding(where, f"{broker.url} lets us in{user}{how}.", check=check)


def _finding(where: str, text: str, *, check: str = "broker", level: str = "ok") -> "Finding":
    from rase.service.doctor import Finding, Level

    return Finding(where, check, Level(level), text, is_network=True)


def _problems(
    where: str, *mistakes: str, check: str = "broker", is_network: bool = False
) -> "list[Finding]":
    from rase.service.doctor import Finding, Level

    return [
        Finding(where, check, Level.PROBLEM, mistake, is_network=is_network) for mistake in mistakes
    ]
