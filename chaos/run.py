"""One run: an installation, faults at random from a seed, and the invariants after each."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from chaos.disks import build_slow_disk, disk_variables
from chaos.faults import LONGEST_JUMP_S, Chance, Faults, clock_variables, left_out, recovered
from chaos.installation import Installation
from chaos.invariants import Growth, Rows, Verdict, check, check_logs, is_settled, unsettled
from chaos.kinds import KINDS
from chaos.probes import Probes
from chaos.programs import TooLate, until
from chaos.reader import METHOD, Reader
from rase.clock import SystemClock
from rase.wire.keys import Role

__all__ = ["Outcome", "Plan", "run"]

_SERVERS: Final = ("intake", "closer", "fusion", "registrar")
_DISK_MB: Final = 24
_SETTLE_S: Final = 150.0
_MAY_GIVE_UP: Final = ("readonly",)


@dataclass(frozen=True, slots=True)
class Plan:
    """Say what a run is to do.

    Args:
        seconds: How long faults go on; settling takes about ten more.
        seed: Decides all faults.
        kinds: Which of them.
        store: "sqlite" or "postgresql".
        agents: How many devices with folders of their own.
        probes: How many devices whose grid places are known.
    """

    seconds: float
    seed: int = 2026
    kinds: tuple[str, ...] = tuple(KINDS)
    store: str = "sqlite"
    agents: int = 4
    probes: int = 6

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise ValueError(f"kinds must be of {', '.join(KINDS)}, got {', '.join(unknown)}.")
        if self.store not in ("sqlite", "postgresql"):
            raise ValueError(f"store must be sqlite or postgresql, got {self.store}.")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds:g}.")


@dataclass(slots=True)
class Outcome:
    """Tell what happened in a run.

    Args:
        faults: How many of each kind.
        left_out: Kinds that could not be tried, with the reason.
        verdict: What the last look found.
        violations: Everything that must not be, in words.
        told: How many rounds the subscriber was told.
        answers: Answers to the devices with known places.
        starts: How often processes were started.
        harmed: How many connections were harmed on their way.
        most: Most memory and open files of each process.
        seconds: How long all of it took.
    """

    faults: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    violations: list[str] = field(default_factory=list)
    told: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    unexplained: int = 0
    starts: int = 0
    harmed: int = 0
    most: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """Return it for a file."""
        verdict = self.verdict
        return {
            "faults": dict(sorted(self.faults.items())),
            "left_out": self.left_out,
            "rounds": verdict.rounds,
            "withheld": verdict.withheld,
            "accepted": verdict.accepted,
            "lost": verdict.lost,
            "doubled": verdict.doubled,
            "wrong": verdict.wrong,
            "unchecked": verdict.unchecked,
            "repaid": verdict.repaid,
            "told": self.told,
            "unexplained": self.unexplained,
            "answers": dict(sorted(self.answers.items())),
            "starts": self.starts,
            "harmed": self.harmed,
            "most_memory_mb": {name: round(most[0] / 2**20) for name, most in self.most.items()},
            "most_files": {name: most[1] for name, most in self.most.items()},
            "violations": self.violations,
            "seconds": round(self.seconds, 1),
        }


def run(plan: Plan, *, tell: Callable[[str], None], keep: Path | None = None) -> Outcome:
    """Run it.

    Args:
        plan: What is to be done.
        tell: Is told each fault in words.
        keep: A folder for logs and databases that stays; None for one that goes.
    """
    outcome = Outcome(left_out=left_out(plan.kinds, store=plan.store))
    kinds = [kind for kind in plan.kinds if kind not in outcome.left_out]
    if not kinds:
        raise ValueError(f"kinds must hold one that can be tried here, got {outcome.left_out}.")
    begin_s = SystemClock().monotonic_s()
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(TemporaryDirectory()))
        else:
            keep.mkdir(parents=True, exist_ok=True)
            folder = keep
        _Run(plan, outcome, kinds=kinds, folder=folder, stack=stack).go(tell)
    outcome.seconds = SystemClock().monotonic_s() - begin_s
    return outcome


class _Run:
    """Hold what runs now."""

    def __init__(
        self, plan: Plan, outcome: Outcome, *, kinds: Sequence[str], folder: Path, stack: ExitStack
    ) -> None:
        self._plan, self._outcome, self._kinds = plan, outcome, kinds
        self._chance = Chance(plan.seed)
        postgres = broker = None
        if plan.store == "postgresql":
            from benchmarks.loading.postgres import running_postgres

            postgres = stack.enter_context(running_postgres(is_durable=True))
        if "broker" in kinds:
            from tests.broker import Mosquitto

            broker = Mosquitto(folder / "broker")
            stack.callback(broker.kill)
        needs_disks = not {"full", "readonly"}.isdisjoint(kinds)
        self._installation = Installation(
            folder,
            agents=plan.agents,
            postgres=postgres.new_database() if postgres else None,
            disk_mb=_DISK_MB if needs_disks else None,
            broker=broker,
            variables=self._variables(folder, has_broker=broker is not None),
        )
        stack.callback(self._installation.close)
        self._faults = Faults(self._installation, self._chance, postgres=postgres, broker=broker)
        self._growth = Growth()
        self._seen: dict[int, Rows] = {}

    def _variables(self, folder: Path, *, has_broker: bool) -> dict[str, dict[str, str]]:
        """Return what clocks that jump and disks that are slow need, for each process."""
        agents = self._plan.agents
        found: dict[str, dict[str, str]] = {
            name: {} for name in (*_SERVERS, *(f"device-{number}" for number in range(agents)))
        }
        if "clock" in self._kinds:
            # Under libfaketime the broker's client fails in time.sleep: those keep their clock.
            kept = ("intake", *_odd(agents)) if has_broker else ()
            found |= {name: clock_variables(folder, name) for name in found if name not in kept}
        if "slow" in self._kinds:
            library = build_slow_disk(folder)
            found = {name: disk_variables(library, name, one) for name, one in found.items()}
        return found

    def go(self, tell: Callable[[str], None]) -> None:
        """Let faults happen until the time is over, then let everything settle, and judge."""
        installation, clock = self._installation, SystemClock()
        reader = Reader(installation.proxies[Role.FUSION].url, installation.subscriber())
        probes = Probes(installation, self._plan.probes)
        self._settle(probes)
        end_s = clock.monotonic_s() + self._plan.seconds
        waiting: list[str] = []
        while clock.monotonic_s() < end_s:
            # Every kind in its turn, in an order of chance: none is left out by bad luck.
            waiting = waiting or self._shuffled()
            kind = waiting.pop()
            words = self._faults.happen(kind)
            self._outcome.faults[kind] += 1
            tell(f"{kind}: {words}")
            if not self._is_sound(kind, probes, tell):
                break
        self._end(probes, reader, tell)

    def _shuffled(self) -> list[str]:
        kinds = list(self._kinds)
        for last in range(len(kinds) - 1, 0, -1):
            other = self._chance.below(last + 1)
            kinds[last], kinds[other] = kinds[other], kinds[last]
        return kinds

    def _is_sound(self, kind: str, probes: Probes, tell: Callable[[str], None]) -> bool:
        """Wait for recovery and look at the invariants; return whether to go on."""
        found = self._outcome.violations
        for name, program in self._installation.all_programs().items():
            code = program.process.poll()
            if code is not None and kind not in _MAY_GIVE_UP:
                found.append(f"{name} ended by itself with {code} after {kind}.")
                program.start()
        try:
            recovered(self._installation)
            # A closer that was ahead closed the rounds until then: nobody can report before.
            self._settle(probes, more_s=LONGEST_JUMP_S if kind == "clock" else 0)
        except TooLate as error:
            found.append(f"after {kind}: {error}")
        self._growth.look(self._installation)
        verdict = check(self._installation, probes, is_over=False, seen=self._seen)
        found += [note for note in verdict.notes if note not in found]
        for note in found:
            tell(f"VIOLATION {note}")
        return not found

    def _settle(self, probes: Probes, *, more_s: float = 0.0) -> None:
        """Wait until new reports are acknowledged."""
        enough = probes.acknowledged() + self._plan.probes
        until(lambda: probes.acknowledged() >= enough, what="new reports", deadline_s=60 + more_s)

    def _end(self, probes: Probes, reader: Reader, tell: Callable[[str], None]) -> None:
        installation, outcome = self._installation, self._outcome
        probes.stop()
        # An agent sends until its rounds are closed; then nothing of it is under way.
        threading.Event().wait(probes.campaign.round_s + probes.campaign.grace_s)
        codes = {agent.program.name: agent.program.stop() for agent in installation.agents}
        rounds = {report.round for report in probes.reports if report.fate != "refused"}
        rounds |= {max(agent.sent(), default=min(rounds)) for agent in installation.agents}
        try:
            until(
                lambda: is_settled(installation, rounds),
                what="the end of all rounds",
                deadline_s=_SETTLE_S,
            )
            until(lambda: reader.is_at(_last(installation)), what="the reader's last round")
        except TooLate as error:
            outcome.violations.append(f"{error} {unsettled(installation, rounds)}".rstrip())
        reader.stop()
        codes |= {name: program.stop() for name, program in installation.programs.items()}
        outcome.violations += [
            f"{name} ended with {code} when asked to." for name, code in codes.items() if code
        ]
        outcome.verdict = check(installation, probes, is_over=True, seen=self._seen)
        known = set(outcome.violations)
        outcome.violations += [note for note in outcome.verdict.notes if note not in known]
        unexplained = [*probes.unexplained, *reader.unexplained, *check_logs(installation)]
        outcome.unexplained = len(unexplained)
        told = {
            round: mean
            for round, method, mean in installation.rows(
                Role.FUSION, "SELECT round, method, value FROM answers"
            )
            if method == METHOD
        }
        outcome.violations += unexplained[:20] + reader.against(told) + self._growth.notes
        outcome.told = len(reader.told)
        outcome.answers = probes.answers
        outcome.harmed = sum(proxy.harmed for proxy in installation.proxies.values())
        outcome.starts = sum(p.starts for p in installation.all_programs().values())
        outcome.most = self._growth.most
        for note in outcome.violations:
            tell(f"VIOLATION {note}")


def _odd(agents: int) -> list[str]:
    """Return the devices that report through the broker."""
    return [f"device-{number}" for number in range(1, agents, 2)]


def _last(installation: Installation) -> int:
    rows = installation.rows(Role.FUSION, "SELECT MAX(round) FROM answers")
    return int(rows[0][0] or 0)
