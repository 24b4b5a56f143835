"""Shared parties of the wire tests, and an opener in pure Python."""

import importlib.util
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from tests.registering import REGISTRAR_KEY

from rase.campaign import Campaign
from rase.wire import pure
from rase.wire.keys import KeyConfig, OpeningKey, Role, SigningKey
from rase.wire.signed import PinnedKeys, campaign_hash

OpenPurely = Callable[[bytes, bytes, bytes], bytes]


@pytest.fixture(scope="session")
def vectors() -> ModuleType:
    """The script that makes the test vectors, with its fixed keys."""
    path = Path(__file__).parent / "make_vectors.py"
    spec = importlib.util.spec_from_file_location("make_vectors", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def campaign(vectors: ModuleType) -> Campaign:
    """The campaign of the test vectors."""
    found: Campaign = vectors.CAMPAIGN
    return found


@pytest.fixture(scope="session")
def ch(campaign: Campaign) -> bytes:
    """The campaign's hash."""
    return campaign_hash(campaign)


@pytest.fixture(scope="session")
def openers(vectors: ModuleType) -> dict[str, OpeningKey]:
    """The private keys, by name."""
    found: dict[str, OpeningKey] = vectors.OPENERS
    return found


@pytest.fixture(scope="session")
def signers(vectors: ModuleType) -> dict[Role, SigningKey]:
    """The private signing keys of both servers."""
    found: dict[Role, SigningKey] = vectors.SIGNERS
    return found


@pytest.fixture(scope="session")
def configs(openers: dict[str, OpeningKey]) -> dict[str, KeyConfig]:
    """The public keys, by name."""
    return {name: key.config(not_before_s=0, not_after_s=10) for name, key in openers.items()}


@pytest.fixture(scope="session")
def pinned(signers: dict[Role, SigningKey]) -> PinnedKeys:
    """The public signing keys of both servers."""
    return PinnedKeys(
        signers[Role.FUSION].public_bytes(), signers[Role.SHUFFLER].public_bytes(), REGISTRAR_KEY
    )


@pytest.fixture(scope="session")
def open_purely() -> OpenPurely:
    """Open an HPKE envelope of the default suite in pure Python."""
    return _open_purely


def _open_purely(secret: bytes, info: bytes, envelope: bytes) -> bytes:
    base = b"\x09" + bytes(31)
    enc, text, tag = envelope[:32], envelope[32:-16], envelope[-16:]
    public = pure.x25519(secret, base)
    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x03"
    prk = pure._extract(b"", kem, b"eae_prk", pure.x25519(secret, enc))
    shared = pure._expand(prk, kem, b"shared_secret", enc + public, 32)
    context = b"\x00" + pure._extract(b"", suite, b"psk_id_hash", b"")
    context += pure._extract(b"", suite, b"info_hash", info)
    schedule = pure._extract(shared, suite, b"secret", b"")
    key = pure._expand(schedule, suite, b"key", context, 32)
    nonce = pure._expand(schedule, suite, b"base_nonce", context, 12)
    lengths = struct.pack("<QQ", 0, len(text))
    expected = pure._poly1305(
        pure._chacha20(key, nonce, 0)[:32], text + bytes(-len(text) % 16) + lengths
    )
    assert tag == expected, "the envelope does not open"
    # The cipher is its own inverse; its tag of the plaintext is of no interest here.
    return pure._aead_seal(key, nonce, text, b"")[:-16]
