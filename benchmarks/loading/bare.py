"""The limit of everything that opens reports: `Suite.decrypt` alone, on all cores.

For a whole round the tokens of its reports are verified, too.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import TracebackType
from typing import Any

from benchmarks.loading.setting import Fleet, cores
from rase.wire.issuing import TokenVerifier, verifier_of
from rase.wire.keys import Role
from rase.wire.messages import HEADER_SIZE, MARK_SIZE, Content, Header, inner_info, outer_info
from rase.wire.suites import private_key, suite
from rase.wire.tokens import NONCE_SIZE

__all__ = ["Bare"]


class Bare:
    """Processes that hold the envelopes of reports, each a share, and decrypt them when told.

    Args:
        fleet: The keys.
        wires: Reports of one round.
        roles: Whose envelopes: the shuffler's, the fusion centre's, or both.
        verifies: Whether tokens are verified.
    """

    def __init__(
        self,
        fleet: Fleet,
        wires: Sequence[bytes],
        *,
        roles: Sequence[Role],
        verifies: bool = False,
    ) -> None:
        self._pools = [
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) for _ in range(cores())
        ]
        for number, one in enumerate(self._pools):
            share = list(wires[number :: len(self._pools)])
            one.submit(_hold, fleet, share, tuple(roles), verifies=verifies).result()

    def run(self) -> None:
        """Decrypt and verify everything."""
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
_tokens: list[tuple[TokenVerifier, list[bytes]]] = []


def _hold(fleet: Fleet, wires: list[bytes], roles: tuple[Role, ...], *, verifies: bool) -> None:
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
        opened = [hpke.decrypt(one, secret, infos[role]) for one in envelopes]
        envelopes = [one[MARK_SIZE:] for one in opened]
    if verifies:
        tokens = [Content.from_bytes(one).token for one in opened]
        _tokens.append((verifier_of(fleet.modulus), tokens))


def _decrypt_all() -> None:
    for hpke, secret, envelopes, info in _held:
        decrypt = hpke.decrypt
        for envelope in envelopes:
            decrypt(envelope, secret, info)
    for verifier, tokens in _tokens:
        for token in tokens:
            if not verifier.is_signed(token[:NONCE_SIZE], token[NONCE_SIZE:]):
                raise RuntimeError("a token was not signed.")
