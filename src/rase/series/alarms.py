"""When an answer is worth an alarm: thresholds that keep a stated rate of false ones.

Each final round is looked at once. The chance of an alarm in a round in which nothing is the matter
is at most the stated number a month divided by the rounds of a month, so that over a month the
number expected is at most the stated one, however the rounds depend on each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from rase.counts.estimate import Estimate
from rase.series.window import window

__all__ = ["KINDS", "MONTH_S", "AlarmRule", "Reading", "detection_rounds", "read_alarm"]

MONTH_S: Final = 30 * 86_400
KINDS: Final = ("above", "below", "change")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """Say when an answer raises an alarm.

    Args:
        kind: "above" or "below" a level; "change" for a mean that is another one than before.
        level: The level; for a change how far the means must differ at least, mostly 0.
        rounds: Over how many rounds the mean is taken, up to the newest.
        against: For a change: how many rounds earlier the mean ends that it is compared with.
        per_month: How many false alarms a month are expected at most.
        round_s: The length of a round.

    Raises:
        ValueError: If a number is out of bounds.
    """

    kind: str
    level: float
    rounds: int = 1
    against: int = 0
    per_month: float = 0.1
    round_s: int

    def __post_init__(self) -> None:
        """Check the rule once."""
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}.")
        if not math.isfinite(self.level):
            raise ValueError(f"level must be finite, got {self.level}.")
        if self.kind == "change" and self.level < 0:
            raise ValueError(f"level must be 0 or more for a change, got {self.level}.")
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}.")
        if self.kind == "change" and self.against < self.rounds:
            raise ValueError(
                f"against must be at least rounds, {self.rounds}, so that no round is in both "
                f"means, got {self.against}."
            )
        if not 0 < self.per_month <= 100:
            raise ValueError(f"per_month must be from 0 to 100, got {self.per_month}.")

    @property
    def needed(self) -> int:
        """How many rounds are looked at, the newest included."""
        return self.rounds + (self.against if self.kind == "change" else 0)

    @property
    def chance(self) -> float:
        """The chance of an alarm in one round in which nothing is the matter."""
        return min(self.per_month * self.round_s / MONTH_S, 0.5)

    @property
    def threshold(self) -> float:
        """How many standard errors beyond the level raise an alarm."""
        sides = 2 if self.kind == "change" and self.level == 0 else 1
        return NormalDist().inv_cdf(1 - self.chance / sides)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a rule says of a round.

    Args:
        value: The mean over its rounds; for a change, how far it differs from the one before.
        standard_error: The error of that.
        is_beyond: Whether it lies beyond the level by more than noise makes.
        is_back: Whether it lies on the quiet side of the level.
    """

    value: float
    standard_error: float
    is_beyond: bool
    is_back: bool


def read_alarm(rule: AlarmRule, estimates: Sequence[Estimate | None]) -> Reading | None:
    """Return what a rule says of the newest of some rounds.

    Guarantee: false alarms a month number at most ``rule.per_month`` on average, where the errors
    of rounds are normal; tried over simulated years in tests/series/test_alarms.py. It is
    post-processing of released answers, each of k_min reports or more, and costs no privacy.

    Args:
        rule: The rule.
        estimates: Each of the last `AlarmRule.needed` rounds by itself, the newest last; None for
            one that was withheld or is missing.

    Returns:
        None where too few of the rounds have an estimate.

    Raises:
        ValueError: If there are other than `AlarmRule.needed` rounds.
    """
    if len(estimates) != rule.needed:
        raise ValueError(f"estimates must be of {rule.needed} rounds, got {len(estimates)}.")
    newest = estimates[-1]
    (mean,) = window(estimates[-rule.rounds :], rule.rounds)
    if newest is None or mean is None or not math.isfinite(mean.standard_error):
        return None
    value, error = mean.value, mean.standard_error
    if rule.kind == "change":
        (before,) = window(estimates[: rule.rounds], rule.rounds)
        if before is None or not math.isfinite(before.standard_error):
            return None
        value, error = value - before.value, math.hypot(error, before.standard_error)
        beyond = abs(value) - rule.level
    else:
        beyond = value - rule.level if rule.kind == "above" else rule.level - value
    reach = rule.threshold * error
    # After a change its size is compared with half of what raised the alarm: it never comes to 0.
    is_back = beyond <= (reach / 2 if rule.kind == "change" else 0)
    return Reading(value, error, is_beyond=beyond > reach, is_back=is_back)


def detection_rounds(rule: AlarmRule, shift: float, error: float) -> int | None:
    """Return in how many rounds a shift is noticed, as often as not.

    Args:
        rule: The rule.
        shift: How far the mean lies beyond the level from some round on; for a change, by how much
            more than the level it moves.
        error: The standard error of one round.

    Returns:
        The number of rounds, from 1; None if the shift is too small for ``rule.rounds``.

    Example:
        >>> rule = AlarmRule(kind="change", level=0, rounds=24, against=24, round_s=3600)
        >>> detection_rounds(rule, 100.0, 50.0)
        14
    """
    if shift <= 0:
        return None
    together = error / math.sqrt(rule.rounds)
    if rule.kind == "change":
        # One round after the other of the newer mean is shifted.
        rounds = rule.threshold * math.sqrt(2) * together * rule.rounds / shift
    else:
        # The mean was at the level before.
        rounds = rule.threshold * together * rule.rounds / shift
    found = max(math.ceil(rounds), 1)
    return found if found <= rule.rounds else None
