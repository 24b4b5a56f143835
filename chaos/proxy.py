"""A TCP proxy that harms what passes: cuts, delays, truncates and resets connections."""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, Literal

__all__ = ["HARMS", "Harm", "ToxicProxy"]

Harm = Literal["cut", "delay", "truncate", "reset"]
HARMS: Final[tuple[Harm, ...]] = ("cut", "delay", "truncate", "reset")
_DELAY_S: Final = 0.4
# A request's head and the first bytes of its body pass, and then nothing.
_WHOLE_BYTES: Final = 200
_PIECE: Final = 65536
_DROP_AT_ONCE: Final = struct.pack("ii", 1, 0)


class ToxicProxy:
    """Pass connections on to a port of this machine; while told so, harm them.

    "cut" lets no byte pass and ends what is open; "delay" holds every piece up; "truncate" ends a
    connection in the middle of a message, in both directions; "reset" ends it by RST as soon as the
    answer begins, so that the sender cannot know whether its message arrived.

    Args:
        port: Where to.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._harm: Harm | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._pass_on, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.harmed = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def begin(self, harm: Harm) -> None:
        """Harm connections from now on."""
        self._harm = harm
        if harm == "cut":
            self._do(self._end_all())

    def end(self) -> None:
        """Pass everything on as it is."""
        self._harm = None

    def close(self) -> None:
        """End it with all connections."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        await self._end_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _end_all(self) -> None:
        for writer in list(self._open):
            self.harmed += 1
            _reset(writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._harm == "cut":
            self.harmed += 1
            _reset(writer)
            return
        self._open.add(writer)
        far = None
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._target)
            self._open.add(far)
            await asyncio.gather(
                self._copy(reader, far, back=writer), self._copy(far_reader, writer, back=far)
            )
        except OSError:
            pass  # nobody listens there, or one side hung up: the other is told by the end
        finally:
            for one in (writer, far):
                if one is not None:
                    self._open.discard(one)
                    one.close()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: Any
    ) -> None:
        is_answer = False
        while piece := await reader.read(_PIECE):
            is_answer = piece.startswith(b"HTTP/")
            match self._harm:
                case "delay":
                    self.harmed += 1
                    await asyncio.sleep(_DELAY_S)
                case "truncate":
                    self.harmed += 1
                    writer.write(piece[:_WHOLE_BYTES])
                    break
                case "reset" if is_answer:
                    self.harmed += 1
                    _reset(writer)
                    break
            writer.write(piece)
            await writer.drain()
        # The end of one direction is the end of both: HTTP needs no half of a connection.
        with suppress(OSError):
            writer.close()
            back.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_AT_ONCE)
    writer.transport.abort()
