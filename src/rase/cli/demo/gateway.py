"""The fleet of the demonstration: one process, the gateway of all homes.

Readings are made in it and never leave it. Every report is drawn by the law and sealed by the code
of a device; one process stands for all homes, because tens of thousands of processes would not fit
on one machine. Each home reports at its own turn, once in a window, which keeps its budget.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from os import urandom
from typing import Any, Final, Self

import httpx
import numpy as np
from numpy.typing import NDArray

from rase.accounting.schedule import Rotate
from rase.campaign import Campaign
from rase.device.reporter import randomizer_of
from rase.errors import RaseError
from rase.kernels.entropy import Entropy, SecureEntropy, SeededEntropy
from rase.lab.homes import Homes
from rase.wire import cbor
from rase.wire.frames import frame_of, handle_of
from rase.wire.issuing import raise_all
from rase.wire.keys import KeyConfig, Role
from rase.wire.messages import Content
from rase.wire.seal import seal_report
from rase.wire.signed import PinnedKeys, SignedCampaign, SignedKeyset, public_key_of
from rase.wire.tokens import (
    TOKEN_KEYS_PATH,
    TOKENS_PATH,
    TokenKey,
    requests_bytes,
    token_keys_from_bytes,
)
from rase.wire.wallet import TokenBatch

__all__ = ["Gateway", "GatewayFailed", "Sent", "Task"]

_REPORTS_A_REQUEST: Final = 500
_SECRET_BYTES: Final = 32
_ENDED: Final = "the process of the demonstration's homes has ended."
_TOKENS_A_REQUEST: Final = 500


class GatewayFailed(RaseError):
    """The process of the fleet ended before its work was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Say what the fleet does.

    Args:
        homes: How many homes.
        days: How many days.
        world: The seed of the homes' lives.
        shift: From which hour on all homes use more, and how many times as much.
        mishaps: What goes wrong, by the hour: "lost answer", "tampered" or "offline".
        seed: Makes noise and turns reproducible, and worthless; None for real ones.
        every_round: Whether every home reports in every round, instead of once in a window.
    """

    homes: int
    days: int
    world: int
    shift: tuple[int, float]
    mishaps: dict[int, str]
    seed: int | None = None
    every_round: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Say what was sent in a round.

    Args:
        reports: Reports that left the gateway, repeated ones among them.
        answers: How often each status was answered.
        report_bytes: The size of a report.
        truth: The true mean of all homes, which nobody but the demonstration asks for.
        true_median: Their true median.
    """

    reports: int
    answers: dict[int, int]
    report_bytes: int
    truth: float
    true_median: float


