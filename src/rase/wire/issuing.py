"""Blind RSA signatures after RFC 9474 on servers: keys, signing blinded messages, verifying tokens.

Signing is OpenSSL's private operation, reached through ctypes because `cryptography` offers none
without padding; it is 15 times as fast as Python's, of constant time and blinded. Where the system
has no libcrypto, Python does the same with blinding of its own. Either way the result is checked
before it leaves: a fault in the arithmetic of primes would give the key away.
"""

import ctypes
import ctypes.util
import secrets
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha384
from threading import Lock
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)

from rase.errors import Malformed
from rase.wire.blind import EXPONENT, inverses

__all__ = ["ISSUING_BITS", "Issuer", "TokenVerifier", "has_libcrypto", "raise_all", "verifier_of"]

ISSUING_BITS: Final = 2048
_SALT_SIZE: Final = 48
_PADDING: Final = padding.PSS(padding.MGF1(hashes.SHA384()), _SALT_SIZE)
_HASH: Final = Prehashed(hashes.SHA384())
# The numbers of OpenSSL.
_NO_PADDING: Final = 3
_PSS: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class Issuer:
    """Sign blinded messages with one private key; it never shows it.

    Args:
        key: The key.
        uses_libcrypto: Whether OpenSSL's private operation may be used.
    """

    key: rsa.RSAPrivateKey = field(repr=False)
    uses_libcrypto: bool = True
    _operation: Any = field(init=False, repr=False)
    _check: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Prepare the operation once."""
        if self.key.public_key().public_numbers().e != EXPONENT:
            raise ValueError(f"key must have the exponent {EXPONENT}.")
        library = _libcrypto() if self.uses_libcrypto else None
        private: Any = _PythonPrivate(self.key)
        check: Any = _PythonPublic(self.modulus)
        if library is not None:
            private = _Operation(library, _private_der(self.key), is_private=True)
            check = _Operation(library, _public_der(self.key.public_key()), is_private=False)
        object.__setattr__(self, "_operation", private)
        object.__setattr__(self, "_check", check)

    @classmethod
    def generate(cls) -> "Issuer":
        """Return a fresh key."""
        return cls(rsa.generate_private_key(EXPONENT, ISSUING_BITS))

    @classmethod
    def from_der(cls, data: bytes) -> "Issuer":
        """Read what `to_der` wrote.

        Raises:
            Malformed: If it is no such key.
        """
        try:
            key = load_der_private_key(data, None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise Malformed("an issuing key must be an RSA key in DER; this is not.")
        return cls(key)

    def to_der(self) -> bytes:
        """Return the private key, to be kept where nobody else can read."""
        return _private_der(self.key)

    @property
    def modulus(self) -> int:
        """The public key."""
        return self.key.public_key().public_numbers().n

    def sign(self, blinded: bytes) -> bytes:
        """Return the signature of a blinded message, which says nothing of what is inside.

        Raises:
            Malformed: If it is not a number below the modulus.
            RuntimeError: If the result is wrong: the machine has a fault, and nothing leaves it.
        """
        size = (self.modulus.bit_length() + 7) // 8
        if len(blinded) != size or int.from_bytes(blinded, "big") >= self.modulus:
            raise Malformed("a blinded message must be a number below the key's modulus.")
        signed: bytes = self._operation(blinded)
        if self._check(signed) != blinded:
            raise RuntimeError("an issuing key computed a wrong signature; nothing was answered.")
        return signed


class TokenVerifier:
    """Verify the tokens of one issuing key.

    Args:
        modulus: The public key.
        uses_libcrypto: Whether OpenSSL may be reached directly, which takes a sixth less.
    """

    def __init__(self, modulus: bytes, *, uses_libcrypto: bool = True) -> None:
        number = int.from_bytes(modulus, "big")
        self._key = rsa.RSAPublicNumbers(EXPONENT, number).public_key()
        library = _libcrypto() if uses_libcrypto else None
        # The same check by the same library, without making its context again for each token.
        self._check = None if library is None else _Check(library, _public_der(self._key))

    def is_signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether the signature of the message is one by the key."""
        digest = sha384(message).digest()
        if self._check is not None:
            return self._check(digest, signature)
        try:
            self._key.verify(signature, digest, _PADDING, _HASH)
        except InvalidSignature:
            return False
        return True


@cache
def verifier_of(modulus: bytes) -> TokenVerifier:
    """Return the verifier of a key; few are in use at a time."""
    return TokenVerifier(modulus)


def has_libcrypto() -> bool:
    """Return whether OpenSSL's private operation can be reached here."""
    return _libcrypto() is not None


@cache
def raise_all(modulus: bytes) -> Any:
    """Return what raises numbers to the public exponent, by OpenSSL where it is there.

    A gateway blinds for thousands of devices; Python takes six times as long.
    """
    number, library = int.from_bytes(modulus, "big"), _libcrypto()
    if library is None:
        return _PythonPublic(number)
    public = rsa.RSAPublicNumbers(EXPONENT, number).public_key()
    return _Operation(library, _public_der(public), is_private=False)


class _PythonPublic:
    def __init__(self, modulus: int) -> None:
        self._modulus = modulus

    def __call__(self, data: bytes) -> bytes:
        number = pow(int.from_bytes(data, "big"), EXPONENT, self._modulus)
        return number.to_bytes(len(data), "big")


