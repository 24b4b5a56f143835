"""The same world without faults: what must be equal, and what must hold in both."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.simulation.setting import CAMPAIGN, FIRST, Setting
from tests.simulation.world import HARMLESS, Operation, World

__all__ = ["quick_place", "same_without_faults"]


def same_without_faults(world: World, operations: Sequence[Operation]) -> None:
    """Compare a world with one in which nothing failed.

    A device that lost a reading or a report in a round says nothing in that round of the other
    world; apart from that, the other world has the same readings and the same noise.
    """
    harmless = tuple(operation for operation in operations if operation in HARMLESS)
    span = _span(harmless)
    entries = [device.spent for device in world.devices]
    silent = {
        (device.place, round)
        for device, spent in zip(world.devices, entries, strict=True)
        for round in span
        if world.setting.has_turn(device.place, round)
        and (round not in spent or (device.place, round) in world.spoilt)
    }
    _check_losses(silent, entries, operations, world)
    found = world.estimates()
    # A batch that was changed on its way four times is refused for good: missing, never wrong.
    refused = world.rows(world.closer, "SELECT round FROM outbox WHERE state = 'refused'")
    lost = set(span) - set(found)
    assert lost <= {round for (round,) in refused} & world.spoilt_batches
    expected = _calm_estimates(
        harmless,
        devices=len(world.devices),
        silent=frozenset(silent),
        # Later rounds borrow from earlier ones, so what is missing is missing in both.
        lost=frozenset(lost),
        setting=world.setting,
    )
    assert set(expected) == set(found)
    for round, answer in found.items():
        assert answer == expected[round], f"round {round} differs"
    _check_once(world, span)


@cache
def _calm_estimates(
    harmless: tuple[Operation, ...],
    *,
    devices: int,
    silent: frozenset[tuple[int, int]],
    lost: frozenset[int],
    setting: Setting,
) -> dict[int, tuple[Any, ...]]:
    """Return the estimates of a calm world; many lists of faults are compared with the same one."""
    with (
        quick_place() as folder,
        closing(
            World(folder / "calm", devices=devices, silent=silent, lost=lost, setting=setting)
        ) as calm,
    ):
        calm.run(harmless)
        _check_once(calm, _span(harmless))
        return calm.estimates()


def _span(harmless: Sequence[Operation]) -> range:
    return range(FIRST, FIRST + harmless.count(("round",)))


@contextmanager
def quick_place() -> Iterator[Path]:
    """Give a folder for a while, in memory where that is possible: disks are synced often."""
    shared = Path("/dev/shm")  # noqa: S108 - throw-away folders of random names
    with TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        yield Path(name)


def _check_losses(
    silent: set[tuple[int, int]],
    entries: list[dict[int, float]],
    operations: Sequence[Operation],
    world: World,
) -> None:
    """A report is missing only where a device died, the budget was spent or it was destroyed."""
    round, died = FIRST, set()
    for operation in operations:
        if operation == ("round",):
            round += 1
        elif operation[:2] == ("death", "device"):
            died.add((operation[3] % len(world.devices), round))
    for device, missing in silent - died - world.spoilt:
        window = range(missing - CAMPAIGN.window + 1, missing)
        spent = sum(entries[device].get(earlier, 0.0) for earlier in window)
        assert spent + 1.0 > CAMPAIGN.window_budget, f"device {device} lost round {missing}"


def _check_once(world: World, span: range) -> None:
    """One batch a round or its parts, noise drawn once, each report counted once, budgets kept."""
    kept = Counter(world.rows(world.fusion, "SELECT round, parts FROM batches"))
    parts = {round: count for round, count in kept if kept[round, count] == count}
    assert len(parts) == len(kept), "a part is missing, or there once more"
    for round in span:
        assert len(world.puts[round]) == parts.get(round, 1), f"round {round} has two batches"
    for device in world.devices:
        assert all(count == 1 for count in device.draws.values()), "noise was drawn twice"
        device.check_ledger()
        spent = device.spent
        assert set(spent) <= set(device.draws)
        for begin in span:
            window = range(begin, begin + CAMPAIGN.window)
            assert sum(spent.get(round, 0.0) for round in window) <= CAMPAIGN.window_budget
    batches = world.rows(
        world.fusion, "SELECT round, SUM(opened), SUM(replayed) FROM batches GROUP BY round"
    )
    for round, opened, replayed in batches:
        block = {number for number in world.block_of(round) if number <= round}
        assert opened <= sum(bool(block & set(device.spent)) for device in world.devices)
        assert replayed == 0
    assert world.rows(world.fusion, "SELECT * FROM opened") == []
    # Only a block that is not over may have left something.
    last = set(world.block_of(max(span.stop - 1, FIRST))[:-1])
    assert {round for (round,) in world.rows(world.closer, "SELECT round FROM report")} <= last
    assert {
        round for (round,) in world.rows(world.fusion, "SELECT block FROM envelope_tag")
    } <= last
