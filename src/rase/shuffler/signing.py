"""Countersigning apart from the network: the intake asks, the process that holds the key answers.

The intake has no private key. It checks that the fusion centre signed a proposal, leaves it in the
database and waits. A `Signer` in the closer's process applies the operator's policy, signs or
refuses, and leaves the answer. Any number of intakes and closers may share one database.
"""

import asyncio
import threading
from hashlib import sha256
from typing import Final, NamedTuple

from rase.clock import Clock
from rase.errors import StorageError, StorageUnusable, WireError
from rase.service.http import HttpProblem
from rase.service.limits import AtOnce
from rase.service.telemetry import Telemetry
from rase.shuffler.documents import Countersigner
from rase.shuffler.proposals import proposed_campaign, proposed_keyset
from rase.shuffler.public_keys import ForeignKey
from rase.shuffler.token_keys import proposed_token_key
from rase.storage.interface import Database, Row
from rase.wire.problems import PROBLEM_TYPES, Problem
from rase.wire.signed import PinnedKeys

__all__ = ["Signature", "Signer", "SigningService", "prune_proposals"]

_CAMPAIGN: Final = "campaign"
_KEYSET: Final = "keyset"
_TOKEN_KEY: Final = "token key"  # noqa: S105 - a kind of document
# Below the 30 s for which the fusion centre waits for an answer.
_PATIENCE_S: Final = 20.0
_AGAIN_S: Final = 0.1
_LOOK_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 30.0
_AT_ONCE: Final = 8
_RETRY_S: Final = 5


class Signature(NamedTuple):
    """The shuffler's signature of a document, and whether the document is new."""

    value: bytes
    is_new: bool


