"""``rase demo``: a fleet large enough to be seen through the whole system, with a picture."""

import json
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from rase.answer import without_infinities
from rase.atomic_files import replacing
from rase.cli.arguments import usage
from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from rase.cli.demo.live import LiveDemo, LiveRound, LiveSummary, Setting
    from rase.lab.figures import Curve

__all__ = ["command", "document_of", "line_of", "opening_words", "summary_words"]

_HOMES: Final = 30_000
_DAYS: Final = 2
_HIGH_W: Final = 1500.0
_EPSILON: Final = 0.9
_LARGE: Final = {"homes": 40_000, "days": 3, "high_w": 1500.0, "shuffled_epsilon": 0.98}
_SMALL_HOMES: Final = 64
_SUNDAY: Final = 6
_SEEDED: Final = "Seeded noise: for study only, protects nobody."
_BAR: Final = 24
_SEEN: Final = "          {:<15} {:<12} {:<32} {}"


@click.command("demo", short_help="Watch a made-up fleet go through the whole system.")
@click.option("--homes", type=int, help=f"Homes ({_HOMES:,}).")
@click.option("--days", type=int, help=f"Days, a round each hour ({_DAYS}).")
@click.option(
    "--shuffled-epsilon",
    type=float,
    help=f"What a report may give away towards the fusion centre ({_EPSILON:g}).",
)
@click.option("--large", is_flag=True, help="40,000 homes, three days, 0 to 1500 W.")
@click.option("--paper", is_flag=True, help="The paper's setting: BR, robust shuffle, feedback.")
@click.option("--seed", type=int, help="Reproducible noise that protects nobody; for study.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("rase-demo.png"),
    show_default=True,
    help="The picture.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    *,
    homes: int | None,
    days: int | None,
    shuffled_epsilon: float | None,
    large: bool,
    paper: bool,
    seed: int | None,
    out: Path,
    as_json: bool,
) -> None:
    """Watch a made-up fleet go through the whole system.

    Thousands of made-up homes report their mean power, one report a home a day. Each report is made
    noisy and sealed at home, each hour is shuffled and averaged by the real servers, over HTTP on
    this machine alone and with a clock that does not wait. The truth is shown next to the
    estimates; nobody in the system ever sees it.

    The picture shows both, and below it what 64 homes would see under the same promise.

    With --paper 400 homes report every hour as in the paper: BR with (beta, rho), public groups,
    the robust shuffle, its three estimators, and feedback that changes (beta, rho) half of the way.
    There is no picture then.
    """
    try:
        from rase.cli.demo.live import LiveDemo, Setting
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            [f'the demonstration needs {error.name}: pip install "rase-iot[service]".']
        ) from None
    if paper:
        if large or shuffled_epsilon is not None:
            raise click.UsageError("--paper has no --large and no --shuffled-epsilon.")
        _show_paper(homes, days, seed, as_json=as_json)
        return
    chosen = _LARGE if large else {"homes": _HOMES, "days": _DAYS, "high_w": _HIGH_W}
    with usage():
        if out.is_dir() or not out.parent.is_dir():
            raise click.BadParameter(f"--out must be a file in a folder that exists, got {out}.")
        setting = Setting(
            homes=int(chosen["homes"] if homes is None else homes),
            days=int(chosen["days"] if days is None else days),
            high_w=chosen["high_w"],
            shuffled_epsilon=chosen.get("shuffled_epsilon", _EPSILON)
            if shuffled_epsilon is None
            else shuffled_epsilon,
        )
        demo = LiveDemo(setting, seed=seed)
    with ExitStack() as running:
        with _gentle_interrupts() as is_interrupted:
            if not as_json:
                click.echo("Starting both servers and the homes …", err=True)
            running.enter_context(demo)
            rounds = _watch(demo, is_interrupted, as_json=as_json)
        document = _sum_up(demo, rounds, as_json=as_json)
        small = _small_fleet(setting, seed)
        picture = _draw(demo, rounds, small, out)
        if as_json:
            click.echo(json.dumps({**document, "picture": picture and str(picture)}, indent=2))
        else:
            for line in _closing_words(small, picture, is_seeded=seed is not None):
                click.echo(line, err=True)
            if sys.stdout.isatty():
                _keep_serving(demo)


def _show_paper(homes: int | None, days: int | None, seed: int | None, *, as_json: bool) -> None:
    """Run the paper's setting: a line a round, then how far off each estimator was."""
    from rase.cli.demo.paper import (
        PaperDemo,
        PaperSetting,
        line_of_round,
        lines_of,
        opening_of,
        paper_document,
    )

    with usage():
        setting = PaperSetting()
        setting = replace(
            setting,
            homes=setting.homes if homes is None else homes,
            days=setting.days if days is None else days,
        )
        demo = PaperDemo(setting, seed=seed)
    rounds = []
    with demo, _gentle_interrupts() as is_interrupted:
        if not as_json:
            click.echo(opening_of(setting), err=True)
        for one in demo.run():
            rounds.append(one)
            if not as_json:
                click.echo(line_of_round(one))
            if is_interrupted():
                break
    if as_json:
        click.echo(json.dumps(paper_document(setting, rounds), indent=2))
    else:
        for line in lines_of(setting, rounds):
            click.echo(line, err=True)
        if seed is not None:
            click.echo(_SEEDED, err=True)
    if len(rounds) < demo.rounds:
        raise KeyboardInterrupt


