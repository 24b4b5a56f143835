"""The desk where reports are handed in: who sends, whether it may be taken, what is answered.

Every way in, HTTP, gateways and a broker, ends here; nothing here can open a report.
"""

import asyncio
import threading
from collections.abc import Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from rase.clock import Clock
from rase.errors import RaseError, StorageError, WireError, WrongSize
from rase.service.heartbeat import Heartbeat
from rase.service.http import BodyTooLarge, read_body
from rase.service.limits import RateLimit, too_many
from rase.service.telemetry import Telemetry
from rase.shuffler.commits import GroupCommit, Overloaded
from rase.shuffler.documents import load_documents
from rase.shuffler.enrolment import Authenticator, NotEnrolled
from rase.shuffler.gateway import (
    GATEWAY_TYPE,
    Handed,
    body_limit,
    read_reports,
    reply_to,
    write_replies,
)
from rase.shuffler.intake import Outcome, Pending, check_report, store_reports
from rase.shuffler.settings import LimitSettings
from rase.storage.face import Database
from rase.wire.frames import Reply
from rase.wire.messages import REPORT_SIZES, REPORT_TYPE
from rase.wire.signed import PinnedKeys

__all__ = ["IntakeDesk"]

_REPORT_TYPE = REPORT_TYPE.encode()
_GATEWAY_TYPE = GATEWAY_TYPE.encode()
_LONGEST_REPORT: Final = max(REPORT_SIZES.values())
_REFRESH_S: Final = 5.0
_LEAST_REFRESH_S: Final = 0.1
_NEWS: Final = ("unknown-campaign", "outdated-config")
_CROWDED_S: Final = 1.0
# Schemes have no case (RFC 9110, 11.1).
_BEARER: Final = b"bearer "
_TYPES: Final = (_REPORT_TYPE, _GATEWAY_TYPE)
_NO_CONTENT: Final = [(b"content-length", b"0")]