class Gateway:
    """The process of the fleet, as the demonstration holds it.

    Args:
        task: What the fleet does.

    Raises:
        GatewayFailed: From every method, if the process ended.
    """

    def __init__(self, task: Task) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=_live, args=(theirs, task), daemon=True, name="gateway"
        )
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        """Return itself; the process runs."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(1.0)
        self.kill()

    def kill(self) -> None:
        """End the process at once, as the machine might."""
        self._process.kill()
        self._process.join()

    def device_keys(self) -> list[bytes]:
        """Return the public key of each home, once all are made."""
        keys: list[bytes] = self._receive()
        return keys

    def begin(
        self,
        credentials: Sequence[str],
        *,
        url: str,
        registrar: str,
        campaign: str,
        pinned: PinnedKeys,
    ) -> None:
        """Let the fleet fetch what was signed and its first tokens, and seal its first round.

        Args:
            credentials: What each home was enrolled with.
            url: Where the shuffler is.
            registrar: Where the registrar is.
            campaign: What the homes take part in.
            pinned: The keys of both servers, which owners got from the operators.
        """
        self._send((list(credentials), url, registrar, campaign, pinned))
        # Tokens are fetched before their window begins, so the clock must wait for it.
        self._receive()

    def send(self, round: int) -> Sent:
        """Let all homes whose turn it is report for a round that has ended.

        The next round is sealed while this one is closed.
        """
        self._send(round)
        sent: Sent = self._receive()
        return sent

    def _send(self, message: object) -> None:
        try:
            self._connection.send(message)
        except OSError:
            raise GatewayFailed(_ENDED) from None

    def _receive(self) -> Any:
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            raise GatewayFailed(_ENDED) from None


def _live(connection: Connection, task: Task) -> None:
    """Be the fleet, until the other side closes the connection."""
    try:
        keys = [os.urandom(_SECRET_BYTES) for _ in range(task.homes)]
        connection.send([public_key_of(key) for key in keys])
        power_w = Homes(homes=task.homes, days=task.days, seed=task.world).power_w
        credentials, url, registrar, campaign, pinned = connection.recv()
        # A transport of its own: a proxy in the environment must not be asked for 127.0.0.1.
        with ExitStack() as stack:
            client, issuer = (
                stack.enter_context(
                    httpx.Client(base_url=root, transport=httpx.HTTPTransport(), timeout=60.0)
                )
                for root in (url, registrar)
            )
            fleet = _Fleet(task, power_w, credentials, client=client, pinned=pinned)
            fleet.agree(campaign)
            fleet.fetch_tokens(issuer, keys)
            connection.send(None)
            for round in fleet.rounds():
                fleet.look_again(round)
                fleet.prepare(round)
                if connection.recv() != round:
                    return
                connection.send(fleet.send(round))
    except (EOFError, OSError, KeyboardInterrupt):
        # The demonstration has ended; it says why.
        return


class HomeTokens:
    """Fetch the homes' tokens window after window, and hand them out.

    Each home blinds its own, and a request is signed by its own key; the gateway only carries them.
    A window's tokens are fetched in pieces over the window before. A home whose turn falls before
    the first round of the demonstration asks for none of that window; in life every home asks for
    all.

    Args:
        client: The way to the registrar.
        secrets: The key of each home.
        turns: The round of each home in a window; None if all report in every round.
        window: How many rounds a window of turns has.
        last_round: The last round in which anybody reports.
        pinned: The public signing keys, the registrar's among them.
    """

    def __init__(
        self,
        client: httpx.Client,
        *,
        secrets: Sequence[bytes],
        turns: NDArray[np.int64] | None,
        window: int,
        last_round: int,
        pinned: PinnedKeys,
    ) -> None:
        self._client = client
        self._secrets = secrets
        self._turns = turns
        self._window = window
        self._last_round = last_round
        answer = client.get(TOKEN_KEYS_PATH)
        answer.raise_for_status()
        self._keys = [one.key for one in token_keys_from_bytes(answer.content, pinned)]
        self._tokens: dict[int, dict[int, list[bytes]]] = {}

    def token(self, home: int, round: int) -> bytes:
        """Return the token of a home for its report of a round."""
        key = next(key for key in self._keys if key.holds_in(round))
        return self._tokens[key.first_round][home].pop()

    def fetch_first(self) -> None:
        """Fetch the tokens of the first window."""
        self._fetch(self._keys[0], self._homes(self._keys[0]))

    def fetch_ahead(self, round: int) -> None:
        """Fetch a piece of the next window's tokens, all of them before the last round of this."""
        for key, following in zip(self._keys, self._keys[1:], strict=False):
            if key.holds_in(round):
                homes, pieces = self._homes(following), max(key.last_round - key.first_round, 1)
                at = round - key.first_round
                self._fetch(following, homes[at::pieces] if at < pieces else [])

    def _homes(self, key: TokenKey) -> list[int]:
        """Return the homes whose turn is in a window."""
        if self._turns is None:
            return list(range(len(self._secrets))) if key.first_round <= self._last_round else []
        begin = key.first_round - key.first_round % self._window
        rounds = begin + self._turns
        is_in = (rounds >= key.first_round) & (rounds <= key.last_round)
        found: list[int] = np.flatnonzero(is_in).tolist()
        return found

    def _fetch(self, key: TokenKey, homes: Sequence[int]) -> None:
        kept = self._tokens.setdefault(key.first_round, {})
        size = max(_TOKENS_A_REQUEST // key.reports, 1)
        for start in range(0, len(homes), size):
            piece = homes[start : start + size]
            batches = [
                TokenBatch(key, urandom(32), raise_all=raise_all(key.modulus)) for _ in piece
            ]
            asked = [
                batch.request(self._secrets[home])
                for batch, home in zip(batches, piece, strict=True)
            ]
            answer = self._client.post(
                TOKENS_PATH,
                content=requests_bytes(asked),
                headers={"Content-Type": "application/cbor"},
            )
            answer.raise_for_status()
            replies = cbor.decode(answer.content, max_size=1 << 24)
            kept.update(_open_replies(piece, batches, replies))


@dataclass(slots=True)
class _Fleet:
    """All homes: their readings, turns and what they are about to send."""

    task: Task
    power_w: NDArray[np.float64]
    credentials: Sequence[str] = field(repr=False)
    client: httpx.Client = field(kw_only=True)
    pinned: PinnedKeys = field(kw_only=True)
    campaign: Campaign = field(init=False)
    _hash: bytes = field(init=False)
    _path: str = field(init=False)
    _first: int = field(init=False)
    _next: SignedCampaign | None = field(init=False, default=None)
    _keys: tuple[KeyConfig, KeyConfig] = field(init=False)
    _keyset: int = field(init=False)
    _turns: NDArray[np.int64] = field(init=False)
    _tokens: HomeTokens = field(init=False)
    _requests: list[bytes] = field(init=False, default_factory=list)
    _report_bytes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Let all homes use more from some hour on."""
        first, times = self.task.shift
        self.power_w[first:] *= times

    def agree(self, campaign: str) -> None:
        """Fetch the campaign and the keys, and check both servers' signatures."""
        self._path = f"/v1/campaigns/{campaign}"
        signed = SignedCampaign.from_bytes(self._fetch(self._path), self.pinned)
        keyset = SignedKeyset.from_bytes(self._fetch("/v1/keyset"), self.pinned).keyset
        self.campaign, self._hash = signed.campaign, signed.hash
        self._first = self.campaign.not_before
        end_s = self.campaign.round_end_s(self.campaign.not_before)
        self._keys = keyset.active(Role.SHUFFLER, end_s), keyset.active(Role.FUSION, end_s)
        self._keyset = keyset.version
        secrets = self._secrets()
        self._turns = np.array([self._turn(next(secrets)) for _ in range(self.task.homes)])

    def fetch_tokens(self, registrar: httpx.Client, secrets: Sequence[bytes]) -> None:
        """Fetch the tokens of the first window, before it begins."""
        self._tokens = HomeTokens(
            registrar,
            secrets=secrets,
            turns=None if self.task.every_round else self._turns,
            window=self.campaign.window,
            last_round=self.rounds()[-1],
            pinned=self.pinned,
        )
        self._tokens.fetch_first()

    def look_again(self, round: int) -> None:
        """Fetch the newest version of the campaign, and go by it from its first round on."""
        if self._next is None:
            newest = SignedCampaign.from_bytes(self._fetch(self._path), self.pinned)
            self._next = newest if newest.campaign.version > self.campaign.version else None
        if self._next is not None and round >= self._next.campaign.not_before:
            self.campaign, self._hash, self._next = self._next.campaign, self._next.hash, None

    def rounds(self) -> range:
        """Return all rounds of the demonstration."""
        return range(self._first, self._first + len(self.power_w))

    def prepare(self, round: int) -> None:
        """Draw and seal the reports of a round."""
        hour = round - self._first
        turn = np.flatnonzero(self._turns == round % self.campaign.window)
        if self.task.every_round:
            turn = np.arange(self.task.homes)
        if self.task.mishaps.get(hour) == "offline":
            turn = turn[: self.campaign.k_min - 1]
        law = randomizer_of(self.campaign, 0)
        entropy: Entropy = SecureEntropy()
        if self.task.seed is not None:
            entropy = SeededEntropy(f"{self.task.seed} {round}")
        pairs: list[list[str | bytes]] = []
        for home in turn.tolist():
            place = law.draw_one(float(self.power_w[hour, home]), entropy)
            token = self._tokens.token(home, round)
            wire, credential = self._seal(round, place, token), self.credentials[home]
            self._report_bytes = len(wire)
            pairs.append([handle_of(credential), frame_of(wire, credential)])
        if self.task.mishaps.get(hour) == "tampered":
            # By its home itself, or the shuffler would know at once: the closer cannot open it.
            credential, wire = self.credentials[turn[0]], self._seal(round, 0, b"")
            pairs[0][1] = frame_of(wire[:-1] + bytes([wire[-1] ^ 1]), credential)
        self._requests = [
            cbor.encode(pairs[start : start + _REPORTS_A_REQUEST])
            for start in range(0, len(pairs), _REPORTS_A_REQUEST)
        ]
        self._tokens.fetch_ahead(round)

    def send(self, round: int) -> Sent:
        """Send what was prepared; a request whose answer is lost is sent again."""
        hour = round - self._first
        requests = list(self._requests)
        if self.task.mishaps.get(hour) == "lost answer":
            requests.append(requests[0])
        answers: Counter[int] = Counter()
        for request in requests:
            response = self.client.post(
                "/v1/reports", content=request, headers={"Content-Type": "application/cbor"}
            )
            response.raise_for_status()
            replies = cbor.decode(response.content, max_size=1 << 24)
            answers.update(reply["status"] for reply in replies)
        return Sent(
            reports=answers.total(),
            answers=dict(answers),
            report_bytes=self._report_bytes,
            truth=float(self.power_w[hour].mean()),
            true_median=float(np.median(self.power_w[hour])),
        )

    def _seal(self, round: int, place: int, token: bytes) -> bytes:
        shuffler, fusion = self._keys
        return seal_report(
            Content(round, place, token=token),
            campaign_hash=self._hash,
            shuffler=shuffler,
            fusion=fusion,
            keyset=self._keyset,
        )

    def _turn(self, secret: bytes) -> int:
        campaign = self.campaign
        return Rotate(
            campaign.window_budget, campaign.window, secret=secret, campaign=campaign.id
        ).turn

    def _secrets(self) -> Iterator[bytes]:
        """Yield a secret for each home: its own, or one that follows from the seed."""
        if self.task.seed is None:
            while True:
                yield os.urandom(_SECRET_BYTES)
        rng = np.random.default_rng([self.task.seed, 4])
        while True:
            yield rng.bytes(_SECRET_BYTES)

    def _fetch(self, path: str) -> bytes:
        response = self.client.get(path)
        response.raise_for_status()
        return response.content


def _open_replies(
    homes: Sequence[int], batches: Sequence[TokenBatch], replies: Sequence[list[object]]
) -> Iterable[tuple[int, list[bytes]]]:
    for home, batch, (status, found) in zip(homes, batches, replies, strict=True):
        if status != 200 or not isinstance(found, list):
            raise RaseError(f"the registrar refuses tokens: {found}.")
        yield home, list(batch.open(found))
