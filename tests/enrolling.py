"""Enrol devices in tests as they do it: both ends of the agreement, without a network between."""

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.registering import REGISTRAR_KEY, certificate_of, certificate_of_list

from rase.shuffler.enrolment import DEVICES_PER_OWNER, enrol_many
from rase.shuffler.enrolment import Enrolled as Admitted
from rase.shuffler.enrolment import enrol as answer_application
from rase.storage.interface import Database
from rase.wire.agreement import Agreement, Applicant
from rase.wire.signed import PinnedKeys, public_key_of

__all__ = [
    "Enrolled",
    "applicant",
    "asked",
    "certificate_text",
    "credential_of",
    "enrol",
    "enrol_fleet",
]

# Who enrols a device looks at the registrar's key alone.
_PINNED = PinnedKeys(bytes([1]) * 32, bytes([2]) * 32, REGISTRAR_KEY)


class Enrolled(NamedTuple):
    """A device's handle, its credential, and what was answered."""

    device: str
    credential: str
    agreement: Agreement


def applicant(token: str, number: int = 1) -> Applicant:
    """Return a device with a key of its own."""
    return Applicant(token, number.to_bytes(32, "big"))


def asked(token: str, number: int = 1) -> dict[str, str]:
    """Return what a device posts that the registrar of the tests certified."""
    asked = applicant(token, number).application._asdict()
    return {**asked, "certificate": certificate_text(number)}


def certificate_text(number: int = 1) -> str:
    """Return the certificate of a device as it is posted."""
    signed = certificate_of(public_key_of(number.to_bytes(32, "big")))
    return base64.urlsafe_b64encode(signed).decode().rstrip("=")


def credential_of(token: str, answer: dict[str, Any], number: int = 1) -> str:
    """Return what a device makes of the answer."""
    return applicant(token, number).credential(Agreement(**answer))


def enrol(
    database: Database, token: str, *, now_s: float, number: int = 1, most: int = DEVICES_PER_OWNER
) -> Enrolled:
    """Enrol one device."""
    device = applicant(token, number)
    agreement = answer_application(
        database,
        device.application,
        now_s=now_s,
        certificate=certificate_text(number),
        pinned=_PINNED,
        most=most,
    )
    return Enrolled(agreement.device, device.credential(agreement), agreement)


def enrol_fleet(
    database: Database,
    device_keys: Sequence[bytes],
    *,
    group: str = "",
    campaigns: Sequence[str] = (),
) -> tuple[Admitted, ...]:
    """Enrol a whole fleet, which the registrar certified, too."""
    certificate = certificate_of_list(device_keys)
    return enrol_many(
        database,
        device_keys,
        certificate=certificate,
        pinned=_PINNED,
        group=group,
        campaigns=campaigns,
    )
