"""Ed25519 without any wheel (RFC 8032), for devices that only have pure Python.

Verifying involves no secret. A device computes its public key when it enrols, and signs once for
each token window; how long that takes depends on the secret, so it is not for machines on which
others can measure it.
"""

from hashlib import sha512
from typing import TypeAlias

__all__ = ["is_signed", "public_key_of", "sign"]

# Extended coordinates: x = X/Z, y = Y/Z, x*y = T/Z.
_Point: TypeAlias = tuple[int, int, int, int]

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT_OF_MINUS_ONE = pow(2, (_P - 1) // 4, _P)
_NEUTRAL: _Point = (0, 1, 1, 0)


def is_signed(message: bytes, *, signature: bytes, public_key: bytes) -> bool:
    """Return whether the signature of the message is one by the owner of the public key."""
    if len(signature) != 64 or len(public_key) != 32:
        return False
    key = _point_of(public_key)
    s = int.from_bytes(signature[32:], "little")
    if key is None or s >= _ORDER:
        return False
    digest = sha512(signature[:32] + public_key + message).digest()
    k = int.from_bytes(digest, "little") % _ORDER
    x, y, z, t = key
    # R = [s]B - [k]A, compared as bytes: the form without cofactor that OpenSSL checks too.
    found = _sum(_multiple(s, _base()), _multiple(k, (-x, y, z, -t)))
    return _bytes_of(found) == signature[:32]


def public_key_of(secret: bytes) -> bytes:
    """Return the public key of a secret of 32 bytes.

    Raises:
        ValueError: If the secret does not have 32 bytes.
    """
    scalar, _ = _expand(secret)
    return _bytes_of(_multiple(scalar, _base()))


def sign(message: bytes, secret: bytes) -> bytes:
    """Return the signature of a message by a secret of 32 bytes (RFC 8032, 5.1.6).

    Raises:
        ValueError: If the secret does not have 32 bytes.
    """
    scalar, prefix = _expand(secret)
    nonce = int.from_bytes(sha512(prefix + message).digest(), "little") % _ORDER
    point = _bytes_of(_multiple(nonce, _base()))
    public = _bytes_of(_multiple(scalar, _base()))
    k = int.from_bytes(sha512(point + public + message).digest(), "little") % _ORDER
    return point + ((nonce + k * scalar) % _ORDER).to_bytes(32, "little")


def _expand(secret: bytes) -> tuple[int, bytes]:
    if len(secret) != 32:
        raise ValueError(f"secret must have 32 bytes, got {len(secret)}.")
    digest = sha512(secret).digest()
    # RFC 8032, 5.1.5: three low bits and the highest are cleared, the second highest is set.
    scalar = int.from_bytes(digest[:32], "little") & ~7 & ((1 << 254) - 1) | 1 << 254
    return scalar, digest[32:]


def _point_of(data: bytes) -> _Point | None:
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT_OF_MINUS_ONE % _P
    if (x * x - square) % _P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = _P - x
    return x, y, 1, x * y % _P


def _base() -> _Point:
    point = _point_of((4 * pow(5, -1, _P) % _P).to_bytes(32, "little"))
    assert point is not None  # noqa: S101 (the base point is on the curve)
    return point


def _bytes_of(point: _Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _multiple(scalar: int, point: _Point) -> _Point:
    result = _NEUTRAL
    for place in range(scalar.bit_length() - 1, -1, -1):
        result = _sum(result, result)
        if scalar >> place & 1:
            result = _sum(result, point)
    return result


def _sum(one: _Point, other: _Point) -> _Point:
    # The law is complete on this curve: it also doubles.
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P