def _watch(
    demo: "LiveDemo", is_interrupted: Callable[[], bool], *, as_json: bool
) -> "list[LiveRound]":
    """Show the hours as they come, until the last one or Ctrl-C."""
    seen: list[LiveRound] = []
    if not as_json:
        for line in opening_words(demo):
            click.echo(line, err=True)
    for one in demo.run():
        seen.append(one)
        if not as_json:
            if one.note:
                click.echo(f"           {one.note}", err=True)
            click.echo(line_of(one, high=demo.campaign.high / 2))
        if is_interrupted():
            # What was seen until now stays true.
            _sum_up(demo, seen, as_json=as_json)
            raise KeyboardInterrupt
    return seen


def _sum_up(demo: "LiveDemo", rounds: "list[LiveRound]", *, as_json: bool) -> dict[str, Any]:
    summary = demo.summary()
    if not as_json:
        for line in summary_words(demo, summary):
            click.echo(line, err=True)
    return document_of(demo, rounds, summary)


def _small_fleet(setting: "Setting", seed: int | None) -> "Curve":
    """Return what a few homes would see: all report every hour, each time under the promise."""
    from rase.accounting.accountant.calibrate import calibrate
    from rase.domain import Range
    from rase.kernels.words import SeededRandom
    from rase.lab.figures import Curve
    from rase.lab.homes import Homes
    from rase.tables.aggregate import run_round

    law = calibrate(
        Range(0, setting.high_w),
        shuffled_epsilon=setting.shuffled_epsilon,
        delta=setting.delta,
        n=_SMALL_HOMES,
    )
    hours = Homes(homes=_SMALL_HOMES, days=setting.days, seed=setting.world).power_w
    rng = None if seed is None else SeededRandom(seed)
    estimates = [
        run_round(hour, randomizer=law, estimator="unbiased_mean", rng=rng).estimate
        for hour in hours
    ]
    ends = [one.interval() for one in estimates]
    half = sum(high - low for low, high in ends) / (2 * len(ends))
    return Curve(
        title=f"{_SMALL_HOMES} homes under the same promise, though all report every hour and not "
        f"once a day: ± {half:.0f} W",
        truth=hours.mean(axis=1).tolist(),
        value=[one.value for one in estimates],
        low=[low for low, _ in ends],
        high=[high for _, high in ends],
    )


def _draw(
    demo: "LiveDemo", rounds: "Sequence[LiveRound]", small: "Curve", out: Path
) -> Path | None:
    from rase.lab.figures import Curve, draw_curves

    setting, answers = demo.setting, [one.answer for one in rounds]
    halves = [
        (one.high - one.low) / 2 for one in answers if one.high is not None and one.low is not None
    ]
    half = sum(halves) / max(len(halves), 1)
    large = Curve(
        title=f"{setting.homes:,} homes, one report each a day: ± {half:.0f} W",
        truth=[one.truth for one in rounds],
        value=[one.value for one in answers],
        low=[one.low for one in answers],
        high=[one.high for one in answers],
    )
    title = (
        f"Epsilon {setting.shuffled_epsilon:g} a day towards the fusion centre, "
        f"{demo.campaign.epsilon[0]:.3g} if both servers work together"
    )
    try:
        with replacing(out) as file:
            draw_curves([large, small], file, title=title, first_day=_SUNDAY)
    except ModuleNotFoundError:
        return None
    return out


def _closing_words(small: "Curve", picture: Path | None, *, is_seeded: bool) -> Iterator[str]:
    yield f"Small     {small.title}: the curve cannot be seen."
    if picture is None:
        yield 'Picture   none: pip install "rase-iot[plot]" draws it.'
    else:
        yield f"Picture   {picture}"
    if is_seeded:
        yield _SEEDED


def _keep_serving(demo: "LiveDemo") -> None:
    """Leave the pages open until somebody has seen enough."""
    if demo.servers.login_url is None:
        return
    click.echo(
        f"Dashboard {demo.servers.login_url()} is still served, on this machine alone; "
        "Ctrl-C ends it.",
        err=True,
    )
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        click.echo("", err=True)


