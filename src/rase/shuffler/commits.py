"""Concurrent reports share one commit: what arrives while one is written goes into the next.

A commit waits for the disk; that wait, not the work, decides how many reports a second fit. The
number of those that wait and the time that they do are bounded; what is refused was not written.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, NamedTuple, TypeVar

from rase.errors import WireError

__all__ = ["GroupCommit", "Overloaded"]

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_LOOKS: Final = 4


class Overloaded(WireError):
    """More reports wait for the disk than the operator allows."""

    problem = "too-many"


class GroupCommit(Generic[_In, _Out]):
    """Hand what many tasks submit to one writer, in groups.

    Args:
        write: Write a group and return an outcome for each; runs in a thread of its own.
        max_group: The most of one group; 1 for a commit each, to measure against.
        max_waiting: How many may wait; more are refused.
        max_wait_s: How long one may wait for its group to begin; then it is refused.
    """

    def __init__(
        self,
        write: Callable[[Sequence[_In]], Sequence[_Out]],
        *,
        max_group: int = 1000,
        max_waiting: int = 2000,
        max_wait_s: float = 5.0,
    ) -> None:
        self._write = write
        self._max_group = max_group
        self._max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._waiting: deque[_Waiting[_In, _Out]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-commit")

    @property
    def is_full(self) -> bool:
        """Whether one more would be refused."""
        return len(self._waiting) >= self._max_waiting

    def submit(self, item: _In) -> asyncio.Future[_Out]:
        """Return what will hold the outcome of an item, once its group is on the disk.

        It raises whatever writing the group raised, or `Overloaded` if the group did not begin in
        time; nothing of it was written then.

        Raises:
            Overloaded: If too many wait.
        """
        if self.is_full:
            raise Overloaded("too many reports wait for the disk.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Out] = loop.create_future()
        self._waiting.append(_Waiting(loop.time(), item, future))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        return future

    async def aclose(self) -> None:
        """Write what waits, and end the thread."""
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()

    async def _write_all(self) -> None:
        while self._waiting:
            self._refuse_late()
            size = min(self._max_group, len(self._waiting))
            group = [self._waiting.popleft() for _ in range(size)]
            if not group:
                break
            try:
                outcomes = await self._written([one.item for one in group])
            except Exception as error:  # noqa: BLE001 - told to everybody who waits for it
                for one in group:
                    if not one.future.done():
                        one.future.set_exception(error)
                continue
            for one, outcome in zip(group, outcomes, strict=True):
                # A sender may have hung up meanwhile; its report is stored all the same.
                if not one.future.done():
                    one.future.set_result(outcome)
        self._writer = None

    async def _written(self, items: list[_In]) -> Sequence[_Out]:
        """Write a group; while the disk takes its time, refuse those behind who waited too long."""
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(self._thread, self._write, items)
        while not (await asyncio.wait([writing], timeout=self._max_wait_s / _LOOKS))[0]:
            self._refuse_late()
        return await writing

    def _refuse_late(self) -> None:
        before_s = asyncio.get_running_loop().time() - self._max_wait_s
        while self._waiting and self._waiting[0].since_s <= before_s:
            future = self._waiting.popleft().future
            if not future.done():
                future.set_exception(Overloaded("the disk is too slow for all that comes."))


class _Waiting(NamedTuple, Generic[_In, _Out]):
    """Something to write, since when it waits, and what will hold its outcome."""

    since_s: float
    item: _In
    future: asyncio.Future[_Out]
