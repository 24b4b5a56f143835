"""The parts of a simulated world that can die: databases, calls, and the devices themselves."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tests.simulation.registrar import fetcher_of
from tests.storage.faults import FaultyDatabase, SimulatedDeath

from rase.accounting.ledger import Ledger, OwnerLimits, create_ledger
from rase.clock import Clock
from rase.device.agent import Agent
from rase.device.behaviour import Behaviour
from rase.device.journal import LineJournal
from rase.device.memory import Memory
from rase.device.state import DeviceState, StateFile
from rase.device.terms import OwnerRules, Terms
from rase.kernels.entropy import SeededEntropy
from rase.promise import Claim
from rase.storage.interface import Database, Parameters, Row, Transaction
from rase.transport.memory import Handler, MemoryTransport
from rase.wire.signed import PinnedKeys

__all__ = ["Device", "Fuse", "MortalDatabase"]

LIMITS = OwnerLimits(report_epsilon=1.0, span_epsilon=1000.0, total_epsilon=100_000.0)


class MortalDatabase:
    """A database that can be told at which point to die, and knows at what it died.

    Args:
        database: The real one, which survives.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._faulty = FaultyDatabase(database)
        self.label = ""
        self.is_dead = False
        self.on_death: Callable[[], object] = lambda: None

    def arm(self, point: int | None) -> None:
        """Die at a point counted from now; None for never."""
        self._faulty = FaultyDatabase(self._database, point)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Write."""
        with self._dying(), self._faulty.transaction() as transaction:
            yield _Labelling(transaction, self)
            self.label = "commit"

    @contextmanager
    def share(self) -> Iterator[Transaction]:
        """Write beside others."""
        with self._dying(), self._faulty.share() as transaction:
            yield _Labelling(transaction, self)
            self.label = "commit"

    @contextmanager
    def snapshot(self) -> Iterator[Transaction]:
        """Read."""
        with self._dying(), self._faulty.snapshot() as transaction:
            yield transaction

    def scrub(self) -> bool:
        """Overwrite the logs."""
        self.label = "scrub"
        with self._dying():
            return self._faulty.scrub()

    @contextmanager
    def _dying(self) -> Iterator[None]:
        try:
            yield
        except SimulatedDeath:
            self.is_dead = True
            self.on_death()
            raise

    def close(self) -> None:
        """Close the real one."""
        self._database.close()


class _Labelling:
    """Remember what is being written."""

    def __init__(self, transaction: Transaction, owner: MortalDatabase) -> None:
        self._transaction = transaction
        self._owner = owner

    def execute(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        self._owner.label = _label(sql)
        return self._transaction.execute(sql, parameters)

    def insert_new(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Parameters],
        *,
        key: int,
    ) -> list[bool]:
        self._owner.label = f"INSERT {table}"
        return self._transaction.insert_new(table, columns, rows, key=key)

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> int:
        self._owner.label = _label(sql)
        return self._transaction.execute_many(sql, rows)


def _label(sql: str) -> str:
    verb, *words = sql.split()
    return f"{verb} {words[0] if verb == 'UPDATE' else words[1]}"


class Fuse:
    """Die before or after the k-th call of anything that touches the outside of a device."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.label = ""
        self.due: list[int] = []

    def arm(self) -> None:
        """Go for the next death that is due, if there is one."""
        self.left = self.due.pop(0) if self.due else None

    def disarm(self) -> None:
        """Forget what is due."""
        self.left = None
        self.due.clear()

    def tick(self, label: str) -> None:
        """Count a moment, and die if it is the last."""
        if self.left is None:
            return
        if self.left == 0:
            self.label = label
            raise SimulatedDeath
        self.left -= 1


