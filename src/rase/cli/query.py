"""``rase query``: ask a fusion centre for avg(t) and Win(t, w)."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.arguments import subscriber_options, token_of

if TYPE_CHECKING:
    from rase.answer import Answer

__all__ = ["command"]


@click.group("query", short_help="Ask a fusion centre for a mean.")
def command() -> None:
    """Ask a fusion centre for a mean."""


@command.command("avg")
@click.option("--at", help="A moment: RFC 3339 or milliseconds; the newest round if not given.")
@subscriber_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def avg(at: str | None, as_json: bool, **where: Any) -> None:
    """Ask for the mean of one round.

    Example: rase query avg --at 2026-06-21T00:00:00Z
    """
    method = where.pop("method")
    with _client(**where) as client:
        _show(client.average(at, method=method), as_json=as_json)


@command.command("win")
@click.argument("w")
@click.option("--at", help="The last moment: RFC 3339 or milliseconds; the newest round.")
@click.option("--strict", is_flag=True, help="No mean for a window that lacks a round.")
@subscriber_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def win(w: str, at: str | None, *, strict: bool, as_json: bool, **where: Any) -> None:
    """Ask for the mean over W, Win(t, w): a number of rounds, or a duration such as 24h.

    Where rounds of the window were withheld or are missing, the answer comes from the others, says
    so, and has a larger error. It needs three quarters of the rounds.
    """
    method = where.pop("method")
    with _client(**where) as client:
        _show(client.window(w, at, method=method, strict=strict), as_json=as_json)


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
