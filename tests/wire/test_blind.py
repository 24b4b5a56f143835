"""Blind signatures: the vectors of RFC 9474, faults, and what a device refuses."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case
from tests.registering import issuer
from tests.wire.test_micropython import micropython

from rase.errors import Malformed
from rase.wire import blind, issuing
from rase.wire.issuing import Issuer, TokenVerifier, has_libcrypto, raise_all

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "vectors/rfc9474.json").read_text(encoding="utf-8")
)


def number(vector: dict[str, Any], name: str) -> int:
    """Return a number of a vector."""
    return int(vector[name], 16)


def octets(vector: dict[str, Any], name: str) -> bytes:
    """Return bytes of a vector."""
    return bytes.fromhex(vector[name])


@each_case("vector", VECTORS)
def test_the_vectors_of_the_rfc(vector: dict[str, Any]) -> None:
    """Blinded message, inverse, blind signature and signature are those of all four variants."""
    modulus, message = number(vector, "n"), octets(vector, "input_msg")
    inverse = number(vector, "inv")
    (factor,) = blind.inverses([inverse], modulus)
    assert blind.inverses([factor], modulus) == [inverse]
    blinded = blind.blind(modulus, message, salt=octets(vector, "salt"), factor=factor)
    assert blinded == octets(vector, "blinded_msg")
    p, q, d = (number(vector, name) for name in "pqd")
    key = rsa.RSAPrivateNumbers(
        p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), rsa.RSAPublicNumbers(65537, modulus)
    ).private_key()
    for uses_libcrypto in (True, False):
        signed = Issuer(key, uses_libcrypto=uses_libcrypto).sign(blinded)
        assert signed == octets(vector, "blind_sig")
    final = blind.finalize(modulus, message, signed, inverse=inverse)
    assert final == octets(vector, "sig")
    with pytest.raises(ValueError, match="one by this key"):
        blind.finalize(modulus, message + b"!", signed, inverse=inverse)


@pytest.mark.needs("node", "micropython")
def test_the_vectors_hold_on_micropython() -> None:
    """Without SHA-384 and modular inverses of its own it computes the same bytes."""
    vector = VECTORS[0]
    script = (
        "import sys\nsys.path.append('/')\n"
        f"exec({Path(blind.__file__).read_text(encoding='utf-8')!r})\n"
        f"n = {number(vector, 'n')}\nmessage = {octets(vector, 'input_msg')!r}\n"
        f"inverse = {number(vector, 'inv')}\n(factor,) = inverses([inverse], n)\n"
        f"print(blind(n, message, salt={octets(vector, 'salt')!r}, factor=factor).hex())\n"
        f"print(finalize(n, message, {octets(vector, 'blind_sig')!r}, inverse=inverse).hex())\n"
    )
    assert micropython(script).split() == [vector["blinded_msg"], vector["sig"]]


@given(st.binary(max_size=300))
def test_own_sha384_is_that_of_hashlib(data: bytes) -> None:
    """Every length of padding."""
    assert blind._sha384(data) == hashlib.sha384(data).digest()


@pytest.mark.parametrize("refuses", [False, True])
def test_systems_without_hash_and_inverse_are_served(
    monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    """MicroPython's pow returns 0 for an inverse or refuses, and its hashlib lacks SHA-384."""
    modulus = issuer().modulus
    expected = blind.encode_pss(modulus, b"nonce", bytes(48)), blind.inverses([3, 5], modulus)

    def other_pow(base: int, exponent: int, modulus: int) -> int:
        assert exponent < 0
        if refuses:
            raise ValueError
        return 0

    monkeypatch.delattr(hashlib, "sha384")
    monkeypatch.setattr(blind, "pow", other_pow, raising=False)
    assert expected == (
        blind.encode_pss(modulus, b"nonce", bytes(48)),
        blind.inverses([3, 5], modulus),
    )
    assert blind._bits(modulus) == 2048


class PlainInt(int):
    """A number as MicroPython has them."""

    @property
    def bit_length(self) -> Any:
        """There is none."""
        raise AttributeError("bit_length")


@given(st.integers(0, 2**600))
def test_numbers_that_do_not_know_their_length_have_one(value: int) -> None:
    """It is counted, in strides and singly."""
    assert blind._bits(PlainInt(value)) == value.bit_length()


def test_factors_without_inverse_are_refused() -> None:
    """They would divide the modulus; nothing is blinded with them."""
    with pytest.raises(ValueError, match="must have inverses"):
        blind.inverses([2, 15], 35)


