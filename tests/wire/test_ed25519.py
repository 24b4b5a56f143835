"""Ed25519 in pure Python agrees with cryptography, on good and bad signatures."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.cases import each_case

from rase.wire.ed25519 import is_signed, public_key_of

# RFC 8032, section 7.1: secret key, public key, message, signature.
RFC_8032 = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
            "d25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
            "387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
]


@each_case(("public", "message", "signature"), RFC_8032)
def test_the_published_vectors_hold(public: str, message: str, signature: str) -> None:
    """RFC 8032's own examples are accepted, and nothing near them."""
    good = bytes.fromhex(signature)
    key, text = bytes.fromhex(public), bytes.fromhex(message)
    assert is_signed(text, signature=good, public_key=key)
    assert not is_signed(text + b"x", signature=good, public_key=key)
    for place in (0, 31, 32, 63):
        bad = bytearray(good)
        bad[place] ^= 1
        assert not is_signed(text, signature=bytes(bad), public_key=key)


def test_signatures_of_cryptography_are_accepted() -> None:
    """Random keys and messages."""
    source = np.random.default_rng(2026)
    for size in range(8):
        key = Ed25519PrivateKey.from_private_bytes(source.bytes(32))
        message = source.bytes(size * 37)
        public = key.public_key().public_bytes_raw()
        signature = key.sign(message)
        assert is_signed(message, signature=signature, public_key=public)
        other = bytes([public[0] ^ 1]) + public[1:]
        assert not is_signed(message, signature=signature, public_key=other)


def test_malformed_keys_and_signatures_are_refused() -> None:
    """Wrong sizes, points off the curve, numbers out of range, and malleable signatures."""
    public, _, signature = RFC_8032[0]
    key, good = bytes.fromhex(public), bytes.fromhex(signature)
    order = 2**252 + 27742317777372353535851937790883648493
    shifted = (int.from_bytes(good[32:], "little") + order).to_bytes(32, "little")
    for bad_signature, bad_key in (
        (good[:63], key),
        (good, key[:31]),
        (good[:32] + shifted, key),
        (good, b"\xff" * 32),
        (good, b"\x02" + bytes(31)),
        (good, b"\x01" + bytes(30) + b"\x80"),
    ):
        assert not is_signed(b"", signature=bad_signature, public_key=bad_key)


# RFC 8032, section 7.1: secret and public key of tests 1 to 3.
KEYS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
    ),
]


@each_case(("secret", "public"), KEYS)
def test_a_secret_has_the_published_key(secret: str, public: str) -> None:
    """The public keys are those of RFC 8032."""
    assert public_key_of(bytes.fromhex(secret)).hex() == public


def test_public_keys_are_those_of_cryptography() -> None:
    """For random secrets both ways give the same key; another length is refused."""
    rng = np.random.default_rng(20)
    for _ in range(20):
        secret = rng.bytes(32)
        expected = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        assert public_key_of(secret) == expected
    with pytest.raises(ValueError, match="secret must have 32 bytes, got 31"):
        public_key_of(bytes(31))
