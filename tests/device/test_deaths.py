"""Deaths between any two steps, and bad networks: noise is drawn once, budget is spent once."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from rase.device.memory import Memory
from rase.kernels.entropy import SeededEntropy
from rase.laws.randomizer import Randomizer
from rase.transport.memory import FAULTS, FaultyTransport

HOUR = 3600
FIRST = 495_000


class Death(BaseException):
    """The process is gone."""


class Fuse:
    """Die before or after the k-th call of anything that touches the outside."""

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self.count = 0

    def tick(self) -> None:
        """Count a moment, and die at the last one."""
        self.count += 1
        if self.count == self.last:
            raise Death


class Mortal:
    """Pass calls on, with a moment to die before and after each."""

    def __init__(self, inner: Any, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._fuse.tick()
            # Between drawing and sealing, and between sealing and committing, too.
            for inside in ("draw", "seal"):
                if inside in kwargs:
                    kwargs[inside] = Mortal._fused(kwargs[inside], self._fuse)
            answer = found(*args, **kwargs)
            self._fuse.tick()
            return answer

        return call

    @staticmethod
    def _fused(function: Callable[..., Any], fuse: Fuse) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            fuse.tick()
            answer = function(*args)
            fuse.tick()
            return answer

        return call


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Counter[float]:
    """How often noise was drawn for each reading; tests give each round a reading of its own."""
    seen: Counter[float] = Counter()
    draw_one = Randomizer.draw_one

    def spy(self: Randomizer, reading: float, entropy: Any) -> int:
        seen[reading] += 1
        return draw_one(self, reading, entropy)

    monkeypatch.setattr(Randomizer, "draw_one", spy)
    return seen


def live(world: Any, fuse: Fuse, *, rounds: int, rotate_at: int | None = None) -> int:
    """Let a device live through some rounds, starting anew after each death; count the deaths."""
    deaths = 0
    end_s = (FIRST + rounds) * HOUR + 700
    agent = None
    while world.clock.now_s() < end_s:
        try:
            if agent is None:
                ledger = world.ledger()
                memory = Memory(world.terms(), Mortal(world.store(), fuse))
                agent = world.agent(
                    ledger=Mortal(ledger, fuse),
                    memory=memory,
                    transport=Mortal(world.network, fuse),
                    source=Mortal(world.source, fuse),
                )
            round = int(world.clock.now_s() // HOUR)
            if round == rotate_at:
                world.shuffler.rotate()
                rotate_at = None
            world.source.readings = [float(round - FIRST + 1)]
            wait_s = max(agent.step(), 0.01)
        except Death:
            deaths += 1
            agent, fuse.last = None, None
            world.ledgers.pop().close()
            wait_s = 0.01
        world.clock.advance(wait_s)
    return deaths


def check(world: Any, draws: Counter[float], *, rounds: int) -> None:
    """Check what must hold whatever happened."""
    # Each round's readings are equal, so a reading names its round.
    assert all(count == 1 for count in draws.values()), draws
    ledger = world.ledger()
    reports = ledger.status(int(world.clock.now_s())).reports
    assert reports <= len(draws) <= rounds + 1
    sent: defaultdict[int, set[int]] = defaultdict(set)
    for report in world.shuffler.stored.values():
        content = world.shuffler.content(report)
        if not content.is_cover:
            sent[content.round].add(content.place)
    assert all(len(places) == 1 for places in sent.values())
    assert len(sent) <= reports
    ledger.close()
    world.ledgers.remove(ledger)


@pytest.mark.uncovered
def test_death_at_every_step_draws_once_and_spends_once(
    make_world: Callable[[str], Any], draws: Counter[float]
) -> None:
    """Dying before or after each call in two rounds leaves one draw and one envelope a round."""
    world = make_world("whole")
    world.network = FaultyTransport(world.shuffler.handle, entropy=SeededEntropy(1), chances={})
    fuse = Fuse()
    live(world, fuse, rounds=2)
    steps = fuse.count
    assert steps > 60
    assert len(draws) == 2
    for last in range(1, steps + 1):
        draws.clear()
        world = make_world(f"death-{last}")
        world.network = FaultyTransport(world.shuffler.handle, entropy=SeededEntropy(1), chances={})
        assert live(world, Fuse(last), rounds=2) == 1
        check(world, draws, rounds=2)
        assert world.shuffler.counts["different"] == 0


@pytest.mark.uncovered
def test_death_while_keys_change_sends_the_same_noise(
    make_world: Callable[[str], Any], draws: Counter[float]
) -> None:
    """Dying at each step of a round whose report must be sealed anew never draws again."""
    for last in range(1, 120, 3):
        draws.clear()
        world = make_world(f"rotation-{last}")
        world.network = FaultyTransport(world.shuffler.handle, entropy=SeededEntropy(1), chances={})
        live(world, Fuse(last), rounds=2, rotate_at=FIRST + 1)
        assert all(count == 1 for count in draws.values())


def test_a_bad_network_and_many_deaths_keep_the_budget(
    make_world: Callable[[str], Any], draws: Counter[float]
) -> None:
    """Lost, repeated, late, reordered and changed messages, with a death every few steps."""
    world = make_world("bad")
    chances = dict.fromkeys(FAULTS, 0.08)
    world.network = FaultyTransport(
        world.shuffler.handle, entropy=SeededEntropy(2026), chances=chances
    )
    deaths, entropy = 0, SeededEntropy(7)
    for stage in range(1, 13):
        fuse = Fuse(20 + entropy.word() % 60)
        deaths += live(world, fuse, rounds=4 * stage)
        world.network.deliver_delayed()
    assert deaths >= 10
    assert all(world.network.counts[fault] for fault in FAULTS)
    assert len(draws) > 20
    assert all(count == 1 for count in draws.values())
    ledger = world.ledger()
    status = ledger.status(int(world.clock.now_s()))
    assert status.campaigns[0].window_spent <= 24.0
    assert status.total_spent == status.reports <= len(draws)


def test_a_window_budget_holds_through_outages_and_jumps(
    make_world: Callable[[str], Any],
) -> None:
    """With half a window's budget, deaths, outages and clock jumps never spend more."""
    world = make_world("jumps")
    world.shuffler.versions.clear()
    world.shuffler.publish(version=1, window=6, window_budget=2.0)
    world.network = FaultyTransport(
        world.shuffler.handle, entropy=SeededEntropy(3), chances={"drop": 0.2}
    )
    entropy = SeededEntropy(11)
    seen: set[tuple[int, float]] = set()
    for stage in range(1, 9):
        live(world, Fuse(30 + entropy.word() % 60), rounds=5 * stage)
        world.network.is_down = stage % 3 == 0
        world.clock.jump((-2, 0, 1)[stage % 3] * HOUR)
        ledger = world.ledger()
        seen |= {(entry.round, entry.epsilon) for entry in ledger.history()}
        ledger.close()
        world.ledgers.remove(ledger)
    assert len(seen) > 8
    for begin in range(FIRST - 6, FIRST + 50):
        assert sum(epsilon for round, epsilon in seen if begin <= round < begin + 6) <= 2.0
