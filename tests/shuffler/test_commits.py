"""Group commit: many waiters, few writes, and every waiter learns its own outcome."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
from tests.patience import PATIENCE_S, turn_on

from rase.errors import StorageBusy
from rase.shuffler.report_handler import GroupCommit, Overloaded


def test_what_arrives_during_a_write_shares_the_next() -> None:
    """A hundred submissions need a handful of writes, and each gets its own answer."""
    groups: list[int] = []

    def write(items: Sequence[int]) -> list[int]:
        groups.append(len(items))
        return [item * 2 for item in items]

    async def main() -> list[int]:
        commits = GroupCommit(write, max_group=40)
        found = await asyncio.gather(*(commits.submit(number) for number in range(100)))
        await commits.aclose()
        return found

    assert asyncio.run(main()) == [2 * number for number in range(100)]
    assert groups == [40, 40, 20]


def test_a_failed_write_is_told_to_its_group_alone() -> None:
    """Those of a failed group learn why; later groups are written."""
    calls = iter([StorageBusy("full"), None])

    def write(items: Sequence[int]) -> list[int]:
        error = next(calls)
        if error is not None:
            raise error
        return list(items)

    async def main() -> None:
        commits = GroupCommit(write)
        failed = await asyncio.gather(
            *(commits.submit(number) for number in range(3)), return_exceptions=True
        )
        assert all(isinstance(error, StorageBusy) for error in failed)
        assert await commits.submit(7) == 7
        await commits.aclose()

    asyncio.run(main())


def test_too_many_waiting_are_refused() -> None:
    """More than the limit are refused at once; those that wait are served."""
    gate = threading.Event()

    def write(items: Sequence[int]) -> list[int]:
        gate.wait(PATIENCE_S)
        return list(items)

    async def main() -> None:
        commits = GroupCommit(write, max_waiting=2, max_group=1)
        waiting = [commits.submit(number) for number in range(2)]
        with pytest.raises(Overloaded):
            await commits.submit(9)
        gate.set()
        assert await asyncio.gather(*waiting) == [0, 1]
        await commits.aclose()

    asyncio.run(main())


def test_nobody_waits_for_a_disk_without_end() -> None:
    """Who waits too long behind a write is refused and not written; the write itself counts."""
    begun, gate = threading.Event(), threading.Event()
    written: list[int] = []

    def write(items: Sequence[int]) -> list[int]:
        begun.set()
        gate.wait(PATIENCE_S)
        written.extend(items)
        return list(items)

    async def main() -> None:
        commits = GroupCommit(write, max_group=1, max_wait_s=1000.0)
        first = commits.submit(0)
        behind = [commits.submit(number) for number in (1, 2, 3)]
        behind[0].cancel()
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        turn_on(1001.0)
        for one in behind[1:]:
            with pytest.raises(Overloaded, match="too slow"):
                await one
        assert not first.done()
        gate.set()
        assert await first == 0
        assert await commits.submit(4) == 4
        await commits.aclose()

    asyncio.run(main())
    assert written == [0, 4]


def test_many_short_writes_are_no_excuse() -> None:
    """Also where each write is short, what waited too long is refused when its turn comes."""
    begun, gate = threading.Event(), threading.Event()
    written: list[int] = []

    def write(items: Sequence[int]) -> list[int]:
        begun.set()
        gate.wait(PATIENCE_S)
        written.extend(items)
        return list(items)

    async def main() -> None:
        commits = GroupCommit(write, max_group=1, max_wait_s=1000.0)
        first, second = commits.submit(0), commits.submit(1)
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        turn_on(1001.0)
        gate.set()
        assert await first == 0
        with pytest.raises(Overloaded):
            await second
        await commits.aclose()

    asyncio.run(main())
    assert written == [0]


@pytest.mark.parametrize("is_failing", [False, True])
def test_a_sender_who_hangs_up_disturbs_nobody(is_failing: bool) -> None:
    """A cancelled waiter's item is written, and the others get their outcome."""
    gate = threading.Event()

    def write(items: Sequence[int]) -> list[int]:
        gate.wait(PATIENCE_S)
        if is_failing:
            raise StorageBusy("full")
        return list(items)

    async def main() -> None:
        commits = GroupCommit(write)
        gone, stays = (commits.submit(number) for number in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        gate.set()
        done = await asyncio.gather(gone, stays, return_exceptions=True)
        assert isinstance(done[0], asyncio.CancelledError)
        assert isinstance(done[1], StorageBusy) if is_failing else done[1] == 2
        await commits.aclose()

    asyncio.run(main())
