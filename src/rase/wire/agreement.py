"""How a device and the shuffler agree, once, on the key behind the tags of its reports.

Whoever ends TLS sees an enrolment as it sees every request, so neither the token nor what comes of
it may travel. Both ends know the token, which the operator gave by another way: the device
shows its public part and a proof. The secret of the credential comes from a Diffie-Hellman exchange
of the device's own key with a key that the intake makes for this one answer, bound to the token; so
who sees the exchange cannot compute it, who answers without the token is not believed, and who
learns the token afterwards cannot open what was agreed. The device's key is Ed25519; the exchange
uses the same secret on the curve's other form (RFC 7748, 4.1), as libsodium does.
"""

import base64
import binascii
import hmac
from hashlib import sha512
from typing import Final, NamedTuple

from rase.errors import Malformed
from rase.wire.frames import credential_key

__all__ = ["Agreement", "Applicant", "Application", "agree", "is_proven", "read_key"]

_PROOF: Final = b"rase/2 enrolment\0"
_SECRET: Final = b"rase/2 device secret\0"
_CONFIRMED: Final = b"rase/2 enrolled\0"
_KEY_BYTES: Final = 32
_P: Final = 2**255 - 19
_BASE_POINT: Final = b"\x09" + bytes(31)


class Application(NamedTuple):
    """What a device sends to enrol; all are texts of JSON, bytes in base64url.

    Args:
        token: The public part of its token.
        device_key: Its public Ed25519 key.
        proof: Proves that it has the rest of the token, for this device key alone.
    """

    token: str
    device_key: str
    proof: str


class Agreement(NamedTuple):
    """What the shuffler answers; none of it is secret.

    Args:
        device: The device's handle.
        server_key: The public X25519 key that was made for this answer.
        proof: Proves that whoever answered has the token, and agreed on the same secret.
    """

    device: str
    server_key: str
    proof: str

    @classmethod
    def of(cls, device: str, *, server_key: bytes, key: bytes) -> "Agreement":
        """Return the answer to a device.

        Args:
            device: Its handle.
            server_key: The intake's public half of the exchange.
            key: The hash by which the shuffler knows the device's secret.
        """
        return cls(device, _text(server_key), _confirmation(key, device, server_key))


class Applicant:
    """A device that enrols.

    Args:
        token: As the operator gave it.
        secret: The device's own Ed25519 secret of 32 bytes.

    Raises:
        ValueError: If the token is none.
    """

    def __init__(self, token: str, secret: bytes) -> None:
        name, _, rest = token.partition(".")
        if not name or not rest:
            raise ValueError("token must be the line that rase shuffler enrol prints.")
        self._token_key = credential_key(rest)
        self._secret = secret
        self._device_key = _public_key_of(secret)
        self.application = Application(
            name, _text(self._device_key), _text(_proof(self._token_key, name, self._device_key))
        )

    def credential(self, agreement: Agreement) -> str:
        """Return the device's credential; it never was on any wire.

        Raises:
            Malformed: If the answer was not made by somebody who knows the token.
        """
        server_key = read_key(agreement.server_key)
        shared = _multiply(sha512(self._secret).digest()[:32], server_key)
        secret = _derive(self._token_key, shared, self._device_key, server_key)
        expected = _confirmation(credential_key(secret), agreement.device, server_key)
        if not hmac.compare_digest(expected.encode(), agreement.proof.encode()):
            raise Malformed("the answer to the enrolment is not by who made the token.")
        return f"{agreement.device}.{secret}"


def is_proven(application: Application, token_key: bytes) -> bool:
    """Return whether an application was made by who knows the whole token.

    Args:
        application: What a device sent.
        token_key: The hash by which the shuffler knows the secret part of the token.

    Raises:
        Malformed: If the device key is none.
    """
    device_key = read_key(application.device_key)
    expected = _text(_proof(token_key, application.token, device_key))
    return hmac.compare_digest(expected.encode(), application.proof.encode())


def agree(application: Application, token_key: bytes) -> tuple[bytes, bytes]:
    """Return the intake's public half of an exchange, and the hash of the secret that it gives.

    The private half is made here and forgotten with the return.

    Args:
        application: What a device sent, proven.
        token_key: The hash by which the shuffler knows the secret part of the token.

    Raises:
        Malformed: If the device key is none that anybody can have.
    """
    from secrets import token_bytes

    device_key = read_key(application.device_key)
    own = token_bytes(_KEY_BYTES)
    server_key = _multiply(own, _BASE_POINT)
    shared = _multiply(own, _montgomery(device_key))
    return server_key, credential_key(_derive(token_key, shared, device_key, server_key))


def read_key(text: str) -> bytes:
    """Read a public key of 32 bytes.

    Raises:
        Malformed: If the text is none.
    """
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != _KEY_BYTES:
        raise Malformed("device_key must be the 32 bytes of a public Ed25519 key in base64url.")
    return key


def _proof(token_key: bytes, name: str, device_key: bytes) -> bytes:
    return hmac.digest(token_key, _PROOF + name.encode() + b"\0" + device_key, "sha256")


def _derive(token_key: bytes, shared: bytes, device_key: bytes, server_key: bytes) -> str:
    # HKDF (RFC 5869) with one block; the token's key is the salt.
    extracted = hmac.digest(token_key, shared, "sha256")
    return _text(hmac.digest(extracted, _SECRET + device_key + server_key + b"\x01", "sha256"))


def _confirmation(key: bytes, device: str, server_key: bytes) -> str:
    message = _CONFIRMED + device.encode() + b"\0" + server_key
    return _text(hmac.digest(key, message, "sha256"))


def _montgomery(edwards: bytes) -> bytes:
    """Return the same point on the curve of X25519: u = (1 + y) / (1 - y)."""
    y = int.from_bytes(edwards, "little") & ((1 << 255) - 1)
    # Fermat's inverse is 0 for the point without one, whose product is 0 and refused below.
    return ((1 + y) * pow(1 - y, _P - 2, _P) % _P).to_bytes(32, "little")


def _multiply(scalar: bytes, point: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError:
        from rase.wire.pure import x25519 as multiply

        product = multiply(scalar, point)
    else:
        own = x25519.X25519PrivateKey.from_private_bytes(scalar)
        try:
            product = own.exchange(x25519.X25519PublicKey.from_public_bytes(point))
        except ValueError:
            product = bytes(_KEY_BYTES)
    if product == bytes(_KEY_BYTES):
        raise Malformed("device_key and server_key must be keys that somebody can have.")
    return product


def _public_key_of(secret: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        from rase.wire.ed25519 import public_key_of

        return public_key_of(secret)
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