class _PythonPrivate:
    """The private operation by the Chinese remainder theorem, on a number nobody else knows."""

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        numbers = key.private_numbers()
        self._modulus = numbers.public_numbers.n
        self._p, self._q = numbers.p, numbers.q
        self._dp, self._dq, self._qinv = numbers.dmp1, numbers.dmq1, numbers.iqmp

    def __call__(self, data: bytes) -> bytes:
        # How long Python takes depends on the number, and whoever asks chose it: it is hidden.
        factor = secrets.randbelow(self._modulus - 2) + 2
        number = int.from_bytes(data, "big") * pow(factor, EXPONENT, self._modulus) % self._modulus
        of_p, of_q = pow(number, self._dp, self._p), pow(number, self._dq, self._q)
        found = of_q + (of_p - of_q) * self._qinv % self._p * self._q
        (inverse,) = inverses([factor], self._modulus)
        return (found * inverse % self._modulus).to_bytes(len(data), "big")


class _Operation:
    """An RSA operation of OpenSSL without padding."""

    def __init__(self, library: Any, der: bytes, *, is_private: bool) -> None:
        pointer = ctypes.c_char_p(der)
        read = library.d2i_AutoPrivateKey if is_private else library.d2i_PUBKEY
        self._key = read(None, ctypes.byref(pointer), len(der))
        self._context = library.EVP_PKEY_CTX_new(self._key, None) if self._key else None
        name = "decrypt" if is_private else "encrypt"
        begin = getattr(library, f"EVP_PKEY_{name}_init")
        self._run = getattr(library, f"EVP_PKEY_{name}")
        self._library = library
        if (
            not self._context
            or begin(self._context) != 1
            or library.EVP_PKEY_CTX_set_rsa_padding(self._context, _NO_PADDING) != 1
        ):
            raise RuntimeError("libcrypto cannot use an RSA key.")
        self._size = library.EVP_PKEY_get_size(self._key)
        # Threads must not use one context at a time, and ctypes lets them run.
        self._lock = Lock()

    def __del__(self) -> None:
        """Erase and free the key."""
        if getattr(self, "_context", None):
            self._library.EVP_PKEY_CTX_free(self._context)
            self._library.EVP_PKEY_free(self._key)

    def __call__(self, data: bytes) -> bytes:
        out = ctypes.create_string_buffer(self._size)
        length = ctypes.c_size_t(self._size)
        with self._lock:
            done = self._run(self._context, out, ctypes.byref(length), data, len(data))
        if done != 1:
            raise RuntimeError("libcrypto refuses an RSA operation.")
        return out.raw[: length.value]


class _Check:
    """OpenSSL's check of a signature by PSS with SHA-384 and 48 bytes of salt."""

    def __init__(self, library: Any, der: bytes) -> None:
        pointer = ctypes.c_char_p(der)
        self._key = library.d2i_PUBKEY(None, ctypes.byref(pointer), len(der))
        self._context = library.EVP_PKEY_CTX_new(self._key, None) if self._key else None
        self._library = library
        if (
            not self._context
            or library.EVP_PKEY_verify_init(self._context) != 1
            or library.EVP_PKEY_CTX_set_rsa_padding(self._context, _PSS) != 1
            or library.EVP_PKEY_CTX_set_signature_md(self._context, library.EVP_sha384()) != 1
            or library.EVP_PKEY_CTX_set_rsa_pss_saltlen(self._context, _SALT_SIZE) != 1
        ):
            raise RuntimeError("libcrypto cannot verify.")
        self._run = library.EVP_PKEY_verify
        self._lock = Lock()

    def __del__(self) -> None:
        """Free the key."""
        if getattr(self, "_context", None):
            self._library.EVP_PKEY_CTX_free(self._context)
            self._library.EVP_PKEY_free(self._key)

    def __call__(self, digest: bytes, signature: bytes) -> bool:
        with self._lock:
            found = self._run(self._context, signature, len(signature), digest, len(digest))
        return bool(found == 1)


@cache
def _libcrypto() -> Any:
    """Return OpenSSL 3's libcrypto if the system has one that works; None otherwise."""
    for name in ("libcrypto.so.3", ctypes.util.find_library("crypto")):
        try:
            library = ctypes.CDLL(name) if name else None
            if library is None:
                continue
            _declare(library)
        except (OSError, AttributeError):
            continue
        return library
    return None


def _declare(library: Any) -> None:
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    for name in ("d2i_AutoPrivateKey", "d2i_PUBKEY"):
        function = getattr(library, name)
        function.restype = pointer
        function.argtypes = [pointer, ctypes.POINTER(ctypes.c_char_p), ctypes.c_long]
    library.EVP_PKEY_CTX_new.restype = pointer
    library.EVP_PKEY_CTX_new.argtypes = [pointer, pointer]
    library.EVP_PKEY_CTX_set_rsa_padding.argtypes = [pointer, number]
    library.EVP_PKEY_get_size.argtypes = [pointer]
    library.EVP_sha384.restype = pointer
    library.EVP_PKEY_verify_init.argtypes = [pointer]
    library.EVP_PKEY_CTX_set_signature_md.argtypes = [pointer, pointer]
    library.EVP_PKEY_CTX_set_rsa_pss_saltlen.argtypes = [pointer, number]
    library.EVP_PKEY_verify.argtypes = [pointer, ctypes.c_char_p, size, ctypes.c_char_p, size]
    for name in ("EVP_PKEY_CTX_free", "EVP_PKEY_free"):
        getattr(library, name).argtypes = [pointer]
        getattr(library, name).restype = None
    for name in ("decrypt", "encrypt"):
        getattr(library, f"EVP_PKEY_{name}_init").argtypes = [pointer]
        function = getattr(library, f"EVP_PKEY_{name}")
        function.argtypes = [pointer, ctypes.c_char_p, ctypes.POINTER(size), ctypes.c_char_p, size]


def _private_der(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _public_der(key: rsa.RSAPublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
