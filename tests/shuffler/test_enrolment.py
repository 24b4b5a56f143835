"""Enrolment: tokens work once, credentials are kept as hashes, refusals say nothing."""

import base64
import hmac
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.enrolling import applicant, certificate_text, enrol, enrol_fleet
from tests.registering import certificate_of
from tests.shuffler.conftest import PINNED

from rase.shuffler.enrolment import (
    Authenticator,
    NotEnrolled,
    enrolled_devices,
    make_tokens,
    prune_tokens,
    revoke_devices,
)
from rase.shuffler.enrolment import enrol as answer_application
from rase.storage.copy import tables_of
from rase.wire.agreement import Application
from rase.wire.frames import credential_key, frame_of, handle_of

if TYPE_CHECKING:
    from tests.shuffler.conftest import World


def proven(token: str, device_key: bytes) -> Application:
    """Return an application with a right proof for any bytes as a device key."""
    name, _, rest = token.partition(".")
    proof = hmac.digest(
        credential_key(rest), b"rase/2 enrolment\0" + name.encode() + b"\0" + device_key, "sha256"
    )
    return Application(
        name, *(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in (device_key, proof))
    )


def known(authenticator: Authenticator, credential: str) -> int | None:
    """Return which device made a tag with a credential, if that is known without the database."""
    found = authenticator.known_sender(handle_of(credential), frame_of(b"report", credential))
    return None if found is None else found.device


def looked_up(authenticator: Authenticator, credential: str) -> int:
    """Return which device made a tag with a credential, by the database."""
    handle, frame = handle_of(credential), frame_of(b"report", credential)
    authenticator.known_sender(handle, frame)
    return authenticator.look_up_sender(handle, frame).device


def test_a_token_works_once(world: "World") -> None:
    """The first use gives a credential that is recognised; another device is refused."""
    (token,) = make_tokens(world.database, 1, expires_s=10)
    enrolled = enrol(world.database, token, now_s=9)
    authenticator = Authenticator(world.database)
    assert known(authenticator, enrolled.credential) is None
    device = looked_up(authenticator, enrolled.credential)
    assert f"{device:016x}" == enrolled.device
    assert known(authenticator, enrolled.credential) == device
    with pytest.raises(NotEnrolled, match="wrong, used or expired"):
        enrol(world.database, token, number=2, now_s=9)


@pytest.mark.parametrize("fault", ["wrong", "unknown", "expired", "odd", "long", "endless"])
def test_bad_tokens_are_refused_alike(world: "World", fault: str) -> None:
    """Whatever is wrong with a token, the answer is the same and the token stays."""
    (token,) = make_tokens(world.database, 1, expires_s=10)
    bad = {
        "wrong": token[:-1] + ("a" if token[-1] != "a" else "b"),
        "unknown": f"{0:016x}.{token.partition('.')[2]}",
        "expired": token,
        "odd": "\0.x",
        "long": token + "x" * 10_000,
        "endless": "0" * 10_000 + token,
    }[fault]
    with pytest.raises(NotEnrolled, match="wrong, used or expired"):
        enrol(world.database, bad, now_s=10 if fault == "expired" else 9)
    assert enrol(world.database, token, now_s=9).device


@pytest.mark.any_store
@pytest.mark.parametrize("key", ["", "!!", "AAAA", "é"])
def test_a_device_key_must_be_one(world: "World", key: str) -> None:
    """A text that is no key is refused before the token is used."""
    (token,) = make_tokens(world.database, 1, expires_s=10)
    asked = applicant(token).application._replace(device_key=key)
    with pytest.raises(NotEnrolled, match="32 bytes"):
        answer_application(
            world.database, asked, now_s=9, certificate=certificate_text(), pinned=PINNED
        )
    assert enrol(world.database, token, now_s=9).device


@pytest.mark.parametrize("y", [0, 1, 2**255 - 20])
def test_a_key_that_nobody_can_have_is_refused(world: "World", y: int) -> None:
    """Points of small order, zero bytes among them, would agree on a secret that all know."""
    (token,) = make_tokens(world.database, 1, expires_s=10)
    device_key = y.to_bytes(32, "little")
    asked = proven(token, device_key)
    certificate = base64.urlsafe_b64encode(certificate_of(device_key)).decode()
    with pytest.raises(NotEnrolled, match="somebody can have"):
        answer_application(world.database, asked, now_s=9, certificate=certificate, pinned=PINNED)
    assert enrol(world.database, token, now_s=9).device