@contextmanager
def _gentle_interrupts() -> Iterator[Callable[[], bool]]:
    """Note the first Ctrl-C for the end of an hour; a second one interrupts at once.

    Servers run in threads: an interrupt in the middle of a step could leave them locked.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)


def opening_words(demo: "LiveDemo") -> Iterator[str]:
    """Yield what there is to know before the first hour."""
    setting, campaign, servers = demo.setting, demo.campaign, demo.servers
    yield (
        f"{setting.homes:,} made-up homes report their power for "
        f"{_count_in_words(setting.days, 'day')}: "
        "one report a home a day, made noisy and sealed at home, shuffled, then averaged."
    )
    yield (
        f"Both servers run on this machine alone: shuffler {servers.shuffler_url}, fusion centre "
        f"{servers.fusion_url}. An hour with fewer than {campaign.k_min:,} reports is withheld. "
        "Only the clock is made up: it does not wait. Ctrl-C ends it."
    )
    if servers.login_url is not None:
        yield f"Dashboard: {servers.login_url()} (opens once)"
    yield ""


def line_of(one: "LiveRound", *, high: float) -> str:
    """Return the line of an hour; its bar ends at ``high``."""
    answer = one.answer
    hour = datetime.fromisoformat(answer.time).astimezone(UTC).strftime("%a %H:%M")
    true = f"true {one.truth:4.0f} W"
    if answer.value is None:
        return f"{hour}   withheld           {true}"
    half = ((answer.high or 0.0) - (answer.low or 0.0)) / 2
    bar = "█" * round(_BAR * min(answer.value / high, 1.0))
    return f"{hour}   {answer.value:4.0f} W ± {half:3.0f} W   {true}   {answer.n:6,} homes  {bar}"


def summary_words(demo: "LiveDemo", summary: "LiveSummary") -> Iterator[str]:
    """Yield what became of all hours."""
    yield ""
    if summary.released:
        known = [one for one in summary.correlations if not math.isnan(one)]
        correlations = ", ".join(f"{one:.3f}" for one in known)
        followed = (
            f" Correlation with the truth, day by day: {correlations}." if correlations else ""
        )
        yield (
            f"Result    Estimates of {_count_in_words(summary.released, 'hour')}, off by "
            f"{summary.rmse:.1f} W (root mean square).{followed}"
        )
        yield (
            f"          Each says how sure it is: ± {summary.half_width:.0f} W on average, and "
            f"{summary.covered} of {summary.released} intervals hold the truth (95 % should)."
        )
    for answer, truth in summary.days:
        yield f"Day       {answer.time[:10]}: {answer}; true {truth:.1f} W"
    yield f"Reports   {_report_words(summary)}"
    yield f"Privacy   {demo.setting.claim(1).sentence('day')}"
    days = demo.setting.days
    if days > 1:
        yield f"          {demo.setting.claim(days).sentence(f'period of {days} days')}"
    yield "Who saw   who, what, and what is left at the end:"
    for line in _who_saw_what(summary):
        yield _SEEN.format(*line)
    yield (
        "          Here one machine runs both servers. In life two operators do: together they "
        "could join name and noisy value, and only the noise of the report would protect."
    )


def document_of(
    demo: "LiveDemo", rounds: "list[LiveRound]", summary: "LiveSummary"
) -> dict[str, Any]:
    """Return the demonstration as plain values."""
    setting, campaign = demo.setting, demo.campaign
    numbers = asdict(summary)
    del numbers["days"]
    return {
        "schema": "rase.demo/3",
        "homes": setting.homes,
        "days": setting.days,
        "range": [campaign.low, campaign.high],
        "mechanism": campaign.mechanism,
        "k_min": campaign.k_min,
        "local_epsilon": campaign.epsilon[0],
        "shuffled_epsilon": setting.shuffled_epsilon,
        "delta": setting.delta,
        "rounds": [
            {**one.answer.as_fields(), "truth": one.truth, "note": one.note} for one in rounds
        ],
        "daily": [{**answer.as_fields(), "truth": truth} for answer, truth in summary.days],
        "summary": without_infinities(numbers),
    }


def _report_words(summary: "LiveSummary") -> str:
    return (
        f"{summary.sent:,} sent, {summary.report_bytes} bytes each; {summary.repeated} repeated "
        f"ones ignored, {summary.unopened} did not open, {summary.withheld_reports:,} withheld in "
        f"{_count_in_words(summary.withheld, 'hour')}."
    )


def _who_saw_what(summary: "LiveSummary") -> Iterator[tuple[str, str, str, str]]:
    yield "gateway", "all homes", "their own readings", "nothing"
    yield (
        "shuffler",
        "all homes",
        "none: opens the outer seal only",
        f"{summary.envelopes_left} sealed reports",
    )
    yield (
        "fusion centre",
        "nobody",
        "noisy, shuffled, k_min or more",
        f"{summary.values_left} noisy reports",
    )
    yield "subscriber", "nobody", "none: estimates alone", "-"


def _count_in_words(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