class _Mortal:
    """Pass calls on, with a moment to die before and after each."""

    def __init__(self, inner: Any, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return _fused(found, self._fuse, name) if callable(found) else found


def _fused(function: Callable[..., Any], fuse: Fuse, label: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        fuse.tick(label)
        answer = function(*args, **kwargs)
        fuse.tick(label)
        return answer

    return call


class _Entropy:
    """Jitter from one stream, noise from a stream for each round: the same in every world."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jitter = SeededEntropy(f"jitter {name}")
        self.source: SeededEntropy | _Noise = self._jitter

    def word(self) -> int:
        return self.source.word()

    @contextmanager
    def noise_of(self, round: int, owner: "Device") -> Iterator[None]:
        """Give the words of a round while its report is made."""
        self.source = _Noise(SeededEntropy(f"noise {self._name} {round}"), round, owner)
        try:
            yield
        finally:
            self.source = self._jitter


class _Noise:
    """The words of one round; the first one asked for is a draw, and a moment to die."""

    def __init__(self, words: SeededEntropy, round: int, owner: "Device") -> None:
        self._words = words
        self._round = round
        self._owner = owner
        self._is_drawn = False

    def word(self) -> int:
        if not self._is_drawn:
            self._is_drawn = True
            self._owner.fuse.tick("draw")
            self._owner.draws[self._round] += 1
        return self._words.word()


class _NotingLedger:
    """Count how often noise is drawn for each round, and give it that round's stream."""

    def __init__(self, ledger: Ledger, entropy: _Entropy, owner: "Device") -> None:
        self._ledger = ledger
        self._entropy = entropy
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    @contextmanager
    def report(
        self, campaign: str, round: int, *, epsilon: float, claims: tuple[Claim, ...] = ()
    ) -> Iterator[Any]:
        fuse = self._owner.fuse
        with self._ledger.report(campaign, round, epsilon=epsilon, claims=claims) as spending:
            fuse.tick("checked")
            with self._entropy.noise_of(round, self._owner):
                yield _Mortal(spending, fuse)
            fuse.tick("commit")
        # The ledger forgets rounds that no window needs; whoever compares must not.
        self._owner.spent[round] = epsilon
        fuse.tick("report")


@dataclass
class Device:
    """A device of the simulated fleet: files, and an agent that may die and start again."""

    place: int
    folder: Path
    credential: str = field(repr=False)
    clock: Clock
    campaign_id: str
    pinned: PinnedKeys
    handler: Handler
    reading: Callable[[int], float | None]
    log: TextIO
    registrar: Handler
    sends_cover: bool = True

    def __post_init__(self) -> None:
        self.draws: Counter[int] = Counter()
        self.spent: dict[int, float] = {}
        self.fuse = Fuse()
        self.deaths: Counter[str] = Counter()
        self.agent: Agent | None = None
        self._entropy = _Entropy(str(self.place))
        self._ledger: Ledger | None = None
        self.ledger_path = self.folder / f"{self.place}.db"
        self._state = StateFile(self.folder / f"{self.place}.json")
        create_ledger(self.ledger_path)
        self._state.save(DeviceState())

    def step(self) -> None:
        """Do what is due; a device that dies begins again the next time."""
        try:
            if self.agent is None:
                self._start()
            assert self.agent is not None
            self.agent.step()
        except SimulatedDeath:
            self.deaths[self.fuse.label] += 1
            self.fuse.arm()
            self.close()

    def due_s(self) -> float | None:
        """Return when it has something to send; at once if it is dead."""
        if self.agent is None:
            return self.clock.monotonic_s()
        return self.agent.outbox.next_due_s()

    def read(self) -> list[float]:
        """Return the present reading, as a source does."""
        found = self.reading(self.place)
        return [] if found is None else [found]

    def close(self) -> None:
        """Forget all that is in memory."""
        self.agent = None
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def forget_terms(self) -> None:
        """Be as new, but for the ledger."""
        self.close()
        self._state.save(DeviceState())

    def check_ledger(self) -> None:
        """The file says what was paid, and nothing more."""
        with Ledger(self.ledger_path, LIMITS) as ledger:
            entries = ledger.history(10_000)
            status = ledger.status(int(self.clock.now_s()))
        assert all(self.spent[entry.round] == entry.epsilon for entry in entries)
        assert status.total_spent == sum(self.spent.values())

    def _start(self) -> None:
        self._ledger = Ledger(self.ledger_path, LIMITS)
        noting = _NotingLedger(self._ledger, self._entropy, self)
        terms = Terms(self.campaign_id, pinned=self.pinned, rules=OwnerRules(report_epsilon=1.0))
        tokens = fetcher_of(
            _Mortal(self._ledger, self.fuse),
            self.place,
            handler=self.registrar,
            wrap=lambda transport: _Mortal(transport, self.fuse),
            clock=self.clock,
            log=self.log,
        )
        self.agent = Agent(
            Memory(terms, _Mortal(self._state, self.fuse)),
            _Mortal(noting, self.fuse),
            transport=_Mortal(MemoryTransport(self.handler), self.fuse),
            source=_Mortal(self, self.fuse),
            credential=self.credential,
            clock=self.clock,
            entropy=self._entropy,
            study=True,
            tokens=tokens,
            journal=LineJournal(self.log, self.clock),
            behaviour=Behaviour(poll_s=3600.0, sends_cover=self.sends_cover),
        )
