"""Seal a report without any wheel: X25519, HKDF-SHA256, ChaCha20-Poly1305 and HPKE (RFC 9180).

One file to copy: it runs unchanged on CPython and MicroPython and imports nothing but hashlib,
struct and os. It takes about thirty times as long as cryptography, and its time depends on the
ephemeral key, which is used once; so it seals on devices, and never opens.
"""

import struct
from hashlib import sha256

__all__ = ["authorization_of", "hpke_seal", "random_bytes", "seal_report", "x25519"]

_P = 2**255 - 19
_KEM = b"KEM\x00\x20"
_SUITE = b"HPKE\x00\x20\x00\x01\x00\x03"
_MASK = 0xFFFFFFFF
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def seal_report(
    round: int,
    place: int,
    *,
    epsilon_class: int,
    is_cover: bool,
    campaign_hash: bytes,
    shuffler_id: int,
    shuffler_key: bytes,
    fusion_id: int,
    fusion_key: bytes,
    keyset: int,
    entropy: bytes = b"",
    block_start: int = -1,
    label: int = 0,
    token: bytes = b"",
) -> bytes:
    """Return the 437 bytes of a report; ``entropy`` is 64 fresh secret bytes, or the system's.

    ``keyset`` is the number of the keyset that both keys are from.
    Where the campaign carries rounds, ``block_start`` is the first round of the report's block. A
    registrar's ``token`` has 288 bytes, see blind.py; without one no fusion centre that has a
    registrar counts the report.
    """
    entropy = entropy or random_bytes(64)
    if len(entropy) != 64 or len(campaign_hash) != 32 or len(token) not in (0, 288):
        raise ValueError("entropy must be 64 bytes, campaign_hash 32 and token 288 or none.")
    first = round if block_start < 0 else block_start
    content = struct.pack(">BBqI", 2, epsilon_class, place, first) + bytes(18)
    content += token or bytes(288)
    if is_cover:
        # No fusion centre counts this; the shuffler's closer reads the mark and drops it.
        content = bytes(320)
    info = b"rase/2 inner" + campaign_hash + struct.pack(">I", first)
    inner = hpke_seal(fusion_key, info, content, entropy[:32])
    header = bytes((2, shuffler_id)) + campaign_hash[:8] + struct.pack(">II", round, keyset)
    info = b"rase/2 outer" + campaign_hash + header
    mark = bytes((int(is_cover), label, fusion_id))
    return header + hpke_seal(shuffler_key, info, mark + inner, entropy[32:])


def authorization_of(report: bytes, credential: str) -> str:
    """Return the header Authorization of a report: the tag proves its device, and no other."""
    handle, secret = credential.split(".")
    key = sha256(b"rase/1 credential\0" + secret.encode()).digest()
    tag = _hmac(key, b"rase/2 report\0" + handle.encode() + b"\0" + report)[:16]
    return "RASE " + handle + "." + tag.hex()


def random_bytes(count: int) -> bytes:
    """Return secret bytes of the system, or refuse where it has none (MicroPython in a browser)."""
    try:
        from os import urandom
    except ImportError:
        raise RuntimeError("this system has no os.urandom: pass entropy.")  # noqa: B904
    return urandom(count)


def hpke_seal(
    public_key: bytes, info: bytes, plaintext: bytes, ephemeral: bytes, aad: bytes = b""
) -> bytes:
    """Return ``enc || ciphertext`` of HPKE base mode, single shot; never reuse ``ephemeral``."""
    enc = x25519(ephemeral, b"\x09" + bytes(31))
    shared = x25519(ephemeral, public_key)
    if shared == bytes(32):
        raise ValueError("public_key must not be a point of small order.")
    prk = _extract(b"", _KEM, b"eae_prk", shared)
    secret = _expand(prk, _KEM, b"shared_secret", enc + public_key, 32)
    context = b"\x00" + _extract(b"", _SUITE, b"psk_id_hash", b"")
    context += _extract(b"", _SUITE, b"info_hash", info)
    secret = _extract(secret, _SUITE, b"secret", b"")
    key = _expand(secret, _SUITE, b"key", context, 32)
    nonce = _expand(secret, _SUITE, b"base_nonce", context, 12)
    return enc + _aead_seal(key, nonce, plaintext, aad)