def test_a_key_enrols_one_device(world: "World") -> None:
    """A second device with the same key is refused, and its token stays unused."""
    first, second = make_tokens(world.database, 2, expires_s=10)
    enrol(world.database, first, now_s=9)
    with pytest.raises(NotEnrolled, match="used by another"):
        enrol(world.database, second, now_s=9)
    assert enrol(world.database, second, number=2, now_s=9).device


@pytest.mark.uncovered
@pytest.mark.parametrize(
    "credential", ["", ".", "zz", "g" * 16 + ".x", "f" * 16 + ".x", "0" * 16 + ".x", "0" * 200]
)
def test_wrong_credentials_are_refused(world: "World", credential: str) -> None:
    """What is no credential of an enrolled device is refused, whatever it is."""
    with pytest.raises(NotEnrolled):
        looked_up(Authenticator(world.database), credential)


def test_a_known_device_with_another_secret_is_refused(world: "World") -> None:
    """The secret counts, not the name, also for hashes in memory."""
    authenticator = Authenticator(world.database)
    credential = world.credentials[0]
    looked_up(authenticator, credential)
    assert known(authenticator, credential + "x") is None
    with pytest.raises(NotEnrolled):
        looked_up(authenticator, credential + "x")


def test_a_lost_answer_can_be_asked_for_again(world: "World") -> None:
    """For ten minutes the same request gets the same answer, and no longer.

    So a proxy that repeats the request voids nothing. With rase/1 it got a credential of its own.
    """
    (token,) = make_tokens(world.database, 1, expires_s=10**6)
    lost = enrol(world.database, token, now_s=100)
    authenticator = Authenticator(world.database)
    device = looked_up(authenticator, lost.credential)
    assert enrol(world.database, token, now_s=699) == lost
    assert looked_up(Authenticator(world.database), lost.credential) == device
    with pytest.raises(NotEnrolled, match="wrong, used or expired"):
        enrol(world.database, token, now_s=700)


def test_what_was_agreed_before_a_release_is_not_agreed_again(world: "World") -> None:
    """A token that an earlier release took has no half of an exchange to repeat."""
    (token,) = make_tokens(world.database, 1, expires_s=10**6)
    enrol(world.database, token, now_s=100)
    with world.database.transaction() as transaction:
        transaction.execute("UPDATE enrolment_token SET server_key = NULL")
    with pytest.raises(NotEnrolled, match="wrong, used or expired"):
        enrol(world.database, token, now_s=101)


def test_known_devices_are_read_at_the_start(world: "World") -> None:
    """After preloading, nobody enrolled before costs a question to the database."""
    authenticator = Authenticator(world.database)
    authenticator.preload()
    found = [known(authenticator, credential) for credential in world.credentials]
    assert found == world.devices


