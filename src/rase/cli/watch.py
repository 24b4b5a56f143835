"""``rase watch``: see rounds as they become final; lines where nobody looks."""

import math
import shutil
import sys
import textwrap
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from rase.cli.arguments import subscriber_options, token_of

if TYPE_CHECKING:
    from rase.answer import Answer

__all__ = ["command"]

_HEIGHT = 12
_WIDEST_BAR = 60
_LEAST_BAR = 12


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
                last_id=last_id, method=method, attempts=attempts, on_failure=_print_failure
            ),
            sys.stdout,
            rounds=rounds,
        )


def _print_failure(why: str) -> None:
    click.echo(f"{why} Trying again; Ctrl-C ends it.", err=True)


def watch(means: "Iterator[Answer]", stream: TextIO, *, rounds: int | None = None) -> None:
    """Show means as they come.

    Args:
        means: The stream.
        stream: Where to show them; a terminal is drawn on.
        rounds: How many to show; None for all.
    """
    is_drawn = stream.isatty()
    kept: deque[Answer] = deque(maxlen=_HEIGHT)
    drawn: list[str] = []
    for number, mean in enumerate(means, start=1):
        kept.append(mean)
        if is_drawn:
            columns = shutil.get_terminal_size().columns
            # Up over what was drawn before, and away with it. A terminal that has become narrower
            # meanwhile has broken its lines.
            rows = sum(max(math.ceil(len(line) / columns), 1) for line in drawn)
            drawn = picture(list(kept), columns)
            stream.write((f"\x1b[{rows}F\x1b[J" if rows else "") + "\n".join(drawn) + "\n")
        else:
            stream.write(f"{mean.time}  round {mean.round}  {mean}\n")
        stream.flush()
        if number == rounds:
            return


def picture(means: "list[Answer]", columns: int = 80) -> list[str]:
    """Return the lines of a picture: a bar for each interval, a point for each mean.

    Args:
        means: The rounds, oldest first.
        columns: The width of the terminal; no line is as wide, so that none is broken.
    """
    room = columns - 1
    times = [_time(one) for one in means]
    texts = [str(one) for one in means]
    bar = room - len("  ||  ") - len(times[0]) - max(map(len, texts))
    if bar < _LEAST_BAR:
        # The interval is in the bar; the mean and its error are worth more than digits of its ends.
        texts = [text.partition(" (")[0] for text in texts]
        bar = room - len("  ||  ") - len(times[0]) - max(map(len, texts))
    bars = [""] * len(means)
    if bar >= _LEAST_BAR:
        bars = [f"|{drawn}|  " for drawn in _bars(means, min(bar, _WIDEST_BAR))]
    lines = [
        f"{time}  {drawn}{text}"[:room]
        for time, drawn, text in zip(times, bars, texts, strict=True)
    ]
    last = means[-1]
    return lines + textwrap.wrap(f"{last.campaign}: {last.promise}", max(room, 1))


def _bars(means: "list[Answer]", width: int) -> list[str]:
    low = min((one.low for one in means if one.low is not None), default=0.0)
    high = max((one.high for one in means if one.high is not None), default=1.0)
    reach = (high - low) or 1.0
    bars = []
    for one in means:
        bar = [" "] * width
        if one.value is not None and one.low is not None and one.high is not None:
            begin, middle, end = (
                min(max(round((width - 1) * (value - low) / reach), 0), width - 1)
                for value in (one.low, one.value, one.high)
            )
            bar[begin : end + 1] = "-" * (end + 1 - begin)
            bar[middle] = "o"
        bars.append("".join(bar))
    return bars


def _time(one: "Answer") -> str:
    """Return when a round began, without the year: ``06-21 01:00:00Z``."""
    return one.time[5:].replace("T", " ")
