"""``rase run --feedback``: a table whose range is learnt from probing rounds, one by one."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rase.cli.arguments import RunOptions
from rase.cli.run_budgets import one_table
from rase.engine.feedback import FeedbackRun
from rase.engine.ranging import RangeFeedback
from rase.engine.tally import RunSummary
from rase.kernels.words import Random
from rase.pipeline import RoundResult

if TYPE_CHECKING:
    from rase.engine.job import Job

__all__ = ["Feedback"]


class Feedback:
    """One run of a job with range feedback, on this machine: rounds are taken in order.

    Args:
        job: What to do; one Parquet file, or text files.
        options: What was typed.
        rng: None for secure randomness; a `SeededRandom` for study.
        on_progress: Called with what is done and the share of it.

    Raises:
        DataError: If there are several Parquet files.
    """

    def __init__(
        self,
        job: "Job",
        options: RunOptions,
        *,
        rng: Random | None,
        on_progress: Callable[[str, float], None],
    ) -> None:
        self._table = table = one_table(job, asked="--feedback")
        self._run = FeedbackRun(
            table,
            job.pipeline,
            feedback=options.range_feedback(),
            every=job.every,
            rng=rng,
            truth=job.truth,
            on_batch=lambda: on_progress("read", table.share_read),
        )

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the results."""
        return iter(self._run)

    @property
    def notes(self) -> list[str]:
        """How the columns were understood, and which range was chosen."""
        return [*self._table.notes, _range_in_words(self._run.feedback)]

    @property
    def summary(self) -> RunSummary:
        """What was read, changed and spent; complete when all results have been taken."""
        return self._run.summary

    def finish(self) -> None:
        """Do nothing: such a run keeps nothing to go on from."""


def _range_in_words(feedback: RangeFeedback) -> str:
    reach = feedback.value_range
    told = f"range     {reach.low:g} to {reach.high:g} at the end"
    advice = feedback.advice
    if advice is None:
        return f"{told}; too few rounds to choose another."
    return (
        f"{told}: clipping adds {advice.clip_bias.value:.3g} ± "
        f"{advice.clip_bias.standard_error:.2g} with the range recommended last."
    )
