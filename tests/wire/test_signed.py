"""Signatures: campaign and keyset by both servers, manifests by the shuffler."""

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case
from tests.registering import REGISTRAR_KEY

from rase.campaign import KEMS, Campaign, ShufflePlan
from rase.counts.registry import ESTIMATORS
from rase.errors import BadSignature, Malformed, UnknownVersion, WireError, WrongSize
from rase.laws.registry import MECHANISMS
from rase.wire import cbor
from rase.wire.keys import Keyset, Role, SigningKey
from rase.wire.messages import BatchManifest
from rase.wire.signed import (
    MAX_VERSIONS_BYTES,
    PinnedKeys,
    SignedCampaign,
    SignedKeyset,
    SignedManifest,
    campaign_bytes,
    campaign_from_bytes,
    campaign_hash,
    signature_of,
    versions_bytes,
    versions_from_bytes,
)

Signers = dict[Role, SigningKey]
MANIFEST = BatchManifest(
    batch_id=bytes(32),
    shuffler="one",
    n=64,
    k_min=20,
    method="uniform",
    theta=None,
    alpha=0,
    real_loss=0,
    attacker_success=1 / 64,
)

names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20)


@st.composite
def campaigns(draw: st.DrawFn) -> Campaign:
    """Draw any campaign."""
    low = draw(st.floats(-1e6, 1e6))
    first = draw(st.integers(0, 2**31))
    epsilon = draw(st.lists(st.floats(1e-4, 30), min_size=1, max_size=4, unique=True))
    grace_s = draw(st.integers(1, 10_000))
    method = draw(st.sampled_from(["uniform", "robust", "mallows"]))
    alpha = 0.0 if method == "uniform" else draw(st.floats(0.01, 100))
    return Campaign(
        id=draw(st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)),
        version=draw(st.integers(1, 2**32 - 1)),
        quantity=draw(names),
        unit=draw(st.sampled_from(["", "W", "°C"])),
        low=low,
        high=low + draw(st.floats(1, 1e6)),
        steps=draw(st.integers(1, 65536)),
        mechanism=draw(st.sampled_from(MECHANISMS)),
        beta=draw(st.floats(0, 1)),
        rho=draw(st.floats(0, 1)),
        epsilon=tuple(sorted(epsilon)),
        window=draw(st.integers(1, 10_000)),
        window_budget=max(epsilon) * draw(st.floats(1, 100)),
        round_s=draw(st.integers(1, 86400)),
        upload_s=draw(st.integers(1, grace_s)),
        grace_s=grace_s,
        k_min=draw(st.integers(2, 1000)),
        shuffle=ShufflePlan(method, alpha, tuple(draw(st.lists(names, max_size=5, unique=True)))),
        estimators=tuple(
            draw(st.lists(st.sampled_from(ESTIMATORS), min_size=1, max_size=4, unique=True))
        ),
        not_before=first,
        not_after=first + draw(st.integers(0, 2**31)),
        kem=draw(st.sampled_from(KEMS)),
    )


@pytest.mark.uncovered
@given(campaigns())
def test_campaigns_come_back(campaign: Campaign) -> None:
    """Any campaign has one form, and that form is it."""
    body = campaign_bytes(campaign)
    found = campaign_from_bytes(body)
    assert found == campaign
    assert campaign_hash(found) == campaign_hash(campaign)


@pytest.mark.uncovered
def test_mangled_campaigns_are_refused_by_name_or_are_other_campaigns(campaign: Campaign) -> None:
    """Five thousand changed, cut or lengthened messages never crash the reader."""
    source = np.random.default_rng(2026)
    good = campaign_bytes(campaign)
    read = 0
    for _ in range(5_000):
        body = bytearray(good)
        for _ in range(source.integers(1, 4)):
            place = source.integers(len(body))
            body[place : place + source.integers(0, 3)] = source.bytes(int(source.integers(0, 3)))
        try:
            found = campaign_from_bytes(bytes(body))
        except WireError:
            continue
        assert campaign_bytes(found) == body
        read += 1
    assert 0 < read < 2_500


@each_case(
    ("changes", "words"),
    [
        ({"format": 2}, "campaign format 2 is unknown"),
        ({"format": None}, "must be a map with a format"),
        ({"colour": "red"}, "colour is not a field of a campaign"),
        ({"unit": ..., "k_min": 0}, "unit is missing(.|\n)*k_min must be"),
        ({"low": 0}, "floats where floats belong"),
        ({"low": -0.0}, "floats where floats belong"),
        ({"kem": ...}, "must have all fields"),
        ({"shuffle": None}, "shuffle must be a table"),
        ({"epsilon": [{}]}, "epsilon must be a number"),
    ],
)
def test_other_campaigns_are_refused(
    campaign: Campaign, changes: dict[str, Any], words: str
) -> None:
    """Unknown, missing and wrongly written fields are named."""
    fields = cbor.decode(campaign_bytes(campaign), max_size=10_000) | changes
    body = cbor.encode({name: value for name, value in fields.items() if value is not ...})
    with pytest.raises(WireError, match=words) as refused:
        campaign_from_bytes(body)
    assert isinstance(refused.value, UnknownVersion | Malformed)


def both(value: Campaign | Keyset, signers: Signers) -> tuple[bytes, bytes]:
    """Return the signatures of both servers."""
    return signature_of(value, signers[Role.FUSION]), signature_of(value, signers[Role.SHUFFLER])


