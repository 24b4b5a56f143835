"""Runs of a table in one stream, on this machine: ``rase run --feedback`` and ``--epsilons``."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rase.cli.arguments import RunOptions
from rase.engine.feedback import FeedbackRun
from rase.engine.ranging import RangeFeedback
from rase.engine.stream import run_table
from rase.engine.table import Table, open_table
from rase.engine.tally import RunSummary
from rase.errors import DataError
from rase.kernels.words import Random
from rase.pipeline import Pipeline, RoundResult

if TYPE_CHECKING:
    from rase.engine.csv_files import CsvTable
    from rase.engine.job import Job

__all__ = ["StreamRun", "budgeted_run", "feedback_run", "one_table"]

Progress = Callable[[str, float], None]


def feedback_run(
    job: "Job", options: RunOptions, *, rng: Random | None, on_progress: Progress
) -> "StreamRun":
    """Begin a run whose range is learnt from probing rounds, one by one.

    Args:
        job: What to do; one Parquet file, or text files.
        options: What was typed.
        rng: None for secure randomness; a `SeededRandom` for study.
        on_progress: Called with what is done and the share of it.

    Raises:
        DataError: If there are several Parquet files.
    """
    table = one_table(job, asked="--feedback")
    run = FeedbackRun(
        table,
        job.pipeline,
        feedback=options.range_feedback(),
        every=job.every,
        rng=rng,
        truth=job.truth,
        on_batch=lambda: on_progress("read", table.share_read),
    )
    return StreamRun(table, run, lambda: [_range_in_words(run.feedback)])


def budgeted_run(
    job: "Job", pipeline: Pipeline, *, rng: Random | None, on_progress: Progress
) -> "StreamRun":
    """Begin a run whose devices have budgets of their own.

    Args:
        job: What to do; one Parquet file, or text files.
        pipeline: The job's pipeline, with a budget for each device.
        rng: None for secure randomness; a `SeededRandom` for study.
        on_progress: Called with what is done and the share of it.

    Raises:
        DataError: If there are several Parquet files.
    """
    table = one_table(job, asked="--epsilons")
    run = run_table(
        table,
        pipeline,
        every=job.every,
        rng=rng,
        truth=job.truth,
        on_batch=lambda: on_progress("read", table.share_read),
    )
    return StreamRun(table, run, list)


def one_table(job: "Job", *, asked: str) -> "Table | CsvTable":
    """Return the table of a job that must be read in one stream.

    Args:
        job: What to do.
        asked: The option that needs it so.

    Raises:
        DataError: If there are several Parquet files.
    """
    from rase.engine.csv_files import CsvTable

    source = job.source
    if source.kind == "csv":
        return CsvTable(source)
    if len(source.files) > 1:
        raise DataError(f"{asked} takes one Parquet file or text files, got {source.place}.")
    time, device, value = source.columns.names
    return open_table(
        source.files[0].path, time_column=time, device_column=device, value_column=value
    )


class _Summed(Protocol):
    """What is run: results in the order of time, and what was done for them."""

    @property
    def summary(self) -> RunSummary: ...

    def __iter__(self) -> Iterator[RoundResult]: ...


@dataclass(frozen=True, slots=True)
class StreamRun:
    """Hold one run of a table, to be iterated once.

    Args:
        table: What is read.
        run: Gives the results.
        more_notes: Tells what there is to say besides how the columns were understood.
    """

    table: "Table | CsvTable"
    run: _Summed
    more_notes: Callable[[], Iterable[str]]

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the results."""
        return iter(self.run)

    @property
    def notes(self) -> list[str]:
        """How the columns were understood, and what the run came to."""
        return [*self.table.notes, *self.more_notes()]

    @property
    def summary(self) -> RunSummary:
        """What was read, changed and spent; complete when all results have been taken."""
        return self.run.summary

    def finish(self) -> None:
        """Do nothing: such a run keeps nothing to go on from."""


def _range_in_words(feedback: RangeFeedback) -> str:
    reach = feedback.value_range
    told = f"range     {reach.low:g} to {reach.high:g} at the end"
    if feedback.outlook is None:
        return f"{told}; too few rounds to choose another."
    bias = feedback.outlook.clip_bias
    return f"{told}: clipping adds {bias.value:.3g} ± {bias.standard_error:.2g} to the mean."
