"""Batches are taken in once, and only if everything about them is right."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    KEYS,
    PINNED,
    ROUND,
    Centre,
    Parcel,
    envelope,
    keyset,
    parcel,
    reports,
)
from tests.registering import STOCK, EveryWindow

from rase.campaign import ShufflePlan
from rase.errors import StorageUnusable, WireError
from rase.fusion.campaigns import next_version
from rase.fusion.intake import Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.settings import FusionLimits, FusionPolicy
from rase.storage.sqlite import open_sqlite
from rase.wire import cbor
from rase.wire.keys import OpeningKey, Role, SigningKey
from rase.wire.messages import Content, LabelCount, batch_id, inner_info
from rase.wire.signed import campaign_hash
from rase.wire.suites import X_WING, public_bytes, public_key, suite

PLACES = [0, 100, 2048, 3000, 4096]


def refused(centre: Centre, sent: Parcel) -> str:
    """Send what must be refused; return the problem, after seeing that nothing changed."""
    before = [centre.count(table) for table in ("rounds", "batches", "opened")]
    with pytest.raises(WireError) as error:
        sent.deliver(centre.intake)
    assert [centre.count(table) for table in ("rounds", "batches", "opened")] == before
    return error.value.problem


def test_a_batch_is_taken_in_once(centre: Centre) -> None:
    """The same bytes again are answered as known and add nothing."""
    sent = parcel(reports(PLACES))
    assert sent.deliver(centre.intake).is_new
    for _ in range(3):
        assert not sent.deliver(centre.intake).is_new
    assert centre.count("batches") == centre.count("opened") == 1


def test_a_known_batch_is_known_after_its_round_is_final(centre: Centre) -> None:
    """A shuffler that lost the answer hears 200, not that it came too late."""
    sent = parcel(reports(PLACES))
    sent.deliver(centre.intake)
    centre.rounds.tick()
    assert not sent.deliver(centre.intake).is_new


def test_a_final_round_takes_no_other_batch(centre: Centre) -> None:
    """A second batch cannot change an estimate."""
    sent = parcel(reports(PLACES))
    sent.deliver(centre.intake)
    centre.rounds.tick()
    assert refused(centre, parcel(reports([4096] * 5))) == "final-round"


def test_replayed_envelopes_add_nothing(centre: Centre) -> None:
    """Neither within a batch nor in another batch of the round."""
    inner = reports(PLACES)
    first = parcel([*inner, inner[0], inner[0]])
    assert first.deliver(centre.intake).replayed == 2
    second = parcel([*inner, *reports([7])])
    assert second.deliver(centre.intake).replayed == 5
    (done,) = centre.rounds.tick()
    answer = centre.questions.at(CAMPAIGN, done.round)
    assert answer.n == 6


def test_the_batch_id_must_be_the_hash(centre: Centre) -> None:
    """A batch under another id is refused."""
    sent = parcel(reports(PLACES))
    other = parcel(reports(PLACES))
    assert refused(centre, replace(sent, id=other.id)) == "bad-batch"
    assert refused(centre, replace(sent, id=b"")) == "bad-batch"
    assert refused(centre, replace(sent, body=other.body)) == "bad-batch"


def test_a_manifest_of_another_batch_is_refused(centre: Centre) -> None:
    """The manifest stands for one batch."""
    sent, other = parcel(reports(PLACES)), parcel(reports(PLACES))
    assert refused(centre, replace(sent, manifest=other.manifest)) == "bad-batch"


def test_forged_batches_are_refused(centre: Centre) -> None:
    """Only the pinned shuffler's signature counts."""
    forger = SigningKey(role=Role.SHUFFLER, secret=bytes([9]) * 32)
    assert refused(centre, parcel(reports(PLACES), signer=forger)) == "bad-batch"


def test_tampered_batches_are_refused(centre: Centre) -> None:
    """Any changed byte is noticed."""
    sent = parcel(reports(PLACES))
    for part in ("body", "manifest"):
        whole = getattr(sent, part)
        for place in range(0, len(whole), 7):
            changed = bytearray(whole)
            changed[place] ^= 1
            assert refused(centre, replace(sent, **{part: bytes(changed)})) == "bad-batch"


@pytest.mark.any_store
@pytest.mark.parametrize(
    "payload", [b"", b"\xff", cbor.encode([]), cbor.encode([b"", b"", b""]), cbor.encode({})]
)
def test_what_is_no_batch_is_refused(centre: Centre, payload: bytes) -> None:
    """Malformed bytes are bad batches, even if the shuffler signed for them."""
    sent = parcel(reports(PLACES), batch_id=batch_id(payload))
    assert refused(centre, Parcel(batch_id(payload), payload, sent.manifest)) == "bad-batch"
    assert refused(centre, replace(sent, id=batch_id(payload), manifest=payload)) == "bad-batch"


def test_oversized_batches_are_refused(centre: Centre) -> None:
    """The operator's limit holds before anything is looked at."""
    centre.policy = FusionPolicy(limits=FusionLimits(max_batch_bytes=1024))
    centre.__post_init__()
    assert refused(centre, parcel(reports(range(20)))) == "bad-batch"


