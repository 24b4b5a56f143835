"""Long batches go in parts: none below k_min, none too long, and all together the round."""

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from rase.shuffler.release import cut_batch
from rase.wire.inner import InnerOpener
from rase.wire.messages import INNER_SIZES, Batch, BatchManifest, LabelCount
from rase.wire.signed import SignedManifest
from rase.wire.suites import X25519

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=16),
    most=st.integers(1, 200),
    k_min=st.integers(1, 40),
)
def test_parts_are_neither_too_small_nor_too_long(sizes: list[int], most: int, k_min: int) -> None:
    """Every label of a part has k_min reports if every label of the round has; nothing is lost."""
    counts = [LabelCount(label, max(size, k_min)) for label, size in enumerate(sizes)]
    parts = cut_batch(counts, most=most, k_min=k_min)
    for part in parts:
        assert [one.label for one in part] == sorted({one.label for one in part})
        assert all(one.reports >= k_min for one in part)
        assert sum(one.reports for one in part) <= max(most, 2 * k_min)
    for label, reports in counts:
        assert sum(one.reports for part in parts for one in part if one.label == label) == reports


def closed(world: "World", labels: list[int], *, reports: int) -> list[tuple[Batch, BatchManifest]]:
    """Close a round of a shuffler that forwards at most so many reports together."""
    world.part_bytes = reports * INNER_SIZES[X25519]
    world.upload_time(100)
    for device, label in enumerate(labels):
        world.send(device, world.seal(100, place=device, label=label))
    world.close_time(100)
    assert world.closer().close_one() is not None
    return [
        (
            Batch.from_bytes(bytes(body)),
            SignedManifest.from_bytes(bytes(signed), world.pinned).manifest,
        )
        for body, signed in world.rows("SELECT body, manifest FROM outbox ORDER BY batch")
    ]


def places(world: "World", batch: Batch) -> list[int]:
    """Return the places in a batch, as the fusion centre reads them."""
    opener = InnerOpener(world.hash, [world.openers["fusion"]], class_count=1)
    return [opener.open(one, key_id=1, round=100).place for one in batch.inner]


def test_a_long_round_is_forwarded_in_signed_parts(make_world: "MakeWorld") -> None:
    """Each has an id and a signature of its own, and holds k_min of each of its labels."""
    labels = [1, 2] * 7
    world = make_world(devices=14, labels=("north", "south"))
    parts = closed(world, labels, reports=4)
    assert sorted(said.part for _, said in parts if said.part is not None) == [0, 1, 2, 3]
    assert {(said.parts, said.members, said.method) for _, said in parts} == {(4, 14, "uniform")}
    assert all(said.n == len(batch.inner) >= 3 for batch, said in parts)
    assert all(one.reports >= 3 for batch, _ in parts for one in batch.labels)
    assert sorted(place for batch, _ in parts for place in places(world, batch)) == list(range(14))
    for batch, _ in parts:
        found = iter(places(world, batch))
        for label, count in batch.labels:
            assert {labels[next(found)] for _ in range(count)} == {label}


def test_a_round_that_fits_is_one_batch(make_world: "MakeWorld") -> None:
    """Its manifest has the bytes that it always had."""
    ((_, said),) = closed(make_world(devices=4), [0] * 4, reports=4)
    assert (said.n, said.part, said.parts) == (4, None, None)
    assert b"part" not in said.to_bytes()
