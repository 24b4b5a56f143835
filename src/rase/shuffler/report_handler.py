"""The intake of reports: who sends, whether a report may be taken, what is answered.

Every way in, HTTP, gateways and a broker, ends here; nothing here can open a report.

A gateway sends the reports of several devices in one request, each with the tag of its device: it
can neither read what it carries nor make a report of its own. Each succeeds or fails by itself.

Concurrent reports share one commit: what arrives while one is written goes into the next. A commit
waits for the disk; that wait, not the work, decides how many reports a second fit. The number of
waiting reports and their wait are bounded; what is refused was not written.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from rase.clock import Clock
from rase.errors import Malformed, RaseError, StorageError, WireError, WrongSize
from rase.service.heartbeat import Heartbeat
from rase.service.http import BodyTooLarge, HttpProblem, read_body
from rase.service.limits import RateLimit, too_many
from rase.service.telemetry import Telemetry
from rase.shuffler.documents import load_documents
from rase.shuffler.enrolment import Authenticator, NotEnrolled, Sender
from rase.shuffler.intake import Outcome, Pending, check_report, store_reports
from rase.shuffler.membership import NotAMember
from rase.shuffler.minorities import keep_minorities
from rase.shuffler.settings import LimitSettings
from rase.storage.interface import Database
from rase.wire import cbor
from rase.wire.frames import TAG_BYTES, Reply, read_authorization
from rase.wire.messages import REPORT_SIZES, REPORT_TYPE, Header
from rase.wire.problems import PROBLEM_TYPES
from rase.wire.signed import PinnedKeys

__all__ = [
    "GATEWAY_TYPE",
    "GroupCommit",
    "Overloaded",
    "ReportHandler",
    "SubmittedReport",
    "body_limit",
    "read_reports",
    "reply_to",
    "write_replies",
]

GATEWAY_TYPE: Final = "application/cbor"
# A handle, the tag of a report, and the heads of the pair and its parts.
_OVERHEAD_BYTES: Final = 16 + TAG_BYTES + 16
_RETRY_S: Final = 5


class SubmittedReport(NamedTuple):
    """A report with its tag, and the handle of the device that made both."""

    handle: str
    frame: bytes


def body_limit(most: int) -> int:
    """Return the most bytes of a request with ``most`` reports."""
    return most * (max(REPORT_SIZES.values()) + _OVERHEAD_BYTES) + 16


def read_reports(body: bytes, *, most: int) -> list[SubmittedReport]:
    """Read the CBOR array [[handle, report with its tag], …].

    Args:
        body: The request.
        most: How many reports it may hold.

    Raises:
        WireError: Named, if it is no such array; whether a report is one is not looked at.
    """
    pairs: Any = cbor.decode(body, max_size=body_limit(most))
    if not isinstance(pairs, list) or not 1 <= len(pairs) <= most:
        raise Malformed(f"reports must be an array of 1 to {most} pairs [handle, report].")
    for place, pair in enumerate(pairs):
        if not isinstance(pair, list) or [type(part) for part in pair] != [str, bytes]:
            raise Malformed(
                "reports must be pairs [handle as text, report and tag as bytes]; number "
                f"{place} is not, and none was taken."
            )
    return [SubmittedReport(*pair) for pair in pairs]


def reply_to(error: RaseError) -> Reply:
    """Return the reply to a gateway about a refused report."""
    match error:
        case HttpProblem():
            retry_s = error.headers.get("Retry-After")
            kind = error.problem.type
            return Reply(kind.status, kind.name, None if retry_s is None else int(retry_s))
        case WireError():
            return Reply(PROBLEM_TYPES[error.problem].status, error.problem)
        case StorageError():
            return Reply(PROBLEM_TYPES["unavailable"].status, "unavailable", _RETRY_S)
        case _:
            raise error


def write_replies(replies: Sequence[Reply]) -> bytes:
    """Return the replies as a CBOR array of maps, in the order of the reports.

    Most replies of a request are alike: each kind is encoded once, which saves 7 % of the time.
    """
    kinds = {
        reply: cbor.encode({name: one for name, one in reply._asdict().items() if one is not None})
        for reply in set(replies)
    }
    # The head of an array of so many: the encoding of each 0 is one byte.
    head = cbor.encode([0] * len(replies))[: -len(replies) or None]
    return head + b"".join([kinds[reply] for reply in replies])


def _status_of(outcome: Outcome) -> int:
    if outcome is Outcome.CLOSED:
        raise WireError("the round is closed.", problem="round-closed")
    return 201 if outcome is Outcome.STORED else 200


_REPORT_TYPE = REPORT_TYPE.encode()
_GATEWAY_TYPE = GATEWAY_TYPE.encode()
_LONGEST_REPORT: Final = max(REPORT_SIZES.values())
_REFRESH_S: Final = 5.0
_LEAST_REFRESH_S: Final = 0.1
_NEWS: Final = ("unknown-campaign", "outdated-config", "other-keyset")
_CROWDED_S: Final = 1.0
_TYPES: Final = (_REPORT_TYPE, _GATEWAY_TYPE)
_NO_CONTENT: Final = [(b"content-length", b"0")]


class ReportHandler:
    """Take reports in: authenticate, check, hand to the group commit, answer after it.

    Args:
        database: The shuffler's.
        clock: Gives which rounds are open.
        pinned: The public signing keys of both servers.
        telemetry: Counts what happens.
        limits: How much is taken in.
    """

    _cannot_write = False

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
        self._minorities: Counter[int] = Counter()
        self._heart = Heartbeat(database, clock, part="intake")
        self._commits = GroupCommit(
            self._store,
            max_group=limits.max_group,
            max_waiting=limits.max_waiting,
            max_wait_s=limits.max_wait_s,
        )
        self.refresh()

    def refresh(self) -> None:
        """Read again what was agreed, and forget devices that were revoked."""
        # One after the other: what was read earlier must not take the place of what is newer.
        with self._reading:
            began_s = self._clock.monotonic_s()
            self.documents = load_documents(self._database, self._pinned)
            self._authenticator.renew()
            # Only now: whoever finds this believes that it was read.
            self._refreshed_s = began_s

    async def keep_fresh(self) -> None:
        """Refresh for ever: other processes countersign too."""
        while True:
            await asyncio.sleep(_REFRESH_S)
            refused, self._minorities = self._minorities, Counter()
            try:
                await asyncio.to_thread(self._beat, refused)
                await asyncio.to_thread(self.refresh)
            except RaseError as error:
                self._telemetry.event("refresh_failed", error=str(error))

    async def aclose(self) -> None:
        """Store what waits."""
        await self._commits.aclose()
        if self._minorities:
            with suppress(StorageError):
                await asyncio.to_thread(self._keep_minorities, self._minorities)
        await asyncio.to_thread(self._heart.stop)

    def obstacles(self) -> tuple[str, ...]:
        """Return why this intake can take no reports, in words for operators."""
        obstacles = []
        if self.documents.keyset is None:
            obstacles.append("there is no keyset yet: rase fusion publish-keys.")
        if self._cannot_write:
            obstacles.append("the database could not be written: see that its disk has space.")
        return tuple(obstacles)

    def _beat(self, refused: Counter[int]) -> None:
        # Also the proof that the disk takes something again after it was full.
        try:
            if refused:
                self._keep_minorities(refused)
            if self._heart.beat():
                self._cannot_write = False
        except StorageError:
            self._cannot_write = True
            raise

    def _keep_minorities(self, refused: Counter[int]) -> None:
        with self._database.share() as transaction:
            keep_minorities(transaction, refused, now_s=self._clock.now_s())

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
        named = read_authorization(authorization)
        if named is None:
            raise NotEnrolled("a report must come with the handle and the tag of its device.")
        try:
            wire = await read_body(receive, limit=_LONGEST_REPORT)
        except BodyTooLarge as error:
            raise WrongSize(str(error)) from None
        handle, tag = named
        sender = await self._sender(handle, wire + tag)
        self._rate.check(sender.device)
        status = await self.take(sender)
        await send({"type": "http.response.start", "status": status, "headers": _NO_CONTENT})
        await send({"type": "http.response.body"})

    async def take(self, sender: Sender) -> int:
        """Return the status of a report once it is on the disk.

        Raises:
            WireError: With the problem that the device is sent.
            StorageError: If the report could not be stored.
        """
        try:
            pending = self._check_report(sender)
        except WireError as error:
            if error.problem not in _NEWS:
                raise
            # Another process may have countersigned what the device knows and we do not; a device
            # that is sent "unknown-campaign" gives its report up.
            await self._look_again()
            pending = self._check_again(sender)
        try:
            return _status_of(await self._commits.submit(pending))
        except Overloaded:
            raise too_many(_CROWDED_S) from None

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
            sender = await self._sender(handle, frame)
            key = sender.key
            self._rate.check(sender.device)
            return Reply(await self.take(sender)), key
        except RaseError as error:
            return self._refusal(error), key

    def _check_report(self, sender: Sender) -> Pending:
        pending = check_report(
            sender.wire, sender.device, documents=self.documents, now_s=self._clock.now_s()
        )
        name, served = pending.agreed.campaign.id, sender.campaigns
        if served is not None and name not in served:
            raise NotAMember(f"the device was not admitted to campaign {name}.")
        return pending

    def _check_again(self, sender: Sender) -> Pending:
        try:
            return self._check_report(sender)
        except WireError as error:
            if error.problem == "other-keyset":
                number = Header.from_report(sender.wire).keyset
                # Numbers that were never agreed share a row, so that nobody fills the table.
                self._minorities[number if self.documents.has_keyset(number) else 0] += 1
            raise

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
        submitted = read_reports(body, most=self._gateway_reports)
        answer = write_replies(await self._take_all(submitted))
        headers = [
            (b"content-type", _GATEWAY_TYPE),
            (b"content-length", str(len(answer)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _take_all(self, submitted: Sequence[SubmittedReport]) -> list[Reply]:
        """Return the reply to each report of a gateway.

        Those of devices that are known are handed to the group commit together and without a task
        each: that is most of what a report costs.
        """
        replies: list[Reply | asyncio.Future[Outcome] | asyncio.Task[Reply]] = []
        for one in submitted:
            try:
                sender = self._authenticator.known_sender(*one)
                if sender is None:
                    replies.append(asyncio.create_task(self._take_one(one)))
                    continue
                self._rate.check(sender.device)
                pending = self._check_report(sender)
                replies.append(self._commits.submit(pending))
            except RaseError as error:
                if isinstance(error, WireError) and error.problem in _NEWS:
                    replies.append(asyncio.create_task(self._take_one(one)))
                else:
                    replies.append(self._refusal(error))
        waited = [reply for reply in replies if not isinstance(reply, Reply)]
        found: Iterator[Any] = iter(await asyncio.gather(*waited, return_exceptions=True))
        return [
            reply if isinstance(reply, Reply) else self._reply_of(next(found)) for reply in replies
        ]

    def _reply_of(self, found: Outcome | Reply | BaseException) -> Reply:
        try:
            if isinstance(found, BaseException):
                raise found
            return found if isinstance(found, Reply) else Reply(_status_of(found))
        except RaseError as error:
            return self._refusal(error)

    async def _take_one(self, submitted: SubmittedReport) -> Reply:
        sender = await self._sender(*submitted)
        self._rate.check(sender.device)
        return Reply(await self.take(sender))

    def _refusal(self, error: RaseError) -> Reply:
        reply = reply_to(too_many(_CROWDED_S) if isinstance(error, Overloaded) else error)
        self._telemetry.count(f"problem_{reply.problem}".replace("-", "_"))
        return reply

    async def _sender(self, handle: str, frame: bytes) -> Sender:
        """Return who made the tag of a report, asking the database only for those not known."""
        sender = self._authenticator.known_sender(handle, frame)
        if sender is None:
            sender = await asyncio.to_thread(self._authenticator.look_up_sender, handle, frame)
        return sender

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
                outcomes = await self._write_group([one.item for one in group])
            except Exception as error:  # noqa: BLE001 - passed to everybody who waits for it
                for one in group:
                    if not one.future.done():
                        one.future.set_exception(error)
                continue
            for one, outcome in zip(group, outcomes, strict=True):
                # A sender may have hung up meanwhile; its report is stored all the same.
                if not one.future.done():
                    one.future.set_result(outcome)
        self._writer = None

    async def _write_group(self, items: list[_In]) -> Sequence[_Out]:
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
