"""A subscriber that follows all rounds: none is left out, told twice or changed by faults."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import httpx

from rase.errors import RaseError
from rase.subscriber.client import Subscriber

__all__ = ["METHOD", "Reader"]

METHOD: Final = "unbiased_mean"


class Reader:
    """Follow a fusion centre's stream in a thread.

    Args:
        url: Its address.
        token: A subscriber's.
    """

    def __init__(self, url: str, token: str) -> None:
        self.told: dict[int, float] = {}
        self.unexplained: list[str] = []
        self._twice: list[int] = []
        self._rounds: list[int] = []
        self._is_over = threading.Event()
        self._client = Subscriber(url, token, timeout_s=20.0)
        threading.Thread(target=self._follow, daemon=True).start()

    def is_at(self, round: int) -> bool:
        """Return whether a round has been told."""
        return round in self.told

    def stop(self) -> None:
        """Take nothing more in."""
        self._is_over.set()
        self._client.close()

    def against(self, kept: Mapping[int, float]) -> list[str]:
        """Return how what was told differs from what the fusion centre has."""
        found = [f"round {round} was told twice." for round in self._twice]
        for round, mean in self.told.items():
            if kept.get(round) != mean:
                found.append(f"round {round} was told as {mean}, and is {kept.get(round)}.")
        if self.told:
            first = min(self.told)
            missing = sorted(round for round in kept if round > first and round not in self.told)
            found += [f"round {round} was never told." for round in missing]
        return found

    def _follow(self) -> None:
        while not self._is_over.is_set():
            # A stream that is refused for now is asked for again; a closed client ends the thread.
            with suppress(httpx.HTTPError, RuntimeError):
                try:
                    for mean in self._client.follow(method=METHOD):
                        if self._is_over.is_set():
                            return
                        self._take(mean.round, mean.value)
                except RaseError as error:
                    if not self._is_over.is_set():
                        self.unexplained.append(f"the stream was refused: {error}")
                        return

    def _take(self, round: int, mean: float | None) -> None:
        if round in self._rounds:
            self._twice.append(round)
        self._rounds.append(round)
        if mean is not None:
            self.told[round] = mean
