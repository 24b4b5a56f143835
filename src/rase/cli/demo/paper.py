"""``rase demo --paper``: the setting of the paper through the live system, round after round.

Devices run BR with the precision (beta, rho) that the fusion centre asks for, the shuffler runs the
robust shuffle over public groups, the fusion centre the paper's three estimators, and half of the
way it answers with feedback: a new version of the campaign with another precision. Everything goes
over HTTP through the servers that every other campaign uses.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from rase.answer import Answer
from rase.campaign import Campaign, ShufflePlan
from rase.cli.demo.gateway import Task
from rase.cli.demo.live import FIRST_ROUND, HOURS, LiveSystem
from rase.domain import Precision

__all__ = [
    "ESTIMATORS",
    "PaperDemo",
    "PaperRound",
    "PaperSetting",
    "line_of_round",
    "lines_of",
    "opening_of",
    "paper_document",
]

ESTIMATORS: Final = ("sample_mean", "median", "bootstrap_mean")
# A round is closed in the hour after it; devices go by a new version from the next hour on.
_AHEAD: Final = 2
_MET: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class PaperSetting:
    """Say what is demonstrated; alpha, beta and rho are those of the paper's experiments.

    Args:
        homes: How many homes; each reports in every round.
        days: How many days, a round each hour.
        high_w: The largest power that a home reports.
        epsilon: The budget of a report.
        precision: What the fusion centre asks for at first.
        alpha: The privacy loss that the shuffle is allowed.
        groups: How many public groups of homes there are.
        world: The seed of the homes' lives, which is no secret.

    Raises:
        ValueError: If there are too few homes or days.
    """

    homes: int = 400
    days: int = 1
    high_w: float = 1500.0
    epsilon: float = 3.0
    precision: Precision = Precision(beta=0.5, rho=0.9)  # noqa: RUF009 - immutable
    alpha: float = 30.0
    groups: int = 8
    world: int = 1

    def __post_init__(self) -> None:
        """Check the numbers once."""
        for name, least in (("homes", 2 * self.groups), ("days", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")

    def campaign(self) -> Campaign:
        """Return what the homes agree to."""
        groups = tuple(f"street-{number}" for number in range(1, self.groups + 1))
        return Campaign(
            id="paper-homes",
            version=1,
            quantity="mean power of a home in an hour",
            unit="W",
            low=0,
            high=self.high_w,
            mechanism="budget-aware",
            beta=self.precision.beta,
            rho=self.precision.rho,
            epsilon=(self.epsilon,),
            window=HOURS,
            window_budget=HOURS * self.epsilon,
            round_s=3600,
            upload_s=300,
            grace_s=600,
            k_min=max(2, self.homes // 2),
            shuffle=ShufflePlan("robust", self.alpha, groups),
            estimators=ESTIMATORS,
            not_before=FIRST_ROUND,
            not_after=FIRST_ROUND + HOURS * self.days - 1,
        )

    def task(self, seed: int | None) -> Task:
        """Return what the fleet does."""
        return Task(
            homes=self.homes,
            days=self.days,
            world=self.world,
            shift=(0, 1.0),
            mishaps={},
            seed=seed,
            every_round=True,
        )


@dataclass(frozen=True, slots=True)
class PaperRound:
    """One round as a subscriber sees it, and what only a made-up fleet can add.

    Args:
        answers: What the fusion centre answered, by estimator.
        truth: What each of them would be without noise.
        precision: What the fusion centre asked for.
        is_clamping: Whether the budget is too small for it, so that BR clamped.
    """

    answers: dict[str, Answer]
    truth: dict[str, float]
    precision: Precision
    is_clamping: bool


class PaperDemo(LiveSystem):
    """Run the live system in the paper's setting."""

    setting: PaperSetting

    def run(self) -> Iterator[PaperRound]:
        """Live through the rounds; yield each as soon as a subscriber can ask for it."""
        versions = [self.campaign]
        for hour in range(self.rounds):
            round = self.live_through(hour)
            if hour == self.rounds // 2 - _AHEAD:
                versions.append(self.feedback(first=round + _AHEAD))
                self.servers.publish(versions[-1])
            held = max(
                (one for one in versions if one.not_before <= round), key=lambda one: one.version
            )
            sent = self._sent[-1]
            yield PaperRound(
                answers={name: self.answer(round, method=name) for name in ESTIMATORS},
                truth=dict.fromkeys(ESTIMATORS, sent.truth) | {"median": sent.true_median},
                precision=held.precision,
                is_clamping=self.setting.epsilon < held.precision.epsilon_bound(held.domain),
            )

    def feedback(self, *, first: int) -> Campaign:
        """Return the version that asks for what the budget can meet: the least beta (Lemma 1).

        With the printed bound, epsilon* = -width ln(1 - rho) / (beta x_max). As long as the budget
        is below it BR clamps, which pulls every mean to the middle of the range.
        """
        campaign = self.campaign
        met = campaign.precision.epsilon_bound(campaign.domain) / self.setting.epsilon
        beta = campaign.beta * max(met, 1.0) * (1 + _MET)
        return replace(campaign, version=campaign.version + 1, beta=beta, not_before=first)