@pytest.mark.any_store
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"n": 6}, "bad-batch"),
        ({"k_min": 3}, "bad-batch"),
        ({"method": "mallows", "theta": 1.0}, "bad-batch"),
        ({"alpha": 0.5}, "bad-batch"),
    ],
)
def test_manifests_must_keep_the_campaigns_promises(
    centre: Centre, changes: dict[str, Any], problem: str
) -> None:
    """A shuffle that promises less than the campaign is refused."""
    assert refused(centre, parcel(reports(PLACES), **changes)) == problem


def test_a_batch_below_k_is_refused(centre: Centre) -> None:
    """Fewer reports than k_min are never estimated."""
    assert refused(centre, parcel(reports([1, 2, 3]))) == "below-k"


def test_a_robust_campaign_takes_both_laws(centre: Centre) -> None:
    """Robust shuffling may be uniform or Mallows, with the campaign's alpha at most."""
    plan = ShufflePlan("robust", alpha=2.0, groups=("a", "b"))
    robust = replace(CAMPAIGN, id="robust", shuffle=plan)
    centre.publisher.publish(robust)
    laws: tuple[dict[str, Any], ...] = (
        {"method": "uniform"},
        {"method": "mallows", "theta": 0.5, "alpha": 2.0, "real_loss": 3.0},
    )
    for round, law in zip((ROUND, ROUND - 1), laws, strict=True):
        inner = reports(PLACES, campaign=robust, round=round)
        sent = parcel(inner, campaign=robust, round=round, **law)
        sent.deliver(centre.intake)
    assert len(centre.rounds.tick()) == 2
    words = [one.shuffle for one in centre.questions.between(robust, 0, ROUND)]
    assert words[1].startswith("uniform shuffle by shuffler-1")
    assert words[0].startswith("Mallows shuffle by shuffler-1: 2-d_σ privacy")
    # Theta 0.5 and five reports name the first sender with probability 0.393 / 0.918.
    assert "(the most exposed slot: 43 %)" in words[0]


def test_unknown_campaigns_are_refused(centre: Centre) -> None:
    """A batch of a campaign that was never published here is refused."""
    other = replace(CAMPAIGN, id="elsewhere")
    sent = parcel(reports(PLACES, campaign=other), campaign=other)
    assert refused(centre, sent) == "unknown-campaign"


def test_a_version_holds_in_its_rounds_only(centre: Centre) -> None:
    """After a new version has begun the old one's reports count no more, and not before."""
    newer = next_version(CAMPAIGN, not_before=ROUND + 5, beta=0.2)
    centre.publisher.publish(newer)
    early = parcel(reports(PLACES, campaign=newer), campaign=newer)
    assert refused(centre, early) == "bad-batch"
    centre.clock.advance(6 * 3600)
    late = parcel(reports(PLACES, round=ROUND + 5), round=ROUND + 5)
    assert refused(centre, late) == "bad-batch"
    right = parcel(
        reports(PLACES, round=ROUND + 5, campaign=newer), round=ROUND + 5, campaign=newer
    )
    assert right.deliver(centre.intake).is_new


def test_a_round_that_has_not_ended_is_refused_for_now(centre: Centre) -> None:
    """The same bytes are taken when the clock has come so far."""
    sent = parcel(reports(PLACES, round=ROUND + 1), round=ROUND + 1)
    assert refused(centre, sent) == "round-not-open"
    centre.clock.advance(3600)
    assert sent.deliver(centre.intake).is_new


def test_a_key_that_is_not_held_is_named(centre: Centre) -> None:
    """The operators must be told; nothing is lost, the shuffler keeps the batch."""
    centre.opener = BatchOpener([KEYS[9]], processes=0)
    centre.__post_init__()
    assert refused(centre, parcel(reports(PLACES))) == "key-not-held"


def break_byte(inner: bytes) -> bytes:
    """Change one byte of an envelope."""
    return inner[:-1] + bytes([inner[-1] ^ 1])


@pytest.mark.any_store
@pytest.mark.parametrize(
    "spoil",
    [
        lambda: break_byte(envelope(1)),
        lambda: envelope(1, round=ROUND - 1),
        lambda: envelope(1, key_id=9),
        lambda: envelope(1, campaign=replace(CAMPAIGN, beta=0.1)),
        lambda: envelope(4097),
        lambda: envelope(-1),
        lambda: envelope(2**60),
        lambda: envelope(1, epsilon_class=1),
        lambda: envelope(0, content=bytes(320)),
        lambda: envelope(0, content=bytes(31) + b"\x01" + bytes(288)),
    ],
    ids=[
        "tampered",
        "of another round",
        "for another key",
        "of another campaign",
        "above the grid",
        "below the grid",
        "far away",
        "of no class",
        "of no version",
        "with padding",
    ],
)
def test_bad_envelopes_are_dropped_and_counted(centre: Centre, spoil: Callable[[], bytes]) -> None:
    """One device that breaks the protocol spoils nothing for the others."""
    sent = parcel([*reports(PLACES), spoil()])
    assert sent.deliver(centre.intake).refused == 1
    centre.rounds.tick()
    assert centre.questions.at(CAMPAIGN, ROUND).n == len(PLACES)


