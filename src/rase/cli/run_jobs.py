"""The work of ``rase run``: one quantity of a table or several, and what is said at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rase.cli.arguments import usage
from rase.cli.output import Row, decimals_for, show_progress
from rase.cli.report import RunReport
from rase.cli.run_options import EngineOptions, Kept, RunOptions
from rase.cli.run_quantities import (
    AskedQuantities,
    begin_quantities,
    head_of,
    tail_of,
    widths_of,
)
from rase.domain import Categories
from rase.kernels.words import SeededRandom
from rase.tables.quantities import Quantities, QuantityRuns, folder_of
from rase.tables.record import new_files
from rase.tables.source import TableSource, open_source

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable

    from rase.kernels.words import Random
    from rase.series.calendar import CalendarWindows
    from rase.series.rounds import RoundResult
    from rase.series.score import Windows
    from rase.tables.files import Files
    from rase.tables.labels import Labels
    from rase.tables.plan import RunPlan
    from rase.tables.run import TableRun

__all__ = ["job_of"]


def job_of(
    options: RunOptions,
    several: AskedQuantities | None,
    *,
    engine: EngineOptions,
    files: Files,
    kept: Kept,
) -> _OneQuantity | _SeveralQuantities:
    """Open the table and make the plans; nothing is drawn yet.

    Args:
        options: What was asked, or of the first of several quantities.
        several: What was asked of several; None where there is one.
        engine: Where the work is done.
        files: The table.
        kept: Where it is kept what was drawn.
    """
    labels = _labels_for(options, files)
    if several is None:
        return _OneQuantity.of(options, engine, files, kept=kept, labels=labels)
    return _SeveralQuantities.of(several, engine, files, kept=kept, labels=labels)


class _Job(ABC):
    """What is to be drawn of a table."""

    @abstractmethod
    def rows(self, rng: SeededRandom | None, *, trial: int) -> Iterator[Row]:
        """Draw, and yield the rows."""

    def all_rows(self, options: RunOptions) -> Iterator[Row]:
        """Draw as often as was asked, and yield the rows."""
        for trial in range(1, options.trials + 1):
            rng = None if options.seed is None else SeededRandom(options.seed)
            yield from self.rows(
                rng if rng is None or options.trials == 1 else rng.child(trial), trial=trial
            )


@dataclass
class _OneQuantity(_Job):
    """One column of a table.

    Args:
        engine: Where the work is done.
        kept: Where it is kept what was drawn.
        source: The table.
        plan: What is done.
        report: What is said of it.
    """

    engine: EngineOptions
    kept: Kept
    source: TableSource
    plan: RunPlan
    report: RunReport
    _runs: list[TableRun] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        options: RunOptions,
        engine: EngineOptions,
        files: Files,
        *,
        kept: Kept,
        labels: Labels | None,
    ) -> Self:
        """Open the table and make the plan."""
        source = _open_table(files, kept.record)
        plan, devices = _plan_for(options, engine, source, labels)
        return cls(engine, kept, source, plan, RunReport(options, plan, devices))

    @property
    def head(self) -> dict[str, Any]:
        """The members of a JSON document that come before the results."""
        return self.report.head

    @property
    def widths(self) -> dict[str, int]:
        """The columns people see, and how wide they are."""
        return self.report.widths

    @property
    def decimals(self) -> int:
        """How many decimals numbers have."""
        return decimals_for(self.plan.randomizer.domain)

    def rows(self, rng: SeededRandom | None, *, trial: int) -> Iterator[Row]:
        """Draw, and yield the rows."""
        with show_progress() as show:
            run = self.engine.run(
                self.source,
                self.plan,
                rng=rng,
                work=self.kept.work,
                record=self.kept.record,
                on_progress=_progress(show, self.source),
            )
            for number, row in enumerate(_rows_of(run, self.report, trial=trial), start=1):
                yield row
                show(f"round {number} released")
        self._runs.append(run)

    def tail(self, *, is_short: bool) -> dict[str, Any]:
        """Return the members of a JSON document that come after the results."""
        return self.report.tail(self._runs[-1].summary, is_short=is_short)

    def words(self, tail: Mapping[str, Any], *, with_details: bool) -> list[str]:
        """Return what is said before the three lines that close a run."""
        run = self._runs[-1]
        return [*run.notes, *self.report.words(run, tail, with_details=with_details)]

    def finish(self) -> None:
        """Forget what an interrupted run would need: the results are in their place."""
        for run in self._runs:
            run.finish()


@dataclass
class _SeveralQuantities(_Job):
    """Several columns of a table under one budget.

    Args:
        asked: What was asked.
        engine: Where the work is done.
        kept: Where it is kept what was drawn.
        sources: The table, opened for each.
        plan: What is done.
        reports: What is said of each.
    """

    asked: AskedQuantities
    engine: EngineOptions
    kept: Kept
    sources: Mapping[str, TableSource]
    plan: Quantities
    reports: Mapping[str, RunReport]
    _runs: list[QuantityRuns] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        asked: AskedQuantities,
        engine: EngineOptions,
        files: Files,
        *,
        kept: Kept,
        labels: Labels | None,
    ) -> Self:
        """Open the table for each column, before anything is drawn, and make the plans."""
        sources = {}
        for name in asked.options:
            own = replace(files, columns=files.columns._replace(value=name))
            record = None if kept.record is None else folder_of(kept.record, name)
            sources[name] = _open_table(own, record)
        plans, most = {}, 0
        for name, options in asked.options.items():
            if options.is_promising and options.k_min is None:
                most = most or len(engine.device_names(sources[name]))
            with usage():
                share = round(most * asked.share_of(name))
                plans[name] = options.plan(most=share, labels=labels)
        with usage():
            plan = Quantities(plans=plans, turns=asked.turns)
        reports = {
            name: RunReport(asked.options[name], plans[name], quantity=name) for name in plans
        }
        return cls(asked, engine, kept, sources, plan, reports)

    @property
    def head(self) -> dict[str, Any]:
        """The members of a JSON document that come before the results."""
        return head_of(self.asked, self.reports)

    @property
    def widths(self) -> dict[str, int]:
        """The columns people see, and how wide they are."""
        return widths_of(self.reports)

    @property
    def decimals(self) -> dict[str, int]:
        """How many decimals numbers of each have."""
        return {
            name: decimals_for(plan.randomizer.domain) for name, plan in self.plan.plans.items()
        }

    def rows(self, rng: SeededRandom | None, *, trial: int) -> Iterator[Row]:
        """Draw all of them, and yield the rows, one quantity after another."""
        kept = self.kept
        with show_progress() as show:

            def begin(name: str, plan: RunPlan, own: Random | None) -> TableRun:
                source = self.sources[name]
                return self.engine.run(
                    source,
                    plan,
                    rng=own,
                    work=None if kept.work is None else folder_of(kept.work, name),
                    record=None if kept.record is None else folder_of(kept.record, name),
                    on_progress=_progress(show, source),
                )

            found = begin_quantities(self.plan, begin, rng=rng, work=kept.work, record=kept.record)
        for name, report in self.reports.items():
            yield from _rows_of(found[name], report, trial=trial)
        self._runs.append(found)

    def tail(self, *, is_short: bool) -> dict[str, Any]:
        """Return the members of a JSON document that come after the results."""
        return tail_of(self.plan, self._runs[-1], self.reports, is_short=is_short)

    def words(self, tail: Mapping[str, Any], *, with_details: bool) -> list[str]:
        """Return what is said before the three lines that close a run."""
        lines: list[str] = []
        for name, run in self._runs[-1].runs.items():
            lines += [note for note in run.notes if note not in lines]
            said = self.reports[name].words(
                run, tail["quantities"][name], with_details=with_details
            )
            # What is spent and published is said once, of all of them.
            lines += [f"{name}: {one}" for one in said if not one.startswith(("budget", "publish"))]
        return [*lines, f"publish   {tail['publish_once']}"] if with_details else lines

    def finish(self) -> None:
        """Forget what an interrupted run would need: the results are in their place."""
        for found in self._runs:
            found.finish()


def _labels_for(options: RunOptions, files: Files) -> Labels | None:
    """Return the labels of a table's devices, where answers are asked for by label."""
    from rase.tables.labels import read_labels

    if options.label is None or options.k_min is None:
        return None
    columns = files.columns._replace(value=options.label)
    return read_labels(open_source(replace(files, columns=columns)), k_min=options.k_min)


