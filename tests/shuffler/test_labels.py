"""Labels of a release: none with fewer than k_min reports, whatever came."""

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rase.campaign import ShufflePlan
from rase.shuffler.release import OTHER, merge_labels
from rase.wire.messages import LabelCount
from rase.wire.outer import OuterOpener

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World

    from rase.shuffler.release import Closed


@given(st.lists(st.integers(0, 15), max_size=60), st.integers(2, 12))
def test_no_label_of_a_release_has_fewer_than_k_min(labels: list[int], k_min: int) -> None:
    """Labels stay as they are or become 0, and each of the result hides its senders by itself."""
    merged = merge_labels(labels, k_min=k_min)
    assert all(new in (old, OTHER) for old, new in zip(labels, merged, strict=True))
    counts = Counter(merged)
    assert len(labels) < k_min or all(count >= k_min for count in counts.values())
    assert len(labels) >= k_min or set(counts) <= {OTHER}


@given(st.lists(st.integers(0, 15), max_size=60), st.integers(2, 12))
def test_large_labels_stay(labels: list[int], k_min: int) -> None:
    """At most one label that is large enough is given up, so that the others' rest is."""
    counts, merged = Counter(labels), set(merge_labels(labels, k_min=k_min))
    large = [label for label in counts if label != OTHER and counts[label] >= k_min]
    assert len([label for label in large if label not in merged]) <= 1


def closed_round(world: "World", wires: list[bytes]) -> "Closed":
    """Send one report of each device, close their round and forward what it gave."""
    world.upload_time(100)
    world.send_each(0, wires)
    world.close_time(100)
    closed = world.closer().close_one()
    assert closed is not None
    world.closer().forward_one()
    return closed


def test_small_labels_reach_nobody(make_world: "MakeWorld") -> None:
    """Of labels 1, 2 and 3 with four, two and one reports and k_min 3, one is seen outside."""
    world = make_world(devices=7)
    closed = closed_round(world, [world.seal(100, label=label) for label in (1, 1, 1, 1, 2, 2, 3)])
    assert (closed.released, closed.covers) == (7, 0)
    assert world.ear.batches[100, 1].labels == (LabelCount(0, 3), LabelCount(1, 4))
    assert world.ear.manifests[100, 1].manifest.attacker_success == 2 / 7


def test_a_shuffle_over_the_whole_round_has_no_labels(make_world: "MakeWorld") -> None:
    """A Mallows order says where a report may stand, which labels would tear apart."""
    plan = ShufflePlan("mallows", alpha=0.5, groups=("a", "b"))
    world = make_world(devices=6, groups=("a", "b"), shuffle=plan)
    closed_round(world, [world.seal(100, label=1 + place // 3) for place in range(6)])
    assert world.ear.batches[100, 1].labels == (LabelCount(0, 6),)


def test_the_order_inside_a_label_is_drawn(make_world: "MakeWorld") -> None:
    """Twenty reports of each of two labels leave in another order than they came in."""
    world = make_world(devices=40)
    wires = [world.seal(100, label=1 + place % 2) for place in range(40)]
    closed_round(world, wires)
    opener = OuterOpener(world.hash, [world.openers["shuffler"]])
    came = [opener.open(wire) for wire in wires]
    for start, label in ((0, 1), (20, 2)):
        left = list(world.ear.batches[100, 1].inner[start : start + 20])
        mine = [one.inner for one in came if one.mark.label == label]
        # The same order by chance: once in 20 factorial, 4e-19.
        assert left != mine
        assert sorted(left) == sorted(mine)


@pytest.mark.parametrize(("real", "state"), [(2, "below_k"), (3, "released")])
def test_cover_reports_count_for_nothing(make_world: "MakeWorld", real: int, state: str) -> None:
    """Real reports alone are counted, and released: five cover reports make no two into k_min."""
    world = make_world(devices=real + 5)
    wires = [world.seal(100) for _ in range(real)] + [world.cover(100) for _ in range(5)]
    closed = closed_round(world, wires)
    assert (closed.state, closed.covers) == (state, 5)
    released = {place: len(batch.inner) for place, batch in world.ear.batches.items()}
    assert released == ({(100, 1): 3} if real == 3 else {(100, 0): 0})
    assert world.counters()["reports_cover"] == 5


def test_a_cover_report_displaces_no_carried_report(make_world: "MakeWorld") -> None:
    """A report that waits for the next round is released though its device then had nothing."""
    world = make_world(devices=3, carry_rounds=1, not_before=100)
    world.upload_time(100)
    world.send_each(0, [world.seal(100), world.seal(100)])
    world.close_time(100)
    closed = world.closer().close_one()
    assert closed is not None
    assert closed.state == "carried"
    world.upload_time(101)
    world.send_each(0, [world.cover(101), world.cover(101), world.seal(101)])
    world.close_time(101)
    closed = world.closer().close_one()
    assert closed is not None
    assert (closed.state, closed.released, closed.covers) == ("released", 3, 2)
