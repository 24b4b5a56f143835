"""Keyset and private keys: states, numbers, files, and secrets that stay secret."""

import base64
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cases import each_case

from rase.errors import Malformed, UnknownKey, UnknownVersion, Unsupported, WireError
from rase.wire import cbor
from rase.wire.keys import KeyConfig, Keyset, KeyState, OpeningKey, Role, SigningKey
from rase.wire.private_files import read_private, write_private
from rase.wire.suites import AES_128_GCM, CHACHA20_POLY1305, X25519, X_WING


def config(role: Role = Role.FUSION, key_id: int = 1, **changes: Any) -> KeyConfig:
    """Return a configuration that is right but for the changes."""
    given: dict[str, Any] = {"public_key": bytes(32), "not_before_s": 100, "not_after_s": 200}
    return KeyConfig(**(given | {"role": role, "id": key_id} | changes))


SHUFFLER = config(Role.SHUFFLER, 1)


def keyset(*fusion: KeyConfig) -> Keyset:
    """Return a keyset with these keys of the fusion centre."""
    return Keyset(version=1, cache_s=10, configs=(SHUFFLER, *(fusion or (config(),))))


def test_a_key_is_pending_then_active_then_expired() -> None:
    """Its times decide."""
    states = [config().state(now) for now in (99.9, 100, 199.9, 200)]
    assert states == [KeyState.PENDING, KeyState.ACTIVE, KeyState.ACTIVE, KeyState.EXPIRED]


def test_the_active_key_that_began_last_is_used() -> None:
    """Rotation: the new key takes over as soon as it is active."""
    old, new = config(key_id=1), config(key_id=2, not_before_s=150, not_after_s=300)
    both = keyset(old, new)
    assert [both.active(Role.FUSION, now).id for now in (149, 150, 250)] == [1, 2, 2]
    with pytest.raises(UnknownKey, match="fusion has no active key"):
        both.active(Role.FUSION, 300)
    with pytest.raises(UnknownKey, match="shuffler has no active key"):
        both.active(Role.SHUFFLER, 99)


def test_the_lower_number_wins_between_equals() -> None:
    """All devices choose the same key."""
    assert keyset(config(key_id=4), config(key_id=3)).active(Role.FUSION, 150).id == 3


def test_keys_are_chosen_by_suite() -> None:
    """A campaign names the KEM, a device without cryptography the cipher."""
    wing = config(key_id=2, kem=X_WING, public_key=bytes(1216))
    aes = config(key_id=3, aead=AES_128_GCM, not_before_s=120)
    both = keyset(config(key_id=1), wing, aes)
    assert both.active(Role.FUSION, 150, kem=X_WING).id == 2
    assert both.active(Role.FUSION, 150, kem=X25519).id == 3
    assert both.active(Role.FUSION, 150, kem=X25519, aead=CHACHA20_POLY1305).id == 1


def test_old_numbers_are_accepted_for_twice_the_cache_time() -> None:
    """A report sealed just before rotation still counts; its problem is outdated-config after."""
    keys = keyset()
    assert keys.accepted_key(Role.FUSION, 1, now_s=100).id == 1
    assert keys.accepted_key(Role.FUSION, 1, now_s=219.9).id == 1
    for now, words in ((220, "key 1 of the fusion is expired"), (99, "is pending")):
        with pytest.raises(UnknownKey, match=words) as refused:
            keys.accepted_key(Role.FUSION, 1, now_s=now)
        assert refused.value.problem == "outdated-config"
    with pytest.raises(UnknownKey, match="fusion has no key 2"):
        keys.accepted_key(Role.FUSION, 2, now_s=150)


@each_case(
    ("changes", "words"),
    [
        ({"role": "owner"}, "owner"),
        ({"id": 256}, "id must be a whole number from 0 to 255"),
        ({"id": -1}, "id must be a whole number"),
        ({"id": True}, "id must be a whole number"),
        ({"not_before_s": 200}, "not_before_s must be before"),
        ({"not_after_s": 1.5}, "not_after_s must be a whole number"),
        ({"public_key": bytes(31)}, "public_key must have 32 bytes"),
        ({"public_key": "key"}, "public_key must have 32 bytes"),
        ({"kem": X_WING}, "public_key must have 1216 bytes"),
        ({"role": "shuffler", "kem": X_WING}, "X-Wing is for the inner layer"),
    ],
)
def test_bad_configurations_are_refused(changes: dict[str, Any], words: str) -> None:
    """Each wrong field is named."""
    with pytest.raises(ValueError, match=words):
        config(**changes)


@each_case(
    ("changes", "words"),
    [
        ({"kem": 0x10}, "HPKE KEM 0x0010"),
        ({"kdf": 3}, "HPKE KDF 0x0003"),
        ({"aead": 2}, "HPKE AEAD 0x0002"),
    ],
)
def test_unknown_suites_are_unsupported(changes: dict[str, Any], words: str) -> None:
    """Registered elsewhere does not mean used here."""
    with pytest.raises(Unsupported, match=words):
        config(**changes)


