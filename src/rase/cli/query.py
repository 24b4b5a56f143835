"""``rase query``: ask a fusion centre for avg(t), Win(t, w), shares and differences."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.arguments import subscriber_options, token_of

if TYPE_CHECKING:
    from rase.answer import Answer

__all__ = ["command"]


_WORDS = ("campaign", "label", "category", "at", "from", "to")


def _part_options(asked: Callable[..., None]) -> Callable[..., None]:
    """Add which of a round's answers is asked for."""
    asked = click.option("--category", help="One state of a campaign of states.")(asked)
    return click.option("--label", help="One of the campaign's labels; all devices.")(asked)


@click.group("query", short_help="Ask a fusion centre for a mean, shares or a difference.")
def command() -> None:
    """Ask a fusion centre for a mean, shares or a difference."""


@command.command("avg")
@click.option("--at", help="A moment: RFC 3339 or milliseconds; the newest round if not given.")
@_part_options
@subscriber_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def avg(at: str | None, as_json: bool, **where: Any) -> None:
    """Ask for the mean of one round, or the share of a state.

    Example: rase query avg --at 2026-06-21T00:00:00Z
    """
    asked = {name: where.pop(name) for name in ("method", "label", "category")}
    with _client(**where) as client:
        _show(client.average(at, **asked), as_json=as_json)


@command.command("win")
@click.argument("w")
@click.option("--at", help="The last moment: RFC 3339 or milliseconds; the newest round.")
@click.option("--strict", is_flag=True, help="No mean for a window that lacks a round.")
@click.option("--timezone", help="W of 1d or 1w is a calendar day or week there: a zone name.")
@_part_options
@subscriber_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def win(
    w: str, at: str | None, *, strict: bool, timezone: str | None, as_json: bool, **where: Any
) -> None:
    """Ask for the mean over W, Win(t, w): a number of rounds, or a duration such as 24h.

    Where rounds of the window were withheld or are missing, the answer comes from the others, says
    so, and has a larger error. It needs three quarters of the rounds.

    Example: rase query win 1d --timezone Europe/Zurich
    """
    asked = {name: where.pop(name) for name in ("method", "label", "category")}
    with _client(**where) as client:
        _show(client.window(w, at, strict=strict, timezone=timezone, **asked), as_json=as_json)


@command.command("shares")
@click.option("--at", help="A moment: RFC 3339 or milliseconds; the newest round if not given.")
@click.option("--label", help="One of the campaign's labels; all devices.")
@click.option("--top", "count", type=click.IntRange(1, 64), default=3, help="How many to name.")
@click.option("--quantile", type=float, multiple=True, help="0.5 for the median; with bounds.")
@subscriber_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def shares(
    at: str | None,
    *,
    label: str | None,
    count: int,
    quantile: tuple[float, ...],
    as_json: bool,
    **where: Any,
) -> None:
    """Ask for the shares of all states in a round, each with its interval.

    The second interval of a state is one of a set that holds all shares at once.

    Example: rase query shares --label north
    """
    where.pop("method")
    with _client(**where) as client:
        found = client.shares(at, label=label, count=count, quantiles=quantile or (0.5,))
    if as_json:
        click.echo(json.dumps({"schema": "rase/shares/1", **asdict(found)}))
    found.shares[0].require()
    if as_json:
        return
    click.echo(f"{found.shares[0].time}  n = {found.shares[0].n}")
    for one in (*found.shares, *found.above):
        name = f"from {one.category}" if one.method != "shares" else one.category
        whole = found.simultaneous.get(str(one.category))
        more = "" if whole is None else f"  all at once: {whole[0]:.3f} to {whole[1]:.3f}"
        # As far as it can be one: the unbiased value, which may lie outside, is in --json.
        value = found.shown.get(str(one.category), one.value) if whole else one.value
        click.echo(f"{name:<24} {value:.3f}  {one.low:.3f} to {one.high:.3f}{more}")
    for quantile_ in found.quantiles:
        low = "any lower" if quantile_.low is None else f"{quantile_.low:g}"
        high = "any higher" if quantile_.high is None else f"{quantile_.high:g}"
        click.echo(f"{f'quantile {quantile_.share:g}':<24} {low} to {high}")
    names = [f"{name}{'' if is_sure else ' (not sure)'}" for name, is_sure in found.top.items()]
    click.echo(f"commonest: {', '.join(names)}")
    click.echo(f"{found.shares[0].promise} {found.shares[0].shuffle}.", err=True)


@command.command("difference")
@click.argument("first", metavar="FIRST")
@click.argument("second", metavar="SECOND")
@subscriber_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def difference(first: str, second: str, as_json: bool, **where: Any) -> None:
    """Ask how far FIRST differs from SECOND: labels, campaigns, periods or states.

    Each has words with commas between them, such as label=north, of campaign, label, category, at,
    from and to. SECOND says what is different about it. Where there is no time it is the newest
    round.

    Example: rase query difference label=north label=south
    """
    where.pop("method")
    sides = [_side(name, text) for name, text in (("FIRST", first), ("SECOND", second))]
    with _client(**where) as client:
        found = client.difference(*sides)
    if as_json:
        click.echo(json.dumps({"schema": "rase/difference/1", **asdict(found)}))
    for one in (found.first, found.second):
        one.require()
    if as_json:
        return
    click.echo(f"first   {found.first}")
    click.echo(f"second  {found.second}")
    click.echo(f"less    {found}")
    click.echo(f"both together: {found.local_epsilon:g}-LDP for a device.", err=True)


def _side(name: str, text: str) -> dict[str, str]:
    """Return the words of one side of a difference."""
    found = {}
    for item in text.split(","):
        word, equals, value = item.partition("=")
        if not equals or word not in _WORDS or not value:
            raise click.UsageError(
                f"{name} must be a list such as label=north, of {', '.join(_WORDS)}; got {item!r}."
            )
        found[{"from": "start", "to": "end"}.get(word, word)] = value
    return found


def _client(*, url: str, token_file: Path | None, campaign: str | None) -> Any:
    from rase.subscriber.client import Subscriber

    return Subscriber(url, token_of(token_file), campaign=campaign)


def _show(mean: "Answer", *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"schema": "rase/answer/2", **mean.as_fields()}))
        mean.require()
        return
    mean.require()
    when = mean.time if mean.of_rounds == 1 else f"{mean.time} to {mean.until}"
    click.echo(f"{when}  {mean}")
    click.echo(f"{mean.promise} {mean.shuffle}.", err=True)
    if mean.verdict:
        click.echo(f"verdict: {mean.verdict}.", err=True)
