"""Reports and answers through a broker that is not trusted with anything."""

import json
from typing import Any

import pytest
from tests.cases import each_case

from rase.errors import WireError
from rase.wire import cbor, pure
from rase.wire.frames import (
    TAG_BYTES,
    Policy,
    Reply,
    Topics,
    answer_frame,
    authorization_of,
    broker_password,
    credential_key,
    frame_of,
    handle_of,
    read_answer,
    read_authorization,
    read_report,
    report_frame,
    report_id,
)
from rase.wire.signed import MAX_CAMPAIGN_BYTES, MAX_VERSIONS_BYTES

CREDENTIAL = "3f2a90c1d45b6e78.secret"
_TAG = "e49b75c096e47b4235aaea9c83b8fb9e"
HANDLE = "3f2a90c1d45b6e78"
KEY = credential_key("secret")
WIRE = bytes(437)


def test_a_report_is_its_bytes_and_a_tag() -> None:
    """A frame has one size, opens with its key, and holds no part of the secret."""
    frame = report_frame(WIRE, HANDLE, KEY)
    assert len(frame) == len(WIRE) + TAG_BYTES == 453
    assert read_report(frame, HANDLE, KEY) == WIRE
    assert handle_of(CREDENTIAL) == HANDLE
    assert b"secret" not in frame


@each_case("place", [0, 436, 437, 452])
def test_a_changed_frame_is_not_believed(place: int) -> None:
    """One other bit, another handle, another key: each is refused."""
    frame = report_frame(WIRE, HANDLE, KEY)
    changed = frame[:place] + bytes([frame[place] ^ 1]) + frame[place + 1 :]
    assert read_report(changed, HANDLE, KEY) is None
    assert read_report(frame, "0" * 16, KEY) is None
    assert read_report(frame, HANDLE, credential_key("other")) is None
    assert read_report(b"", HANDLE, KEY) is None


def test_a_broker_cannot_make_tags_of_passwords() -> None:
    """What a device shows to the broker is neither its key nor leads to a tag."""
    password = broker_password(KEY)
    assert len(password) == 43
    assert password != broker_password(credential_key("other"))
    forged = report_frame(WIRE, HANDLE, password.encode())
    assert read_report(forged, HANDLE, KEY) is None


def test_answers_are_believed_with_a_tag_only() -> None:
    """An answer names its report; without the shuffler's tag it is worth nothing."""
    for reply in (Reply(201), Reply(410, "round-closed"), Reply(429, "too-many", 12)):
        frame = answer_frame(report_id(WIRE), HANDLE, reply, KEY)
        assert read_answer(frame, HANDLE, KEY) == (report_id(WIRE), reply)
        assert read_answer(frame, "0" * 16, KEY) is None
        assert read_answer(frame[:-1] + bytes([frame[-1] ^ 1]), HANDLE, KEY) is None
        assert read_answer(answer_frame("x", HANDLE, reply, None), HANDLE, KEY) is None


def test_that_a_device_is_not_enrolled_needs_no_tag() -> None:
    """Nobody has a key to tag it with; it makes the device wait, as silence would."""
    reply = Reply(403, "not-enrolled")
    frame = answer_frame("ab", HANDLE, reply, None)
    assert read_answer(frame, HANDLE, KEY) == ("ab", reply)


@each_case(
    "text", [b"", b"[]", b"{}", b"nonsense", json.dumps({"report": "a", "more": 1}).encode()]
)
def test_what_is_no_answer_is_none(text: bytes) -> None:
    """Whatever else is published there is passed over."""
    assert read_answer(text + bytes(TAG_BYTES), HANDLE, KEY) is None


@each_case(
    ("report", "status", "problem"),
    [(1, 201, None), ("a", "201", None), ("a", True, None), ("a", 410, 5), (None, 201, None)],
)
def test_an_answer_of_other_types_is_none(report: Any, status: Any, problem: Any) -> None:
    """JSON has more types than an answer: a tag alone does not make one of them an answer."""
    frame = answer_frame(report, HANDLE, Reply(status, problem), KEY)
    assert read_answer(frame, HANDLE, KEY) is None


def test_a_policy_holds_versions_and_keyset() -> None:
    """The retained message is read back; anything else is malformed."""
    policy = Policy(b"versions", b"keyset")
    assert Policy.from_bytes(policy.to_bytes()) == policy
    for data in (b"", cbor.encode([b"one"]), cbor.encode({"a": b"b"}), cbor.encode([b"a", "b"])):
        with pytest.raises(WireError):
            Policy.from_bytes(data)


def test_the_longest_policy_is_read() -> None:
    """Versions as long as they may be do not leave the keyset without a place."""
    policy = Policy(bytes(MAX_VERSIONS_BYTES), bytes(MAX_CAMPAIGN_BYTES))
    assert Policy.from_bytes(policy.to_bytes()) == policy


def test_topics_are_as_documented() -> None:
    """The names of topics never change."""
    topics = Topics("homes")
    assert topics.policy == "rase/homes/policy"
    assert topics.report(HANDLE) == f"rase/homes/report/{HANDLE}"
    assert topics.answer(HANDLE) == f"rase/homes/answer/{HANDLE}"
    assert topics.estimate == "rase/homes/estimate"
    assert topics.window(24) == "rase/homes/estimate/window/24"
    assert topics.label("north") == "rase/homes/estimate/label/north"
    assert topics.status("fusion") == "rase/homes/fusion/status"


def test_the_bytes_never_change() -> None:
    """Key, tags and password of the documented example are as they always were."""
    assert KEY.hex() == "d13391366885353acb5317b10e02de65aadc7ac8fc44fc94df5b2cb39f91e988"
    assert report_frame(WIRE, HANDLE, KEY)[437:].hex() == "e49b75c096e47b4235aaea9c83b8fb9e"
    assert broker_password(KEY) == "cS9u91lf8NE0KZPmufGUdF7oMhSsKwAfrXLDyQcjLkI"
    answer = answer_frame(report_id(WIRE), HANDLE, Reply(201), KEY)
    assert answer[:-16] == b'{"report":"99d48b66d590c07b","status":201}'
    assert answer[-16:].hex() == "9df75746e100aa53e54537b6d35da314"


def test_a_request_proves_its_report_and_keeps_the_secret() -> None:
    """Handle and tag stand in the header, in the letters of every scheme; nothing else does."""
    header = authorization_of(WIRE, f"{HANDLE}.secret")
    assert header == f"RASE {HANDLE}.{_TAG}"
    assert "secret" not in header
    for written in (header, header.replace("RASE", "rase")):
        assert read_authorization(written.encode()) == (HANDLE, bytes.fromhex(_TAG))
    assert frame_of(WIRE, f"{HANDLE}.secret") == WIRE + bytes.fromhex(_TAG)
    assert pure.authorization_of(WIRE, f"{HANDLE}.secret") == header


@each_case(
    "value", [b"", b"Bearer x.y", b"RASE " + b"0" * 49, b"RASE " + b"\xff" * 49, b"RASE 0.00"]
)
def test_other_headers_prove_nothing(value: bytes) -> None:
    """What is no handle and tag is not guessed at."""
    found = read_authorization(value)
    assert found is None or found[1] == b""
