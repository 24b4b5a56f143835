"""A real registrar is killed in the middle of a fetch: each device gets one set, the whole set.

The device dies with it: what asks again is another process by the same ledger.
"""

import base64
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from benchmarks.loading.ports import held_port
from tests.live.installed import Server
from tests.live.running import answers
from tests.patience import PATIENCE_S, until
from tests.registering import REGISTRAR_KEY, REGISTRAR_SECRET, issuer, modulus
from tests.storage.engines import NewAddress, setting_of

from rase.accounting.ledger import Ledger, OwnerLimits, create_ledger
from rase.atomic_files import write_atomic
from rase.clock import FakeClock, SystemClock
from rase.device.tokens import TokenFetcher
from rase.kernels.entropy import SecureEntropy
from rase.kernels.words import SeededRandom
from rase.registrar.devices import certify_list
from rase.storage.address import DatabaseAddress
from rase.storage.interface import Database
from rase.storage.opening import open_database
from rase.transport.http import HttpTransport
from rase.transport.interface import Answer, Unreachable
from rase.wire import cbor
from rase.wire.issuing import verifier_of
from rase.wire.keys import Role, SigningKey
from rase.wire.signed import PinnedKeys, public_key_of, sign_with
from rase.wire.tokens import TOKENS_PATH, SignedTokenKey, TokenKey, requests_bytes
from rase.wire.wallet import TokenBatch

REPORTS = 48
RANDOM_MOMENTS = 3
ROUND_S = 3600
CAMPAIGN = "homes"
LIMITS = OwnerLimits(report_epsilon=1.0, span_epsilon=24.0, total_epsilon=1000.0)
SHUFFLER = SigningKey(role=Role.SHUFFLER, secret=bytes([2]) * 32)
FUSION = SigningKey(role=Role.FUSION, secret=bytes([1]) * 32)
PINNED = PinnedKeys(FUSION.public_bytes(), SHUFFLER.public_bytes(), REGISTRAR_KEY)


