"""Write the first inputs of every target's corpus: the test vectors, and one good example each.

`python -m fuzz.seeds` writes them; the file's name is the hash of its content, so that the same
seed is kept once. What atheris or a mutation found is added beside them under its own hash.
"""

import gzip
import hashlib
import io
import json
import sys
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

from fuzz.targets import CORPUS, TARGETS
from fuzz.wire_targets import CAMPAIGN_HASH, HANDLE, TAG_KEY, opening_key, signing_key
from rase.answer import Answer
from rase.wire import cbor
from rase.wire.frames import Policy, Reply, answer_frame, report_frame
from rase.wire.keys import Keyset, Role
from rase.wire.messages import Batch, BatchManifest, Content
from rase.wire.parcel import header_of
from rase.wire.problems import PROBLEM_TYPES, Problem
from rase.wire.seal import seal_report
from rase.wire.signed import (
    SignedCampaign,
    SignedKeyset,
    SignedManifest,
    campaign_from_bytes,
    signature_of,
    versions_bytes,
)

__all__ = ["keep", "seeds"]

_ROOT: Final = Path(__file__).parent.parent
_VECTORS: Final = _ROOT / "tests/wire/vectors"
_TIMES: Final = {"not_before_s": 0, "not_after_s": 2**31}
_HOUSE: Final = b"""Time,Unix,Aggregate,Appliance1,Appliance2,Appliance3,Appliance4,Appliance5,\
Appliance6,Appliance7,Appliance8,Appliance9,Issues
2013-10-09 13:06:17,1381323977,523,74,0,69,0,0,0,0,0,1,0
2013-10-09 13:06:31,1381323991,526,75,0,69,0,0,0,0,0,1,0
2013-10-09 13:06:46,1381324006,540,74,0,68,5000,0,0,0,0,1,1
2013-10-09 14:07:01,1381327621,532,74,0,68,0,0,,0,0,1,0
"""
_CHUNKED: Final = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n"
)
_TABLE: Final = b"time,device,value\n2024-05-31T18:00:00Z,kettle,1\n2024-05-31T18:00:00Z,oven,2.5\n"
_WIDE: Final = b"time;kettle;oven\n2024-05-31T18:00:00;1,5;2\n2024-05-31T19:00:00;;3,25\n"


def main() -> int:
    """Write all seeds."""
    for name, inputs in seeds().items():
        for data in inputs:
            keep(name, data)
    return 0


def keep(name: str, data: bytes) -> Path:
    """Put an input into the corpus of a target."""
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


def seeds() -> dict[str, list[bytes]]:
    """Return the first inputs by target."""
    found = {**_wire_seeds(), **_broker_seeds(), **_answer_seeds(), **_source_seeds()}
    found |= {**_table_seeds(), **_settings_seeds()}
    assert set(found) == set(TARGETS)
    return found


def _vector(name: str) -> Any:
    return json.loads((_VECTORS / f"{name}.json").read_text("utf-8"))


def _wire_seeds() -> dict[str, list[bytes]]:
    bodies = {name: bytes.fromhex(_vector(name)["body"]) for name in ("campaign", "carry")}
    campaign = campaign_from_bytes(bodies["campaign"])
    reports = _vector("report")["reports"]
    envelope = bytes(368)
    batch = Batch(CAMPAIGN_HASH, 495_123, 7, (envelope, envelope)).to_bytes()
    manifest = _manifest(batch)
    keyset = Keyset(
        version=1,
        cache_s=3600,
        configs=tuple(opening_key(role).config(**_TIMES) for role in Role),
    )
    signed = {role: signing_key(role) for role in Role}
    signatures = [
        [signature_of(value, signed[role]) for role in (Role.FUSION, Role.SHUFFLER)]
        for value in (campaign, keyset)
    ]
    signed_campaign = SignedCampaign(campaign, *signatures[0]).to_bytes()
    signed_manifest = SignedManifest(
        manifest, signature_of(manifest, signed[Role.SHUFFLER])
    ).to_bytes()
    sealed = _sealed()
    contents = [bytes.fromhex(one["content"]) for one in reports]
    return {
        "cbor": [
            *bodies.values(),
            cbor.encode([0, -1, 2.5, True, None, "é", b"x", {"a": [1e300, 2**63]}]),
            cbor.encode([b"1234"] * 70),
        ],
        "header": [bytes.fromhex(reports[0]["report"]), sealed],
        "content": contents,
        "sealed_content": [*contents, Content(495_123, 5, 1).to_bytes()],
        "outer": [sealed],
        "inner": [envelope],
        "batch": [batch, Batch(CAMPAIGN_HASH, 0, 0, ()).to_bytes()],
        "manifest": [manifest.to_bytes()],
        "keyset": [keyset.to_bytes()],
        "campaign": list(bodies.values()),
        "signed": [
            signed_campaign,
            SignedKeyset(keyset, *signatures[1]).to_bytes(),
            signed_manifest,
        ],
        "policy": [
            Policy(signed_campaign, keyset.to_bytes()).to_bytes(),
            versions_bytes([signed_campaign]),
        ],
        "manifest_header": [header_of(signed_manifest)["RASE-Manifest"].encode()],
        "gateway": [cbor.encode([[f"{HANDLE}.secret", sealed]])],
        "key_text": [
            opening_key(Role.FUSION).to_text().encode(),
            signing_key(Role.SHUFFLER).to_text().encode(),
        ],
    }


