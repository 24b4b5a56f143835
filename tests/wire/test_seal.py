"""From device to fusion centre: what is sealed opens, and nothing else does."""

import logging
import subprocess
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import each_case

from rase.errors import (
    Malformed,
    NotOpened,
    UnknownKey,
    UnknownVersion,
    Unsupported,
    WireError,
    WrongCampaign,
    WrongRound,
    WrongSize,
)
from rase.wire.inner import InnerOpener, replay_tag
from rase.wire.keys import KeyConfig, OpeningKey
from rase.wire.messages import CONTENT_SIZE, Content, Header, Mark, inner_info, outer_info
from rase.wire.outer import OuterOpener
from rase.wire.seal import seal_cover, seal_report
from rase.wire.suites import X25519, X_WING, public_key, suite

Keys = dict[str, OpeningKey]
Configs = dict[str, KeyConfig]
CONTENT = Content(495123, -31337, 1)
HPKE = "cryptography.hazmat.primitives.hpke"


def outer_opener(ch: bytes, openers: Keys, *, inner_kem: int = X25519) -> OuterOpener:
    """Return the shuffler."""
    return OuterOpener(ch, [openers["shuffler"]], inner_kem=inner_kem)


def inner_opener(ch: bytes, openers: Keys) -> InnerOpener:
    """Return the fusion centre."""
    keys = [key for name, key in openers.items() if name != "shuffler"]
    return InnerOpener(ch, keys, class_count=4)


def opened(report: bytes, ch: bytes, openers: Keys, *, inner_kem: int = X25519) -> Content:
    """Send a report all the way."""
    found = outer_opener(ch, openers, inner_kem=inner_kem).open(report)
    return inner_opener(ch, openers).open(
        found.inner, key_id=found.mark.fusion_key_id, round=found.round
    )


@pytest.fixture(scope="session")
def fixed_report(vectors: ModuleType) -> bytes:
    """A report of the test vectors."""
    return bytes.fromhex(vectors.report(0, "a place in the range")["report"])


@pytest.fixture
def sealed(ch: bytes, configs: Configs) -> bytes:
    """A report of the default suite."""
    return seal_report(
        CONTENT, campaign_hash=ch, shuffler=configs["shuffler"], fusion=configs["fusion"], keyset=5
    )


@each_case(
    "case",
    [("fusion", X25519, 437), ("fusion-aes", X25519, 437), ("fusion-x-wing", X_WING, 1525)],
)
def test_reports_arrive_in_every_suite(
    ch: bytes, configs: Configs, openers: Keys, case: tuple[str, int, int]
) -> None:
    """Size and content are those of the protocol."""
    fusion, kem, size = case
    report = seal_report(
        CONTENT, campaign_hash=ch, shuffler=configs["shuffler"], fusion=configs[fusion], keyset=5
    )
    assert len(report) == size
    assert Header.from_report(report) == Header(7, ch[:8], 495123, 5)
    assert opened(report, ch, openers, inner_kem=kem) == CONTENT


@given(
    content=st.builds(
        Content,
        round=st.integers(0, 2**32 - 1),
        place=st.integers(-(2**63), 2**63 - 1),
        epsilon_class=st.integers(0, 3),
    )
)
def test_every_place_arrives(ch: bytes, configs: Configs, openers: Keys, content: Content) -> None:
    """Negative places and places beyond the range too."""
    report = seal_report(
        content, campaign_hash=ch, shuffler=configs["shuffler"], fusion=configs["fusion"], keyset=5
    )
    assert opened(report, ch, openers) == content