class Registrar:
    """A registrar's process on a database with a window that begins tomorrow."""

    def __init__(self, folder: Path, address: DatabaseAddress) -> None:
        self.address = address
        self.url = f"http://127.0.0.1:{held_port()}"
        write_atomic(folder / "signing.key", base64.b64encode(REGISTRAR_SECRET), mode=0o600)
        config = folder / "rase.toml"
        settings = {
            "database": setting_of(address),
            "signing_key_file": "signing.key",
            "fusion_key": PINNED.fusion.hex(),
            "shuffler_key": PINNED.shuffler.hex(),
            "shuffler_url": f"http://127.0.0.1:{held_port()}",
        }
        lines = [f'{name} = "{value}"' for name, value in settings.items()]
        lines += [f"port = {urlsplit(self.url).port}", f'campaigns = ["{CAMPAIGN}"]']
        config.write_text("\n".join(["[registrar]", *lines, ""]))
        first = int(SystemClock().now_s()) // ROUND_S + 24
        key = TokenKey(
            campaign=CAMPAIGN,
            first_round=first,
            last_round=first + 23,
            reports=REPORTS,
            issue_until_s=first * ROUND_S,
            modulus=modulus(),
        )
        own = sign_with(REGISTRAR_SECRET, key.signing_input("registrar"))
        self.signed = SignedTokenKey(key, own, SHUFFLER.sign(key.signing_input("shuffler")))
        with self.database() as database, database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO token_key (campaign, first_round, last_round, issue_until_s, over_s, "
                "body, private, signed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    CAMPAIGN,
                    first,
                    first + 23,
                    key.issue_until_s,
                    key.issue_until_s + 2 * 86_400,
                    key.to_bytes(),
                    issuer().to_der(),
                    self.signed.to_bytes(),
                ),
            )
        self.server = Server("registrar", config, folder / "registrar.log")

    def database(self) -> "closing[Database]":
        """Open its database beside it."""
        return closing(open_database(self.address, migrations="registrar"))

    def issued(self, device_key: bytes) -> int:
        """Return how many sets a device was given, by the registrar's own count."""
        with self.database() as database, database.snapshot() as transaction:
            sql = "SELECT count(*) FROM issued WHERE device_key = ?"
            ((count,),) = transaction.execute(sql, (device_key,))
        return int(count)

    def ask(self, body: bytes) -> list[Any]:
        """Ask with these bytes, and return the one reply."""
        headers = {"Content-Type": "application/cbor"}
        answer = httpx.post(self.url + TOKENS_PATH, content=body, headers=headers, timeout=60)
        (reply,) = cbor.decode(answer.content, max_size=1 << 20)
        return list(reply)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let it store nothing meanwhile."""
        with self.database() as database, database.transaction() as transaction:
            if not isinstance(self.address, Path):
                transaction.execute("LOCK TABLE issued IN EXCLUSIVE MODE")
            yield


class Cut:
    """The way to a registrar that dies at a moment of a request; its answer is never read."""

    def __init__(self, registrar: Registrar, moment: Callable[[], None]) -> None:
        self.registrar, self.moment, self.body = registrar, moment, b""

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        """Ask for a document."""
        return HttpTransport(self.registrar.url, timeout_s=PATIENCE_S).get(path, etag=etag)

    def post(
        self, path: str, body: bytes, *, content_type: str, credential: str | None = None
    ) -> Answer:
        """Hand over bytes, and let the registrar die."""
        self.body = body
        place = urlsplit(self.registrar.url)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection((place.hostname, place.port)) as line:
            line.sendall(head.encode() + body)
            self.moment()
            self.registrar.server.kill()
        raise Unreachable("it was killed.")


def fetch(
    ledger: Ledger, way: Any, secret: bytes, notes: list[tuple[str, dict[str, object]]]
) -> None:
    """Ask once, as a device that has just been started."""

    class Notes:
        def note(self, event: str, **fields: object) -> None:
            notes.append((event, fields))

    clock = FakeClock(SystemClock().now_s())
    tokens = TokenFetcher(
        ledger,
        way,
        secret=secret,
        campaign=CAMPAIGN,
        pinned=PINNED,
        clock=clock,
        entropy=SecureEntropy(),
        journal=Notes(),
    )
    tokens.look_for_keys()
    due_s = tokens.next_due_s
    assert due_s is not None
    clock.advance(max(due_s - clock.monotonic_s(), 0) + 1)
    tokens.step()


def test_a_fetch_that_a_kill_cuts_off_gives_one_set(
    tmp_path: Path, new_address: NewAddress
) -> None:
    """Killed before the set is stored, after that, or at random: exactly R tokens, and no others.

    The same request is answered alike ever after, and another one of the device is refused.
    """
    registrar = Registrar(tmp_path, new_address("registrar"))
    rng, pause = SeededRandom(2026), threading.Event()
    secrets = [bytes([number]) * 32 for number in range(1, 3 + RANDOM_MOMENTS)]
    keys = [public_key_of(secret) for secret in secrets]
    with registrar.database() as database:
        certify_list(database, keys, secret=REGISTRAR_SECRET)

    def stored(key: bytes) -> None:
        until(lambda: registrar.issued(key) == 1, logs=tmp_path)

    def soon(key: bytes) -> None:
        pause.wait(int(rng.words(1)[0]) % 40 / 1000)

    every = set[bytes]()
    try:
        for number, (secret, key) in enumerate(zip(secrets, keys, strict=True)):
            until(lambda: answers(registrar.url), logs=tmp_path)
            path = tmp_path / f"device-{number}.db"
            create_ledger(path)
            notes = list[tuple[str, dict[str, object]]]()
            moment = stored if number == 1 else soon
            way = Cut(registrar, lambda key=key, moment=moment: moment(key))  # type: ignore[misc]
            with closing(Ledger(path, LIMITS)) as ledger:
                if number == 0:
                    with registrar.locked():
                        fetch(ledger, way, secret, notes)
                    assert registrar.issued(key) == 0
                else:
                    fetch(ledger, way, secret, notes)
                ((seed, left),) = ((one.seed, one.left) for one in ledger.token_windows())
            assert seed is not None
            assert (left, [event for event, _ in notes]) == (0, ["tokens-not-fetched"])
            registrar.server.start()
            until(lambda: answers(registrar.url), logs=tmp_path)
            with closing(Ledger(path, LIMITS)) as ledger:
                fetch(ledger, HttpTransport(registrar.url, timeout_s=PATIENCE_S), secret, notes)
                ((seed_left, left),) = ((one.seed, one.left) for one in ledger.token_windows())
            assert (seed_left, left) == (None, REPORTS)
            assert notes[1:] == [
                ("tokens-fetched", {"round": registrar.signed.key.first_round, "count": REPORTS})
            ]
            assert registrar.issued(key) == 1
            # The same again, whoever asks with the same bytes; nothing for other ones.
            status, signatures = registrar.ask(way.body)
            tokens = TokenBatch(registrar.signed.key, seed).open(signatures)
            assert (status, len(set(tokens))) == (200, REPORTS)
            other = TokenBatch(registrar.signed.key, bytes(32)).request(secret)
            assert registrar.ask(requests_bytes([other])) == [409, "tokens-issued"]
            every.update(tokens)
        verifier = verifier_of(registrar.signed.key.modulus)
        assert all(verifier.is_signed(one[:32], one[32:]) for one in every)
        assert len(every) == REPORTS * len(secrets)
    finally:
        registrar.server.kill()
