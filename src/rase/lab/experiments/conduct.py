"""Run experiments: measure the missing cells on all cores, then conclude."""

import multiprocessing
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from rase.lab.cache import CellCache
from rase.lab.experiments.measure import run_measurement
from rase.lab.experiments.study import Cell, Experiment, Findings, Outcome, Setup, Steps, Study
from rase.lab.panel import Panel

__all__ = ["CellEngine", "ReportProgress", "outcomes_of", "run_experiments", "weight"]

ReportProgress = Callable[[int, int, float | None], None]
"""Called with how many cells are done, of how many, and the seconds that are probably left."""


class CellEngine(Protocol):
    """Measure cells somewhere: they are independent, and a cell is its name and plain settings.

    `rase.lab.experiments.measure.run_measurement` is what runs there, once for each cell.
    """

    def __call__(
        self, cells: Sequence[Cell], panel: Panel, /
    ) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Yield each cell with its outcome as it finishes."""


def run_experiments(
    experiments: Sequence[Experiment],
    setup: Setup,
    *,
    cache: CellCache,
    checksum: str,
    data: str,
    jobs: int = 1,
    engine: CellEngine | None = None,
    report_progress: ReportProgress | None = None,
) -> list[Study]:
    """Run experiments and return their studies, in the order given.

    Cells that several experiments share are measured once.

    Args:
        experiments: What to run.
        setup: Readings, trials, seed.
        cache: Where measured cells are found and kept.
        checksum: Of the readings.
        data: What was typed as their source.
        jobs: How many processes measure; 1 measures in this one.
        engine: Where cells are measured instead, such as on a cluster.
        report_progress: Called whenever a cell is done.

    Raises:
        DataError: If the readings do not serve.
        OSError: If a cell cannot be kept.
    """
    begun: list[tuple[Experiment, Steps, Sequence[Cell]]] = []
    for experiment in experiments:
        steps = experiment.steps(setup)
        begun.append((experiment, steps, next(steps)))
    asked = {cell.key: cell for _, _, cells in begun for cell in cells}
    found = outcomes_of(
        asked, setup.panel, cache=cache, jobs=jobs, engine=engine, report_progress=report_progress
    )
    return [
        _study(
            experiment,
            _conclude(steps, [found[cell.key] for cell in cells]),
            setup=setup,
            checksum=checksum,
            data=data,
            code=cache.code,
        )
        for experiment, steps, cells in begun
    ]


def outcomes_of(
    asked: Mapping[str, Cell],
    panel: Panel,
    *,
    cache: CellCache,
    jobs: int = 1,
    engine: CellEngine | None = None,
    report_progress: ReportProgress | None = None,
) -> dict[str, Outcome]:
    """Return the outcomes of cells by their keys, measuring only what is not kept yet."""
    found: dict[str, Outcome] = {}
    missing: list[Cell] = []
    for key, cell in asked.items():
        kept = cache.find(key)
        if kept is None:
            missing.append(cell)
        else:
            found[key] = kept
    watch = _Watch(len(asked), len(found), report_progress)
    measured_by = engine or partial(_measured_by, jobs=jobs)
    for cell, outcome in measured_by(missing, panel):
        cache.keep(cell.key, outcome)
        found[cell.key] = outcome
        watch.one_more()
    return found


class _Watch:
    """Report the progress, and the remaining time at the present pace."""

    def __init__(self, total: int, done: int, report_progress: ReportProgress | None) -> None:
        self._total, self._done, self._before = total, done, done
        self._report_progress = report_progress
        self._begin = time.monotonic()
        if report_progress is not None:
            report_progress(done, total, None)

    def one_more(self) -> None:
        self._done += 1
        if self._report_progress is not None:
            pace = (time.monotonic() - self._begin) / (self._done - self._before)
            self._report_progress(self._done, self._total, pace * (self._total - self._done))


def _measured_by(
    cells: Sequence[Cell], panel: Panel, *, jobs: int
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    if jobs == 1 or len(cells) < 2:
        for cell in cells:
            yield cell, run_measurement(panel, cell.measure, cell.settings)
        return
    with _pool(min(jobs, len(cells)), panel) as pool:
        # Long cells first, so that no core waits for the last one.
        waiting = {
            pool.submit(_measure_here, cell.measure, dict(cell.settings)): cell
            for cell in sorted(cells, key=weight, reverse=True)
        }
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future.result()


@contextmanager
def _pool(jobs: int, panel: Panel) -> Iterator[ProcessPoolExecutor]:
    """Open processes that hold the panel; all of them end with the block."""
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_worker,
        initargs=(panel,),
    )
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_panels: list[Panel] = []


def _begin_worker(panel: Panel) -> None:
    # An interrupt reaches the whole group at a terminal; the parent alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _panels[:] = [panel]


def _measure_here(measure: str, settings: dict[str, Any]) -> dict[str, Any]:
    return run_measurement(_panels[0], measure, settings)


def weight(cell: Cell) -> float:
    """Estimate which cells take long: forests on single values, then many devices."""
    is_forest = str(cell.settings.get("attack", "")).startswith("value")
    return float(10 * is_forest + cell.settings.get("n", 0) / 1000)


def _conclude(steps: Steps, outcomes: Sequence[Outcome]) -> Findings:
    try:
        steps.send(outcomes)
    except StopIteration as end:
        findings: Findings = end.value
        return findings
    raise RuntimeError("an experiment must ask for its cells once.")


def _study(
    experiment: Experiment,
    findings: Findings,
    *,
    setup: Setup,
    checksum: str,
    data: str,
    code: str,
) -> Study:
    return Study(
        name=experiment.name,
        figure=experiment.figure,
        title=experiment.title,
        rows=findings.rows,
        paper_says=experiment.paper_says,
        measured=findings.measured,
        why=experiment.why,
        choices={**experiment.choices, **_scale_note(setup)},
        checks=findings.checks,
        chance=findings.chance,
        command=_command(experiment.name, data, setup),
        seed=setup.seed,
        trials=setup.trials,
        data=setup.panel.source or data,
        checksum=checksum,
        code=code,
        picture=findings.picture,
    )


def _scale_note(setup: Setup) -> dict[str, str]:
    """Say that ranges are not those named, where the readings are not of appliances."""
    if setup.range_scale == 1:
        return {}
    return {
        "scale": f"these readings are not of appliances: ranges are {setup.range_scale:.3g} times "
        f"those named, in {setup.panel.unit or 'the unit of the data'}"
    }


def _command(name: str, data: str, setup: Setup) -> str:
    parts: Iterable[str] = (
        *("rase", "lab", "run", name, "--data", data),
        *("--trials", str(setup.trials), "--seed", str(setup.seed)),
        *(("--fast",) if setup.is_fast else ()),
    )
    return shlex.join(parts)
