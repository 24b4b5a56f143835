"""HPKE suites by their registered numbers, with sizes and their form in cryptography."""

from hashlib import shake_256
from typing import TYPE_CHECKING, Final, TypeAlias

from rase.errors import Malformed, Unsupported

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.hpke import (
        MLKEM768X25519PrivateKey,
        MLKEM768X25519PublicKey,
        Suite,
    )

    Private: TypeAlias = X25519PrivateKey | MLKEM768X25519PrivateKey
    Public: TypeAlias = X25519PublicKey | MLKEM768X25519PublicKey

__all__ = [
    "AES_128_GCM",
    "CHACHA20_POLY1305",
    "HKDF_SHA256",
    "KEM_NUMBERS",
    "PUBLIC_SIZES",
    "SEED_SIZE",
    "TAG_SIZE",
    "X25519",
    "X_WING",
    "check_suite",
    "enc_size",
    "private_key",
    "public_bytes",
    "public_key",
    "suite",
]

X25519: Final = 0x0020
X_WING: Final = 0x647A  # MLKEM768-X25519
HKDF_SHA256: Final = 0x0001
AES_128_GCM: Final = 0x0001
CHACHA20_POLY1305: Final = 0x0003

KEM_NUMBERS: Final = {"x25519": X25519, "x-wing": X_WING}
PUBLIC_SIZES: Final = {X25519: 32, X_WING: 1216}
SEED_SIZE: Final = 32
TAG_SIZE: Final = 16
_ENC_SIZES = {X25519: 32, X_WING: 1120}
_MLKEM_PUBLIC = 1184


def check_suite(kem: int, kdf: int, aead: int) -> None:
    """Refuse a suite that the protocol does not have.

    Raises:
        Unsupported: If one of the three numbers is unknown; it is named.
    """
    for name, number, known in (
        ("KEM", kem, tuple(_ENC_SIZES)),
        ("KDF", kdf, (HKDF_SHA256,)),
        ("AEAD", aead, (CHACHA20_POLY1305, AES_128_GCM)),
    ):
        if number not in known:
            raise Unsupported(f"HPKE {name} {number:#06x} is not one of this protocol.")


def enc_size(kem: int) -> int:
    """Return how many bytes the encapsulated key takes in front of a ciphertext."""
    return _ENC_SIZES[kem]


def suite(kem: int, aead: int) -> "Suite":
    """Return cryptography's suite.

    Raises:
        ImportError: If cryptography is not there, or older than 48.
    """
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(
        KEM.X25519 if kem == X25519 else KEM.MLKEM768_X25519,
        KDF.HKDF_SHA256,
        AEAD.AES_128_GCM if aead == AES_128_GCM else AEAD.CHACHA20_POLY1305,
    )


def public_key(kem: int, data: bytes) -> "Public":
    """Return cryptography's form of a public key.

    Raises:
        Malformed: If the bytes are not a public key.
        Unsupported: If this cryptography was built without ML-KEM.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    try:
        if kem == X25519:
            return X25519PublicKey.from_public_bytes(data)
        from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
        from cryptography.hazmat.primitives.hpke import MLKEM768X25519PublicKey

        return MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(data[:_MLKEM_PUBLIC]),
            X25519PublicKey.from_public_bytes(data[_MLKEM_PUBLIC:]),
        )
    except UnsupportedAlgorithm:
        raise Unsupported("X-Wing needs a cryptography built with ML-KEM.") from None
    except ValueError:
        raise Malformed("a public key must be one of its kind; this is not.") from None


def private_key(kem: int, seed: bytes) -> "Private":
    """Return cryptography's form of a private key.

    Raises:
        Unsupported: If this cryptography was built without ML-KEM.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    if kem == X25519:
        return X25519PrivateKey.from_private_bytes(seed)
    from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey

    expanded = _expand_seed(seed)
    mlkem = _mlkem(expanded)
    return MLKEM768X25519PrivateKey(mlkem, X25519PrivateKey.from_private_bytes(expanded[64:]))


def public_bytes(kem: int, seed: bytes) -> bytes:
    """Return the public key that belongs to a private one.

    Raises:
        Unsupported: If this cryptography was built without ML-KEM.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    if kem == X25519:
        return X25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    expanded = _expand_seed(seed)
    classic = X25519PrivateKey.from_private_bytes(expanded[64:]).public_key()
    return _mlkem(expanded).public_key().public_bytes_raw() + classic.public_bytes_raw()


def _expand_seed(seed: bytes) -> bytes:
    # draft-connolly-cfrg-xwing-kem, section 5.2: 64 bytes for ML-KEM, 32 for X25519.
    return shake_256(seed).digest(96)


def _mlkem(expanded: bytes) -> "MLKEM768PrivateKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey

    try:
        return MLKEM768PrivateKey.from_seed_bytes(expanded[:64])
    except UnsupportedAlgorithm:
        raise Unsupported("X-Wing needs a cryptography built with ML-KEM.") from None
