"""An answer: one estimated number with its error, its count and both its promises.

The one schema for command line, JSON, HTTP, MQTT, SQL, CSV, data frames and Python. Pure Python
without NumPy, because subscribers read it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from rase.errors import TooFew

__all__ = [
    "FIELDS",
    "SCHEMA_VERSION",
    "Answer",
    "Difference",
    "QuantileAnswer",
    "ShareAnswers",
    "rounded_alike",
    "without_infinities",
]

SCHEMA_VERSION: Final = 2
# Numbers with more zeros than this read better with an exponent.
_LONGEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One flat row.

    Args:
        v: The version of this schema; a change of meaning changes it, a new field does not.
        status: "ok"; without a value "too_few" if a round was withheld, "gap" if one is missing.
        campaign: The campaign's id; None for a table.
        quantity: What is measured, in words; None if it has no name.
        unit: The unit of ``value``; None likewise.
        label: Which part of the fleet it is about; None for all.
        category: Which category ``value`` is the share of; None for a number.
        time: When the first round began: RFC 3339, UTC.
        until: When the last round ended; empty where the length of a round is not known.
        round: The number of the last round.
        value: The estimate; None unless the status is "ok".
        standard_error: Its standard error; None if the reports do not show it.
        low: Lower end of the interval; None likewise.
        high: Its upper end.
        n: How many reports it was computed from; 0 where there is no estimate.
        rounds: How many rounds it was computed from; others were withheld or are missing.
        of_rounds: How many rounds it is over.
        target: Whose readings it speaks of: "reporters", those who reported; "fleet", all enrolled
            devices; "reports" for the paper's estimators, which speak of the noisy reports.
        method: The estimator.
        revision: How often it was revised with the help of later rounds.
        final: Whether it stays as it is.
        verdict: Whether the rounds up to this one differ by more than noise, in words; None where
            that cannot be said.
        moves: Whether the verdict is that they do; None likewise.
        would_show: How far they would have to differ, as a standard deviation, to be noticed in 9
            of 10 cases; None likewise.
        half_by_devices: With how many devices half of that would show. This and what follows is
            None where they move, or nothing can be advised.
        half_by_width: With how wide a range it would.
        half_by_round_s: With how long a round, in seconds, if its one report has the budget of all
            rounds that it replaces.
        half_by_epsilon: With which budget of a report.
        half_by_shuffled_epsilon: What such a report gives away towards the fusion centre, where
            that is promised.
        local_epsilon: The largest privacy loss of one device by what the answer is over, whoever
            collects the reports: both servers together included.
        shuffled_epsilon: The same towards the fusion centre and subscribers, who see shuffled
            reports only; None where no such promise was made.
        delta: The delta of ``shuffled_epsilon``; None likewise.
        promise: What is promised to each device, as a sentence; empty for a table.
        shuffle: What the shuffler says it did, as a sentence; empty likewise.
    """

    v: int = SCHEMA_VERSION
    status: str = "ok"
    campaign: str | None = None
    quantity: str | None = None
    unit: str | None = None
    label: str | None = None
    category: str | None = None
    time: str = ""
    until: str = ""
    round: int = 0
    value: float | None = None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    rounds: int = 1
    of_rounds: int = 1
    target: str = "reporters"
    method: str = ""
    revision: int = 0
    final: bool = True
    verdict: str | None = None
    moves: bool | None = None
    would_show: float | None = None
    half_by_devices: int | None = None
    half_by_width: float | None = None
    half_by_round_s: int | None = None
    half_by_epsilon: float | None = None
    half_by_shuffled_epsilon: float | None = None
    local_epsilon: float | None = None
    shuffled_epsilon: float | None = None
    delta: float | None = None
    promise: str = ""
    shuffle: str = ""

    def as_fields(self) -> dict[str, Any]:
        """Return the row as plain values by name."""
        # All values are plain: a run of 100,000 rounds need not copy each of them.
        return dict(zip(FIELDS, _values_of(self), strict=True))

    def require(self) -> float:
        """Return the value, or refuse.

        Raises:
            TooFew: If a round was withheld, or there is none of that time.
        """
        if self.value is not None:
            return self.value
        is_window = self.of_rounds > 1
        what = f"the {self.of_rounds} rounds up to {self.until}" if is_window else self.time
        is_withheld = self.status == "too_few"
        why = "too few devices reported" if is_withheld else "no estimate is there"
        has = "nothing is released" if is_withheld else "a round is missing"
        if is_window:
            has = f"only {self.rounds} of them have an estimate"
        raise TooFew(f"{what}: {why}; {has}.")

    def __str__(self) -> str:
        """Return the value with its error, or why there is none."""
        if self.value is None:
            return {"too_few": "too few reports", "gap": "missing"}.get(self.status, self.status)
        unit = f" {self.unit}" if self.unit else ""
        count = f"n = {self.n}"
        if self.rounds < self.of_rounds:
            count = f"{count}, {self.rounds} of {self.of_rounds} rounds"
        if self.standard_error is None or self.low is None or self.high is None:
            return f"{self.value:.6g}{unit}, error unknown ({count})"
        value, error, low, high = rounded_alike(
            self.value, self.standard_error, self.low, self.high, error=self.standard_error
        )
        return f"{value}{unit} ± {error} (95 %: {low} to {high}, {count})"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileAnswer:
    """Say between which public bounds a quantile of the readings lies; None for no bound.

    Args:
        share: Which quantile: 0.5 for the median.
        low: The highest bound that it surely is not under.
        high: The lowest bound that it surely is under.
    """

    share: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAnswers:
    """The shares of all states in a round, or in a label of it.

    Args:
        shares: One answer for each state, with an interval of its own, in the campaign's order.
        level: The probability that an interval holds its share.
        simultaneous: For each state the interval of a set that holds all shares at once.
        shown: The shares moved so that none is below 0 and their sum is 1: for charts.
        top: The commonest states, the first first, and whether each surely is one.
        above: The shares at or above each public bound; none where there are no bounds.
        quantiles: Between which bounds quantiles lie; none likewise.
    """

    shares: list[Answer]
    level: float = 0.95
    simultaneous: dict[str, tuple[float, float]]
    shown: dict[str, float]
    top: dict[str, bool]
    above: list[Answer]
    quantiles: list[QuantileAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far two answers differ: the first less the second.

    Args:
        value: The difference; None where one of the two has no value.
        standard_error: Its standard error; None likewise, or where one is not known.
        low: Lower end of its interval; None likewise.
        high: Its upper end.
        level: The probability that the interval holds the true difference.
        above_zero: The chance that the true difference is above zero, if nothing else is known of
            it; None likewise.
        unit: The unit of the difference.
        local_epsilon: The largest privacy loss of one device by both answers together, whoever
            collects the reports.
        first: The first answer.
        second: The second answer.
    """

    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    level: float = 0.95
    above_zero: float | None
    unit: str | None
    local_epsilon: float | None
    first: Answer
    second: Answer

    def __str__(self) -> str:
        """Return the difference with its error, or why there is none."""
        if self.value is None:
            missing = self.first if self.first.value is None else self.second
            return f"no difference: {missing}"
        unit = f" {self.unit}" if self.unit else ""
        if self.standard_error is None or self.low is None or self.high is None:
            return f"{self.value:.6g}{unit}, error unknown"
        value, error, low, high = rounded_alike(
            self.value, self.standard_error, self.low, self.high, error=self.standard_error
        )
        chance = f"{100 * (self.above_zero or 0.0):.1f}"
        return (
            f"{value}{unit} ± {error} ({100 * self.level:g} %: {low} to {high}; above zero with "
            f"{chance} %)"
        )


FIELDS: Final = tuple(one.name for one in fields(Answer))
_values_of: Final = attrgetter(*FIELDS)


def without_infinities(value: Any) -> Any:
    """Return plain values with None for every number that JSON cannot say: infinite, or none.

    Example:
        >>> without_infinities({"error": math.inf, "days": (0.5, math.nan)})
        {'error': None, 'days': [0.5, None]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: without_infinities(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(item) for item in value]
    return value


def rounded_alike(*numbers: float, error: float) -> list[str]:
    """Write numbers that share an error, each rounded where its two leading digits end.

    Example:
        >>> rounded_alike(0.122065, 1987.2, error=1987.2)
        ['0', '2000']
    """
    digits = 1 - math.floor(math.log10(error or abs(numbers[0]) or 1.0))
    return [
        f"{round(number, digits) + 0.0:.{max(digits, 0)}f}"
        if abs(digits) < _LONGEST
        else f"{number:.2g}"
        for number in numbers
    ]
