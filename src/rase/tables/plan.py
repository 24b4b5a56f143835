"""What is done with a table: the one configuration behind every run, here or on a cluster.

A plan holds no randomness, no file and no state; whoever runs it gives it a source of randomness,
and the same seed gives the same results on every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rase.clock import parse_duration_s
from rase.counts.registry import TRACKED, Estimator, estimator_named
from rase.shuffle.release import Shuffler
from rase.shuffle.uniform import Uniform

if TYPE_CHECKING:
    from rase.laws.randomizer import RangeRandomizer
    from rase.tables.budgets import BudgetClasses
    from rase.tables.feedback import RangeFeedback
    from rase.tables.groups import GraphSettings

__all__ = ["RunPlan", "named_estimators"]


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Randomizer, shuffler, estimators, rounds and windows of a run.

    Args:
        randomizer: What each device does to a reading.
        shuffler: What stands between devices and estimates; `Uniform` unless given.
        estimator: A name, a function, or several of them.
        every: The length of a round, such as ``15min``; None makes each time a round.
        window: Over how many rounds to slide a mean as well; None for no windows.
        budgets: What owners allow, where devices differ in it; the randomizer then draws with each
            device's own budget.
        graph: The real groups of contributors, where the shuffler of a round follows from who
            reports in it.
        feedback: Makes what learns a better range from probing rounds; None for a fixed range.
        truth: Whether results hold the mean of the readings themselves; for study.

    Attributes:
        estimators: What is asked for, by name.
        interval_ms: The length of a round in milliseconds; None where each time is a round.

    Raises:
        ValueError: If an estimator is unknown, ``every`` no duration, ``window`` below 2, or
            options exclude each other.

    Example:
        >>> from rase import Range, auto
        >>> plan = RunPlan(randomizer=auto(1.0, Range(0, 3000)), every="1h")
        >>> plan.interval_ms, list(plan.estimators)
        (3600000, ['tracked'])
    """

    randomizer: RangeRandomizer
    shuffler: Shuffler = field(default_factory=Uniform)
    estimator: str | Estimator | Sequence[str | Estimator] = TRACKED
    every: str | None = None
    window: int | None = None
    budgets: BudgetClasses | None = None
    graph: GraphSettings | None = None
    feedback: Callable[[], RangeFeedback] | None = None
    truth: bool = False
    estimators: Mapping[str, Estimator] = field(init=False, repr=False)
    interval_ms: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check what can be checked before a table is read."""
        interval_ms = None if self.every is None else 1000 * parse_duration_s(self.every)
        object.__setattr__(self, "interval_ms", interval_ms)
        object.__setattr__(self, "estimators", named_estimators(self.estimator))
        if self.window is not None and self.window < 2:
            raise ValueError(f"window must hold two rounds or more, got {self.window}.")
        if self.budgets is not None:
            # One mechanism for all budgets that devices may have.
            own = replace(self.randomizer, epsilon=self.budgets.budgets)
            object.__setattr__(self, "randomizer", own)
        elif isinstance(self.randomizer.epsilon, tuple):
            raise ValueError(
                "epsilon must be one number for a table; give devices budgets of their own by "
                "budgets."
            )
        if self.feedback is not None and (self.graph is not None or self.budgets is not None):
            raise ValueError("feedback must not be combined with graph or budgets.")
        if self.graph is not None and self.budgets is not None:
            raise ValueError("graph and budgets must not be combined.")

    def described(self) -> dict[str, Any]:
        """Return the plan in words and numbers, for a manifest."""
        return {
            "randomizer": repr(self.randomizer),
            "guarantee": str(self.randomizer.guarantee),
            "shuffler": repr(self.shuffler),
            "estimators": list(self.estimators),
            "every": self.every,
            "window": self.window,
        }


def named_estimators(
    estimator: str | Estimator | Sequence[str | Estimator],
) -> Mapping[str, Estimator]:
    """Return estimators by their names.

    Args:
        estimator: A name, a function, or several of them.

    Raises:
        ValueError: If there is none, or a name is unknown.
    """
    listed = [estimator] if isinstance(estimator, str) or callable(estimator) else list(estimator)
    if not listed:
        raise ValueError("estimator must name at least one estimator, got none.")
    return {
        item if isinstance(item, str) else getattr(item, "__name__", repr(item)): (
            estimator_named(item) if isinstance(item, str) else item
        )
        for item in listed
    }