def x25519(scalar: bytes, point: bytes) -> bytes:
    """Return the product of a secret scalar and a point (RFC 7748)."""
    k = int.from_bytes(scalar, "little") & ((1 << 255) - 8) | (1 << 254)
    x1 = int.from_bytes(point, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in range(254, -1, -1):
        bit = (k >> t) & 1
        if swap != bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swap = bit
        a, b = x2 + z2, x2 - z2
        da, cb = (x3 - z3) * a % _P, (x3 + z3) * b % _P
        aa, bb = a * a % _P, b * b % _P
        e, plus, minus = aa - bb, da + cb, da - cb
        x3, z3 = plus * plus % _P, minus * minus % _P * x1 % _P
        x2, z2 = aa * bb % _P, e * (aa + 121665 * e) % _P
    # Bit 0 of a clamped scalar is 0, so the two points stand unswapped here.
    return (x2 * _inverse(z2) % _P).to_bytes(32, "little")


def _inverse(z: int) -> int:
    # z^(p-2) by hand: not every MicroPython has pow with three arguments. p-2 = 2^255 - 21.
    result, exponent = 1, _P - 2
    while exponent:
        if exponent & 1:
            result = result * z % _P
        z = z * z % _P
        exponent >>= 1
    return result


def _hmac(key: bytes, message: bytes) -> bytes:
    padded = key + bytes(64 - len(key))
    inner = sha256(bytes([byte ^ 0x36 for byte in padded]) + message).digest()
    return sha256(bytes([byte ^ 0x5C for byte in padded]) + inner).digest()


def _extract(salt: bytes, suite: bytes, label: bytes, secret: bytes) -> bytes:
    return _hmac(salt, b"HPKE-v1" + suite + label + secret)


def _expand(prk: bytes, suite: bytes, label: bytes, info: bytes, size: int) -> bytes:
    # One block of HMAC-SHA256 is enough for all sizes used here.
    labelled = struct.pack(">H", size) + b"HPKE-v1" + suite + label + info
    return _hmac(prk, labelled + b"\x01")[:size]


def _aead_seal(key: bytes, nonce: bytes, plaintext: bytes, aad: bytes) -> bytes:
    text = b""
    for start in range(0, len(plaintext), 64):
        chunk = plaintext[start : start + 64]
        stream = _chacha20(key, nonce, 1 + start // 64)
        text += bytes([chunk[i] ^ stream[i] for i in range(len(chunk))])
    lengths = struct.pack("<QQ", len(aad), len(text))
    padded = aad + bytes(-len(aad) % 16) + text + bytes(-len(text) % 16) + lengths
    return text + _poly1305(_chacha20(key, nonce, 0)[:32], padded)


def _chacha20(key: bytes, nonce: bytes, counter: int) -> bytes:
    start = struct.unpack("<4I", b"expand 32-byte k") + struct.unpack("<8I", key)
    start += struct.unpack("<4I", struct.pack("<I", counter) + nonce)
    s = list(start)
    for _ in range(10):
        for a, b, c, d in _COLUMNS + _DIAGONALS:
            # Written out: a call for each rotation would double the time.
            s[a] = (s[a] + s[b]) & _MASK
            x = s[d] ^ s[a]
            s[d] = (x << 16 | x >> 16) & _MASK
            s[c] = (s[c] + s[d]) & _MASK
            x = s[b] ^ s[c]
            s[b] = (x << 12 | x >> 20) & _MASK
            s[a] = (s[a] + s[b]) & _MASK
            x = s[d] ^ s[a]
            s[d] = (x << 8 | x >> 24) & _MASK
            s[c] = (s[c] + s[d]) & _MASK
            x = s[b] ^ s[c]
            s[b] = (x << 7 | x >> 25) & _MASK
    return struct.pack("<16I", *[(s[i] + start[i]) & _MASK for i in range(16)])


def _poly1305(key: bytes, padded: bytes) -> bytes:
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for start in range(0, len(padded), 16):
        block = int.from_bytes(padded[start : start + 16], "little") + (1 << 128)
        total = (total + block) * r % (2**130 - 5)
    total = (total + int.from_bytes(key[16:], "little")) % (1 << 128)
    return total.to_bytes(16, "little")