def test_a_wrong_signature_never_leaves_the_issuer() -> None:
    """A fault in one prime would give the key away: the result is checked first."""
    faulty = Issuer(issuer().key)
    object.__setattr__(faulty, "_operation", lambda data: bytes(255) + b"\2")
    with pytest.raises(RuntimeError, match="wrong signature"):
        faulty.sign(bytes(255) + b"\3")


@each_case("blinded", [b"", bytes(255), bytes([255]) * 256])
def test_only_numbers_below_the_modulus_are_signed(blinded: bytes) -> None:
    """Anything else has a name."""
    with pytest.raises(Malformed, match="below the key's modulus"):
        issuer().sign(blinded)


def test_keys_come_back_and_others_are_refused() -> None:
    """As DER; a key of another kind is none."""
    assert Issuer.from_der(issuer().to_der()).modulus == issuer().modulus
    with pytest.raises(Malformed, match="issuing key"):
        Issuer.from_der(b"nonsense")
    with pytest.raises(ValueError, match="exponent"):
        Issuer(rsa.generate_private_key(3, 2048))


def test_tokens_of_another_key_are_none() -> None:
    """The verifier knows its own key alone, and random bytes are no signature."""
    modulus = issuer().modulus
    (inverse,) = blind.inverses([12345], modulus)
    signed = issuer().sign(blind.blind(modulus, b"nonce", salt=bytes(48), factor=12345))
    token = blind.finalize(modulus, b"nonce", signed, inverse=inverse)
    for uses_libcrypto in (True, False):
        own, other = (
            TokenVerifier(issuer(at).modulus.to_bytes(256, "big"), uses_libcrypto=uses_libcrypto)
            for at in (0, 1)
        )
        assert own.is_signed(b"nonce", token)
        assert not own.is_signed(b"nonc3", token)
        for bad in (b"", bytes(255), bytes(256), bytes(257), bytes([255]) * 256, token[:-1]):
            assert not own.is_signed(b"nonce", bad)
        assert not other.is_signed(b"nonce", token)
        assert own.is_signed(b"nonce", token)
    assert not blind.is_signed(modulus, b"nonce", bytes(255))
    with pytest.raises(ValueError, match="as long as the key"):
        blind.finalize(modulus, b"nonce", signed[1:], inverse=inverse)


@each_case("salt_size", [0, 20, 48])
def test_salt_of_another_size_is_no_signature(salt_size: int) -> None:
    """A token has 48 bytes of salt, variants without randomness none; nothing else counts."""
    modulus = issuer().modulus
    encoded = blind.encode_pss(modulus, b"nonce", bytes(salt_size)).to_bytes(256, "big")
    signature = issuer().sign(encoded)
    assert blind.is_signed(modulus, b"nonce", signature) == (salt_size != 20)


def test_the_quick_exponent_is_that_of_python() -> None:
    """Whoever computes it."""
    modulus = issuer().modulus
    quick = raise_all(modulus.to_bytes(256, "big"))(bytes(255) + b"\7")
    assert int.from_bytes(quick, "big") == pow(7, 65537, modulus)
    assert has_libcrypto()


@pytest.mark.parametrize("found", [None, "libcrypto.so.3"])
def test_systems_without_libcrypto_are_served(
    monkeypatch: pytest.MonkeyPatch, found: str | None
) -> None:
    """No such library, or an old one that lacks a function: Python computes the same."""

    def load(name: str) -> object:
        if found is None:
            raise OSError("no such library.")
        return object()

    signed = issuer().sign(bytes(255) + b"\7")
    modulus = issuer().modulus.to_bytes(256, "big")
    monkeypatch.setattr("ctypes.CDLL", load)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: found)
    monkeypatch.setattr(issuing, "_libcrypto", issuing._libcrypto.__wrapped__)
    assert not has_libcrypto()
    plain = Issuer(issuer().key)
    assert plain.sign(bytes(255) + b"\7") == signed
    assert raise_all.__wrapped__(modulus)(signed) == bytes(255) + b"\7"
    kinds = {type(plain._operation), type(plain._check), type(raise_all.__wrapped__(modulus))}
    assert kinds == {issuing._PythonPrivate, issuing._PythonPublic}
    assert TokenVerifier(modulus)._check is None


def test_what_libcrypto_refuses_is_no_result() -> None:
    """A key that it cannot read, and a number that is none below the modulus."""
    library = issuing._libcrypto()
    for is_private in (True, False):
        with pytest.raises(RuntimeError, match="cannot use"):
            issuing._Operation(library, b"nonsense", is_private=is_private)
    with pytest.raises(RuntimeError, match="cannot verify"):
        issuing._Check(library, b"nonsense")
    with pytest.raises(RuntimeError, match="refuses"):
        raise_all(issuer().modulus.to_bytes(256, "big"))(bytes([255]) * 256)
