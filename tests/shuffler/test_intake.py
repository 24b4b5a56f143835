"""Intake: each bad report is a named problem, each good one is stored once."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rase.errors import WireError
from rase.shuffler.documents import AgreedKeyset, Documents
from rase.shuffler.intake import Outcome, check_report, store_reports

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World


def problem_of(world: "World", wire: bytes) -> str:
    """Return the problem that a report is refused with."""
    with pytest.raises(WireError) as caught:
        world.send(0, wire)
    assert world.rows("SELECT count(*) FROM report") == [(0,)]
    return caught.value.problem


@pytest.mark.any_store
@pytest.mark.parametrize("cut", [0, 1, 14, 144, 146, 1232, 5000])
def test_sizes_are_checked(world: "World", cut: int) -> None:
    """Truncated and oversized reports are bad reports."""
    world.upload_time(100)
    assert problem_of(world, (world.seal(100) * 40)[:cut]) == "bad-report"


def test_each_fault_has_its_name(world: "World", make_world: "MakeWorld") -> None:
    """Version, campaign, key, size of another KEM, early, late: each is told apart."""
    world.upload_time(100)
    wire = world.seal(100)
    assert problem_of(world, b"\x01" + wire[1:]) == "bad-report"
    assert problem_of(world, wire[:2] + bytes(8) + wire[10:]) == "unknown-campaign"
    assert problem_of(world, world.seal(100, shuffler="unknown")) == "outdated-config"
    assert problem_of(world, world.seal(100, shuffler="expired")) == "outdated-config"
    assert problem_of(world, wire + bytes(1525 - 437)) == "bad-report"
    assert problem_of(world, world.seal(101)) == "round-not-open"
    assert problem_of(world, world.seal(99)) == "round-closed"
    assert problem_of(world, world.seal(2**32 - 1)) == "outdated-config"
    quantum = make_world(kem="x-wing")
    quantum.upload_time(100)
    assert problem_of(quantum, quantum.seal(100)[:18] + bytes(131)) == "bad-report"
    assert quantum.send(0, quantum.seal(100)) is Outcome.STORED


def test_a_round_is_open_from_its_end_through_its_grace(world: "World") -> None:
    """The limits are exact: the end of the round is in, the end of its grace is out."""
    wire = world.seal(100)
    end = world.campaign.round_end_s(100)
    for now_s, problem in (
        (end - 0.1, "round-not-open"),
        (end, None),
        (end + 499.9, None),
        (end + 500, "round-closed"),
    ):
        if problem is None:
            assert check_report(wire, 1, documents=world.documents, now_s=now_s).round == 100
        else:
            with pytest.raises(WireError) as caught:
                check_report(wire, 1, documents=world.documents, now_s=now_s)
            assert caught.value.problem == problem


def test_an_old_version_is_outdated_in_new_rounds(world: "World") -> None:
    """From its first round on only the new version counts, and until then only the old."""
    second = world.campaign_of(version=2, not_before=102, beta=0.4)
    world.countersigner.campaign(world.proposal_of(second), now_s=world.clock.now_s())
    world.upload_time(101)
    assert problem_of(world, world.seal(101, campaign=second)) == "outdated-config"
    world.upload_time(102)
    assert problem_of(world, world.seal(102)) == "outdated-config"
    assert world.send(0, world.seal(102, campaign=second)) is Outcome.STORED


def test_the_first_envelope_counts(world: "World") -> None:
    """A retry is recognised, another envelope of the same device ignored, also in one group."""
    world.upload_time(100)
    documents, now_s = world.documents, world.clock.now_s()
    first, other = world.seal(100), world.seal(100)
    group = [
        check_report(wire, device, documents=documents, now_s=now_s)
        for device, wire in ((1, first), (1, first), (1, other), (2, other))
    ]
    assert store_reports(world.database, group) == [
        Outcome.STORED,
        Outcome.REPEATED,
        Outcome.IGNORED,
        Outcome.STORED,
    ]
    assert store_reports(world.database, group[2:]) == [Outcome.IGNORED, Outcome.REPEATED]
    assert world.rows("SELECT device, wire FROM report ORDER BY device") == [(1, first), (2, other)]


def test_a_closed_round_takes_nothing_whatever_the_clock_says(world: "World") -> None:
    """A report that was checked just before the close is refused by the database."""
    world.upload_time(100)
    documents, now_s = world.documents, world.clock.now_s()
    pending = check_report(world.seal(100), 1, documents=documents, now_s=now_s)
    world.close_time(100)
    assert world.closer().close_one() is not None
    assert store_reports(world.database, [pending]) == [Outcome.CLOSED]
    world.clock.advance(10**6)
    world.closer().tidy()
    assert world.rows("SELECT count(*) FROM round WHERE round = 100") == [(0,)]
    assert store_reports(world.database, [pending]) == [Outcome.CLOSED]


def test_nothing_is_accepted_before_there_are_keys(world: "World") -> None:
    """Without a keyset every report is outdated."""
    with world.database.transaction() as transaction:
        transaction.execute("DELETE FROM keyset")
    world.upload_time(100)
    assert problem_of(world, world.seal(100)) == "outdated-config"


def test_what_is_known_of_a_header_ends_with_its_time(world: "World") -> None:
    """A header that was good before is refused by name once round or key are over."""
    documents, wire = world.documents, world.seal(100)
    end = world.campaign.round_end_s(100)
    for now_s in (end, end + 499):
        assert check_report(wire, 1, documents=documents, now_s=now_s).round == 100
    for now_s, problem in ((end - 1, "round-not-open"), (end + 500, "round-closed")):
        with pytest.raises(WireError) as caught:
            check_report(wire, 1, documents=documents, now_s=now_s)
        assert caught.value.problem == problem
    with pytest.raises(WireError, match="437 or 1525 bytes"):
        check_report(wire + b"x", 1, documents=documents, now_s=end)
    brief = replace(world.keyset_of().configs[0], not_after_s=end + 10)
    keyset = replace(world.keyset_of(cache_s=1), configs=(brief, *world.keyset_of().configs[1:]))
    known = Documents(documents, [AgreedKeyset(keyset, b"")])
    assert check_report(wire, 1, documents=known, now_s=end).round == 100
    with pytest.raises(WireError) as caught:
        check_report(wire, 1, documents=known, now_s=end + 12)
    assert caught.value.problem == "outdated-config"


def test_headers_of_many_rounds_are_forgotten(make_world: "MakeWorld") -> None:
    """Whoever sends for hundreds of open rounds does not fill the memory."""
    world = make_world(grace_s=400_000)
    world.upload_time(400)
    documents, now_s = world.documents, world.clock.now_s()
    wire = world.seal(100)
    for round in range(100, 400):
        other = wire[:10] + round.to_bytes(4, "big") + wire[14:]
        assert check_report(other, 1, documents=documents, now_s=now_s).round == round
        assert 1 <= len(documents.open_rounds) <= 256
