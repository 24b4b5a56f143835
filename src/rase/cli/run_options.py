"""What ``rase run`` was asked for: a plan of the run, and where it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.clock import parse_duration_s
from rase.counts.ranges import TRACKED_ROUNDS
from rase.counts.registry import TRACKED
from rase.domain import PAPER_PRECISION, Categories, Domain, Precision, Range
from rase.errors import PrivacyRefused
from rase.laws.registry import AUTO, best_mechanism, randomizer_named
from rase.series.calendar import UNITS, CalendarWindows, round_limit_s, zone_of
from rase.series.score import Windows
from rase.shuffle.release import Shuffler
from rase.shuffle.robust import Robust
from rase.shuffle.uniform import Uniform
from rase.tables.budgets import BudgetClasses, read_budgets
from rase.tables.feedback import RangeFeedback
from rase.tables.groups import GraphSettings, read_edges
from rase.tables.plan import RunPlan, ShuffledPromise

if TYPE_CHECKING:
    from collections import Counter

    from rase.kernels.words import Random
    from rase.lab.experiments.conduct import CellEngine
    from rase.tables.columns import Hints
    from rase.tables.files import Files
    from rase.tables.labels import Labels
    from rase.tables.run import TableRun
    from rase.tables.source import TableSource

__all__ = ["DEFAULT_DELTA", "EngineOptions", "Kept", "RunOptions"]

# Local masters say how many threads or executors they have; a server of Spark Connect has its own.
_FIXED = ("sc://", "local")
# Fifths of its devices that a round must have for a shuffled promise, unless --k-min says.
_OF_DEVICES = 4
DEFAULT_DELTA = 1e-6
# Windows that a calendar has.


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What was asked of ``rase run``, as it was typed.

    Raises:
        click.UsageError: If options contradict each other.
        ValueError: If ``every`` is not a duration.
        PrivacyRefused: If readings would be randomized several times with noise that protects.
    """

    value_range: tuple[float, float] | None
    epsilon: float | None
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
    shuffled_epsilon: float | None = None
    delta: float | None = None
    k_min: int | None = None
    colluding: int | None = None
    max_local_epsilon: float | None = None
    as_known_then: bool = False
    timezone: str | None = None
    categories: str | None = None
    above: float | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        self._check_question()
        self._check_label()
        wishes = (self.shuffled_epsilon, self.delta, self.k_min, self.colluding)
        if self.epsilon is None or (*wishes, self.max_local_epsilon) != (None,) * 5:
            self._check_promise()
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
        if self.as_known_then and TRACKED not in self.estimator:
            raise click.UsageError(f"--as-known-then needs --estimator {TRACKED}, got others only.")
        if self.every is not None:
            parse_duration_s(self.every)
        if self.timezone is not None:
            self._check_timezone(self.timezone)
        if not 0 < self.level < 1:
            raise click.UsageError(f"--level must be between 0 and 1, got {self.level:g}.")
        if self.trials > 1 and self.seed is None:
            raise PrivacyRefused(
                f"--trials {self.trials} would draw {self.trials} noises for each reading and "
                f"spend its epsilon {self.trials} times; add --seed to mark the run as study."
            )

    def _check_question(self) -> None:
        """Refuse two questions or none, and with shares what is for means of numbers alone."""
        questions = [self.value_range, self.categories, self.above]
        if questions.count(None) != len(questions) - 1:
            raise click.UsageError(
                "one of --range, --categories and --above must be given: what a reading may be, or "
                "the bound of which the share above is asked."
            )
        if self.value_range is not None:
            return
        for name in ("graph", "epsilons", "feedback", "truth", "as_known_then", "alpha"):
            if getattr(self, name):
                raise click.UsageError(
                    f"--{name.replace('_', '-')} is for means of --range, not for shares of "
                    "--categories or --above."
                )
        if tuple(self.estimator) != (TRACKED,):
            raise click.UsageError("--estimator is for means of --range: shares have their own.")

    def _check_label(self) -> None:
        """Refuse what answers by label cannot be combined with."""
        if self.label is None:
            return
        if self.k_min is None:
            raise click.UsageError(
                "--label needs --k-min: the fewest reports that a label may have."
            )
        for name in ("graph", "epsilons", "feedback", "truth", "alpha"):
            if getattr(self, name):
                raise click.UsageError(f"--label and --{name} cannot be used together.")

    @property
    def domain(self) -> Domain:
        """What a reading may be, as devices report it.

        Raises:
            ValueError: If the range or the categories are none.
        """
        if self.value_range is not None:
            return Range(*self.value_range, self.steps)
        if self.above is not None:
            return Categories((f"up to {self.above:g}", f"above {self.above:g}"))
        return Categories(tuple(name.strip() for name in (self.categories or "").split(",")))

    def _check_timezone(self, name: str) -> None:
        """Refuse days and weeks that rounds cannot make up."""
        if self.window not in UNITS or self.every is None:
            raise click.UsageError(
                f"--timezone needs --every and --window {' or '.join(UNITS)}, "
                f"got {'no --window' if self.window is None else f'--window {self.window}'}."
            )
        limit_s = round_limit_s(zone_of(name))
        if limit_s % parse_duration_s(self.every):
            raise click.UsageError(
                f"--every must divide {limit_s // 60} minutes so that rounds begin at midnight in "
                f"{name}, got {self.every}."
            )

    def windows(self, plan: RunPlan) -> CalendarWindows | Windows | None:
        """Return what makes windows of the rounds of one run; None if none were asked for."""
        if plan.window is None:
            return None
        if self.timezone is None or plan.interval_ms is None:
            return Windows(plan.window, is_gapless=plan.every is not None, strict=self.strict)
        return CalendarWindows(
            UNITS[self.window or ""],
            zone_of(self.timezone),
            interval_ms=plan.interval_ms,
            strict=self.strict,
        )

    def _check_promise(self) -> None:
        """Refuse what a promise of shuffled reports cannot be combined with."""
        if self.epsilon is None and self.shuffled_epsilon is None:
            raise click.UsageError("--epsilon or --shuffled-epsilon must be given.")
        k_min = self.k_min if self.label is None else None
        if not self.is_promising and (k_min, self.colluding) != (None, None):
            raise click.UsageError("--k-min and --colluding need --shuffled-epsilon or --delta.")
        if self.max_local_epsilon is not None and self.epsilon is not None:
            raise click.UsageError("--max-local-epsilon needs --shuffled-epsilon, not --epsilon.")
        for name in ("alpha", "graph", "feedback", "epsilons"):
            if self.is_promising and getattr(self, name):
                raise click.UsageError(
                    f"--{name} cannot be used with --shuffled-epsilon or --delta: the promise is "
                    "for one law and the uniform shuffle."
                )

    @property
    def is_promising(self) -> bool:
        """Whether a promise of shuffled reports is asked for."""
        return self.shuffled_epsilon is not None or self.delta is not None

    def plan(
        self,
        devices: Counter[float] | None = None,
        *,
        most: int = 0,
        labels: Labels | None = None,
    ) -> RunPlan:
        """Return what is done with the table.

        Args:
            devices: How many devices have each budget, where they differ in it.
            most: How many devices there are, where that decides on k_min.
            labels: The labels of devices, where answers are asked for by label.

        Raises:
            ValueError: If a number is out of bounds or an estimator unknown.
            DataError: If a file of budgets or groups cannot be read.
        """
        public = self.domain
        name, precision = self.mechanism, self.precision
        if devices is not None and name == AUTO:
            # One mechanism for all budgets: the best for so many devices of each.
            name = best_mechanism(list(devices.elements()))
        graph = feedback = promise = None
        if self.is_promising:
            promise = ShuffledPromise(
                k_min=self.k_min or max(2, _OF_DEVICES * most // 5),
                delta=DEFAULT_DELTA if self.delta is None else self.delta,
                colluding=self.colluding or 0,
                shuffled_epsilon=self.shuffled_epsilon,
            )
        if self.feedback and self.epsilon is not None and isinstance(public, Range):
            feedback = partial(
                RangeFeedback,
                self.epsilon,
                public,
                make=lambda epsilon, domain: randomizer_named(
                    name, epsilon, domain=domain, precision=precision
                ),
                averaged=TRACKED_ROUNDS if TRACKED in self.estimator else 1,
            )
        shuffler: Shuffler = Uniform()
        if self.alpha is not None and self.groups is not None:
            shuffler = Robust(self.alpha, self.groups)
            if self.graph is not None:
                graph = GraphSettings(tuple(read_edges(self.graph)), self.alpha, self.groups)
        epsilon = self.epsilon
        if promise is not None:
            randomizer = promise.randomizer(
                public,
                epsilon=epsilon,
                mechanism=name,
                precision=precision,
                most=self.max_local_epsilon,
            )
        elif epsilon is not None:
            randomizer = randomizer_named(name, epsilon, domain=public, precision=precision)
        return RunPlan(
            randomizer=randomizer,
            shuffler=shuffler,
            estimator=TRACKED
            if isinstance(public, Categories)
            else [name.replace("-", "_") for name in self.estimator],
            every=self.every,
            window=None if self.window is None else self._count_window_rounds(),
            budgets=None if devices is None else self.budgets,
            graph=graph,
            feedback=feedback,
            truth=self.truth,
            promise=promise,
            above=self.above,
            labels=labels,
            as_known_then=self.as_known_then,
        )

    @property
    def precision(self) -> Precision:
        """The (beta, rho) asked for; the paper's unless given."""
        if self.beta is None and self.rho is None:
            return PAPER_PRECISION
        return Precision(
            beta=PAPER_PRECISION.beta if self.beta is None else self.beta,
            rho=PAPER_PRECISION.rho if self.rho is None else self.rho,
        )

    @cached_property
    def budgets(self) -> BudgetClasses | None:
        """What owners allow; None where all devices have one budget.

        Raises:
            DataError: If the file cannot be read.
        """
        if self.epsilons is None or self.epsilon is None:
            return None
        return BudgetClasses(read_budgets(self.epsilons), self.epsilon)

    def _count_window_rounds(self) -> int:
        """Return how many rounds a window holds; a duration counts the rounds of ``--every``."""
        window = self.window or ""
        if window.strip().isdigit():
            rounds = int(window)
        elif self.every is None:
            raise click.UsageError(f"--window {window} needs --every; or give rounds.")
        else:
            rounds, rest = divmod(parse_duration_s(window), parse_duration_s(self.every))
            if rest:
                raise click.UsageError(
                    f"--window must hold whole rounds of {self.every}, got {window}."
                )
        if rounds < 2:
            raise click.UsageError(f"--window must hold two rounds or more, got {window}.")
        return rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Say where it is kept what was drawn; nowhere unless given.

    Args:
        work: Until the results are in their place, so that an interrupted run can go on.
        record: For ever, so that no later run draws it again.
    """

    work: Path | None = None
    record: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Which engine does the work, and with what.

    Args:
        engine: "local" or "spark".
        master: The address of a cluster; for spark alone.
        workers: Threads or executors; None takes as many as there are.
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
        record: Path | None = None,
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
        import gc

        from rase.tables.run import run

        # A run holds hundreds of thousands of results in no circles: looking for some is in vain.
        gc.set_threshold(100_000, 50, 100)
        if self.memory_bytes is not None:
            import pyarrow as pa

            # Arrow's own pool keeps what was freed, up to 60 MB of it, and is no faster here.
            pa.set_memory_pool(pa.system_memory_pool())
        return run(source, plan, record=record, **given)

    def find(self, table: str, *, hints: Hints, **settings: Any) -> Files:
        """Return the files of a table, which a cluster's catalogue may know by name."""
        if self.engine == "spark" and table.startswith("table:"):
            from rase.tables.spark import find_on_spark

            return find_on_spark(table, master=self.master or "", workers=self.workers, **settings)
        from rase.tables.files import find_files

        return find_files(table, hints=hints, **settings)

    def log_for(
        self, options: RunOptions, out: Path | None, *, continues: bool, partition_by: str | None
    ) -> Kept:
        """Return where it is kept what was drawn for some results.

        Args:
            options: What was asked for.
            out: The results; None where they are printed.
            continues: Whether the run goes on with those of earlier ones.
            partition_by: How a folder of results is cut; None for a file.

        Raises:
            click.UsageError: If options contradict each other.
            PrivacyRefused: If readings would, or might, be drawn a second time.
        """
        if out is None:
            if partition_by is not None:
                raise click.UsageError("--partition-by needs --out: the folder to write.")
            if continues:
                raise click.UsageError("--continue needs --out: the results that it goes on with.")
            return Kept()
        unfinished, record = (out.with_name(f"{out.name}.{end}") for end in ("unfinished", "drawn"))
        if not continues:
            if record.exists():
                raise PrivacyRefused(
                    f"{record} remembers what was drawn for {out}, and this run would draw it "
                    "again; add --continue to draw what is new, or give another --out."
                )
            # Trials are for study: each begins again, and none is gone on with.
            return Kept(work=unfinished if options.trials == 1 else None)
        others = {"partition-by": partition_by, "trials": options.trials > 1}
        others |= {name: getattr(options, name) for name in ("graph", "feedback", "label")}
        others["engine spark"] = self.engine == "spark"
        for name, is_given in others.items():
            if is_given:
                raise click.UsageError(f"--continue and --{name} cannot be used together.")
        if options.is_promising and options.k_min is None:
            raise click.UsageError(
                "--continue needs --k-min with a shuffled promise: else it follows from how many "
                "devices a table has, and tables grow."
            )
        if unfinished.exists() or (out.exists() and not record.exists()):
            raise PrivacyRefused(
                f"{unfinished if unfinished.exists() else out} is there without {record}, which "
                "would remember what was drawn for it; give another --out, and only readings that "
                "were not drawn before."
            )
        return Kept(record=record)

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
