"""Send the outbox: identical bytes, again and again, until the fusion centre has them.

Pauses grow while it does not answer; as soon as it has taken one batch, none waits for long.
Never a second permutation of one round: that would spend the shuffle's guarantee twice.
"""

import secrets
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import httpx

from rase.clock import FIRST_PAUSE_S, LONGEST_PAUSE_S, backoff_s
from rase.errors import Malformed
from rase.service.clients import client as proxied_client
from rase.storage.interface import Database
from rase.wire.parcel import header_of
from rase.wire.problems import Problem

__all__ = ["BATCH_TYPE", "Answer", "BatchSender", "Forwarded", "HttpSender", "forward_one"]

BATCH_TYPE: Final = "application/rase-batch"
_SHARES = 1 << 20
# A batch may be damaged on its way and refused for that; the bytes that wait here are sound.
_REFUSALS = 4
# A key that is missing there can be provided, so that is waited for: a day of the longest pauses.
# Not for ever, because k_min devices together could name a key that never was.
_KEYLESS_REFUSALS = 86400 // int(LONGEST_PAUSE_S)


class Answer(Enum):
    """Say what the fusion centre answered to a batch."""

    ACCEPTED = "accepted"
    FINAL = "final"
    REFUSED = "refused"
    NO_KEY = "no_key"
    LATER = "later"


# Everything else an operator of either server may fix, so it is tried again.
_ANSWERS: Final = {
    "final-round": Answer.FINAL,
    "bad-batch": Answer.REFUSED,
    "below-k": Answer.REFUSED,
    "key-not-held": Answer.NO_KEY,
}
_MOST: Final = {Answer.REFUSED: _REFUSALS, Answer.NO_KEY: _KEYLESS_REFUSALS}


class BatchSender(Protocol):
    """Put a batch to the fusion centre; HTTP in life, a function in tests.

    Args:
        problem: Why the last batch was not taken, in a word for operators; empty if it was.
    """

    problem: str

    def send(self, batch: bytes, body: bytes, manifest: bytes) -> Answer:
        """Send a batch by its id and return the answer; what fails is LATER, never raised."""
        ...


@dataclass(frozen=True, slots=True)
class Forwarded:
    """Say what became of one attempt.

    Args:
        round: The round of the batch.
        answer: What the fusion centre said.
        attempt: 1 for the first.
        retry_s: In how many seconds it is sent again, if it is.
        problem: Why it was not taken, in a word; empty if it was.
    """

    round: int
    answer: Answer
    attempt: int
    retry_s: int
    problem: str = ""


def forward_one(database: Database, sender: BatchSender, *, now_s: float) -> Forwarded | None:
    """Send the batch that has waited longest, if one is due.

    Its next time is written before it is sent: after a crash it is sent again, later. Of a batch
    that was never sent no time counts, nor one further away than any pause lasts: a clock that was
    wrong wrote it.

    Returns:
        What became of it, or None if none was due.
    """
    now = int(now_s)
    with database.share() as transaction:
        rows = transaction.execute(
            "SELECT batch, round, attempts, refusals FROM outbox "
            "WHERE state = 'waiting' AND (attempts = 0 OR next_s <= ? OR next_s > ?) "
            "ORDER BY next_s, round LIMIT 1 FOR UPDATE SKIP LOCKED",
            (now, now + int(LONGEST_PAUSE_S) + 1),
        )
        if not rows:
            return None
        batch, round, attempts, refusals = rows[0]
        # Apart: to sort all that waits with its bodies would read hundreds of megabytes.
        ((body, manifest),) = transaction.execute(
            "SELECT body, manifest FROM outbox WHERE batch = ?", (batch,)
        )
        # Whole seconds, never none: times are kept as whole numbers.
        retry_s = 1 + int(backoff_s(attempts + 1, share=secrets.randbelow(_SHARES) / _SHARES))
        transaction.execute(
            "UPDATE outbox SET next_s = ?, attempts = ? WHERE batch = ?",
            (now + retry_s, attempts + 1, batch),
        )
    answer = sender.send(bytes(batch), bytes(body), bytes(manifest))
    with database.share() as transaction:
        if answer in (Answer.ACCEPTED, Answer.FINAL):
            transaction.execute("DELETE FROM outbox WHERE batch = ?", (batch,))
        else:
            refusals += answer in _MOST
            # After the last it is kept for the operators: see rase shuffler outbox.
            state = "refused" if refusals >= _MOST.get(answer, refusals + 1) else "waiting"
            transaction.execute(
                "UPDATE outbox SET state = ?, refusals = ?, problem = ? WHERE batch = ?",
                (state, refusals, sender.problem, batch),
            )
    if answer is Answer.ACCEPTED:
        _hurry(database, by_s=now + int(FIRST_PAUSE_S))
    return Forwarded(round, answer, attempts + 1, retry_s, sender.problem)


def _hurry(database: Database, *, by_s: int) -> None:
    """Let batches that failed often be tried again soon: the fusion centre is there."""
    late = "SELECT batch FROM outbox WHERE state = 'waiting' AND next_s > ?"
    with database.snapshot() as transaction:
        # Seldom is there one, and looking is cheaper than a commit.
        if not transaction.execute(f"{late} LIMIT 1", (by_s,)):
            return
    with database.share() as transaction:
        # A transaction of its own, past what others hold, so that no two wait for each other.
        rows = transaction.execute(f"{late} FOR UPDATE SKIP LOCKED", (by_s,))
        transaction.execute_many(
            "UPDATE outbox SET next_s = ? WHERE batch = ?", [(by_s, batch) for (batch,) in rows]
        )


class HttpSender:
    """Put batches to the fusion centre over HTTP.

    The proxy variables of the environment (``HTTPS_PROXY``, ``NO_PROXY`` …) count, except for an
    address of this machine, which a proxy would look for on its own.

    Args:
        url: The fusion centre's address.
        client: The connection; made here if None.
    """

    def __init__(self, url: str, *, client: Any = None) -> None:
        self.problem = ""
        self._url = url.rstrip("/")
        self._client: httpx.Client = client or proxied_client(self._url, timeout=60.0)

    def send(self, batch: bytes, body: bytes, manifest: bytes) -> Answer:
        """Send a batch."""
        try:
            answer = self._client.put(
                f"{self._url}/v1/batches/{batch.hex()}",
                content=body,
                headers={"Content-Type": BATCH_TYPE, **header_of(manifest)},
            )
        except httpx.HTTPError:
            self.problem = "unreachable"
            return Answer.LATER
        if answer.status_code in (200, 201):
            self.problem = ""
            return Answer.ACCEPTED
        try:
            self.problem = Problem.from_json(answer.content).type.name
        except Malformed:
            # A proxy speaks, or a wrong address: an operator may correct either.
            self.problem = f"http-{answer.status_code}"
            return Answer.LATER
        return _ANSWERS.get(self.problem, Answer.LATER)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
