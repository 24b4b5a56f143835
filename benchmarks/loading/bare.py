"""The limit of everything that opens reports: `Suite.decrypt` alone, on all cores."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import TracebackType
from typing import Any

from benchmarks.loading.setting import Fleet, cores
from rase.wire.keys import Role
from rase.wire.messages import HEADER_SIZE, MARK_SIZE, Header, inner_info, outer_info
from rase.wire.suites import private_key, suite

__all__ = ["Bare"]


class Bare:
    """Processes that hold the envelopes of reports, each a share, and decrypt them when told.

    Args:
        fleet: The keys.
        wires: Reports of one round.
        roles: Whose envelopes: the shuffler's, the fusion centre's, or both.
    """

    def __init__(self, fleet: Fleet, wires: Sequence[bytes], *, roles: Sequence[Role]) -> None:
        self._pools = [
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) for _ in range(cores())
        ]
        for number, one in enumerate(self._pools):
            share = list(wires[number :: len(self._pools)])
            one.submit(_hold, fleet, share, tuple(roles)).result()

    def run(self) -> None:
        """Decrypt everything."""
        for job in [one.submit(_decrypt_all) for one in self._pools]:
            job.result()

    def __enter__(self) -> "Bare":
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes."""
        for one in self._pools:
            one.shutdown()


_held: list[tuple[Any, Any, list[bytes], bytes]] = []


def _hold(fleet: Fleet, wires: list[bytes], roles: tuple[Role, ...]) -> None:
    round = Header.from_report(wires[0]).round
    infos = {
        Role.SHUFFLER: outer_info(fleet.hash, wires[0][:HEADER_SIZE]),
        Role.FUSION: inner_info(fleet.hash, round),
    }
    envelopes = [wire[HEADER_SIZE:] for wire in wires]
    for role in (Role.SHUFFLER, Role.FUSION):
        key = fleet.openers[role]
        hpke, secret = suite(key.kem, key.aead), private_key(key.kem, key.secret)
        if role in roles:
            _held.append((hpke, secret, envelopes, infos[role]))
        # What the shuffler finds begins with the mark.
        envelopes = [hpke.decrypt(one, secret, infos[role])[MARK_SIZE:] for one in envelopes]


def _decrypt_all() -> None:
    for hpke, secret, envelopes, info in _held:
        decrypt = hpke.decrypt
        for envelope in envelopes:
            decrypt(envelope, secret, info)
