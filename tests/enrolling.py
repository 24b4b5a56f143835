"""Enrol devices in tests as they do it: both ends of the agreement, without a network between."""

from typing import Any, NamedTuple

from rase.shuffler.enrolment import DEVICES_PER_OWNER
from rase.shuffler.enrolment import enrol as answer_application
from rase.storage.interface import Database
from rase.wire.agreement import Agreement, Applicant

__all__ = ["Enrolled", "applicant", "asked", "credential_of", "enrol"]


class Enrolled(NamedTuple):
    """A device's handle, its credential, and what was answered."""

    device: str
    credential: str
    agreement: Agreement


def applicant(token: str, number: int = 1) -> Applicant:
    """Return a device with a key of its own."""
    return Applicant(token, number.to_bytes(32, "big"))


def asked(token: str, number: int = 1) -> dict[str, str]:
    """Return what a device posts."""
    return applicant(token, number).application._asdict()


def credential_of(token: str, answer: dict[str, Any], number: int = 1) -> str:
    """Return what a device makes of the answer."""
    return applicant(token, number).credential(Agreement(**answer))


def enrol(
    database: Database, token: str, *, now_s: float, number: int = 1, most: int = DEVICES_PER_OWNER
) -> Enrolled:
    """Enrol one device."""
    device = applicant(token, number)
    agreement = answer_application(database, device.application, now_s=now_s, most=most)
    return Enrolled(agreement.device, device.credential(agreement), agreement)
