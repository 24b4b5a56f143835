"""Tokens of made-up devices: certified with approvals, fetched over HTTP as a gateway does."""

import base64
import json
import threading
from collections.abc import Sequence
from secrets import token_bytes

import httpx

from rase.errors import RaseError
from rase.wire import cbor
from rase.wire.agreement import Agreement, Applicant
from rase.wire.issuing import raise_all
from rase.wire.signed import PinnedKeys, public_key_of, sign_with
from rase.wire.tokens import (
    CERTIFICATES_PATH,
    TOKEN_KEYS_PATH,
    TOKENS_PATH,
    TokenKey,
    proof_input,
    requests_bytes,
    token_keys_from_bytes,
)
from rase.wire.wallet import TokenBatch

__all__ = ["Wallets", "enrolled"]

_TIMEOUT_S = 20.0
_TOKENS_A_REQUEST = 500
_LOOK_S = 1.0


def enrolled(secret: bytes, *, shuffler: str, registrar: str, token: str, approval: str) -> str:
    """Enrol a device with the word of both operators, and return its credential.

    Args:
        secret: The device's key.
        shuffler: The address of the shuffler.
        registrar: The address of the registrar.
        token: From the shuffler's operator.
        approval: From the registrar's.
    """
    device_key = public_key_of(secret)
    asked = {
        "approval": approval,
        "device_key": _text(device_key),
        "proof": _text(sign_with(secret, proof_input(device_key))),
    }
    answer = httpx.post(registrar + CERTIFICATES_PATH, json=asked, timeout=_TIMEOUT_S)
    device = Applicant(token, secret)
    body = {**device.application._asdict(), "certificate": answer.json()["certificate"]}
    answer = httpx.post(f"{shuffler}/v1/enrolments", json=body, timeout=_TIMEOUT_S)
    return device.credential(Agreement(**json.loads(answer.content)))


class Wallets:
    """Hold the tokens of devices, and fetch more as long as there are some to fetch.

    Args:
        secrets: The key of each device.
        registrar: The address of the registrar.
        campaign: The campaign's id.
        pinned: The public signing keys.
    """

    def __init__(
        self, secrets: Sequence[bytes], *, registrar: str, campaign: str, pinned: PinnedKeys
    ) -> None:
        self._secrets = secrets
        self._registrar = registrar
        self._campaign = campaign
        self._pinned = pinned
        # The same bytes are asked for again when an answer was lost.
        self._seeds: dict[int, list[bytes]] = {}
        self._tokens: dict[tuple[int, int], list[bytes]] = {}
        self._keys: dict[int, TokenKey] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def keep_full(self) -> None:
        """Fetch what there is from time to time, until `stop`; the registrar may be down."""
        self._thread = threading.Thread(target=self._keep_full, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Fetch no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def fetch(self) -> None:
        """Fetch the tokens of all windows that are issued now.

        Raises:
            RaseError: If the registrar refuses.
            httpx.HTTPError: If it does not answer.
        """
        answer = httpx.get(self._registrar + TOKEN_KEYS_PATH, timeout=_TIMEOUT_S)
        answer.raise_for_status()
        for signed in token_keys_from_bytes(answer.content, self._pinned):
            if signed.key.campaign == self._campaign and signed.key.first_round not in self._keys:
                self._fetch_window(signed.key)

    def holds(self, round: int) -> bool:
        """Return whether every device has a token left of a round's window."""
        return any(
            all(self._tokens[key.first_round, place] for place in range(len(self._secrets)))
            for key in list(self._keys.values())
            if key.holds_in(round)
        )

    def take(self, device: int, round: int) -> bytes | None:
        """Return a token of a device for a round; None if it has none."""
        for key in list(self._keys.values()):
            if key.holds_in(round):
                left = self._tokens[key.first_round, device]
                return left.pop() if left else None
        return None

    def _keep_full(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                self.fetch()
            except (httpx.HTTPError, RaseError, OSError):
                continue

    def _fetch_window(self, key: TokenKey) -> None:
        seeds = self._seeds.setdefault(key.first_round, [token_bytes(32) for _ in self._secrets])
        power = raise_all(key.modulus)
        batches = [TokenBatch(key, seed, raise_all=power) for seed in seeds]
        size = max(_TOKENS_A_REQUEST // key.reports, 1)
        for start in range(0, len(batches), size):
            places = range(start, min(start + size, len(batches)))
            asked = [batches[place].request(self._secrets[place]) for place in places]
            answer = httpx.post(
                self._registrar + TOKENS_PATH,
                content=requests_bytes(asked),
                headers={"Content-Type": "application/cbor"},
                timeout=_TIMEOUT_S,
            )
            answer.raise_for_status()
            replies = cbor.decode(answer.content, max_size=1 << 24)
            for place, (status, found) in zip(places, replies, strict=True):
                opened = batches[place].open(found) if status == 200 else []
                self._tokens[key.first_round, place] = opened
        self._keys[key.first_round] = key


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