def test_cover_reports_are_refused(centre: Centre) -> None:
    """What a cover report holds is no reading; no honest shuffler forwards one."""
    receipt = parcel([*reports(PLACES), envelope(0, content=bytes(320))]).deliver(centre.intake)
    assert (receipt.refused, receipt.replayed) == (1, 0)
    with centre.database.snapshot() as transaction:
        assert transaction.execute("SELECT opened, refused FROM batches") == [(5, 1)]


def test_a_uniform_order_is_taken_for_any_other(centre: Centre) -> None:
    """A shuffler whose groups bound nothing in a round draws uniformly, which hides more."""
    mallows = replace(CAMPAIGN, id="ranked", shuffle=ShufflePlan("mallows", 0.5, ("a", "b")))
    centre.publisher.publish(mallows)
    parcel(reports(PLACES, campaign=mallows), campaign=mallows).deliver(centre.intake)
    assert centre.count("batches") == 1


def test_each_label_needs_k_min_reports(centre: Centre) -> None:
    """Labels are public, so a batch with too few of one singles their senders out."""
    envelopes = tuple(reports([1000] * 8))
    for few in (1, 3):
        labels = (LabelCount(0, few), LabelCount(3, 8 - few))
        with pytest.raises(WireError, match="of each label") as refused:
            parcel(envelopes, labels=labels).deliver(centre.intake)
        assert refused.value.problem == "below-k"
    parcel(envelopes, labels=(LabelCount(0, 4), LabelCount(3, 4))).deliver(centre.intake)
    assert centre.count("batches") == 1


def test_two_keys_make_one_round(centre: Centre) -> None:
    """While devices may seal for two keys, a round waits for the batch of the second."""
    centre.publisher.publish_keyset(keyset(7, 9, version=2))
    first = parcel(reports([100] * 5))
    second = parcel(reports([200] * 5, key_id=9), key_id=9)
    first.deliver(centre.intake)
    assert centre.rounds.tick() == []
    centre.clock.advance(59)
    second.deliver(centre.intake)
    assert centre.rounds.tick() == []
    centre.clock.advance(1)
    (done,) = centre.rounds.tick()
    assert centre.questions.at(CAMPAIGN, done.round).n == 10


def test_without_a_keyset_a_round_is_settled_at_once(centre: Centre) -> None:
    """A fusion centre whose keys were given by hand need not wait."""
    with centre.database.transaction() as transaction:
        transaction.execute("DELETE FROM keysets")
    sent = parcel(reports(PLACES))
    sent.deliver(centre.intake)
    assert len(centre.rounds.tick()) == 1


def test_another_process_may_be_faster(centre: Centre) -> None:
    """A batch that arrives twice at the same moment is taken in once."""
    sent = parcel(reports(PLACES))

    class Slow(BatchOpener):
        def open(self, batch, **more):  # type: ignore[no-untyped-def]
            sent.deliver(centre.intake)
            return super().open(batch, **more)

    slow = Intake(
        centre.database,
        centre.clock,
        pinned=PINNED,
        opener=Slow(list(KEYS.values()), processes=0),
        token_keys=EveryWindow(),
    )
    assert not sent.deliver(slow).is_new
    assert centre.count("batches") == 1


@pytest.mark.sqlite
def test_a_corrupt_database_is_named(path: Path, centre: Centre) -> None:
    """A damaged file is refused when it is opened."""
    centre.database.close()
    path.write_bytes(b"no database at all, but long enough to be taken for one" * 100)
    with pytest.raises(StorageUnusable, match="damaged"):
        open_sqlite(path, migrations="fusion")


@pytest.mark.parametrize("name", ["keep_values_s", "settle_s", "keep_access_log_s", "limits"])
def test_policies_check_themselves(name: str) -> None:
    """Negative times and sizes are refused by name."""
    with pytest.raises(ValueError, match=name):
        FusionPolicy.model_validate({name: {"max_batch_bytes": -1} if name == "limits" else -1})


def test_x_wing_envelopes_open(centre: Centre) -> None:
    """The campaign may ask for the post-quantum envelope."""
    key = OpeningKey(role=Role.FUSION, id=11, kem=X_WING, secret=bytes([5]) * 32)
    wing = replace(CAMPAIGN, id="wing", kem="x-wing")
    centre.publisher.publish(wing)
    centre.opener = BatchOpener([key], processes=0)
    centre.__post_init__()
    public = public_key(X_WING, public_bytes(X_WING, key.secret))
    info = inner_info(campaign_hash(wing), ROUND)
    inner = [
        suite(X_WING, key.aead).encrypt(
            Content(ROUND, place, 0, STOCK.take()).to_bytes(), public, info
        )
        for place in PLACES
    ]
    sent = parcel(inner, campaign=wing, key_id=11)
    assert sent.deliver(centre.intake).refused == 0