def test_cover_reports_look_like_others(ch: bytes, configs: Configs, openers: Keys) -> None:
    """Same size, same header; only the closer can tell, and no fusion centre counts it."""
    first, second = configs["shuffler"], configs["fusion"]
    cover = seal_cover(
        round=495123, block=495123, campaign_hash=ch, shuffler=first, fusion=second, keyset=5
    )
    report = seal_report(
        CONTENT, campaign_hash=ch, label=7, shuffler=first, fusion=second, keyset=5
    )
    assert len(cover) == len(report)
    assert cover[:18] == report[:18]
    marks = [outer_opener(ch, openers).open(wire).mark for wire in (cover, report)]
    assert marks == [Mark(configs["fusion"].id, is_cover=True), Mark(configs["fusion"].id, label=7)]
    with pytest.raises(UnknownVersion):
        opened(cover, ch, openers)


def test_a_mark_that_is_none_is_refused(ch: bytes, configs: Configs, openers: Keys) -> None:
    """A sealed mark of a later protocol is named, and not guessed at."""
    header = Header(configs["shuffler"].id, ch[:8], 495123, 5).to_bytes()
    config = configs["shuffler"]
    key = public_key(config.kem, config.public_key)
    mark = bytes((2, 0, 9))
    sealed = suite(config.kem, config.aead).encrypt(mark + bytes(368), key, outer_info(ch, header))
    with pytest.raises(Malformed, match="flag"):
        outer_opener(ch, openers).open(header + sealed)


def test_every_flipped_bit_is_refused(sealed: bytes, ch: bytes, openers: Keys) -> None:
    """All 1160 bits of one report, each by name."""
    refusals = set()
    for bit in range(8 * len(sealed)):
        bad = bytearray(sealed)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError) as refused:
            opened(bytes(bad), ch, openers)
        refusals.add(type(refused.value))
    assert refusals == {UnknownVersion, UnknownKey, WrongCampaign, NotOpened}


