"""Concurrent reports share one commit: what arrives while one is written goes into the next.

A commit waits for the disk; that wait, not the work, decides how many reports a second fit.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from rase.errors import WireError

__all__ = ["GroupCommit", "Overloaded"]

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Overloaded(WireError):
    """More reports wait for the disk than the operator allows."""

    problem = "too-many"


class GroupCommit(Generic[_In, _Out]):
    """Hand what many tasks submit to one writer, in groups.

    Args:
        write: Write a group and return an outcome for each; runs in a thread of its own.
        max_group: The most of one group; 1 for a commit each, to measure against.
        max_waiting: How many may wait; more are refused.
    """

    def __init__(
        self,
        write: Callable[[Sequence[_In]], Sequence[_Out]],
        *,
        max_group: int = 1000,
        max_waiting: int = 20_000,
    ) -> None:
        self._write = write
        self._max_group = max_group
        self._max_waiting = max_waiting
        self._waiting: deque[tuple[_In, asyncio.Future[_Out]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-commit")

    def submit(self, item: _In) -> asyncio.Future[_Out]:
        """Return what will hold the outcome of an item, once its group is on the disk.

        It raises whatever writing the group raised; nothing of it was written then.

        Raises:
            Overloaded: If too many wait.
        """
        if len(self._waiting) >= self._max_waiting:
            raise Overloaded("too many reports wait for the disk.")
        future: asyncio.Future[_Out] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        return future

    async def aclose(self) -> None:
        """Write what waits, and end the thread."""
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            size = min(self._max_group, len(self._waiting))
            group = [self._waiting.popleft() for _ in range(size)]
            try:
                outcomes = await loop.run_in_executor(
                    self._thread, self._write, [item for item, _ in group]
                )
            except Exception as error:  # noqa: BLE001 - told to everybody who waits for it
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), outcome in zip(group, outcomes, strict=True):
                # A sender may have hung up meanwhile; its report is stored all the same.
                if not future.done():
                    future.set_result(outcome)
        self._writer = None
