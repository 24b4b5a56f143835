"""Processes of servers: their parts, their app with an event loop, and their sudden death."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import httpx
from starlette.types import ASGIApp
from tests.simulation.processes import MortalDatabase
from tests.storage.faults import SimulatedDeath

from rase.storage.address import DatabaseAddress
from rase.storage.opening import open_database

__all__ = ["Server"]

# httpx looks for it at every request: where there is none, all folders would be searched each time.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]


class Server:
    """A process of a server: its own connection to the files, and parts that a restart makes anew.

    Args:
        address: The database.
        migrations: Whose it is.
        build: Makes the parts.
        app: Makes the app out of them, if the process has one.
    """

    def __init__(
        self,
        address: DatabaseAddress,
        *,
        migrations: str,
        build: Callable[[MortalDatabase], Any],
        app: Callable[[Any], ASGIApp] | None = None,
    ) -> None:
        self._address = address
        self._migrations = migrations
        self._build = build
        self._app = app
        self._host: _Host | None = None
        self._open()

    def ask(self, requests: Sequence[httpx.Request]) -> list[httpx.Response]:
        """Return the app's answers to requests that arrive together.

        Raises:
            SimulatedDeath: If the process died; then nobody gets an answer.
        """
        if self._host is None:
            assert self._app is not None
            self._host = _Host(self._app(self.parts), self.database)
        return self._host.ask(requests)

    def restart(self) -> None:
        """Begin again from what is on the disk."""
        self.close()
        self._open()

    def close(self) -> None:
        """Give everything back."""
        if self._host is not None:
            self._host.close()
            self._host = None
        self.database.close()

    def _open(self) -> None:
        self.database = MortalDatabase(open_database(self._address, migrations=self._migrations))
        self.parts: Any = self._build(self.database)


class _Host:
    """Serve requests in this process, through all of an app's own code but its sockets.

    Args:
        app: The app; what runs beside it is left to the simulation.
        database: Its database: when this dies, so does everything here.
    """

    def __init__(self, app: ASGIApp, database: MortalDatabase) -> None:
        # What goes wrong inside must be seen here, not answered as status 500.
        self._transport = httpx.ASGITransport(app)
        self._database = database
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        # The tasks of the dead raise what nobody awaits.
        self._loop.set_exception_handler(lambda loop, context: None)

    def ask(self, requests: Sequence[httpx.Request]) -> list[httpx.Response]:
        """Return the answers to requests that arrive together.

        Raises:
            SimulatedDeath: If the process died; then nobody gets an answer.
        """
        # Not by the runner, which would change the handlers of signals at every request.
        return self._loop.run_until_complete(self._ask(requests))

    def close(self) -> None:
        """End the loop and whatever runs in it."""
        self._runner.close()

    async def _ask(self, requests: Sequence[httpx.Request]) -> list[httpx.Response]:
        over = self._loop.create_future()

        def end(_: object = None) -> None:
            if not over.done():
                over.set_result(None)

        # A group commit dies in its thread, and those who wait for it would wait for ever.
        self._database.on_death = lambda: self._loop.call_soon_threadsafe(end)
        answers = [self._loop.create_task(self._one(request)) for request in requests]
        waiting = set(answers)

        def answered(answer: "asyncio.Task[httpx.Response]") -> None:
            waiting.discard(answer)
            if not waiting:
                end()

        for answer in answers:
            answer.add_done_callback(answered)
        await over
        if self._database.is_dead:
            for answer in waiting:
                answer.cancel()
            raise SimulatedDeath
        return [answer.result() for answer in answers]

    async def _one(self, request: httpx.Request) -> httpx.Response:
        answer = await self._transport.handle_async_request(request)
        await answer.aread()
        return answer
