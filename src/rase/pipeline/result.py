"""What is known of a round at the end: estimates, and what the shuffler did."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rase.estimate.estimate import Estimate
from rase.estimate.tracker import Tracker
from rase.shuffle.shufflers import Manifest

__all__ = ["RoundResult"]


@dataclass(frozen=True, slots=True)
class RoundResult:
    """Hold what the fusion centre knows of a round: estimates, and what the shuffler did.

    Args:
        n: How many contributors reported.
        estimates: By the name of the estimator.
        manifest: What the shuffler did, and what it promises.
        round: The round's number; None for readings without a time.
        start_ms: When it began, in milliseconds since 1970; None likewise.
        truth: The mean of the readings themselves; only in studies of data one holds anyway.
        alone: The unbiased mean of this round by itself, where it or ``auto`` was asked: long
            windows of ``auto`` average it, because the errors of tracked rounds go together. None
            otherwise.
        spread: The variance of the readings as the reports tell it, for a tracker; None if they do
            not, or nobody asked.
    """

    n: int
    estimates: Mapping[str, Estimate]
    manifest: Manifest
    round: int | None = None
    start_ms: int | None = None
    truth: float | None = None
    alone: Estimate | None = None
    spread: float | None = None

    @property
    def estimate(self) -> Estimate:
        """The first estimator's answer."""
        return next(iter(self.estimates.values()))

    def tracked(self, tracker: Tracker) -> "RoundResult":
        """Return the result with ``auto`` borrowing from the rounds the tracker has seen.

        Without ``auto``, a time or an unbiased mean it stays as it is.
        """
        if "auto" not in self.estimates or self.alone is None or self.start_ms is None:
            return self
        followed = tracker.update(self.start_ms / 1000, self.alone, spread=self.spread)
        return replace(self, estimates={**self.estimates, "auto": followed})
