"""``rase plan --categories``: how exact shares of states will be, and what a report gives away."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import click

from rase.accounting.accountant.calibrate import calibrate
from rase.accounting.accountant.claims import claims
from rase.accounting.campaign_claims import DEFAULT_DELTA
from rase.domain import Categories
from rase.laws.registry import auto
from rase.laws.response import share_deviation
from rase.privacy import rounded_up

__all__ = ["SharePlan", "plan_shares", "show_shares"]

_LEVEL = 0.95
# A round that is enforced is smaller than all devices: some are away.
_OF_DEVICES = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePlan:
    """Say what a round of shares will be like.

    Args:
        categories: The names of the states.
        devices: How many devices report.
        k_min: The fewest that are released together, for which the promise holds.
        mechanism: The law that devices draw.
        epsilon: The epsilon of a report, towards everybody.
        shuffled_epsilon: The same towards the fusion centre, who sees it shuffled.
        delta: The delta that belongs to it.
        standard_error: The standard error of a share, by the noise alone; the root of the mean of
            its square over all states.
        single: How far the 95 % interval of a share reaches.
        simultaneous: The same for intervals that hold all shares at once.
    """

    categories: tuple[str, ...]
    devices: int
    k_min: int
    mechanism: str
    epsilon: float
    shuffled_epsilon: float
    delta: float
    standard_error: float
    single: float
    simultaneous: float


def plan_shares(text: str, devices: int | None, asked: Mapping[str, Any]) -> SharePlan:
    """Return the plan of a round.

    Args:
        text: The states, with commas between them.
        devices: How many devices report.
        asked: ``epsilon``, ``shuffled_epsilon``, ``delta``, ``k_min``, ``colluding`` and
            ``max_local_epsilon``, as they were typed.

    Raises:
        click.UsageError: If devices or a budget is missing, or both budgets are given.
        PrivacyRefused: If no report keeps the promise.
        ValueError: If the states are none.
    """
    names = tuple(name.strip() for name in text.split(","))
    states = Categories(names)
    if devices is None:
        raise click.UsageError("--categories needs --devices: how many report.")
    if (asked["epsilon"] is None) == (asked["shuffled_epsilon"] is None):
        raise click.UsageError("--categories needs one of --epsilon and --shuffled-epsilon.")
    delta = DEFAULT_DELTA if asked["delta"] is None else asked["delta"]
    k_min = asked["k_min"] or max(2, math.floor(_OF_DEVICES * devices))
    if k_min > devices:
        raise click.UsageError(f"--k-min must be at most --devices, {devices}, got {k_min}.")
    honest = k_min - (asked["colluding"] or 0)
    if asked["epsilon"] is not None:
        law = auto(asked["epsilon"], states)
    else:
        law = calibrate(
            states,
            shuffled_epsilon=asked["shuffled_epsilon"],
            delta=delta,
            n=honest,
            max_local_epsilon=asked["max_local_epsilon"],
        )
    (claim,) = claims(law, honest, delta=delta, reports=[1])
    error = share_deviation(law) / math.sqrt(devices)
    each = 1 - (1 - _LEVEL) / len(names)
    reaches = [NormalDist().inv_cdf((1 + level) / 2) * error for level in (_LEVEL, each)]
    return SharePlan(
        categories=names,
        devices=devices,
        k_min=k_min,
        mechanism=law.name,
        epsilon=law.budgets[0],
        shuffled_epsilon=min(rounded_up(claim.epsilon, 4), law.budgets[0]),
        delta=delta,
        standard_error=error,
        single=reaches[0],
        simultaneous=reaches[1],
    )


def show_shares(plan: SharePlan, *, as_json: bool) -> None:
    """Print a plan."""
    if as_json:
        click.echo(json.dumps({"schema": "rase/share-plan/1", **asdict(plan)}))
        return
    click.echo(
        f"{len(plan.categories)} states, {plan.devices} devices: a share is known to "
        f"± {100 * plan.single:.2g} points of a per cent (95 %), all at once to "
        f"± {100 * plan.simultaneous:.2g}; standard error {100 * plan.standard_error:.3g}."
    )
    click.echo(
        f"mechanism {plan.mechanism}, epsilon {plan.epsilon:.4g} a report if both servers work "
        f"together; towards the fusion centre ({plan.shuffled_epsilon:.4g}, {plan.delta:g}) in "
        f"rounds of at least {plan.k_min}."
    )