def test_keysets_check_themselves() -> None:
    """Numbers are unique for each server, and both servers have a key."""
    with pytest.raises(ValueError, match="must not use a number twice"):
        keyset(config(), config())
    with pytest.raises(ValueError, match="of the shuffler and of the fusion centre"):
        Keyset(version=1, cache_s=10, configs=(SHUFFLER,))
    with pytest.raises(ValueError, match="version must be"):
        replace(keyset(), version=0)
    with pytest.raises(ValueError, match="cache_s must be"):
        replace(keyset(), cache_s=1.5)  # type: ignore[arg-type]


def test_keysets_come_back() -> None:
    """What is written is read."""
    keys = keyset(config(aead=AES_128_GCM), config(key_id=2, kem=X_WING, public_key=bytes(1216)))
    assert Keyset.from_bytes(keys.to_bytes()) == keys


@each_case(
    ("changes", "words"),
    [
        ({"format": 2}, "keyset format 2 is unknown"),
        ({"colour": 1}, "keyset has unknown fields: colour"),
        ({"configs": 1}, "must be an array of maps"),
        ({"configs": [1]}, "must be an array of maps"),
        ({"configs": [{"id": 1}]}, "key configuration has missing fields: aead"),
        ({"configs": []}, "of the shuffler and of the fusion centre"),
        ({"version": 1.0}, "version must be"),
    ],
)
def test_bad_keysets_are_refused(changes: dict[str, Any], words: str) -> None:
    """Each is a named refusal."""
    fields = cbor.decode(keyset().to_bytes(), max_size=10_000)
    with pytest.raises(WireError, match=words) as refused:
        Keyset.from_bytes(cbor.encode(fields | changes))
    assert isinstance(refused.value, UnknownVersion | Malformed)


@pytest.mark.parametrize(
    "key",
    [
        OpeningKey.generate(Role.FUSION, 3),
        OpeningKey.generate(Role.SHUFFLER, 4, aead=AES_128_GCM),
        OpeningKey.generate(Role.FUSION, 5, kem=X_WING),
        SigningKey.generate(Role.SHUFFLER),
    ],
    ids=["fusion", "aes", "x-wing", "signing"],
)
def test_private_keys_come_back_and_show_nothing(
    key: OpeningKey | SigningKey, tmp_path: Path
) -> None:
    """File and line hold the key; repr and str do not; others cannot read the file."""
    path = tmp_path / "key"
    write_private(path, key.to_text())
    assert path.stat().st_mode & 0o777 == 0o600
    assert type(key).from_text(read_private(path)) == key
    assert pickle.loads(pickle.dumps(key)) == key  # noqa: S301 (to worker processes)
    for shown in (repr(key), str(key), f"{key}"):
        assert key.secret.hex() not in shown
        assert repr(key.secret)[2:12] not in shown
        assert base64.b64encode(key.secret).decode() not in shown
        assert "secret" not in shown


def test_generated_keys_differ() -> None:
    """Fresh randomness each time: 32 bytes are never drawn twice (false alarms below 1e-70)."""
    assert OpeningKey.generate(Role.FUSION, 1).secret != OpeningKey.generate(Role.FUSION, 1).secret
    assert SigningKey.generate(Role.FUSION).secret != SigningKey.generate(Role.FUSION).secret


@each_case(
    "text",
    [
        "",
        "RASE-SECRET-KEY-1 ",
        "RASE-SECRET-KEY-1 !!!",
        "RASE-SECRET-KEY-1 AAAA",
        "RASE-SECRET-KEY-1 " + base64.b64encode(bytes(2000)).decode(),
        "RASE-SECRET-KEY-1 é",
        SigningKey.generate(Role.FUSION).to_text(),
    ],
)
def test_other_files_are_refused_without_quoting_them(text: str) -> None:
    """The message never repeats what may be a secret."""
    with pytest.raises(Malformed) as refused:
        OpeningKey.from_text(text)
    assert text[18:26].strip() not in str(refused.value) or not text[18:].strip()


def test_a_key_of_the_other_kind_or_with_wrong_fields_is_refused() -> None:
    """Kind and secret are checked."""
    body = {"format": 1, "kind": "opening", "role": "fusion", "secret": bytes(32)}
    for changes, words in (
        ({}, "must hold a key for signing"),
        ({"kind": "signing", "secret": bytes(31)}, "must hold one signing key"),
        ({"kind": "signing", "role": 5}, "must hold one signing key"),
    ):
        line = base64.b64encode(cbor.encode(body | changes)).decode()
        with pytest.raises(Malformed, match=words):
            SigningKey.from_text(f"RASE-SECRET-KEY-1 {line}")
