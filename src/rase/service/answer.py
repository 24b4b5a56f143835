"""What a fusion centre tells of a round or window: always with error, count and guarantee.

Both sides of the interface read this: the fusion centre fills it in, subscribers read it back.
"""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Hold one flat row of an answer.

    Args:
        campaign: The campaign's id.
        time: When the round, or the window's last round, began: RFC 3339, UTC.
        round: Its number.
        w: How many rounds the mean is over.
        status: "ok"; without a mean "too_few" if a round was withheld, "gap" if one is missing.
        mean: The estimate; None unless the status is "ok".
        standard_error: Its standard error; None if the reports cannot tell.
        ci_low: Lower end of the 95 % interval; None likewise.
        ci_high: Its upper end.
        n: How many reports went into it; 0 where there is no estimate.
        epsilon: The largest privacy loss of one device by what the mean is over.
        method: The estimator.
        target: What it estimates, in words.
        unit: The unit of the mean.
        guarantee: What each report promises to its device.
        shuffle: What the shuffler says it did.
        rounds: How many rounds it was computed from; others were withheld or are missing.
        of_rounds: How many there should be: ``w``.
        verdict: Whether the rounds up to this one differ by more than noise, in words; None where
            that cannot be said.
    """

    v: int = 1
    campaign: str
    time: str
    round: int
    w: int = 1
    status: str
    mean: float | None = None
    standard_error: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int = 0
    epsilon: float
    method: str
    target: str = ""
    unit: str
    guarantee: str
    shuffle: str
    rounds: int = 1
    of_rounds: int = 1
    verdict: str | None = None

    def as_fields(self) -> dict[str, Any]:
        """Return the row as plain values by name."""
        return asdict(self)
