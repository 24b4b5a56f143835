"""What was asked of ``rase run``, checked and turned into a plan and an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.clock import parse_duration_s
from rase.counts.ranges import TRACKED_ROUNDS
from rase.counts.registry import TRACKED
from rase.domain import Precision, Range
from rase.errors import PrivacyRefused
from rase.laws.registry import AUTO, best_mechanism, randomizer_named
from rase.shuffle.release import Shuffler
from rase.shuffle.robust import Robust
from rase.shuffle.uniform import Uniform
from rase.tables.budgets import BudgetClasses, read_budgets
from rase.tables.feedback import RangeFeedback
from rase.tables.plan import RunPlan

if TYPE_CHECKING:
    from collections import Counter

    from rase.kernels.words import Random
    from rase.lab.experiments.conduct import CellEngine
    from rase.laws.randomizer import RangeRandomizer
    from rase.tables.run import TableRun
    from rase.tables.source import TableSource

__all__ = ["EngineOptions", "RunOptions"]

# Local masters say how many threads or executors they have; a server of Spark Connect has its own.
_FIXED = ("sc://", "local")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What was asked of ``rase run``, as it was typed.

    Raises:
        click.UsageError: If options contradict each other.
        ValueError: If ``every`` is not a duration.
        PrivacyRefused: If readings would be randomized several times with noise that protects.
    """

    value_range: tuple[float, float]
    epsilon: float
    epsilons: Path | None
    steps: int
    mechanism: str
    beta: float | None
    rho: float | None
    alpha: float | None
    groups: int | None
    graph: Path | None
    estimator: tuple[str, ...]
    every: str | None
    window: str | None
    strict: bool
    truth: bool
    trials: int
    seed: int | None
    level: float
    feedback: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.mechanism != "budget-aware" and not (self.beta is None and self.rho is None):
            raise click.UsageError(
                "--beta and --rho belong to --mechanism budget-aware, which must be asked for; "
                f"got --mechanism {self.mechanism}."
            )
        if self.alpha is not None and self.groups is None:
            raise click.UsageError("--alpha needs --groups: how many groups it must protect.")
        if self.groups is not None and self.alpha is None:
            raise click.UsageError("--groups needs --alpha: the loss allowed inside a group.")
        if self.graph is not None and self.alpha is None:
            raise click.UsageError("--graph needs --alpha and --groups.")
        for one, other in (("feedback", "graph"), ("feedback", "epsilons"), ("graph", "epsilons")):
            if getattr(self, one) and getattr(self, other):
                raise click.UsageError(f"--{one} and --{other} cannot be used together.")
        if self.every is not None:
            parse_duration_s(self.every)
        if not 0 < self.level < 1:
            raise click.UsageError(f"--level must be between 0 and 1, got {self.level:g}.")
        if self.trials > 1 and self.seed is None:
            raise PrivacyRefused(
                f"--trials {self.trials} would draw {self.trials} noises for each reading and "
                f"spend its epsilon {self.trials} times; add --seed to mark the run as study."
            )

    @property
    def precision(self) -> Precision:
        """The (beta, rho) asked for; the paper's unless given."""
        return Precision(
            beta=0.5 if self.beta is None else self.beta, rho=0.9 if self.rho is None else self.rho
        )

    @property
    def window_rounds(self) -> int | None:
        """How many rounds a window holds; a duration counts the rounds of ``--every`` in it."""
        if self.window is None or self.window.strip().isdigit():
            rounds = None if self.window is None else int(self.window)
        elif self.every is None:
            raise click.UsageError(f"--window {self.window} needs --every; or give rounds.")
        else:
            rounds, rest = divmod(parse_duration_s(self.window), parse_duration_s(self.every))
            if rest:
                raise click.UsageError(
                    f"--window must hold whole rounds of {self.every}, got {self.window}."
                )
        if rounds is not None and rounds < 2:
            raise click.UsageError(f"--window must hold two rounds or more, got {self.window}.")
        return rounds

    @cached_property
    def budgets(self) -> BudgetClasses | None:
        """What owners allow; None where all devices have one budget.

        Raises:
            DataError: If the file cannot be read.
        """
        if self.epsilons is None:
            return None
        return BudgetClasses(read_budgets(self.epsilons), self.epsilon)

    def plan(self, devices: Counter[float] | None = None) -> RunPlan:
        """Return what is done with the table.

        Args:
            devices: How many devices have each budget, where they differ in it.

        Raises:
            ValueError: If a number is out of bounds or an estimator unknown.
            DataError: If a file of budgets or groups cannot be read.
        """
        from rase.tables.groups import GraphSettings, read_edges

        graph = None
        if self.graph is not None and self.alpha is not None and self.groups is not None:
            graph = GraphSettings(tuple(read_edges(self.graph)), self.alpha, self.groups)
        return RunPlan(
            randomizer=self._class_randomizer(devices) if devices else self._one_randomizer,
            shuffler=self._shuffler(),
            estimator=[name.replace("-", "_") for name in self.estimator],
            every=self.every,
            window=self.window_rounds,
            budgets=None if devices is None else self.budgets,
            graph=graph,
            feedback=self._feedback if self.feedback else None,
            truth=self.truth,
        )

    @property
    def _one_randomizer(self) -> RangeRandomizer:
        return self._randomizer(self.epsilon, self._public)

    def _class_randomizer(self, devices: Counter[float]) -> RangeRandomizer:
        """Return one mechanism for all budgets: the best for so many devices of each."""
        name = self.mechanism
        if name == AUTO:
            name = best_mechanism(list(devices.elements()))
        return randomizer_named(name, self.epsilon, domain=self._public, precision=self.precision)

    def _feedback(self) -> RangeFeedback:
        averaged = TRACKED_ROUNDS if TRACKED in self.estimator else 1
        return RangeFeedback(self.epsilon, self._public, make=self._randomizer, averaged=averaged)

    @property
    def _public(self) -> Range:
        low, high = self.value_range
        return Range(low, high, self.steps)

    def _randomizer(self, epsilon: float | tuple[float, ...], public: Range) -> RangeRandomizer:
        return randomizer_named(self.mechanism, epsilon, domain=public, precision=self.precision)

    def _shuffler(self) -> Shuffler:
        if self.alpha is None or self.groups is None:
            return Uniform()
        return Robust(self.alpha, self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Which engine does the work, and with what.

    Args:
        engine: "local" or "spark".
        master: The address of a cluster; for spark alone.
        workers: Threads or executors; as many as there are if None.
        memory_bytes: Memory to use; half of what is free if None.

    Raises:
        click.UsageError: If options contradict each other.
    """

    engine: str = "local"
    master: str | None = None
    workers: int | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.master is not None and self.engine != "spark":
            raise click.UsageError("--master needs --engine spark.")
        if self.master is None and self.engine == "spark":
            raise click.UsageError(
                "--engine spark needs --master: local[2], spark://HOST:7077, yarn, k8s://HOST:443 "
                "or sc://HOST."
            )
        if self.workers is not None and (self.master or "").startswith(_FIXED):
            raise click.UsageError(
                "--workers is for clusters that are asked for executors; local masters and sc:// "
                "have theirs."
            )
        if self.memory_bytes is not None and self.memory_bytes < 1:
            raise click.UsageError("--memory must be more than nothing.")

    def run(
        self,
        source: TableSource,
        plan: RunPlan,
        *,
        rng: Random | None,
        work: Path | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> TableRun:
        """Begin a run on the chosen engine."""
        given: dict[str, Any] = {
            "rng": rng,
            "workers": self.workers,
            "memory_bytes": self.memory_bytes,
            "work": work,
            "on_progress": on_progress,
        }
        if self.engine == "spark":
            from rase.tables.spark import run_on_spark

            return run_on_spark(source, plan, master=self.master or "", **given)
        from rase.tables.run import run

        return run(source, plan, **given)

    def device_names(self, source: TableSource) -> set[str]:
        """Return the names of a table's devices."""
        if self.engine == "spark":
            from rase.tables.spark import names_on_spark

            return names_on_spark(source, master=self.master or "", workers=self.workers)
        return set(source.device_names())

    def cell_engine(self) -> CellEngine | None:
        """Return where the lab measures its cells; None for processes on this machine."""
        if self.master is None:
            return None
        from rase.lab.experiments.on_spark import SparkCells

        return SparkCells(self.master, workers=self.workers)
