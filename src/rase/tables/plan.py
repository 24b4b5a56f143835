"""What is done with a table: the one configuration behind every run, here or on a cluster.

A plan holds no randomness, no file and no state; whoever runs it gives it a source of randomness,
and the same seed gives the same results on every engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

from rase.accounting.checks import checked_delta
from rase.clock import parse_duration_s
from rase.counts.registry import TRACKED, Estimator, estimator_named
from rase.domain import PAPER_PRECISION, Categories, Range
from rase.errors import PrivacyRefused
from rase.laws.randomizer import Randomizer, RangeRandomizer
from rase.laws.registry import AUTO, randomizer_named
from rase.laws.response import CategoryRandomizer
from rase.privacy import rounded_up
from rase.shuffle.release import Shuffler
from rase.shuffle.uniform import Uniform

if TYPE_CHECKING:
    from rase.domain import Domain, Precision
    from rase.promise import Claim
    from rase.tables.budgets import BudgetClasses
    from rase.tables.feedback import RangeFeedback
    from rase.tables.groups import GraphSettings
    from rase.tables.labels import Labels
    from rase.tables.quantities import Turn

__all__ = ["RunPlan", "ShuffledPromise", "named_estimators"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledPromise:
    """What a run promises of its reports, once they are shuffled in rounds that are large enough.

    Args:
        k_min: The fewest reports of a round; smaller rounds are withheld, and no later one learns
            from them.
        delta: The delta of the promise.
        colluding: How many reports of a round may be of whoever looks.
        shuffled_epsilon: What one report may give away; None promises what holds.

    Raises:
        ValueError: If a number is out of bounds.
    """

    k_min: int
    delta: float = 1e-6
    colluding: int = 0
    shuffled_epsilon: float | None = None

    def __post_init__(self) -> None:
        """Check every number once."""
        checked_delta(self.delta)
        if self.shuffled_epsilon is not None and not 0 < self.shuffled_epsilon < math.inf:
            raise ValueError(
                f"shuffled_epsilon must be greater than 0 and finite, got {self.shuffled_epsilon}."
            )
        if self.colluding < 0 or self.k_min - self.colluding < 2:
            raise ValueError(
                f"k_min must be at least 2 more than colluding, {self.colluding}, got {self.k_min}."
            )

    def claims(self, randomizer: Randomizer, reports: Iterable[int]) -> tuple[Claim, ...]:
        """Return what some numbers of reports of one device give away together."""
        from rase.accounting.accountant.claims import claims

        n = self.k_min - self.colluding
        return claims(randomizer, n, delta=self.delta, reports=reports)

    @overload
    def randomizer(
        self,
        domain: Range,
        *,
        epsilon: float | None,
        mechanism: str = AUTO,
        precision: Precision = PAPER_PRECISION,
        most: float | None = None,
    ) -> RangeRandomizer: ...

    @overload
    def randomizer(
        self,
        domain: Categories,
        *,
        epsilon: float | None,
        mechanism: str = AUTO,
        precision: Precision = PAPER_PRECISION,
        most: float | None = None,
    ) -> CategoryRandomizer: ...

    def randomizer(
        self,
        domain: Domain,
        *,
        epsilon: float | None,
        mechanism: str = AUTO,
        precision: Precision = PAPER_PRECISION,
        most: float | None = None,
    ) -> Randomizer:
        """Return the randomizer of least error that keeps the promise.

        Args:
            domain: The public range, or the public categories.
            epsilon: The budget of a report; the largest that keeps the promise if None.
            mechanism: The mechanism, or ``auto``.
            precision: For ``budget-aware``.
            most: The largest budget of a report; None for any.

        Raises:
            PrivacyRefused: If the promise cannot be kept.
            ValueError: If there is neither a budget nor a promise.
        """
        from rase.accounting.accountant.calibrate import calibrate

        if epsilon is not None:
            found = randomizer_named(mechanism, epsilon, domain=domain, precision=precision)
            (claim,) = self.claims(found, [1])
            if self.shuffled_epsilon is not None and claim.epsilon > self.shuffled_epsilon:
                raise PrivacyRefused(
                    f"epsilon {epsilon:g} gives away {rounded_up(claim.epsilon):g} in rounds of "
                    f"{self.k_min}, more than the {self.shuffled_epsilon:g} that was promised; "
                    "leave epsilon out to have it fitted."
                )
            return found
        if self.shuffled_epsilon is None:
            raise ValueError("epsilon or shuffled_epsilon must be given, got neither.")
        return calibrate(
            domain,
            shuffled_epsilon=self.shuffled_epsilon,
            delta=self.delta,
            n=self.k_min - self.colluding,
            max_local_epsilon=most,
            mechanism=mechanism,
        )


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Randomizer, shuffler, estimators, rounds and windows of a run.

    Args:
        randomizer: What each device does to a reading: to a number, or to the name of a category.
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
        promise: What the run promises of its reports once they are shuffled; rounds that are too
            small for it are withheld. None promises nothing but the randomizer's guarantee.
        labels: The labels of devices, where answers are asked for by label; rounds of fewer reports
            than its ``k_min`` are withheld, and smaller labels merged.
        above: The bound of a question that each device answers by itself: whether its mean reading
            in the round lies above. The randomizer is then for two categories, no and yes.
        turn: Which of several quantities of the table it is, that share a device's budget
            (`rase.tables.quantities`); None where there is one.
        as_known_then: Whether each round of ``tracked`` stays as it was known when it came. False
            lets later rounds help earlier ones (`rase.series.smoother`).

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

    randomizer: RangeRandomizer | CategoryRandomizer
    shuffler: Shuffler = field(default_factory=Uniform)
    estimator: str | Estimator | Sequence[str | Estimator] = TRACKED
    every: str | None = None
    window: int | None = None
    budgets: BudgetClasses | None = None
    graph: GraphSettings | None = None
    feedback: Callable[[], RangeFeedback] | None = None
    truth: bool = False
    promise: ShuffledPromise | None = None
    above: float | None = None
    labels: Labels | None = None
    turn: Turn | None = None
    as_known_then: bool = False
    estimators: Mapping[str, Estimator] = field(init=False, repr=False)
    interval_ms: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check what can be checked before a table is read."""
        interval_ms = None if self.every is None else 1000 * parse_duration_s(self.every)
        object.__setattr__(self, "interval_ms", interval_ms)
        if isinstance(self.randomizer, CategoryRandomizer):
            self._check_categories(self.randomizer.domain)
            object.__setattr__(self, "estimators", {})
        elif self.above is not None:
            raise ValueError("above must come with a randomizer for two categories, no and yes.")
        else:
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
        self._check_labels()
        self._check_turn()
        others = (self.feedback, self.graph, self.budgets)
        is_plain = isinstance(self.shuffler, Uniform) and others == (None, None, None)
        if self.promise is not None and not is_plain:
            raise ValueError(
                "promise needs the uniform shuffle and one law for all reports: no groups, graph, "
                "budgets or feedback."
            )

    def _check_categories(self, domain: Categories) -> None:
        """Refuse what is for numbers alone."""
        others = (self.budgets, self.graph, self.feedback)
        if self.estimator != TRACKED or others != (None,) * 3 or self.truth:
            raise ValueError(
                "shares of categories must not be combined with an estimator, budgets, graph, "
                "feedback or truth: those are for means of numbers."
            )
        if self.above is not None and (domain.steps != 1 or not math.isfinite(self.above)):
            raise ValueError("above must be finite, with a randomizer for two categories.")

    def _check_labels(self) -> None:
        """Refuse what a crowd by label cannot be combined with."""
        if self.labels is None:
            return
        if (self.feedback, self.graph, self.budgets) != (None,) * 3 or self.truth:
            raise ValueError("labels must not be combined with feedback, graph, budgets or truth.")
        if self.promise is not None and self.labels.k_min < self.promise.k_min:
            raise ValueError(
                f"k_min of labels must be at least the promise's {self.promise.k_min}, "
                f"got {self.labels.k_min}: a report hides among those of its label."
            )

    def _check_turn(self) -> None:
        """Refuse what one budget for several quantities cannot be combined with."""
        if self.turn is None:
            return
        if (self.feedback, self.graph, self.budgets) != (None,) * 3:
            raise ValueError("turn must not be combined with feedback, graph or budgets.")
        if self.turn.key is not None and self.every is None:
            raise ValueError("every must be given where quantities take turns: a turn is a round.")

    @property
    def k_min(self) -> int:
        """The fewest reports of a round, or of a label in it, of which anything is released."""
        crowds = (self.promise, self.labels)
        return max([1, *(one.k_min for one in crowds if one is not None)])

    @property
    def categories(self) -> Categories | None:
        """The categories that the column of readings holds; None if it holds numbers."""
        domain = self.randomizer.domain
        return domain if isinstance(domain, Categories) and self.above is None else None

    @property
    def numbers(self) -> RangeRandomizer:
        """The randomizer, where the question is about numbers.

        Raises:
            TypeError: If the plan is about categories.
        """
        if not isinstance(self.randomizer, RangeRandomizer):
            raise TypeError("this is for means of numbers, and the plan is for shares.")
        return self.randomizer

    @property
    def quanta_range(self) -> Range:
        """The range in whose quanta readings are added up; that of places for categories."""
        if self.above is not None:
            reach = max(abs(self.above), 1.0)
            return Range(self.above - reach, self.above + reach)
        domain = self.randomizer.domain
        return Range(0, domain.steps) if isinstance(domain, Categories) else domain

    def described(self) -> dict[str, Any]:
        """Return the plan in words and numbers, for a manifest."""
        return {
            "randomizer": repr(self.randomizer),
            "guarantee": str(self.randomizer.guarantee),
            "shuffler": repr(self.shuffler),
            "estimators": list(self.estimators),
            "every": self.every,
            "window": self.window,
            **({"as_known_then": self.as_known_then} if TRACKED in self.estimators else {}),
            **({} if self.above is None else {"above": self.above}),
            **({} if self.labels is None else {"labels": repr(self.labels)}),
            **({} if self.promise is None else {"promise": repr(self.promise)}),
            **({} if self.turn is None else self.turn.described()),
        }


def named_estimators(
    estimator: str | Estimator | Sequence[str | Estimator],
) -> Mapping[str, Estimator]:
    """Return estimators by their names.

    Args:
        estimator: A name, a function, or several of them.

    Raises:
        ValueError: If no estimator is named, or a name is unknown.
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