@pytest.mark.uncovered
@given(flips=st.sets(st.integers(0, 437 * 8 - 1), min_size=1), cut=st.integers(0, 20))
@settings(max_examples=200)
def test_mangled_reports_are_refused(
    fixed_report: bytes, ch: bytes, openers: Keys, flips: set[int], cut: int
) -> None:
    """Any number of flipped bits, and any cut."""
    bad = bytearray(fixed_report)
    for bit in flips:
        bad[bit // 8] ^= 1 << bit % 8
    with pytest.raises(WireError):
        opened(bytes(bad[: len(bad) - cut]), ch, openers)


@given(flips=st.sets(st.integers(0, 368 * 8 - 1), min_size=1))
def test_a_shuffler_cannot_change_an_envelope(
    fixed_report: bytes, ch: bytes, openers: Keys, flips: set[int]
) -> None:
    """Any change of the inner 368 bytes is refused by the fusion centre."""
    found = outer_opener(ch, openers).open(fixed_report)
    bad = bytearray(found.inner)
    for bit in flips:
        bad[bit // 8] ^= 1 << bit % 8
    with pytest.raises(NotOpened):
        inner_opener(ch, openers).open(bytes(bad), key_id=9, round=found.round)


def test_the_outer_refusals_have_names(
    sealed: bytes, ch: bytes, configs: Configs, openers: Keys
) -> None:
    """Truncated, oversized, another campaign, another version, an unknown and a wrong key."""
    shuffler = outer_opener(ch, openers)
    for bad in (b"", sealed[:-1], sealed + b"\0", bytes(1525)):
        with pytest.raises(WrongSize, match="must have 437 bytes"):
            shuffler.open(bad)
    with pytest.raises(UnknownVersion, match="report version 1"):
        shuffler.open(b"\x01" + sealed[1:])
    with pytest.raises(WrongCampaign):
        outer_opener(bytes(32), openers).open(sealed)
    # The tag in the header is short; the envelope is bound to the whole hash.
    with pytest.raises(NotOpened):
        outer_opener(ch[:8] + bytes(24), openers).open(sealed)
    with pytest.raises(UnknownKey, match="key 7"):
        OuterOpener(ch, [replace(openers["shuffler"], id=8)]).open(sealed)
    with pytest.raises(NotOpened):
        OuterOpener(ch, [replace(openers["shuffler"], secret=bytes(32))]).open(sealed)
    moved = Header(7, ch[:8], 495124, 5).to_bytes() + sealed[18:]
    with pytest.raises(NotOpened):
        shuffler.open(moved)


def test_one_report_does_not_change_how_the_next_is_read(
    ch: bytes, configs: Configs, openers: Keys
) -> None:
    """Reports of several rounds and campaigns in turn open as if each came alone."""
    opener = outer_opener(ch, openers)
    contents = [replace(CONTENT, round=round) for round in (1, 1, 2, 1)]
    wires = [
        seal_report(
            content,
            campaign_hash=ch,
            shuffler=configs["shuffler"],
            fusion=configs["fusion"],
            keyset=5,
        )
        for content in contents
    ]
    foreign = wires[0][:2] + bytes(8) + wires[0][10:]
    for content, wire in zip(contents, wires, strict=True):
        assert opener.open(wire) == outer_opener(ch, openers).open(wire)
        assert opener.open(wire).round == content.round
        for _ in range(2):
            with pytest.raises(WrongCampaign):
                opener.open(foreign)


def test_the_inner_refusals_have_names(sealed: bytes, ch: bytes, openers: Keys) -> None:
    """Truncated, oversized, wrong key, round and campaign."""
    inner = outer_opener(ch, openers).open(sealed).inner
    fusion = inner_opener(ch, openers)
    for bad in (b"", inner[:-1], inner + b"\0"):
        with pytest.raises(WrongSize, match="must have 368 bytes"):
            fusion.open(bad, key_id=9, round=495123)
    with pytest.raises(UnknownKey, match="key 8"):
        fusion.open(inner, key_id=8, round=495123)
    for key_id, round in ((10, 495123), (9, 495124)):
        with pytest.raises(NotOpened):
            fusion.open(inner, key_id=key_id, round=round)
    with pytest.raises(NotOpened):
        inner_opener(bytes(32), openers).open(inner, key_id=9, round=495123)


def sealed_content(data: bytes, ch: bytes, configs: Configs) -> bytes:
    """Seal any content as a dishonest device could."""
    config = configs["fusion"]
    key = public_key(config.kem, config.public_key)
    return suite(config.kem, config.aead).encrypt(data, key, inner_info(ch, 495123))


def test_dishonest_contents_are_refused(ch: bytes, configs: Configs, openers: Keys) -> None:
    """Another round inside, an unknown class, padding, a version: each has a name."""
    fusion = InnerOpener(ch, [openers["fusion"]], class_count=2)
    good = CONTENT.to_bytes()
    for data, kind in (
        (Content(495124, 5).to_bytes(), WrongRound),
        (Content(495123, 5, 2).to_bytes(), Malformed),
        (good[:31] + b"\1" + good[32:], Malformed),
        (b"\x01" + good[1:], UnknownVersion),
    ):
        assert len(data) == CONTENT_SIZE
        with pytest.raises(kind) as refused:
            fusion.open(sealed_content(data, ch, configs), key_id=9, round=495123)
        assert refused.value.problem == "bad-report"
    assert fusion.open(sealed_content(good, ch, configs), key_id=9, round=495123) == CONTENT


def test_keys_open_only_their_own_side(ch: bytes, openers: Keys) -> None:
    """Each opener refuses the other server's keys."""
    with pytest.raises(ValueError, match="keys of the shuffler"):
        OuterOpener(ch, [openers["fusion"]])
    with pytest.raises(ValueError, match="keys of the fusion centre"):
        InnerOpener(ch, [openers["shuffler"]], class_count=1)


def test_wrong_arguments_of_the_sealer_are_refused(ch: bytes, configs: Configs) -> None:
    """Keys in the wrong places and a hash of another size."""
    with pytest.raises(ValueError, match="must be the keys of those servers"):
        seal_report(
            CONTENT,
            campaign_hash=ch,
            shuffler=configs["fusion"],
            fusion=configs["fusion"],
            keyset=5,
        )
    with pytest.raises(ValueError, match="32 bytes, got 31"):
        seal_report(
            CONTENT,
            campaign_hash=ch[1:],
            shuffler=configs["shuffler"],
            fusion=configs["fusion"],
            keyset=5,
        )


@pytest.mark.parametrize("has_cryptography", [True, False])
def test_keys_of_small_order_are_refused(
    ch: bytes, configs: Configs, monkeypatch: pytest.MonkeyPatch, has_cryptography: bool
) -> None:
    """By both sealers."""
    if not has_cryptography:
        monkeypatch.setitem(sys.modules, HPKE, None)
    bad = replace(configs["fusion"], public_key=bytes(32))
    with pytest.raises(Malformed, match="key 9 of the fusion cannot be sealed for"):
        seal_report(CONTENT, campaign_hash=ch, shuffler=configs["shuffler"], fusion=bad, keyset=5)


def test_without_cryptography_the_pure_sealer_does_it(
    ch: bytes, configs: Configs, openers: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same report for the default suite; others are said to be unsupported."""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, HPKE, None)
        report = seal_report(
            CONTENT,
            campaign_hash=ch,
            shuffler=configs["shuffler"],
            fusion=configs["fusion"],
            keyset=5,
        )
        for name in ("fusion-aes", "fusion-x-wing"):
            with pytest.raises(Unsupported, match="needs the package cryptography, 48 or newer"):
                seal_report(
                    CONTENT,
                    campaign_hash=ch,
                    shuffler=configs["shuffler"],
                    fusion=configs[name],
                    keyset=5,
                )
    assert opened(report, ch, openers) == CONTENT


def test_replay_tags_tell_envelopes_apart(ch: bytes, configs: Configs, openers: Keys) -> None:
    """The same value sealed twice has two tags; the same envelope has one."""
    inner = [
        outer_opener(ch, openers)
        .open(
            seal_report(
                CONTENT,
                campaign_hash=ch,
                shuffler=configs["shuffler"],
                fusion=configs["fusion"],
                keyset=5,
            )
        )
        .inner
        for _ in range(2)
    ]
    assert replay_tag(inner[0]) != replay_tag(inner[1])
    assert replay_tag(inner[0]) == replay_tag(bytes(inner[0]))
    assert len(replay_tag(inner[0])) == 16


def test_nothing_secret_is_shown(
    sealed: bytes, ch: bytes, openers: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither value nor key stands in reprs, refusals or logs of a whole way."""
    caplog.set_level(logging.DEBUG)
    shown = [repr(CONTENT), repr(openers), repr(outer_opener(ch, openers))]
    for bad in (sealed[:-1], b"\x01" + sealed[1:], sealed[:-1] + b"\0", sealed):
        try:
            shown.append(repr(opened(bad, ch, openers)))
        except WireError as error:
            shown += [str(error), repr(error)]
    text = "\n".join(shown) + caplog.text
    assert "31337" not in text
    for key in openers.values():
        assert key.secret.hex() not in text
        assert repr(key.secret) not in text


WEIGHT = """
import sys, rase.wire.seal, rase.wire.signed
heavy = {"numpy", "fastapi", "click", "cbor2", "rase.wire.outer", "rase.wire.inner"}
print(sorted(heavy & set(sys.modules)))
"""


def test_the_sealer_is_light() -> None:
    """A device imports neither numpy nor what opens envelopes."""
    done: Any = subprocess.run(
        [sys.executable, "-c", WEIGHT], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_outer_info_is_part_of_the_vectors(ch: bytes) -> None:
    """The context begins with its own name, so no envelope serves as the other."""
    assert outer_info(ch, bytes(14))[:12] != inner_info(ch, 0)[:12]
