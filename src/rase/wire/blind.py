"""Blind RSA signatures after RFC 9474, the device's side: RSABSSA-SHA384-PSS.

A token is a random nonce with the registrar's signature. The registrar signs the nonce blinded, so
it cannot recognise a token that it made; this holds without any assumption, whatever is recorded.

One file to copy: it runs unchanged on CPython and MicroPython and imports nothing but hashlib.
MicroPython has no SHA-384, and its ``pow(x, -1, n)`` returns 0, so both are here.
"""

import hashlib

# Names of types are for checkers alone; MicroPython has no such modules.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EXPONENT", "blind", "encode_pss", "finalize", "inverses", "is_signed", "sha384"]

EXPONENT = 65537
_HASH_BYTES = 48
_ALL_64 = 0xFFFFFFFFFFFFFFFF


def blind(modulus: int, message: bytes, *, salt: bytes, factor: int, raised: int = 0) -> bytes:
    """Return a message as the registrar signs it, hidden by a secret random factor.

    Args:
        modulus: The public key; its exponent is `EXPONENT`.
        message: What is to be signed; with the prefix of 32 random bytes where a variant has one.
        salt: 48 random bytes, or none in the variants without salt.
        factor: A secret random number below the modulus, for this message alone.
        raised: The factor to the power of `EXPONENT`, if something quicker computed it.
    """
    raised = raised or pow(factor, EXPONENT, modulus)
    hidden = encode_pss(modulus, message, salt) * raised % modulus
    return hidden.to_bytes(_size(modulus), "big")


def finalize(
    modulus: int,
    message: bytes,
    signature: bytes,
    *,
    inverse: int,
    raise_all: "Callable[[bytes], bytes] | None" = None,
) -> bytes:
    """Return the signature of a message out of that of the blinded one.

    Args:
        modulus: The public key.
        message: The message that was blinded.
        signature: What the registrar returned.
        inverse: The inverse of the factor, see `inverses`.
        raise_all: Raises a number to the exponent, if something does so quicker.

    Raises:
        ValueError: If the result is not a signature by the key; do not send it then.
    """
    if len(signature) != _size(modulus):
        raise ValueError("signature must be as long as the key.")
    number = int.from_bytes(signature, "big") * inverse % modulus
    found = number.to_bytes(_size(modulus), "big")
    if not is_signed(modulus, message, found, raise_all=raise_all):
        raise ValueError("signature must be one by this key; it is not.")
    return found


def is_signed(
    modulus: int,
    message: bytes,
    signature: bytes,
    *,
    raise_all: "Callable[[bytes], bytes] | None" = None,
) -> bool:
    """Return whether the signature of the message is one by the key, with 48 bytes of salt or none.

    The message was one's own: that it is compared in changing time gives nothing away.
    """
    number = int.from_bytes(signature, "big")
    if len(signature) != _size(modulus) or number >= modulus:
        return False
    bits = _bits(modulus) - 1
    if raise_all is None:
        opened = pow(number, EXPONENT, modulus)
    else:
        opened = int.from_bytes(raise_all(signature), "big")
    size = (bits + 7) // 8
    if opened >> (8 * size) or opened & 0xFF != 0xBC:
        return False
    text = opened.to_bytes(size, "big")
    masked, digest = text[: -_HASH_BYTES - 1], text[-_HASH_BYTES - 1 : -1]
    block = _unmask(masked, digest, bits)
    for salt_size in (_HASH_BYTES, 0):
        zeros = len(block) - salt_size - 1
        if block[: zeros + 1] == bytes(zeros) + b"\x01":
            salt = block[zeros + 1 :]
            return sha384(bytes(8) + sha384(message) + salt) == digest
    return False


def inverses(factors: list[int], modulus: int) -> list[int]:
    """Return the inverse of each factor, with one division for all (Montgomery).

    Raises:
        ValueError: If a factor has none; that is a number that divides the modulus.
    """
    products, total = [], 1
    for factor in factors:
        products.append(total)
        total = total * factor % modulus
    try:
        rest = _inverse(total, modulus)
    except ValueError:
        rest = 0
    if total * rest % modulus != 1:
        raise ValueError("factors must have inverses.")
    found = []
    for factor, product in zip(reversed(factors), reversed(products)):  # noqa: B905 - MicroPython
        found.append(rest * product % modulus)
        rest = rest * factor % modulus
    found.reverse()
    return found


def encode_pss(modulus: int, message: bytes, salt: bytes) -> int:
    """Return the number whose signature is the message's (EMSA-PSS, RFC 8017, 9.1.1)."""
    bits = _bits(modulus) - 1
    size = (bits + 7) // 8
    digest = sha384(bytes(8) + sha384(message) + salt)
    zeros = size - len(salt) - _HASH_BYTES - 2
    block = bytes(zeros) + b"\x01" + salt
    return int.from_bytes(_unmask(block, digest, bits) + digest + b"\xbc", "big")


