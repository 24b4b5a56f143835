"""A report that names other keys than the rest of its round is refused by name, counted, told."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

from rase.cli.doctor import examine_work
from rase.errors import WireError
from rase.shuffler.health import keyset_trouble
from rase.shuffler.intake import check_report
from rase.shuffler.minorities import keep_minorities, minorities_in
from rase.wire.keys import Role

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

_CACHE_S = 3600


def problem_of(world: "World", wire: bytes, *, now_s: float) -> str:
    """Return why the intake refuses a report; empty if it takes it."""
    try:
        check_report(wire, 1, documents=world.documents, now_s=now_s)
    except WireError as error:
        return error.problem
    return ""


def test_a_keyset_that_was_never_agreed_is_refused_by_name(world: "World") -> None:
    """Whoever was shown keys of their own learns so, whichever number they carry."""
    world.upload_time(100)
    now_s = world.clock.now_s()
    for keyset in (0, 2, 2**32 - 1):
        assert problem_of(world, world.seal(100, keyset=keyset), now_s=now_s) == "other-keyset"
    assert problem_of(world, world.seal(100), now_s=now_s) == ""


def test_a_replaced_keyset_is_taken_as_long_as_devices_may_go_by_it(world: "World") -> None:
    """For rounds that end within two cache times, in which both keysets choose the same key."""
    agreed_s = int(world.clock.now_s())
    world.countersigner.keyset(world.proposal_of(world.keyset_of(2)), now_s=agreed_s)
    round_s = world.campaign.round_s
    last = (agreed_s + 2 * _CACHE_S - 1) // round_s - 1
    assert world.campaign.round_end_s(last) < agreed_s + 2 * _CACHE_S
    for round, problem in ((100, ""), (last, ""), (last + 1, "other-keyset")):
        now_s = world.campaign.round_end_s(round) + 50
        assert problem_of(world, world.seal(round, keyset=1), now_s=now_s) == problem
        assert problem_of(world, world.seal(round, keyset=2), now_s=now_s) == ""


def test_a_minority_never_helps_or_forms_a_round(world: "World") -> None:
    """Two of the crowd and three that seal for a key of their own: k_min is 3, nothing goes out."""
    world.upload_time(100)
    for device, fusion in enumerate(["fusion"] * 2 + ["next"] * 2):
        world.send(device, world.seal(100, fusion=fusion))
    world.close_time(100)
    closed = world.closer().close_one()
    assert closed is not None
    assert (closed.state, closed.released, closed.minority) == ("below_k", 0, 2)
    assert world.closer().forward_one() is not None
    assert [batch.inner for batch in world.ear.batches.values()] == [()]


def test_refusals_are_counted_by_keyset_and_told_for_a_week(world: "World") -> None:
    """Numbers that were never agreed share a row, and nothing of a sender is kept."""
    now_s = world.clock.now_s()
    for counts in ({0: 1, 1: 1}, {0: 2}):
        with world.database.transaction() as transaction:
            keep_minorities(transaction, counts, now_s=now_s)
    with world.database.snapshot() as transaction:
        assert minorities_in(transaction, now_s=now_s) == [(0, 3), (1, 1)]
        first, second = keyset_trouble(transaction, now_s=now_s)
        assert minorities_in(transaction, now_s=now_s + 8 * 86400) == []
    assert "3 reports of the last 7 days were refused" in first
    assert "never agreed here" in first
    assert "keyset 1" in second
    settings = SimpleNamespace(database=world.address)
    told = examine_work("here", Role.SHUFFLER, settings, world.clock)
    assert [(one.check, one.level) for one in told[:2]] == [("keysets", "warning")] * 2
    with world.database.transaction() as transaction:
        keep_minorities(transaction, {1: 1}, now_s=now_s + 8 * 86400)
    assert world.rows("SELECT keyset, reports FROM other_keyset") == [(1, 1)]