class IntakeDesk:
    """Take reports in: authenticate, check, hand to the group commit, answer after it.

    Args:
        database: The shuffler's.
        clock: Tells which rounds are open.
        pinned: The public signing keys of both servers.
        telemetry: Counts what happens.
        limits: How much is taken in.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        pinned: PinnedKeys,
        telemetry: Telemetry,
        limits: LimitSettings,
    ) -> None:
        self._database = database
        self._clock = clock
        self._pinned = pinned
        self._telemetry = telemetry
        self._reading = threading.Lock()
        self._authenticator = Authenticator(database)
        self._authenticator.preload()
        self._rate = RateLimit(limits.reports_per_minute, clock)
        self._gateway_reports = limits.gateway_reports
        self._looking = asyncio.Lock()
        self._heart = Heartbeat(database, clock, part="intake")
        self._cannot_write = False
        self._commits = GroupCommit(
            self._store,
            max_group=limits.max_group,
            max_waiting=limits.max_waiting,
            max_wait_s=limits.max_wait_s,
        )
        self.refresh()

    def refresh(self) -> None:
        """Read anew what was agreed, and forget devices that were revoked."""
        # One after the other: what was read earlier must not take the place of what is newer.
        with self._reading:
            began_s = self._clock.monotonic_s()
            self.documents = load_documents(self._database, self._pinned)
            self._authenticator.forget_revoked()
            # Only now: whoever finds this believes that it was read.
            self._refreshed_s = began_s

    async def keep_fresh(self) -> None:
        """Refresh for ever: other processes countersign too."""
        while True:
            await asyncio.sleep(_REFRESH_S)
            try:
                await asyncio.to_thread(self._beat)
                await asyncio.to_thread(self.refresh)
            except RaseError as error:
                self._telemetry.event("refresh_failed", error=str(error))

    async def aclose(self) -> None:
        """Store what waits."""
        await self._commits.aclose()
        await asyncio.to_thread(self._heart.stop)

    def obstacles(self) -> tuple[str, ...]:
        """Return why this intake can take no reports, in words for operators."""
        obstacles = []
        if self.documents.keyset is None:
            obstacles.append("there is no keyset yet: rase fusion publish-keys.")
        if self._cannot_write:
            obstacles.append("the database could not be written: see that its disk has space.")
        return tuple(obstacles)

    def _beat(self) -> None:
        # Also the proof that the disk takes something again after it was full.
        try:
            if self._heart.beat():
                self._cannot_write = False
        except StorageError:
            self._cannot_write = True
            raise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer ``POST /v1/reports``."""
        content_type = authorization = b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value
            elif name == b"content-type":
                content_type = value
        if self._commits.is_full:
            # Before all other work, and not counted against its device.
            raise too_many(_CROWDED_S)
        if content_type not in _TYPES:
            # Names of media types have no case, and parameters change nothing here.
            content_type = content_type.partition(b";")[0].strip().lower()
        if content_type == _GATEWAY_TYPE:
            await self._answer_gateway(receive, send)
            return
        if content_type != _REPORT_TYPE:
            raise HTTPException(
                415,
                f"a report must be sent as {REPORT_TYPE}, an array of them as {GATEWAY_TYPE}.",
            )
        if authorization[: len(_BEARER)].lower() != _BEARER:
            raise NotEnrolled("a report must come with the credential of its device.")
        credential = authorization[len(_BEARER) :].decode("latin-1")
        device = await self._device(credential)
        self._rate.check(device)
        try:
            wire = await read_body(receive, limit=_LONGEST_REPORT)
        except BodyTooLarge as error:
            raise WrongSize(str(error)) from None
        status = await self.take(wire, device)
        await send({"type": "http.response.start", "status": status, "headers": _NO_CONTENT})
        await send({"type": "http.response.body"})

    async def take(self, wire: bytes, device: int) -> int:
        """Return the status of a report once it is on the disk.

        Raises:
            WireError: With the problem that the device is told.
            StorageError: If it could not be stored.
        """
        try:
            pending = self._checked(wire, device)
        except WireError as error:
            if error.problem not in _NEWS:
                raise
            # Another process may have countersigned what the device knows and we do not; a device
            # that is told "unknown-campaign" gives its report up.
            await self._look_again()
            pending = self._checked(wire, device)
        try:
            outcome = await self._commits.submit(pending)
        except Overloaded:
            raise too_many(_CROWDED_S) from None
        if outcome is Outcome.STORED:
            return 201
        if outcome is Outcome.CLOSED:
            raise WireError(f"round {pending.round} is closed.", problem="round-closed")
        return 200

    async def take_frame(self, handle: str, frame: bytes) -> tuple[Reply, bytes | None]:
        """Return the reply to a report that came through a broker, once it is on the disk.

        Args:
            handle: The device's.
            frame: The report with its tag.

        Returns:
            The reply, and the device's key to tag it with; None if no such device is enrolled.
        """
        key = None
        try:
            sender = self._authenticator.known_sender(handle, frame)
            if sender is None:
                sender = await asyncio.to_thread(self._authenticator.look_up_sender, handle, frame)
            key = sender.key
            self._rate.check(sender.device)
            return Reply(await self.take(sender.wire, sender.device)), key
        except RaseError as error:
            reply = reply_to(error)
            self._telemetry.count(f"problem_{reply.problem}".replace("-", "_"))
            return reply, key

    def _checked(self, wire: bytes, device: int) -> Pending:
        return check_report(wire, device, documents=self.documents, now_s=self._clock.now_s())

    async def _look_again(self) -> None:
        """Refresh, so that what was agreed before this call is known; all who wait share one."""
        asked_s = self._clock.monotonic_s()
        async with self._looking:
            if self._refreshed_s > asked_s:
                return
            # Not at any price: who asks again and again would keep the database busy.
            await asyncio.sleep(self._refreshed_s + _LEAST_REFRESH_S - asked_s)
            await asyncio.to_thread(self.refresh)

    async def _answer_gateway(self, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(receive, limit=body_limit(self._gateway_reports))
        except BodyTooLarge as error:
            raise WrongSize(str(error)) from None
        handed = read_reports(body, most=self._gateway_reports)
        # Handed to the group commit together, so that they share one.
        answer = write_replies(await asyncio.gather(*map(self._reply, handed)))
        headers = [
            (b"content-type", _GATEWAY_TYPE),
            (b"content-length", str(len(answer)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _reply(self, handed: Handed) -> Reply:
        try:
            device = await self._device(handed.credential)
            self._rate.check(device)
            return Reply(await self.take(handed.wire, device))
        except RaseError as error:
            reply = reply_to(error)
            self._telemetry.count(f"problem_{reply.problem}".replace("-", "_"))
            return reply

    async def _device(self, credential: str) -> int:
        device = self._authenticator.known(credential)
        if device is None:
            device = await asyncio.to_thread(self._authenticator.look_up, credential)
        return device

    def _store(self, reports: Sequence[Pending]) -> list[Outcome]:
        try:
            with self._telemetry.span("intake", count=len(reports)):
                outcomes = store_reports(self._database, reports)
        except StorageError:
            self._cannot_write = True
            raise
        self._cannot_write = False
        for outcome in Outcome:
            count = outcomes.count(outcome)
            if count:
                self._telemetry.count(f"reports_{outcome.value}", count)
        self._telemetry.count("commits")
        return outcomes
