"""Enrolment: tokens work once, credentials are kept as hashes, refusals say nothing."""

import base64
from typing import TYPE_CHECKING

import pytest

from rase.shuffler.enrolment import Authenticator, NotEnrolled, enrol, make_tokens, prune_tokens

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

KEY = base64.urlsafe_b64encode(bytes(range(32))).decode().rstrip("=")
OTHER = base64.urlsafe_b64encode(bytes(32)).decode()


def test_a_token_works_once(world: "World") -> None:
    """The first use gives a credential that is recognised; another device is refused."""
    (token,) = make_tokens(world.database, 1, expires_s=10)
    enrolled = enrol(world.database, token, device_key=KEY, now_s=9)
    authenticator = Authenticator(world.database)
    assert authenticator.known(enrolled.credential) is None
    device = authenticator.look_up(enrolled.credential)
    assert f"{device:016x}" == enrolled.device
    assert authenticator.known(enrolled.credential) == device
    with pytest.raises(NotEnrolled, match="wrong, used or expired"):
        enrol(world.database, token, device_key=OTHER, now_s=9)


@pytest.mark.parametrize("fault", ["wrong", "unknown", "expired", "empty", "long"])
def test_bad_tokens_are_refused_alike(world: "World", fault: str) -> None:
    """Whatever is wrong with a token, the answer is the same and the token stays."""
    (token,) = make_tokens(world.database, 1, expires_s=10)
    bad = {
        "wrong": token[:-1] + ("a" if token[-1] != "a" else "b"),
        "unknown": f"{0:016x}.{token.partition('.')[2]}",
        "expired": token,
        "empty": "",
        "long": token + "x" * 10_000,
    }[fault]
    with pytest.raises(NotEnrolled, match="wrong, used or expired"):
        enrol(world.database, bad, device_key=KEY, now_s=10 if fault == "expired" else 9)
    assert enrol(world.database, token, device_key=KEY, now_s=9).device


@pytest.mark.parametrize("key", ["", "!!", "AAAA", "é"])
def test_a_device_key_must_be_one(world: "World", key: str) -> None:
    """A text that is no key is refused before the token is used."""
    (token,) = make_tokens(world.database, 1, expires_s=10)
    with pytest.raises(NotEnrolled, match="32 bytes"):
        enrol(world.database, token, device_key=key, now_s=9)
    assert enrol(world.database, token, device_key=KEY, now_s=9).device


def test_a_key_enrols_one_device(world: "World") -> None:
    """A second device with the same key is refused, and its token stays unused."""
    first, second = make_tokens(world.database, 2, expires_s=10)
    enrol(world.database, first, device_key=KEY, now_s=9)
    with pytest.raises(NotEnrolled, match="used by another"):
        enrol(world.database, second, device_key=KEY, now_s=9)
    assert enrol(world.database, second, device_key=OTHER, now_s=9).device


@pytest.mark.parametrize(
    "credential", ["", ".", "zz", "g" * 16 + ".x", "f" * 16 + ".x", "0" * 16 + ".x", "0" * 200]
)
def test_wrong_credentials_are_refused(world: "World", credential: str) -> None:
    """What is no credential of an enrolled device is refused, whatever it is."""
    with pytest.raises(NotEnrolled):
        Authenticator(world.database).look_up(credential)


def test_a_known_device_with_another_secret_is_refused(world: "World") -> None:
    """The secret counts, not the name, also for hashes in memory."""
    authenticator = Authenticator(world.database)
    credential = world.credentials[0]
    authenticator.look_up(credential)
    assert authenticator.known(credential + "x") is None
    with pytest.raises(NotEnrolled):
        authenticator.look_up(credential + "x")


def test_a_lost_answer_can_be_asked_for_again(world: "World") -> None:
    """For ten minutes the same key gets another credential for the same device; then no more."""
    (token,) = make_tokens(world.database, 1, expires_s=10**6)
    lost = enrol(world.database, token, device_key=KEY, now_s=100)
    authenticator = Authenticator(world.database)
    authenticator.look_up(lost.credential)
    again = enrol(world.database, token, device_key=KEY, now_s=699)
    assert again.device == lost.device
    assert again.credential != lost.credential
    assert authenticator.known(again.credential) is None
    device = authenticator.look_up(again.credential)
    assert authenticator.known(again.credential) == device
    with pytest.raises(NotEnrolled):
        authenticator.look_up(lost.credential)
    with pytest.raises(NotEnrolled, match="wrong, used or expired"):
        enrol(world.database, token, device_key=KEY, now_s=700)


def test_known_devices_are_read_at_the_start(world: "World") -> None:
    """After preloading, nobody enrolled before costs a question to the database."""
    authenticator = Authenticator(world.database)
    authenticator.preload()
    found = [authenticator.known(credential) for credential in world.credentials]
    assert found == world.devices


def test_memory_is_bounded(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes in memory are dropped when they are too many; everybody is still recognised."""
    monkeypatch.setattr("rase.shuffler.enrolment._MAX_CACHED", 2)
    authenticator = Authenticator(world.database)
    for _ in range(2):
        for device, credential in zip(world.devices, world.credentials, strict=True):
            assert authenticator.look_up(credential) == device
    assert len(authenticator._digests) <= 2


def test_secrets_are_not_stored(world: "World") -> None:
    """Neither token nor credential can be read from the database's files, nor from a repr."""
    (token,) = make_tokens(world.database, 1, expires_s=10**9)
    enrolled = enrol(
        world.database, make_tokens(world.database, 1, expires_s=10)[0], device_key=KEY, now_s=9
    )
    assert enrolled.credential not in repr(enrolled)
    stored = b"".join(path.read_bytes() for path in world.path.parent.iterdir())
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