def opening_of(setting: PaperSetting) -> str:
    """Return what there is to know before the first round."""
    asked = setting.precision
    return (
        f"{setting.homes:,} made-up homes in {setting.groups} groups report every hour, as in the "
        f"paper: BR with epsilon {setting.epsilon:g} and (beta, rho) = ({asked.beta:g}, "
        f"{asked.rho:g}), robust shuffle with alpha {setting.alpha:g}, three estimators of the "
        "noisy reports. Only the clock is made up."
    )


def lines_of(setting: PaperSetting, rounds: list[PaperRound]) -> Iterator[str]:
    """Yield the result: how far off each estimator was, before and after the feedback."""
    for is_clamping in (True, False):
        half = [one for one in rounds if one.is_clamping == is_clamping]
        if half:
            errors = ", ".join(f"{name} {_rmse(half, name):.1f} W" for name in ESTIMATORS)
            asked = half[0].precision
            yield (
                f"{'Clamped' if is_clamping else 'Unclamped'} by BR, (beta, rho) = "
                f"({asked.beta:.3g}, {asked.rho:g}), {len(half)} rounds: off by {errors}."
            )
    yield f"Shuffle   {_shuffle_of(rounds)}"
    if all(one.is_clamping == rounds[0].is_clamping for one in rounds):
        yield "Feedback  none yet: it comes half of the way."
    total = setting.epsilon * min(HOURS, len(rounds))
    yield (
        f"Privacy   epsilon {setting.epsilon:g} a report, whoever looks; {total:g} for all reports "
        "of a home in a day. No promise of shuffling is added: see rase demo without --paper."
    )


def paper_document(setting: PaperSetting, rounds: list[PaperRound]) -> dict[str, Any]:
    """Return the demonstration as plain values."""
    return {
        "schema": "rase.demo-paper/1",
        "homes": setting.homes,
        "days": setting.days,
        "epsilon": setting.epsilon,
        "alpha": setting.alpha,
        "groups": setting.groups,
        "rounds": [
            {
                "beta": one.precision.beta,
                "rho": one.precision.rho,
                "clamps": one.is_clamping,
                "estimates": {
                    name: {**answer.as_fields(), "truth": one.truth[name]}
                    for name, answer in one.answers.items()
                },
            }
            for one in rounds
        ],
        "error": {
            state: {name: _rmse(half, name) for name in ESTIMATORS} if half else None
            for state, half in (
                ("clamping", [one for one in rounds if one.is_clamping]),
                ("not_clamping", [one for one in rounds if not one.is_clamping]),
            )
        },
    }


def line_of_round(one: PaperRound) -> str:
    """Return the line of a round: what was answered, and what is true."""
    first = one.answers[ESTIMATORS[0]]
    shown = "   ".join(
        f"{name} {_or_none(one.answers[name])} (true {one.truth[name]:.1f})" for name in ESTIMATORS
    )
    return f"{first.time[11:16]}  {shown}   n {first.n}"


def _or_none(answer: Answer) -> str:
    return "withheld" if answer.value is None else f"{answer.value:.1f}"


def _rmse(rounds: list[PaperRound], name: str) -> float:
    errors = [
        one.answers[name].value - one.truth[name]  # type: ignore[operator]
        for one in rounds
        if one.answers[name].value is not None
    ]
    return math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else math.nan


def _shuffle_of(rounds: list[PaperRound]) -> str:
    words = [one.answers[ESTIMATORS[0]].shuffle for one in rounds]
    return max(set(words), key=words.count) if words else "no round was closed"
