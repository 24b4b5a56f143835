"""The guided part of ``rase init``: what it asks, and how long it advises rounds to be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from rase.accounting.plan.learnable import ROUGH, USEFUL

if TYPE_CHECKING:
    from rase.campaign import Campaign

__all__ = ["advised_campaign", "ask_missing"]

# What a report may give away to the fusion centre, by what people call it.
_PRIVACY: Final = {"strong": 0.5, "normal": 1.0, "weak": 2.0}
# Lengths of rounds to choose from, the finest first.
_ROUNDS: Final = (("1h", "an hour"), ("1d", "a day"))


def ask_missing(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options, with those that were asked for where no range was given.

    Raises:
        click.UsageError: If nobody is there to be asked.
    """
    if options["value_range"] is not None or options["categories"] or options["bounds"]:
        return options
    if not sys.stdin.isatty():
        raise click.UsageError(
            "--range must be given, as must --devices for good advice; on a terminal `rase init` "
            "asks for all of it."
        )
    answers = dict(options)
    answers["quantity"] = click.prompt("What do devices measure", default="power")
    answers["unit"] = click.prompt("In which unit", default="W")
    click.echo("Readings outside the range are clipped to it; half as wide is half the error.")
    low = click.prompt("Lowest reading that counts", type=float, default=0.0)
    high = click.prompt("Highest reading that counts", type=float)
    answers["value_range"] = (low, high)
    if options["devices"] is None:
        answers["devices"] = click.prompt("How many devices will report", type=click.IntRange(2))
    if not options["epsilon"] and options["shuffled_epsilon"] is None:
        words = ", ".join(f"{name} (epsilon {value:g})" for name, value in _PRIVACY.items())
        click.echo(f"Towards the server that averages, a report may be {words}.")
        how = click.prompt("How private", type=click.Choice(list(_PRIVACY)), default="normal")
        answers["shuffled_epsilon"] = _PRIVACY[how]
    return answers


def advised_campaign(
    options: dict[str, Any], make: Callable[[dict[str, Any]], Campaign]
) -> Campaign:
    """Return the campaign; where no length of rounds was given, with the finest that is of use.

    Args:
        options: What was asked.
        make: Makes a campaign of options.
    """
    if options["round_"] is not None or options["devices"] is None:
        return make({**options, "round_": options["round_"] or _ROUNDS[0][0]})
    found: list[tuple[Campaign, float]] = []
    for length, words in _ROUNDS:
        campaign = make({**options, "round_": length})
        turns = campaign.window if options["schedule"] == "rotate" else 1
        if campaign.k_min * turns > options["devices"]:
            click.echo(
                f"With rounds of {words} fewer than {campaign.k_min} devices (k_min) report in "
                "one, so none is released.",
                err=True,
            )
            continue
        share = _share_of(campaign)
        found.append((campaign, share))
        error = f"{share * campaign.domain.width:.3g} {campaign.unit}".strip()
        if campaign.states is not None:
            click.echo(
                f"With rounds of {words} a share of one has a standard error of {100 * share:.2g} "
                "points of a per cent.",
                err=True,
            )
        else:
            click.echo(
                f"With rounds of {words} the mean of one has a standard error of "
                f"{100 * share:.2g} % of the range at most, {error}.",
                err=True,
            )
        if share <= ROUGH:
            break
    if not found:
        raise click.UsageError(
            f"--k-min must be at most what reports in a round of {options['devices']} devices, or "
            "no round is ever released: lower it or --window, or take --schedule every-round."
        )
    campaign, share = min(found, key=lambda one: one[1])
    if share > USEFUL:
        roughly = "is rough" if share <= ROUGH else "says hardly anything"
        click.echo(
            f"That {roughly}: {options['devices']} devices hide each other too little. `rase plan "
            f"--devices {options['devices']}` shows what such a fleet can learn over weeks and "
            "months.",
            err=True,
        )
    return campaign


def _share_of(campaign: Campaign) -> float:
    """Return the largest standard error of a round's mean, as a share of the range."""
    from rase.fusion.mechanism import effect_of

    *_, effect = effect_of(campaign, campaign.k_min)
    width = 1.0 if campaign.states is not None else campaign.domain.width
    return effect.standard_error / width