def _open_table(files: Files, record: Path | None) -> TableSource:
    """Open a table, or what of it a record does not know."""
    return open_source(files if record is None else new_files(files, record))


def _plan_for(
    options: RunOptions, engine: EngineOptions, source: TableSource, labels: Labels | None
) -> tuple[RunPlan, Counter[float] | None]:
    """Return the plan for a table, and how many devices have each budget where they differ."""
    devices, most = None, 0
    if options.above is None and isinstance(options.domain, Categories):
        source.expect(options.domain)
    if options.epsilons is not None and options.budgets is not None:
        devices = options.budgets.counted(engine.device_names(source))
    elif options.is_promising and options.k_min is None:
        most = len(engine.device_names(source))
    with usage():
        return options.plan(devices, most=most, labels=labels), devices


def _rows_of(results: Iterable[RoundResult], report: RunReport, *, trial: int) -> Iterator[Row]:
    """Yield the rows of all rounds of a run, and of the windows that end with them."""
    windows: dict[str | None, CalendarWindows | Windows | None] = {}
    for result in results:
        if result.label not in windows:
            windows[result.label] = report.options.windows(report.plan)
        own = windows[result.label]
        yield from report.rows(result, None if own is None else own.add(result), trial=trial)


def _progress(show: Callable[..., None], source: TableSource) -> Callable[[str, float], None]:
    name = Path(source.place).name
    return lambda what, share: show(f"{what} {name}", share)
