"""Runs of a table in one stream, on this machine: ``rase run --feedback`` and ``--epsilons``."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from rase.cli.arguments import RunOptions
from rase.engine.feedback import FeedbackRun
from rase.engine.ranging import RangeFeedback
from rase.engine.stream import run_table
from rase.engine.tally import RunSummary
from rase.kernels.words import Random
from rase.pipeline import Pipeline, RoundResult

if TYPE_CHECKING:
    from rase.engine.in_order import FilesTable
    from rase.engine.job import Job

__all__ = ["StreamRun", "budgeted_run", "feedback_run"]

Progress = Callable[[str, float], None]


def feedback_run(
    job: "Job", options: RunOptions, *, rng: Random | None, on_progress: Progress
) -> "StreamRun":
    """Begin a run whose range is learnt from probing rounds, one by one.

    Args:
        job: What to do; in the order of its files the time of no device goes back.
        options: What was typed.
        rng: None for secure randomness; a `SeededRandom` for study.
        on_progress: Called with what is done and the share of it.

    Raises:
        DataError: If a file cannot be read as a table with these columns.
    """
    from rase.engine.in_order import in_order

    table = in_order(job.source)
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
        job: What to do; in the order of its files the time of no device goes back.
        pipeline: The job's pipeline, with a budget for each device.
        rng: None for secure randomness; a `SeededRandom` for study.
        on_progress: Called with what is done and the share of it.

    Raises:
        DataError: If a file cannot be read as a table with these columns.
    """
    from rase.engine.in_order import in_order

    table = in_order(job.source)
    run = run_table(
        table,
        pipeline,
        every=job.every,
        rng=rng,
        truth=job.truth,
        on_batch=lambda: on_progress("read", table.share_read),
    )
    return StreamRun(table, run, list)


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

    table: "FilesTable"
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
        return replace(self.run.summary, bad_files=self.table.bad)

    def finish(self) -> None:
        """Do nothing: such a run keeps nothing to go on from."""


def _range_in_words(feedback: RangeFeedback) -> str:
    reach = feedback.value_range
    told = f"range     {reach.low:g} to {reach.high:g} at the end"
    if feedback.outlook is None:
        return f"{told}; too few rounds to choose another."
    bias = feedback.outlook.clip_bias
    return f"{told}: clipping adds {bias.value:.3g} ± {bias.standard_error:.2g} to the mean."