def _unmask(block: bytes, digest: bytes, bits: int) -> bytes:
    """Combine a block with the mask that follows from a digest; the same again undoes it."""
    mask = b""
    for counter in range((len(block) + _HASH_BYTES - 1) // _HASH_BYTES):
        mask += sha384(digest + counter.to_bytes(4, "big"))
    number = int.from_bytes(block, "big") ^ int.from_bytes(mask[: len(block)], "big")
    # The bits above the key's length are none.
    number &= (1 << (bits - 8 * (_HASH_BYTES + 1))) - 1
    return number.to_bytes(len(block), "big")


def _size(modulus: int) -> int:
    return (_bits(modulus) + 7) // 8


def _bits(number: int) -> int:
    # MicroPython's numbers do not know their length.
    if hasattr(number, "bit_length"):
        return number.bit_length()
    count = 0
    while number >> (count + 256):
        count += 256
    while number >> count:
        count += 1
    return count


def _inverse(number: int, modulus: int) -> int:
    return pow(number, -1, modulus) if _has_inverse_pow() else _euclid(number, modulus)


def _has_inverse_pow() -> bool:
    try:
        return pow(3, -1, 7) == 5
    except ValueError:
        return False


def _euclid(number: int, modulus: int) -> int:
    old, rest, one, other = number, modulus, 1, 0
    while rest:
        times = old // rest
        old, rest = rest, old - times * rest
        one, other = other, one - times * other
    return one % modulus


def sha384(data: bytes) -> bytes:
    """Return the SHA-384 of some bytes, also where hashlib has none."""
    if hasattr(hashlib, "sha384"):
        return hashlib.sha384(data).digest()
    return _sha384(data)


def _sha384(data: bytes) -> bytes:
    state = list(_START)
    padding = bytes((111 - len(data)) % 128 + 8) + (8 * len(data)).to_bytes(8, "big")
    data += b"\x80" + padding
    for start in range(0, len(data), 128):
        words = [int.from_bytes(data[at : at + 8], "big") for at in range(start, start + 128, 8)]
        for at in range(16, 80):
            x, y = words[at - 15], words[at - 2]
            low = (x >> 1 | x << 63) ^ (x >> 8 | x << 56) ^ x >> 7
            high = (y >> 19 | y << 45) ^ (y >> 61 | y << 3) ^ y >> 6
            words.append((words[at - 16] + (low & _ALL_64) + words[at - 7] + high) & _ALL_64)
        a, b, c, d, e, f, g, h = state
        for word, constant in zip(words, _ROUNDS):  # noqa: B905 - MicroPython
            turned = (e >> 14 | e << 50) ^ (e >> 18 | e << 46) ^ (e >> 41 | e << 23)
            first = h + (turned & _ALL_64) + (e & f ^ (e ^ _ALL_64) & g) + constant + word
            turned = (a >> 28 | a << 36) ^ (a >> 34 | a << 30) ^ (a >> 39 | a << 25)
            second = (turned & _ALL_64) + (a & b ^ a & c ^ b & c)
            h, g, f, e = g, f, e, (d + first) & _ALL_64
            d, c, b, a = c, b, a, (first + second) & _ALL_64
        mixed = (a, b, c, d, e, f, g, h)
        state = [(state[at] + mixed[at]) & _ALL_64 for at in range(8)]
    return b"".join([word.to_bytes(8, "big") for word in state[:6]])


# FIPS 180-4: the first 64 bits of the fractions of roots of primes. A table, because computing it
# takes a microcontroller longer than a hash.
_START = (
    0xCBBB9D5DC1059ED8,
    0x629A292A367CD507,
    0x9159015A3070DD17,
    0x152FECD8F70E5939,
    0x67332667FFC00B31,
    0x8EB44A8768581511,
    0xDB0C2E0D64F98FA7,
    0x47B5481DBEFA4FA4,
)
_FRACTIONS = bytes.fromhex(
    "428a2f98d728ae227137449123ef65cdb5c0fbcfec4d3b2fe9b5dba58189dbbc3956c25bf348b538"
    "59f111f1b605d019923f82a4af194f9bab1c5ed5da6d8118d807aa98a303024212835b0145706fbe"
    "243185be4ee4b28c550c7dc3d5ffb4e272be5d74f27b896f80deb1fe3b1696b19bdc06a725c71235"
    "c19bf174cf692694e49b69c19ef14ad2efbe4786384f25e30fc19dc68b8cd5b5240ca1cc77ac9c65"
    "2de92c6f592b02754a7484aa6ea6e4835cb0a9dcbd41fbd476f988da831153b5983e5152ee66dfab"
    "a831c66d2db43210b00327c898fb213fbf597fc7beef0ee4c6e00bf33da88fc2d5a79147930aa725"
    "06ca6351e003826f142929670a0e6e7027b70a8546d22ffc2e1b21385c26c9264d2c6dfc5ac42aed"
    "53380d139d95b3df650a73548baf63de766a0abb3c77b2a881c2c92e47edaee692722c851482353b"
    "a2bfe8a14cf10364a81a664bbc423001c24b8b70d0f89791c76c51a30654be30d192e819d6ef5218"
    "d69906245565a910f40e35855771202a106aa07032bbd1b819a4c116b8d2d0c81e376c085141ab53"
    "2748774cdf8eeb9934b0bcb5e19b48a8391c0cb3c5c95a634ed8aa4ae3418acb5b9cca4f7763e373"
    "682e6ff3d6b2b8a3748f82ee5defb2fc78a5636f43172f6084c87814a1f0ab728cc702081a6439ec"
    "90befffa23631e28a4506cebde82bde9bef9a3f7b2c67915c67178f2e372532bca273eceea26619c"
    "d186b8c721c0c207eada7dd6cde0eb1ef57d4f7fee6ed17806f067aa72176fba0a637dc5a2c898a6"
    "113f9804bef90dae1b710b35131c471b28db77f523047d8432caab7b40c724933c9ebe0a15c9bebc"
    "431d67c49c100d4c4cc5d4becb3e42b6597f299cfc657e2a5fcb6fab3ad6faec6c44198c4a475817"
)
_ROUNDS = [int.from_bytes(_FRACTIONS[at : at + 8], "big") for at in range(0, 640, 8)]