def test_memory_is_bounded(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes in memory are dropped when they are too many; everybody is still recognised."""
    monkeypatch.setattr("rase.shuffler.enrolment._MAX_CACHED", 2)
    authenticator = Authenticator(world.database)
    for _ in range(2):
        for device, credential in zip(world.devices, world.credentials, strict=True):
            assert looked_up(authenticator, credential) == device
    assert len(authenticator._digests) <= 2


def test_secrets_are_not_stored(world: "World") -> None:
    """Neither token nor credential can be read from the database, its files, or from a repr."""
    (token,) = make_tokens(world.database, 1, expires_s=10**9)
    enrolled = enrol(world.database, make_tokens(world.database, 1, expires_s=10)[0], now_s=9)
    assert enrolled.credential.partition(".")[2] not in repr(enrolled.agreement)
    rows = [world.rows(f"SELECT * FROM {table}") for table in tables_of("shuffler")]  # noqa: S608
    stored = repr(rows).encode()
    if isinstance(world.address, Path):
        stored += b"".join(path.read_bytes() for path in world.path.parent.iterdir())
    for secret in (token, enrolled.credential):
        assert secret.partition(".")[2].encode() not in stored


def test_expired_tokens_are_forgotten(world: "World") -> None:
    """Pruning takes those that can no longer be used, and only those."""
    make_tokens(world.database, 3, expires_s=10)
    make_tokens(world.database, 2, expires_s=20)
    prune_tokens(world.database, now_s=10)
    assert world.rows("SELECT count(*) FROM enrolment_token WHERE device IS NULL") == [(2,)]
    with pytest.raises(ValueError, match="at least 1"):
        make_tokens(world.database, 0, expires_s=10)


def test_a_revoked_device_sends_no_more(world: "World") -> None:
    """Its credential, its waiting report and its token end; the others are not disturbed."""
    world.upload_time(100)
    for device in range(4):
        world.send(device, world.seal(100))
    authenticator = Authenticator(world.database)
    authenticator.preload()
    lost = f"{world.devices[0]:016x}"
    assert revoke_devices(world.database, [lost]) == (lost,)
    with pytest.raises(NotEnrolled):
        looked_up(authenticator, world.credentials[0])
    assert known(authenticator, world.credentials[0]) == world.devices[0]
    authenticator.renew()
    assert known(authenticator, world.credentials[0]) is None
    assert known(authenticator, world.credentials[1]) == world.devices[1]
    assert len(enrolled_devices(world.database)) == 3
    assert {row[0] for row in world.rows("SELECT device FROM report")} == set(world.devices[1:])
    # An intake that has not noticed yet may store one more; it is not released.
    world.send(0, world.seal(100))
    world.close_time(100)
    closed = world.closer().close_one()
    assert closed is not None
    assert closed.released == 3
    assert world.rows("SELECT * FROM report") == []


def test_the_token_of_a_revoked_device_is_void(world: "World") -> None:
    """Who lost the answer may ask again with the token, who was revoked may not."""
    now_s = world.clock.now_s()
    (token,) = make_tokens(world.database, 1, expires_s=int(now_s) + 100)
    enrolled = enrol(world.database, token, now_s=now_s)
    revoke_devices(world.database, [enrolled.device])
    with pytest.raises(NotEnrolled):
        enrol(world.database, token, now_s=now_s)
    (token,) = make_tokens(world.database, 1, expires_s=int(now_s) + 100)
    assert enrol(world.database, token, now_s=now_s).device != enrolled.device


def test_an_unknown_device_revokes_nobody(world: "World") -> None:
    """All that are named are revoked, or none."""
    names = [f"{world.devices[0]:016x}", "0" * 16]
    with pytest.raises(LookupError, match="nothing was revoked"):
        revoke_devices(world.database, names)
    with pytest.raises(ValueError, match="16 hexadecimal digits"):
        revoke_devices(world.database, [names[0], "٣" * 16])
    assert len(enrolled_devices(world.database)) == 4


@pytest.mark.any_store
def test_a_fleet_is_enrolled_at_once(world: "World") -> None:
    """Each key gets a credential of its own, in the order of the keys."""
    keys = [bytes([number]) * 32 for number in range(1, 6)]
    made = enrol_fleet(world.database, keys, group="street")
    authenticator = Authenticator(world.database)
    assert len({one.credential for one in made}) == 5
    for one in made:
        assert f"{looked_up(authenticator, one.credential):016x}" == one.device
    listed = {entry.device for entry in enrolled_devices(world.database) if entry.group == "street"}
    assert listed == {one.device for one in made}


@pytest.mark.any_store
def test_a_fleet_is_enrolled_whole_or_not_at_all(world: "World") -> None:
    """A key that occurs twice, is taken or has another size keeps all out."""
    before = enrolled_devices(world.database)
    keys = [bytes([number]) * 32 for number in range(1, 4)]
    with pytest.raises(ValueError, match="1 of 4 device_keys occur twice"):
        enrol_fleet(world.database, [*keys, keys[0]])
    with pytest.raises(ValueError, match="32 bytes each"):
        enrol_fleet(world.database, [*keys, b"short"])
    assert enrolled_devices(world.database) == before
    enrol_fleet(world.database, keys)
    with pytest.raises(ValueError, match="3 of 3 device_keys"):
        enrol_fleet(world.database, keys)
    assert enrol_fleet(world.database, []) == ()