class SigningService:
    """Get proposals countersigned, without a private key.

    Args:
        database: The shuffler's.
        clock: The shuffler's time.
        pinned: The public signing keys of both servers.
        signer: Signs in this process at once, where one process is everything (demonstration,
            tests); None waits for the closer's process.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        pinned: PinnedKeys,
        signer: "Signer | None" = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._pinned = pinned
        self._signer = signer
        self._places = AtOnce(_AT_ONCE)

    async def campaign(self, proposal: bytes, *, expected: tuple[str, int]) -> Signature:
        """Return the shuffler's signature of a campaign.

        Args:
            proposal: The CBOR array [campaign, fusion centre's signature].
            expected: The id and version it was announced with.

        Raises:
            WireError: Named, if the fusion centre did not sign it, or the closer refuses.
            HttpProblem: ``unsigned``, if no closer answered in time; nothing is signed later.
        """
        proposed_campaign(proposal, self._pinned, expected=expected)
        return await self._countersign(_CAMPAIGN, proposal)

    async def keyset(self, proposal: bytes) -> Signature:
        """Return the shuffler's signature of a keyset.

        Args:
            proposal: The CBOR array [keyset, fusion centre's signature].

        Raises:
            WireError: Named, if the fusion centre did not sign it, or the closer refuses.
            HttpProblem: ``unsigned``, if no closer answered in time; nothing is signed later.
        """
        proposed_keyset(proposal, self._pinned)
        return await self._countersign(_KEYSET, proposal)

    async def token_key(self, proposal: bytes) -> Signature:
        """Return the shuffler's signature of the key of a token window.

        Args:
            proposal: The CBOR array [token key, registrar's signature].

        Raises:
            WireError: Named, if the registrar did not sign it, or the closer refuses.
            HttpProblem: ``unsigned``, if no closer answered in time; nothing is signed later.
        """
        proposed_token_key(proposal, self._pinned)
        return await self._countersign(_TOKEN_KEY, proposal)

    async def _countersign(self, kind: str, proposal: bytes) -> Signature:
        name = sha256(f"{kind}\0".encode() + proposal).digest()
        until_s = asyncio.get_running_loop().time() + _PATIENCE_S
        with self._places.hold("everybody"):
            await asyncio.to_thread(self._ask, name, kind, proposal)
            while True:
                if self._signer is not None:
                    await asyncio.to_thread(self._signer.sign_all)
                answer = await asyncio.to_thread(self._answer, name)
                if answer is not None:
                    return answer
                if asyncio.get_running_loop().time() >= until_s:
                    return await asyncio.to_thread(self._withdraw, name)
                await asyncio.sleep(_AGAIN_S)

    def _ask(self, name: bytes, kind: str, proposal: bytes) -> None:
        with self._database.transaction() as transaction:
            # Asked again is decided again: what was refused before may be in order now.
            transaction.execute(
                "INSERT INTO proposal (id, kind, body, asked_s, state) "
                "VALUES (?, ?, ?, ?, 'waiting') ON CONFLICT (id) DO UPDATE SET "
                "asked_s = excluded.asked_s, state = 'waiting', signature = NULL, is_new = NULL, "
                "problem = NULL, detail = NULL",
                (name, kind, proposal, int(self._clock.now_s())),
            )

    def _answer(self, name: bytes) -> Signature | None:
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT state, signature, is_new, problem, detail FROM proposal WHERE id = ?",
                (name,),
            )
        return _read(rows[0]) if rows and rows[0][0] != "waiting" else None

    def _withdraw(self, name: bytes) -> Signature:
        # Nothing may be signed after its proposer was answered that it was not.
        with self._database.transaction() as transaction:
            rows = transaction.execute(
                "DELETE FROM proposal WHERE id = ? "
                "RETURNING state, signature, is_new, problem, detail",
                (name,),
            )
        return _read(rows[0] if rows else ("waiting", None, None, None, None))


def _read(row: Row) -> Signature:
    state, signature, is_new, problem, detail = row
    if state == "signed":
        return Signature(bytes(signature), bool(is_new))
    if problem is None:
        unsigned = Problem(
            PROBLEM_TYPES["unsigned"],
            "the shuffler's closer, which signs, does not answer; nothing was signed. See that it "
            "runs, and propose the document again.",
        )
        raise HttpProblem(unsigned, headers={"Retry-After": str(_RETRY_S)})
    raise WireError(detail, problem=problem)


class Signer:
    """Answer proposals that wait; only a process with the signing key has one.

    Args:
        database: The shuffler's.
        clock: The shuffler's time.
        countersigner: Applies the operator's policy and signs.
        telemetry: Logs what was signed and refused.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        countersigner: Countersigner,
        telemetry: Telemetry,
    ) -> None:
        self._database = database
        self._clock = clock
        self._countersigner = countersigner
        self._telemetry = telemetry

    def run(self, stop: threading.Event) -> None:
        """Answer proposals until ``stop`` is set; failures are logged and tried again.

        Raises:
            StorageUnusable: If the database is damaged; ``stop`` is then set, so that the process
                ends as a whole.
        """
        pause_s = _LOOK_S
        while not stop.is_set():
            try:
                self.sign_all()
                pause_s = _LOOK_S
            except StorageUnusable:
                stop.set()
                raise
            except StorageError as error:
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                self._telemetry.event("signing_failed", error=str(error), retry_s=pause_s)
            stop.wait(pause_s)

    def sign_all(self) -> int:
        """Answer every proposal that waits; return how many were answered.

        Raises:
            StorageError: If the database cannot be used; nothing is lost by trying again.
        """
        with self._database.snapshot() as transaction:
            waiting = transaction.execute(
                "SELECT id, kind, body FROM proposal WHERE state = 'waiting' ORDER BY asked_s, id"
            )
        return sum(self._sign(bytes(name), kind, bytes(body)) for name, kind, body in waiting)

    def _sign(self, name: bytes, kind: str, proposal: bytes) -> bool:
        now_s = self._clock.now_s()
        try:
            if kind == _KEYSET:
                keyset, is_new = self._countersigner.keyset(proposal, now_s=now_s)
                signature = keyset.shuffler_signature
            elif kind == _TOKEN_KEY:
                token_key, is_new = self._countersigner.token_key(proposal, now_s=now_s)
                signature = token_key.shuffler_signature
            else:
                campaign, is_new = self._countersigner.campaign(proposal, now_s=now_s)
                signature = campaign.shuffler_signature
        except ForeignKey as error:
            # After a rotation the closer may be about to publish its keys: the proposal waits
            # until its intake gives up, which then reads why.
            self._note(name, error, state="waiting")
            return False
        except WireError as error:
            self._note(name, error, state="refused")
            self._telemetry.event("not_countersigned", part=kind, problem=error.problem)
        else:
            with self._database.transaction() as transaction:
                transaction.execute(
                    "UPDATE proposal SET state = 'signed', signature = ?, is_new = ? "
                    "WHERE id = ? AND state = 'waiting'",
                    (signature, int(is_new), name),
                )
            self._telemetry.event("countersigned", part=kind, state="new" if is_new else "same")
        return True

    def _note(self, name: bytes, error: WireError, *, state: str) -> None:
        reason = (error.problem, str(error))
        with self._database.snapshot() as transaction:
            known = transaction.execute(
                "SELECT problem, detail FROM proposal WHERE id = ? AND state = ?", (name, state)
            )
        if known == [reason]:
            return
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE proposal SET state = ?, problem = ?, detail = ? "
                "WHERE id = ? AND state = 'waiting'",
                (state, *reason, name),
            )


def prune_proposals(database: Database, *, before_s: float) -> None:
    """Forget proposals that were last asked for before a time."""
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM proposal WHERE asked_s < ?", (int(before_s),))