def _manifest(batch: bytes) -> BatchManifest:
    return BatchManifest(
        batch_id=hashlib.sha256(batch).digest(),
        shuffler="one",
        n=2,
        k_min=2,
        method="mallows",
        theta=0.5,
        alpha=1.0,
        real_loss=2.0,
        attacker_success=0.5,
    )


def _sealed() -> bytes:
    return seal_report(
        Content(495_123, 5),
        round=495_123,
        campaign_hash=CAMPAIGN_HASH,
        shuffler=opening_key(Role.SHUFFLER).config(**_TIMES),
        fusion=opening_key(Role.FUSION).config(**_TIMES),
        keyset=1,
    )


def _broker_seeds() -> dict[str, list[bytes]]:
    told = [Reply(201), Reply(429, "too-many", 5), Reply(401, "not-enrolled")]
    frames = [answer_frame("0123456789abcdef", HANDLE, reply, TAG_KEY) for reply in told]
    # Without its tag too: the target adds one.
    return {
        "frame": [report_frame(bytes(143), HANDLE, TAG_KEY)],
        "reply": [*frames, frames[1][:-16]],
        "problem": [Problem(PROBLEM_TYPES["round-closed"], "Closed.", {"round": 7}).to_json()],
    }


def _answer_seeds() -> dict[str, list[bytes]]:
    time = "2026-06-21T01:00:00Z"
    answer = Answer(campaign="homes", time=time, round=7, value=1.5, n=5, method="unbiased_mean")
    line = json.dumps(answer.as_fields())
    return {
        "http_answer": [
            b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: "a"\r\n\r\nhello',
            b"HTTP/1.1 100 Continue\r\n\r\n" + _CHUNKED,
            b"HTTP/1.0 204 No Content\r\n\r\n",
        ],
        "enrolment": [b'{"device":"3f2a","server_key":"CQ' + b"A" * 41 + b'","proof":"e94b06e2"}'],
        "means": [line.encode(), f"[{line}]".encode()],
        "events": [
            f"retry: 2000\nid: 7\nevent: estimate\ndata: {line}\n\n: still here\n\n".encode()
        ],
    }


def _source_seeds() -> dict[str, list[bytes]]:
    return {
        "meter": [
            b'{"Time":"2026-01-01T00:00:00","ENERGY":{"Total":3.185,"Power":70}}',
            b'{"id":0,"apower":8.9,"aenergy":{"total":6.532},"temperature":{"tC":23.5}}',
            b'{"power":12.5,"energy":1,"temperature":null}',
            b"41.93",
        ],
        "meter_http": [b'{"meters":[{"power":12.5}],"apower":"3"}', b"41.93"],
        "home_assistant": [
            b'{"state":"1.5","attributes":{"unit_of_measurement":"kW"}}',
            b'{"state":"unavailable"}',
        ],
        "csv_source": [b'time,power\n1,2.5\n2,"3"\n3,\n'],
        "pipe": [b"1.5\n\n2e3\n"],
    }


def _table_seeds() -> dict[str, list[bytes]]:
    parquet = io.BytesIO()
    columns = {"time": [1, 2], "device": ["a", "b"], "value": [1.0, None]}
    pyarrow.parquet.write_table(pa.table(columns), parquet, compression="none")
    without = (
        _HOUSE.replace(b",Issues", b"").replace(b",1,0\n", b",1\n").replace(b",1,1\n", b",1\n")
    )
    packed = gzip.compress(_TABLE, mtime=0)
    return {
        "refit": [_HOUSE, without],
        "table": [_TABLE, b"time,device,value\n5,1,2\n6,1,\n", packed, parquet.getvalue()],
        "wide": [_WIDE, b"time,a\n1,2\n", gzip.compress(_WIDE, mtime=0)],
        "edges": [b"kettle,fridge\nfridge,oven\n"],
    }


def _settings_seeds() -> dict[str, list[bytes]]:
    files = {path.stem: path.read_bytes() for path in (_ROOT / "deploy/config").glob("*.toml")}
    fields = _vector("campaign")["fields"]
    shuffle = fields.pop("shuffle")
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    lines += ["[campaign.shuffle]"]
    lines += [
        f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in shuffle.items()
    ]
    return {
        "device_toml": [_plain(files["device-full"])],
        "server_toml": [_plain(files[one]) for one in ("shuffler-full", "fusion-full")],
        "campaign_toml": ["\n".join(["[campaign]", *lines]).encode()],
        "device_state": [_state()],
    }


def _plain(text: bytes) -> bytes:
    """Leave comments out: a mutation of a comment tries nothing."""
    lines = [line.partition(b" #")[0] for line in text.split(b"\n") if line[:1] not in (b"#", b"")]
    return b"\n".join(lines) + b"\n"


def _state() -> bytes:
    return json.dumps(
        {"campaigns": ["AQI="], "keyset": "AQI=", "covers": {"7": ["AQI=", True]}}
    ).encode()


if __name__ == "__main__":
    sys.exit(main())
