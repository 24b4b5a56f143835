"""The files of test vectors: made by the script, and read by every part of the room."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.cases import each_case

from rase.campaign import Campaign
from rase.errors import NotOpened, UnknownVersion
from rase.wire.inner import InnerOpener
from rase.wire.keys import Keyset, OpeningKey, Role
from rase.wire.messages import Batch, BatchManifest, Content, Mark, batch_id
from rase.wire.outer import OuterOpener
from rase.wire.signed import (
    PinnedKeys,
    SignedCampaign,
    SignedKeyset,
    SignedManifest,
    campaign_bytes,
    campaign_hash,
)

FOLDER = Path(__file__).parent / "vectors"
FILES = ["batch.json", "campaign.json", "carry.json", "keyset.json", "report.json"]


def read(name: str) -> Any:
    """Return a file of vectors."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_the_files_are_what_the_script_makes(vectors: ModuleType) -> None:
    """A change of a wire byte shows in the files, and every file is looked at."""
    made = vectors.documents()
    assert sorted(made) == FILES
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(
        [*FILES, "hpke.json", "rfc9474.json"]
    )
    for name in FILES:
        assert read(name) == json.loads(json.dumps(made[name])), name


def test_the_script_writes_where_the_tests_read(
    vectors: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running it makes all files, byte for byte."""
    monkeypatch.setattr(vectors, "FOLDER", tmp_path)
    vectors.main()
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


def pinned(document: dict[str, Any]) -> PinnedKeys:
    """Return the public signing keys of a file."""
    keys = document["pinned"]
    return PinnedKeys(bytes.fromhex(keys["fusion"]), bytes.fromhex(keys["shuffler"]), bytes(32))


def test_the_campaign_is_read_from_the_file() -> None:
    """Fields, bytes, hash and signatures fit together."""
    document = read("campaign.json")
    assert document["version"] == 1
    campaign = Campaign.from_fields(document["fields"])
    assert campaign_bytes(campaign).hex() == document["body"]
    assert campaign_hash(campaign).hex() == document["hash"]
    signed = SignedCampaign.from_bytes(bytes.fromhex(document["signed"]), pinned(document))
    assert signed.campaign == campaign


def test_the_keyset_is_read_from_the_file() -> None:
    """Bytes and signatures fit together, in all suites."""
    document = read("keyset.json")
    signed = SignedKeyset.from_bytes(bytes.fromhex(document["signed"]), pinned(document))
    assert signed.keyset == Keyset.from_bytes(bytes.fromhex(document["body"]))
    assert [config.id for config in signed.keyset.configs] == [7, 9, 10, 11]


def test_the_batch_is_read_from_the_file() -> None:
    """Body, id and manifest fit together."""
    document = read("batch.json")
    body = bytes.fromhex(document["body"])
    assert Batch.from_bytes(body).to_bytes() == body
    assert batch_id(body).hex() == document["batch_id"]
    data = bytes.fromhex(document["signed_manifest"])
    manifest = SignedManifest.from_bytes(data, pinned(document)).manifest
    assert manifest == BatchManifest.from_bytes(bytes.fromhex(document["manifest"]))
    assert manifest.batch_id == batch_id(body)


def key(role: Role, document: dict[str, Any]) -> OpeningKey:
    """Return a private key of a file."""
    secret = bytes.fromhex(document["secret"])
    return OpeningKey(
        role=role, id=document["id"], kem=document["kem"], aead=document["aead"], secret=secret
    )


@each_case("number", range(8))
def test_the_reports_open_from_the_file(number: int) -> None:
    """Each report gives what the file says it holds."""
    document = read("report.json")
    expected = document["reports"][number]
    ch = bytes.fromhex(document["campaign_hash"])
    shuffler = OuterOpener(ch, [key(Role.SHUFFLER, document["shuffler_key"])])
    fusion = InnerOpener(ch, [key(Role.FUSION, document["fusion_key"])], class_count=4)
    report = bytes.fromhex(expected["report"])
    assert report[0] == document["version"]
    outer = shuffler.open(report)
    assert outer.mark == Mark(9, is_cover=expected["is_cover"], label=expected["label"])
    if outer.mark.is_cover:
        with pytest.raises(UnknownVersion):
            fusion.open(outer.inner, key_id=9, round=outer.round)
        return
    content = fusion.open(outer.inner, key_id=outer.mark.fusion_key_id, round=outer.round)
    assert content == Content(expected["round"], expected["place"], expected["epsilon_class"])
    assert content.to_bytes().hex() == expected["content"]


def test_reports_of_a_block_are_alike_to_the_fusion_centre() -> None:
    """Four rounds in four headers, one content in the envelopes: nothing inside tells the round."""
    document, keys = read("carry.json"), read("report.json")
    campaign = Campaign.from_fields(document["fields"])
    assert campaign_bytes(campaign).hex() == document["body"]
    ch = campaign_hash(campaign)
    outer = OuterOpener(ch, [key(Role.SHUFFLER, keys["shuffler_key"])])
    inner = InnerOpener(ch, [key(Role.FUSION, keys["fusion_key"])], class_count=4)
    first = campaign.block_start(495123)
    for report in document["reports"]:
        found = outer.open(bytes.fromhex(report["report"]))
        assert found.round == report["round"]
        content = inner.open(found.inner, key_id=found.mark.fusion_key_id, round=first)
        assert content.to_bytes().hex() == document["content"]
        for other in {found.round, first + 4, first - 4} - {first}:
            with pytest.raises(NotOpened):
                inner.open(found.inner, key_id=found.mark.fusion_key_id, round=other)