def test_documents_signed_by_both_come_back(
    vectors: ModuleType, signers: Signers, pinned: PinnedKeys
) -> None:
    """Campaign, keyset and manifest are read with the pinned keys."""
    campaign = SignedCampaign(vectors.CAMPAIGN, *both(vectors.CAMPAIGN, signers))
    assert SignedCampaign.from_bytes(campaign.to_bytes(), pinned) == campaign
    assert campaign.hash == campaign_hash(vectors.CAMPAIGN)
    keyset = SignedKeyset(vectors.KEYSET, *both(vectors.KEYSET, signers))
    assert SignedKeyset.from_bytes(keyset.to_bytes(), pinned) == keyset
    manifest = SignedManifest(MANIFEST, signature_of(MANIFEST, signers[Role.SHUFFLER]))
    assert SignedManifest.from_bytes(manifest.to_bytes(), pinned) == manifest


@pytest.mark.parametrize("has_cryptography", [True, False])
def test_each_signature_counts(
    campaign: Campaign,
    signers: Signers,
    pinned: PinnedKeys,
    monkeypatch: pytest.MonkeyPatch,
    has_cryptography: bool,
) -> None:
    """A campaign that one server alone signed, or whose signatures are swapped, is refused."""
    fusion, shuffler = both(campaign, signers)
    if not has_cryptography:
        name = "cryptography.hazmat.primitives.asymmetric.ed25519"
        monkeypatch.setitem(sys.modules, name, None)
    good = SignedCampaign(campaign, fusion, shuffler)
    assert SignedCampaign.from_bytes(good.to_bytes(), pinned).campaign == campaign
    for bad, who in (
        (replace(good, fusion_signature=shuffler), "fusion"),
        (replace(good, shuffler_signature=fusion), "shuffler"),
        (replace(good, shuffler_signature=bytes(64)), "shuffler"),
        (replace(good, shuffler_signature=b""), "shuffler"),
        (replace(good, fusion_signature=fusion[:-1] + bytes([fusion[-1] ^ 1])), "fusion"),
        (replace(good, campaign=replace(campaign, k_min=21)), "fusion"),
    ):
        with pytest.raises(BadSignature, match=f"pinned key of the {who}"):
            SignedCampaign.from_bytes(bad.to_bytes(), pinned)


def test_a_signature_is_for_one_kind_of_document(
    vectors: ModuleType, signers: Signers, pinned: PinnedKeys
) -> None:
    """Bytes signed as something else are not taken for a keyset."""
    key = signers[Role.FUSION]
    body = vectors.KEYSET.to_bytes()
    wrong = key.sign(b"rase/1 campaign by fusion\0" + body)
    right = signature_of(vectors.KEYSET, signers[Role.SHUFFLER])
    with pytest.raises(BadSignature, match="the keyset is not signed"):
        SignedKeyset.from_bytes(SignedKeyset(vectors.KEYSET, wrong, right).to_bytes(), pinned)


def test_forged_manifests_are_bad_batches(signers: Signers, pinned: PinnedKeys) -> None:
    """The fusion centre's own signature does not do, and the problem is bad-batch."""
    forged = SignedManifest(MANIFEST, signature_of(MANIFEST, signers[Role.FUSION]))
    with pytest.raises(BadSignature) as refused:
        SignedManifest.from_bytes(forged.to_bytes(), pinned)
    assert refused.value.problem == "bad-batch"


@each_case(
    "parts",
    [
        None,
        [],
        ["rase/1 keyset", b"", b"", b""],
        ["rase/1 campaign", b"", b""],
        ["rase/1 campaign", b"", b"", b"", b""],
        ["rase/1 campaign", b"", "", b""],
    ],
)
def test_other_containers_are_refused(parts: Any, pinned: PinnedKeys) -> None:
    """What is no signed campaign is malformed."""
    with pytest.raises(Malformed, match="a signed campaign must be"):
        SignedCampaign.from_bytes(cbor.encode(parts), pinned)


def test_oversized_campaigns_are_refused(pinned: PinnedKeys) -> None:
    """Before anything is decoded."""
    with pytest.raises(WrongSize):
        SignedCampaign.from_bytes(bytes(1 << 20), pinned)


def test_one_party_cannot_be_pinned_for_both() -> None:
    """Two roles with one key would be one server."""
    with pytest.raises(ValueError, match="different keys"):
        PinnedKeys(bytes(32), bytes(32), REGISTRAR_KEY)
    with pytest.raises(ValueError, match="shuffler must be the 32 bytes"):
        PinnedKeys(bytes(32), b"", REGISTRAR_KEY)


def test_several_versions_travel_as_one_document() -> None:
    """They come back in order; what does not fit any more is left off at the end."""
    assert versions_from_bytes(versions_bytes([b"1", b"22"])) == (b"1", b"22")
    large = bytes(MAX_VERSIONS_BYTES // 3)
    packed = versions_bytes([b"1", large, large, large, b"2"])
    assert len(packed) <= MAX_VERSIONS_BYTES
    assert versions_from_bytes(packed) == (b"1", large, large)


@each_case(
    "parts",
    [
        {},
        [],
        ["rase/1 versions"],
        ["rase/1 campaign", [b"1"]],
        ["rase/1 versions", b"1"],
        ["rase/1 versions", []],
        ["rase/1 versions", [b"1", "2"]],
    ],
)
def test_other_documents_are_no_versions(parts: Any) -> None:
    """Each is refused as malformed."""
    with pytest.raises(Malformed):
        versions_from_bytes(cbor.encode(parts))


def test_oversized_versions_are_refused() -> None:
    """Before anything in them is read."""
    with pytest.raises(WrongSize):
        versions_from_bytes(bytes(MAX_VERSIONS_BYTES + 1))
