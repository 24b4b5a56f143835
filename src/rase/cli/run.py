"""``rase run``: a table of readings through the whole pipeline, on one machine or on many."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.arguments import parse_size, usage
from rase.cli.output import (
    JsonSink,
    Sink,
    TextSink,
    check_not_read,
    check_out,
    file_sink,
    show_progress,
    write_manifest,
)
from rase.cli.report import RunReport, decimals_for
from rase.clock import parse_duration_s
from rase.counts.ranges import TRACKED_ROUNDS
from rase.counts.registry import ESTIMATORS, TRACKED
from rase.domain import PAPER_PRECISION, Precision, Range
from rase.errors import PrivacyRefused
from rase.kernels.words import SeededRandom
from rase.laws.registry import AUTO, CHOICES, best_mechanism, randomizer_named
from rase.series.rounds import Rounds
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
    from rase.tables.run import TableRun
    from rase.tables.source import TableSource

__all__ = ["EngineOptions", "RunOptions", "command"]

# Local masters say how many threads or executors they have; a server of Spark Connect has its own.
_FIXED = ("sc://", "local")
# Fifths of its devices that a round must have for a shuffled promise, unless --k-min says.
_OF_DEVICES = 4
_SOME = 1000
DEFAULT_DELTA = 1e-6


@click.command("run", short_help="Estimate the means of a table of readings, round by round.")
@click.argument("table", metavar="FILE")
@click.option(
    "--range",
    "value_range",
    type=float,
    nargs=2,
    required=True,
    metavar="LOW HIGH",
    help="Public range of a reading, chosen without looking at the data.",
)
@click.option(
    "--epsilon",
    type=float,
    help="Budget of one report, towards everybody; may be left out for --shuffled-epsilon.",
)
@click.option(
    "--shuffled-epsilon",
    type=float,
    help="What one report may give away once it is shuffled; the noise is fitted to it.",
)
@click.option("--delta", type=float, help="Delta of --shuffled-epsilon; 1e-6.")
@click.option(
    "--k-min",
    type=click.IntRange(min=2),
    help="Withhold rounds of fewer reports; four fifths of the devices, for a shuffled promise.",
)
@click.option(
    "--colluding", type=click.IntRange(min=0), help="Reports of a round of whoever looks; 0."
)
@click.option(
    "--max-local-epsilon", type=float, help="Largest budget that --shuffled-epsilon may take."
)
@click.option(
    "--epsilons",
    type=click.Path(path_type=Path),
    help="CSV of devices and what their owners allow, where that is less than --epsilon.",
)
@click.option(
    "--mechanism",
    type=click.Choice(CHOICES),
    default=CHOICES[0],
    show_default=True,
    help="How a device makes its report noisy; auto takes the best for a mean at this epsilon.",
)
@click.option("--steps", type=int, default=4096, show_default=True, help="Grid steps of the range.")
@click.option("--beta", type=float, help="Half-width of the precision interval.  [default: 0.5]")
@click.option("--rho", type=float, help="Probability of meeting it.  [default: 0.9]")
@click.option("--alpha", type=float, help="Loss allowed inside a group; takes --groups.")
@click.option(
    "--groups", type=click.IntRange(min=1), help="Number of groups for the robust shuffler."
)
@click.option(
    "--graph",
    type=click.Path(path_type=Path),
    help="CSV of pairs of devices that belong together: the real groups.",
)
@click.option(
    "--estimator",
    multiple=True,
    default=ESTIMATORS[:1],
    show_default=True,
    help=f"{', '.join(ESTIMATORS)}; may be repeated.",
)
@click.option(
    "--feedback",
    is_flag=True,
    help="Learn a better range from probing rounds; --range is the widest. Holds the table.",
)
@click.option("--every", help="Length of a round, as 15min, 1h, 1d; without it each time is one.")
@click.option("--window", help="Also means over windows: rounds, or a duration as 1d.")
@click.option("--strict", is_flag=True, help="No mean for a window that lacks a round.")
@click.option(
    "--smoothed",
    is_flag=True,
    help="Let later rounds help earlier ones of tracked; without it each is as known then.",
)
@click.option("--truth", is_flag=True, help="Also the true means and the error; for study.")
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Repeat with fresh noise; for study, needs --seed.",
)
@click.option("--seed", type=int, help="Reproducible noise that protects nobody; for study.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Coverage of intervals.")
@click.option("--time-column", default="time", show_default=True, help="Its name in FILE.")
@click.option("--device-column", default="device", show_default=True, help="Its name in FILE.")
@click.option("--value-column", default="value", show_default=True, help="Its name in FILE.")
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where the work is done: this machine, or a Spark cluster.",
)
@click.option("--master", help="Address of the cluster, for --engine spark.")
@click.option("--workers", type=click.IntRange(min=1), help="Threads, or executors of a cluster.")
@click.option("--memory", help="Memory to use, as 4GB; half of what is free if not given.")
@click.option("--skip-bad", is_flag=True, help="Leave out what cannot be read, and count it.")
@click.option(
    "--partition-by",
    type=click.Choice(["day", "month", "year"]),
    help="Write a folder of Parquet files, one for each of these.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write results to a .csv, .parquet or .json file, with a manifest beside it.",
)
def command(
    table: str,
    *,
    time_column: str,
    device_column: str,
    value_column: str,
    engine: str,
    master: str | None,
    workers: int | None,
    memory: str | None,
    skip_bad: bool,
    partition_by: str | None,
    as_json: bool,
    out: Path | None,
    **asked: Any,
) -> None:
    """Estimate the means of a table of readings, round by round.

    FILE is CSV (also compressed) or Parquet with columns time, device and value; or a folder or a
    glob of such files, also Hive-partitioned, here or in an object store (s3://, gs://, abfs://).
    Rows may be in any order. Times without a zone are UTC; numbers are seconds since 1970
    (milliseconds if larger than 1e11). Empty values do not report; several readings of a device in
    one round are averaged before any noise, and of rows that repeat a time the first counts.
    Readings outside the range are clipped and counted.

    An interrupted run with --out goes on where it stopped when the same command is given again.

    Example: rase run readings.csv --range 0 3000 --epsilon 1 --every 1h --window 1d
    """
    from rase.tables.files import Columns, find_files
    from rase.tables.source import open_source

    with usage():
        options = RunOptions(**asked)
        # Mistakes are refused before the table is looked at.
        options.plan(most=_SOME)
        engine_options = EngineOptions(
            engine=engine,
            master=master,
            workers=workers,
            memory_bytes=None if memory is None else parse_size(memory),
        )
        if out is not None:
            check_out(out, is_folder=partition_by is not None)
        elif partition_by is not None:
            raise click.UsageError("--partition-by needs --out: the folder to write.")
    columns = Columns(time_column, device_column, value_column)
    files = find_files(table, columns=columns, skips_bad=skip_bad)
    if out is not None:
        check_not_read(out, [options.epsilons, options.graph, *(file.path for file in files.files)])
    source = open_source(files)
    plan, devices = _plan_for(options, engine_options, source)
    report = RunReport(options, plan, devices)
    # Trials are for study: each begins again, and none is gone on with.
    work = None if out is None or options.trials > 1 else out.with_name(f"{out.name}.unfinished")
    with ExitStack() as stack:
        sinks: list[Sink] = []
        if out is not None:
            sinks.append(
                stack.enter_context(file_sink(out, report.head, partition_by=partition_by))
            )
        if as_json:
            sinks.append(JsonSink(sys.stdout, report.head))
        elif out is None:
            decimals = decimals_for(plan.randomizer.domain)
            sinks.append(TextSink(sys.stdout, report.widths, decimals=decimals))
        runs = _run_trials(source, plan, report, sinks, engine=engine_options, work=work)
        tail = report.tail(runs[-1].summary)
        for sink in sinks:
            sink.finish(tail)
    lines = [*runs[-1].notes, *report.words(runs[-1], tail)]
    if options.seed is not None:
        lines.append("seeded noise: for study only, protects nobody.")
    if out is not None:
        manifest = write_manifest(
            out, files, head=report.head, plan=plan, tail=tail, engine=engine_options.engine
        )
        for run in runs:
            run.finish()
        lines.append(f"written   {out}, and what was done in {manifest.name}")
    for line in lines:
        click.echo(line, err=True)


def _plan_for(
    options: RunOptions, engine: EngineOptions, source: TableSource
) -> tuple[RunPlan, Counter[float] | None]:
    """Return the plan for a table, and how many devices have each budget where they differ."""
    devices, most = None, 0
    if options.epsilons is not None and options.budgets is not None:
        devices = options.budgets.counted(engine.device_names(source))
    elif options.is_promising and options.k_min is None:
        most = len(engine.device_names(source))
    with usage():
        return options.plan(devices, most=most), devices


def _run_trials(
    source: TableSource,
    plan: RunPlan,
    report: RunReport,
    sinks: list[Sink],
    *,
    engine: EngineOptions,
    work: Path | None,
) -> list[TableRun]:
    """Run all trials and give their rows to the sinks."""
    options, name = report.options, Path(source.place).name
    runs = []
    with show_progress() as show:
        for trial in range(1, options.trials + 1):
            rng: SeededRandom | None = None
            if options.seed is not None:
                rng = SeededRandom(options.seed)
                rng = rng if options.trials == 1 else rng.child(trial)
            run = engine.run(
                source,
                plan,
                rng=rng,
                work=work,
                on_progress=lambda what, share: show(f"{what} {name}", share),
            )
            windows = None
            if plan.window:
                windows = Windows(
                    plan.window, is_gapless=plan.every is not None, strict=options.strict
                )
            rounds = Rounds(run).smoothed() if options.smoothed else run
            for number, result in enumerate(rounds, start=1):
                window = None if windows is None else windows.add(result)
                for row in report.rows(result, window, trial=trial):
                    for sink in sinks:
                        sink.add(row)
                show(f"round {number} released")
            runs.append(run)
    return runs


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What was asked of ``rase run``, as it was typed.

    Raises:
        click.UsageError: If options contradict each other.
        ValueError: If ``every`` is not a duration.
        PrivacyRefused: If readings would be randomized several times with noise that protects.
    """

    value_range: tuple[float, float]
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
    smoothed: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
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
        if self.smoothed:
            self._check_smoothed()
        if self.every is not None:
            parse_duration_s(self.every)
        if not 0 < self.level < 1:
            raise click.UsageError(f"--level must be between 0 and 1, got {self.level:g}.")
        if self.trials > 1 and self.seed is None:
            raise PrivacyRefused(
                f"--trials {self.trials} would draw {self.trials} noises for each reading and "
                f"spend its epsilon {self.trials} times; add --seed to mark the run as study."
            )

    def _check_smoothed(self) -> None:
        """Refuse what looking back cannot be combined with."""
        if TRACKED not in self.estimator:
            raise click.UsageError(f"--smoothed needs --estimator {TRACKED}, got others only.")
        for name in ("window", "feedback"):
            if getattr(self, name):
                raise click.UsageError(f"--smoothed and --{name} cannot be used together.")

    def _check_promise(self) -> None:
        """Refuse what a promise of shuffled reports cannot be combined with."""
        if self.epsilon is None and self.shuffled_epsilon is None:
            raise click.UsageError("--epsilon or --shuffled-epsilon must be given.")
        if not self.is_promising and (self.k_min, self.colluding) != (None, None):
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

    def plan(self, devices: Counter[float] | None = None, *, most: int = 0) -> RunPlan:
        """Return what is done with the table.

        Args:
            devices: How many devices have each budget, where they differ in it.
            most: How many devices there are, where that decides on k_min.

        Raises:
            ValueError: If a number is out of bounds or an estimator unknown.
            DataError: If a file of budgets or groups cannot be read.
        """
        public = Range(*self.value_range, self.steps)
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
        if self.feedback and self.epsilon is not None:
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
            estimator=[name.replace("-", "_") for name in self.estimator],
            every=self.every,
            window=None if self.window is None else self._count_window_rounds(),
            budgets=None if devices is None else self.budgets,
            graph=graph,
            feedback=feedback,
            truth=self.truth,
            promise=promise,
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
