"""HPKE suites against the published vectors, and clear words where one is missing."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.bindings._rust import openssl as rust
from cryptography.hazmat.primitives.asymmetric import mlkem
from tests.cases import each_case

from rase.errors import Malformed, Unsupported
from rase.wire.suites import (
    PUBLIC_SIZES,
    X25519,
    X_WING,
    check_suite,
    enc_size,
    private_key,
    public_bytes,
    public_key,
    suite,
)

VECTORS = json.loads((Path(__file__).parent / "vectors/hpke.json").read_text(encoding="utf-8"))


@each_case("vector", VECTORS)
def test_published_vectors_open(vector: dict[str, Any]) -> None:
    """Each suite is the registered one: keys, context and ciphertext fit together."""
    read = {
        name: bytes.fromhex(text)
        for name, text in vector.items()
        if isinstance(text, str) and name != "source"
    }
    kem, aead = vector["kem_id"], vector["aead_id"]
    check_suite(kem, vector["kdf_id"], aead)
    assert public_bytes(kem, read["skRm"]) == read["pkRm"]
    assert (len(read["pkRm"]), len(read["enc"])) == (PUBLIC_SIZES[kem], enc_size(kem))
    # The published vectors have associated data, which the single-shot form of ours never has.
    opened = rust.hpke._decrypt_with_aad(
        suite(kem, aead),
        read["enc"] + read["ct"],
        private_key(kem, read["skRm"]),
        read["info"],
        read["aad"],
    )
    assert opened == read["pt"]


def test_bad_public_keys_are_malformed() -> None:
    """Bytes that are no key of their kind are refused."""
    with pytest.raises(Malformed):
        public_key(X25519, bytes(31))
    with pytest.raises(Malformed):
        public_key(X_WING, b"\xff" * 1216)


def test_a_library_without_ml_kem_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    """X-Wing says what it needs."""
    good = public_bytes(X_WING, bytes(32))

    def refuse(data: bytes) -> None:
        raise UnsupportedAlgorithm("none")

    monkeypatch.setattr(mlkem.MLKEM768PublicKey, "from_public_bytes", refuse)
    monkeypatch.setattr(mlkem.MLKEM768PrivateKey, "from_seed_bytes", refuse)
    for call in (
        lambda: public_key(X_WING, good),
        lambda: private_key(X_WING, bytes(32)),
        lambda: public_bytes(X_WING, bytes(32)),
    ):
        with pytest.raises(Unsupported, match="X-Wing needs a cryptography built with ML-KEM"):
            call()
