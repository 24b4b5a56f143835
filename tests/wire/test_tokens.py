"""Token keys, requests and the device's batch: fixed meaning, refusals by name."""

from dataclasses import replace

import pytest
from tests.cases import each_case
from tests.registering import REGISTRAR_KEY, REGISTRAR_SECRET, Registrar, issuer

from rase.errors import BadSignature, Malformed
from rase.wire import cbor, ed25519
from rase.wire.issuing import TokenVerifier, raise_all
from rase.wire.keys import Role, SigningKey
from rase.wire.signed import PinnedKeys, public_key_of, sign_with
from rase.wire.tokens import (
    SignedTokenKey,
    TokenKey,
    TokenRequest,
    is_certified,
    key_in_round,
    requests_bytes,
    requests_from_bytes,
    spent_tag,
    token_keys_from_bytes,
)
from rase.wire.wallet import TokenBatch

SHUFFLER = SigningKey(role=Role.SHUFFLER, secret=bytes([2]) * 32)
FUSION = SigningKey(role=Role.FUSION, secret=bytes([1]) * 32)
PINNED = PinnedKeys(FUSION.public_bytes(), SHUFFLER.public_bytes(), REGISTRAR_KEY)


@pytest.fixture(scope="module")
def registrar() -> Registrar:
    """A registrar with two windows."""
    made = Registrar(SHUFFLER, "homes", 3600)
    made.window(10, 33, reports=3)
    made.window(34, 57, reports=3, number=1)
    return made


def test_keys_come_back_with_both_signatures(registrar: Registrar) -> None:
    """What is published is read as it was made; a round has at most one key."""
    keys = [one.key for one in token_keys_from_bytes(registrar.published(), PINNED)]
    assert keys == [one.key for one in registrar.windows]
    assert key_in_round(keys, "homes", 33) == keys[0]
    assert key_in_round(keys, "homes", 9) is None
    assert key_in_round(keys, "flats", 33) is None


def test_a_key_that_one_of_them_did_not_sign_is_none(registrar: Registrar) -> None:
    """Neither gives a device a key of its own, nor does another registrar."""
    signed = registrar.windows[0]
    for forged in (
        replace(signed, registrar_signature=bytes(64)),
        replace(signed, shuffler_signature=bytes(64)),
        replace(signed, key=replace(signed.key, reports=99)),
    ):
        with pytest.raises(BadSignature):
            SignedTokenKey.from_bytes(forged.to_bytes(), PINNED)
    with pytest.raises(BadSignature):
        SignedTokenKey.from_bytes(signed.to_bytes(), replace(PINNED, registrar=bytes(32)))


@each_case(
    "changes",
    [
        {"campaign": ""},
        {"campaign": 5},
        {"last_round": 9},
        {"reports": 0},
        {"reports": 10**6},
        {"issue_until_s": -1},
        {"modulus": bytes(256)},
        {"modulus": bytes([0x80]) + bytes(255)},
        {"modulus": bytes([0x80]) + bytes(253) + b"\1"},
    ],
)
def test_bad_keys_are_refused(registrar: Registrar, changes: dict[str, object]) -> None:
    """An even or short modulus could make signatures that tell devices apart."""
    key = registrar.windows[0].key
    body = cbor.decode(key.to_bytes(), max_size=4096) | changes
    with pytest.raises(Malformed):
        TokenKey.from_bytes(cbor.encode(body))


@each_case(
    "data",
    [
        [],
        ["rase/2 token keys"],
        ["rase/2 token keys", 5],
        ["rase/2 token keys", [5]],
        ["rase/2 token keys", [cbor.encode(5)]],
        ["rase/2 token keys", [cbor.encode(["x", b"", b"", b""])]],
    ],
)
def test_bad_documents_are_refused(data: object) -> None:
    """By name."""
    with pytest.raises(Malformed):
        token_keys_from_bytes(cbor.encode(data), PINNED)


def test_a_batch_follows_from_its_seed(registrar: Registrar) -> None:
    """The same request each time, with any way of computing; the tokens are those of the key."""
    key, other = (one.key for one in registrar.windows)
    batch = TokenBatch(key, bytes(32))
    request = batch.request(bytes([5]) * 32)
    quick = TokenBatch(key, bytes(32), raise_all=raise_all(key.modulus))
    assert quick.request(bytes([5]) * 32) == request
    assert request.is_signed()
    assert not replace(request, first_round=34).is_signed()
    (read,) = requests_from_bytes(requests_bytes([request]), max_size=1 << 20)
    assert read == request
    signatures = [issuer(0).sign(one) for one in request.blinded]
    tokens = batch.open(signatures)
    assert tokens == sorted(tokens) == quick.open(signatures)
    assert len(set(map(spent_tag, tokens))) == key.reports
    for token in tokens:
        assert TokenVerifier(key.modulus).is_signed(token[:32], token[32:])
        assert not TokenVerifier(other.modulus).is_signed(token[:32], token[32:])
    with pytest.raises(ValueError, match="one by this key"):
        batch.open([issuer(1).sign(bytes(256)), *signatures[1:]])
    with pytest.raises(ValueError, match="must be 3, got 2"):
        batch.open(signatures[1:])


@each_case(
    "item",
    [
        5,
        [],
        [b"k" * 31, "homes", 1, [], b""],
        [b"k" * 32, "homes", 1, [b"short"], b""],
        [b"k" * 32, "homes", "1", [], b""],
    ],
)
def test_bad_requests_are_refused(item: object) -> None:
    """By name."""
    with pytest.raises(Malformed, match="request must"):
        requests_from_bytes(cbor.encode([item]), max_size=1 << 20)
    with pytest.raises(Malformed, match="array of requests"):
        requests_from_bytes(cbor.encode([]), max_size=1 << 20)


def test_pure_signatures_are_those_of_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device without the wheel signs its requests with the same bytes (RFC 8032)."""
    secret = bytes(range(32))
    assert ed25519.sign(b"request", secret) == sign_with(secret, b"request")
    with monkeypatch.context() as bare:
        bare.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.asymmetric", None)
        bare.setitem(
            __import__("sys").modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None
        )
        assert sign_with(secret, b"request") == ed25519.sign(b"request", secret)
        assert public_key_of(secret) == ed25519.public_key_of(secret)


def test_a_certificate_is_by_the_registrar_and_for_one_key() -> None:
    """Neither another's signature nor another device's certificate counts."""
    own = sign_with(REGISTRAR_SECRET, b"rase/2 device\0" + bytes(32))
    assert is_certified(bytes(32), own, PINNED)
    assert not is_certified(bytes([1]) * 32, own, PINNED)
    assert not is_certified(bytes(32), SHUFFLER.sign(b"rase/2 device\0" + bytes(32)), PINNED)
    assert not is_certified(bytes(32), own, replace(PINNED, registrar=bytes(32)))


def test_three_parties_have_three_keys() -> None:
    """Whoever holds two of them would be two parties."""
    with pytest.raises(ValueError, match="registrar must have a key that neither"):
        replace(PINNED, registrar=PINNED.shuffler)
    with pytest.raises(ValueError, match="registrar must be the 32 bytes"):
        replace(PINNED, registrar=b"short")


def test_a_request_names_its_device() -> None:
    """Nothing of it may be moved to another device, campaign or window."""
    request = TokenRequest(bytes(32), "homes", 5, (bytes(256),))
    changes = [{"device_key": bytes([1]) * 32}, {"campaign": "flats"}, {"first_round": 6}]
    inputs = {replace(request, **one).signing_input() for one in changes}  # type: ignore[arg-type]
    assert len(inputs | {request.signing_input()}) == 4
