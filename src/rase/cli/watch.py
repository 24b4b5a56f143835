"""``rase watch``: see rounds as they become final; lines where nobody looks."""

import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from rase.cli.query import subscriber_options, token_of

if TYPE_CHECKING:
    from rase.subscriber.answers import Mean

__all__ = ["command"]

_HEIGHT = 12
_WIDTH = 40


@click.command("watch", short_help="See estimates as they come.")
@subscriber_options
@click.option("--rounds", type=click.IntRange(min=1), help="End after so many rounds.")
@click.option("--last-id", help="Resume after this event of the stream.")
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    help="Give up after connecting so often in vain; for ever if not given.",
)
def command(
    *,
    url: str,
    token_file: Path | None,
    campaign: str | None,
    method: str | None,
    rounds: int | None,
    last_id: str | None,
    attempts: int | None,
) -> None:
    """See estimates as they come.

    Broken connections are resumed without a gap. At a terminal the last rounds are drawn with
    their intervals; otherwise each is one line.
    """
    from rase.subscriber.client import Subscriber

    with Subscriber(url, token_of(token_file), campaign=campaign) as client:
        watch(
            client.follow(
                last_id=last_id, method=method, attempts=attempts, on_failure=_tell_failure
            ),
            sys.stdout,
            rounds=rounds,
        )


def _tell_failure(why: str) -> None:
    click.echo(f"{why} Trying again; Ctrl-C ends it.", err=True)


def watch(means: "Iterator[Mean]", stream: TextIO, *, rounds: int | None = None) -> None:
    """Show means as they come.

    Args:
        means: The stream.
        stream: Where to show them; a terminal is drawn on.
        rounds: How many to show; None for all.
    """
    is_drawn = stream.isatty()
    kept: deque[Mean] = deque(maxlen=_HEIGHT)
    drawn = 0
    for number, mean in enumerate(means, start=1):
        kept.append(mean)
        if is_drawn:
            lines = picture(list(kept))
            # Up over what was drawn before, and away with it.
            stream.write((f"\x1b[{drawn}F\x1b[J" if drawn else "") + "\n".join(lines) + "\n")
            drawn = len(lines)
        else:
            stream.write(f"{mean.time}  round {mean.round}  {mean}\n")
        stream.flush()
        if number == rounds:
            return


def picture(means: "list[Mean]") -> list[str]:
    """Return the lines of a picture: a bar for each interval, a point for each mean."""
    low = min((one.ci_low for one in means if one.ci_low is not None), default=0.0)
    high = max((one.ci_high for one in means if one.ci_high is not None), default=1.0)
    width = (high - low) or 1.0
    lines = []
    for one in means:
        bar = [" "] * (_WIDTH + 1)
        if one.mean is not None and one.ci_low is not None and one.ci_high is not None:
            begin, middle, end = (
                round(_WIDTH * (value - low) / width)
                for value in (one.ci_low, one.mean, one.ci_high)
            )
            bar[begin : end + 1] = "-" * (end + 1 - begin)
            bar[middle] = "o"
        lines.append(f"{one.time}  |{''.join(bar)}|  {one}")
    last = means[-1]
    lines.append(f"{last.campaign}: {last.guarantee}")
    return lines
