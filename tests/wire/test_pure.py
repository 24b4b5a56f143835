"""The pure sealer: published vectors, both directions with cryptography, and no wheel at all."""

import builtins
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase.wire import pure
from rase.wire.suites import CHACHA20_POLY1305, X25519, private_key, public_bytes, public_key, suite

keys = st.binary(min_size=32, max_size=32)
SOURCE = Path(pure.__file__)
VECTORS = json.loads((Path(__file__).parent / "vectors/hpke.json").read_text(encoding="utf-8"))


def test_the_published_vector_is_sealed_byte_for_byte() -> None:
    """RFC 9180, appendix A.2.1: same ephemeral key, same bytes."""
    vector = next(v for v in VECTORS if (v["kem_id"], v["aead_id"]) == (X25519, CHACHA20_POLY1305))
    read = {name: bytes.fromhex(vector[name]) for name in ("pkRm", "info", "pt", "skEm", "aad")}
    sealed = pure.hpke_seal(read["pkRm"], read["info"], read["pt"], read["skEm"], read["aad"])
    assert sealed.hex() == vector["enc"] + vector["ct"]


@given(keys, keys)
def test_x25519_agrees_with_openssl(secret: bytes, seed: bytes) -> None:
    """The ladder gives what OpenSSL gives, for clamped and unclamped bytes."""
    point = public_bytes(X25519, seed)
    theirs = X25519PrivateKey.from_private_bytes(secret)
    assert pure.x25519(secret, point) == theirs.exchange(X25519PublicKey.from_public_bytes(point))


@given(keys, st.binary(min_size=12, max_size=12), st.binary(max_size=200), st.binary(max_size=40))
def test_the_cipher_agrees_with_openssl(key: bytes, nonce: bytes, text: bytes, aad: bytes) -> None:
    """ChaCha20-Poly1305 at every length around its blocks."""
    theirs = ChaCha20Poly1305(key).encrypt(nonce, text, aad)
    assert pure._aead_seal(key, nonce, text, aad) == theirs


@given(keys, keys, st.binary(max_size=120), st.binary(max_size=120))
def test_cryptography_opens_what_is_sealed_purely(
    secret: bytes, ephemeral: bytes, info: bytes, text: bytes
) -> None:
    """One direction."""
    sealed = pure.hpke_seal(public_bytes(X25519, secret), info, text, ephemeral)
    hpke = suite(X25519, CHACHA20_POLY1305)
    assert hpke.decrypt(sealed, private_key(X25519, secret), info) == text


@given(secret=keys, info=st.binary(max_size=120), text=st.binary(max_size=120))
def test_what_cryptography_seals_is_opened_purely(
    open_purely: Callable[[bytes, bytes, bytes], bytes], secret: bytes, info: bytes, text: bytes
) -> None:
    """The other direction, with an opener that only the tests have."""
    hpke = suite(X25519, CHACHA20_POLY1305)
    sealed = hpke.encrypt(text, public_key(X25519, public_bytes(X25519, secret)), info)
    assert open_purely(secret, info, sealed) == text


def report(**changes: Any) -> bytes:
    """Seal a report purely."""
    given: dict[str, Any] = {
        "epsilon_class": 0,
        "is_cover": False,
        "campaign_hash": bytes(32),
        "shuffler_id": 1,
        "shuffler_key": public_bytes(X25519, bytes(32)),
        "fusion_id": 2,
        "fusion_key": public_bytes(X25519, bytes(32)),
        "keyset": 5,
    }
    return pure.seal_report(5, -3, **given | changes)


def test_the_systems_randomness_is_the_default() -> None:
    """Without entropy two reports differ but for the header (false alarms below 1e-70)."""
    one, other = report(), report()
    assert len(one) == 437
    assert one[:18] == other[:18]
    assert one[18:50] != other[18:50]


@each_case("changes", [{"entropy": bytes(63)}, {"campaign_hash": bytes(31)}, {"token": bytes(9)}])
def test_wrong_sizes_are_refused(changes: dict[str, bytes]) -> None:
    """A short secret would be a weak one."""
    with pytest.raises(ValueError, match="entropy must be 64 bytes, campaign_hash 32 and token"):
        report(**changes)


def test_small_order_keys_are_refused() -> None:
    """A key that makes every secret zero hides nothing."""
    with pytest.raises(ValueError, match="small order"):
        report(fusion_key=bytes(32))


def test_a_system_without_randomness_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """MicroPython in a browser has none: the caller must pass entropy."""
    monkeypatch.delattr(os, "urandom")
    with pytest.raises(RuntimeError, match="pass entropy"):
        report()
    assert len(report(entropy=bytes(range(64)))) == 437


def test_the_file_stands_alone() -> None:
    """Executed with nothing but hashlib, struct and os, it seals the same bytes."""
    allowed = {"hashlib", "struct", "os"}

    def restricted(name: str, *args: Any, **options: Any) -> Any:
        assert name in allowed
        return __import__(name, *args, **options)

    names = {**vars(builtins), "__import__": restricted}
    room: dict[str, Any] = {"__builtins__": names, "__name__": "pure"}
    exec(compile(SOURCE.read_text(encoding="utf-8"), "pure.py", "exec"), room)  # noqa: S102
    entropy = bytes(range(64))
    key = public_bytes(X25519, bytes(32))
    sealed = room["seal_report"](
        5,
        -3,
        epsilon_class=0,
        is_cover=False,
        campaign_hash=bytes(32),
        shuffler_id=1,
        shuffler_key=key,
        fusion_id=2,
        fusion_key=key,
        keyset=5,
        entropy=entropy,
    )
    assert sealed == report(entropy=entropy)
    assert struct.unpack(">I", sealed[10:14]) == (5,)


def test_the_file_stays_small() -> None:
    """It is meant to be copied to a device and read by its owner."""
    assert len(SOURCE.read_text(encoding="utf-8").splitlines()) <= 184
