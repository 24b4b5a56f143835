"""``rase demo``: a synthetic fleet through the live system, then a comparison with a picture."""

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from rase.accounting.error_model import ErrorModel
from rase.atomic_files import replacing
from rase.cli.arguments import usage
from rase.cli.demo.words import (
    LIVE_HEAD,
    live_document,
    live_line,
    opening_words,
    summary_words,
)
from rase.cli.output import TextSink
from rase.cli.progress import Progress
from rase.counts.estimate import Estimate
from rase.counts.registry import ESTIMATORS
from rase.domain import Range
from rase.kernels.words import SeededRandom
from rase.lab.fleet import SyntheticFleet
from rase.laws.registry import auto, best_mechanism
from rase.series.rounds import RoundResult
from rase.series.score import ErrorTally, WindowResult, Windows
from rase.shuffle.shufflers import Manifest
from rase.tables.plan import RunPlan
from rase.tables.summary import RunSummary

if TYPE_CHECKING:
    from rase.cli.demo.live import LiveDemo, LiveRound, LiveSummary

__all__ = ["command"]

# Public and round: what the hourly mean power of a household appliance may be.
_POWER_W = Range(0, 1000)
_HOURS = 24
# More devices would only take longer to watch; the comparison has them all.
_LIVE_DEVICES = 64
_LIVE_ROUNDS = 24
# A bias below this share of the range is that of mixing between the inputs of a channel.
_NOTABLE_BIAS = 0.01


@click.command("demo", short_help="Watch a synthetic fleet go through the whole system.")
@click.option("--epsilon", type=float, default=2.0, show_default=True, help="Budget of one report.")
@click.option("--devices", type=int, default=64, show_default=True, help="Appliances.")
@click.option("--days", type=int, default=25, show_default=True, help="Days, a round each hour.")
@click.option(
    "--rounds",
    type=click.IntRange(min=0),
    help="Live rounds, 0 for none; all days on a terminal, else 24.",
)
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
    epsilon: float,
    devices: int,
    days: int,
    rounds: int | None,
    seed: int | None,
    out: Path,
    as_json: bool,
) -> None:
    """Watch a synthetic fleet go through the whole system.

    Appliances of made-up homes report their mean power every hour. Each report is made noisy and
    sealed on its device, each hour is shuffled and estimated, over HTTP on this machine alone and
    with a clock that does not wait; estimates appear beside the truth, which here is known.

    Then five estimators are compared over all days. The picture shows truth against estimates, day
    by day.
    """
    with usage():
        fleet = SyntheticFleet(devices=devices, days=days)
        randomizer = auto(epsilon, _POWER_W)
        plan = RunPlan(
            randomizer=randomizer,
            estimator=[name for name in ESTIMATORS if name != "winsorized_mean"],
            every="1h",
            truth=True,
        )
        if not out.parent.is_dir() or out.is_dir():
            raise click.BadParameter(f"--out must be a file in a folder that exists, got {out}.")
    with ExitStack() as running:
        demo = _live_demo(running, fleet, epsilon, rounds=rounds, seed=seed, as_json=as_json)
        live = None if demo is None else _lived(demo, as_json=as_json)
        study = _studied(fleet, plan, seed)
        picture = _drawn(study, out, title=_title(fleet, epsilon))
        if as_json:
            click.echo(json.dumps({**_document(study, fleet, picture), "live": live}, indent=2))
        else:
            widths = {"estimator": 14, "hour": 8, "day": 8, f"{days} days": 8, "bias": 8}
            sink = TextSink(sys.stdout, {**widths, "predicted": 20}, decimals=1)
            for row in _table(study, days):
                sink.add(row)
            sink.finish({})
        for line in _words(study, fleet, picture=picture, is_seeded=seed is not None):
            click.echo(line, err=True)
        if demo is not None and sys.stdout.isatty() and not as_json:
            _keep_serving(demo)


def _live_demo(
    running: ExitStack,
    fleet: SyntheticFleet,
    epsilon: float,
    *,
    rounds: int | None,
    seed: int | None,
    as_json: bool,
) -> "LiveDemo | None":
    """Start the live part, which runs until the stack is closed; None if there is none."""
    all_rounds = _HOURS * fleet.days
    if rounds is None:
        rounds = all_rounds if sys.stdout.isatty() and not as_json else _LIVE_ROUNDS
    rounds = min(rounds, all_rounds)
    if rounds == 0:
        return None
    try:
        from rase.cli.demo.live import LiveDemo
    except ModuleNotFoundError as error:
        click.echo(
            f'live      left out: {error.name} is missing; pip install "rase-iot[service]".',
            err=True,
        )
        return None
    shown = SyntheticFleet(devices=min(fleet.devices, _LIVE_DEVICES), days=fleet.days)
    with _gentle_interrupts() as is_interrupted:
        demo = running.enter_context(
            LiveDemo(shown, epsilon=epsilon, value_range=_POWER_W, rounds=rounds, seed=seed)
        )
        if is_interrupted():
            raise KeyboardInterrupt
    return demo


def _lived(demo: "LiveDemo", *, as_json: bool) -> dict[str, Any]:
    """Watch the live part and return it as plain values."""
    with _gentle_interrupts() as is_interrupted:
        return _watched(demo, is_interrupted, as_json=as_json)


def _keep_serving(demo: "LiveDemo") -> None:
    """Leave the pages open until somebody has seen enough."""
    if demo.servers.login_url is None:
        return
    click.echo(
        f"dashboard {demo.servers.login_url()} is still served, on this machine alone; "
        "Ctrl-C ends it.",
        err=True,
    )
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        click.echo("", err=True)


@contextmanager
def _gentle_interrupts() -> Iterator[Callable[[], bool]]:
    """Note the first Ctrl-C for the end of a round; a second one interrupts at once.

    Servers run in threads beside: an interrupt in the middle of a step could leave them locked.
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


def _watched(
    demo: "LiveDemo",
    is_interrupted: Callable[[], bool],
    *,
    as_json: bool,
) -> dict[str, Any]:
    seen: list[LiveRound] = []
    for line in opening_words(
        demo.campaign,
        devices=len(demo.fleet.devices),
        rounds=demo.rounds,
        shuffler_url=demo.servers.shuffler_url,
        fusion_url=demo.servers.fusion_url,
        login_url=None if demo.servers.login_url is None else demo.servers.login_url(),
        token=demo.servers.operator,
    ):
        click.echo(line, err=True)
    try:
        for one in demo.run():
            seen.append(one)
            if not as_json:
                _show(one, is_first=len(seen) == 1)
            if is_interrupted():
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        # What was seen until now stays true.
        _sum_up(demo)
        raise
    summary = _sum_up(demo)
    if not as_json:
        click.echo()
    return live_document(seen, summary)


def _show(one: "LiveRound", *, is_first: bool) -> None:
    if is_first:
        click.echo(LIVE_HEAD)
    if one.mishap:
        click.echo(f"  {one.mishap}", err=True)
    click.echo(live_line(one))


def _sum_up(demo: "LiveDemo") -> "LiveSummary":
    summary = demo.summary()
    for line in summary_words(summary, unit=demo.campaign.unit):
        click.echo(line, err=True)
    return summary


@dataclass(frozen=True, slots=True)
class _Study:
    """What the demonstration found."""

    plan: RunPlan
    summary: RunSummary
    days: list[WindowResult]
    whole: WindowResult
    hourly: dict[str, ErrorTally]
    daily: dict[str, ErrorTally]
    manifest: Manifest

    @property
    def truth(self) -> float:
        return self.whole.truth or 0.0


def _studied(fleet: SyntheticFleet, plan: RunPlan, seed: int | None) -> _Study:
    from rase.tables.run import run as run_fleet

    rng = None if seed is None else SeededRandom(seed)
    run = run_fleet(fleet, plan, rng=rng)
    daily_windows = Windows(_HOURS, is_gapless=True)
    all_windows = Windows(_HOURS * fleet.days, is_gapless=True)
    hourly = {name: ErrorTally() for name in plan.estimators}
    daily = {name: ErrorTally() for name in plan.estimators}
    days: list[WindowResult] = []
    whole: list[WindowResult] = []
    with Progress() as progress:
        for number, result in enumerate(run, start=1):
            _tally(hourly, result)
            day = daily_windows.add(result)
            if day is not None and number % _HOURS == 0:
                _tally(daily, day)
                days.append(day)
            whole += filter(None, [all_windows.add(result)])
            progress.show("running the fleet", number / (_HOURS * fleet.days))
    return _Study(plan, run.summary, days, whole[0], hourly, daily, result.manifest)


def _tally(tallies: dict[str, ErrorTally], result: RoundResult | WindowResult) -> None:
    for name, estimate in result.estimates.items():
        tallies[name].add(estimate, result.truth or 0.0)


def _drawn(study: _Study, out: Path, *, title: str) -> Path | None:
    try:
        from rase.lab.figures import draw_trace
    except ModuleNotFoundError:
        return None
    with replacing(out) as file:
        draw_trace(study.days, file, title=title)
    return out


def _title(fleet: SyntheticFleet, epsilon: float) -> str:
    return (
        f"{fleet.devices} synthetic appliances, {fleet.days} days, hourly reports with "
        f"epsilon {epsilon:g}, shuffled"
    )


def _table(study: _Study, days: int) -> Iterator[dict[str, Any]]:
    for name, hourly in study.hourly.items():
        predicted = study.whole.estimates[name].standard_error
        yield {
            "estimator": name,
            "hour": hourly.rmse,
            "day": study.daily[name].rmse,
            f"{days} days": abs(study.whole.estimates[name].value - study.truth),
            "bias": hourly.bias,
            "predicted": f"{hourly.predicted:.1f} / {study.daily[name].predicted:.1f} / "
            f"{predicted:.1f}",
        }


def _document(study: _Study, fleet: SyntheticFleet, picture: Path | None) -> dict[str, Any]:
    def said(estimate: Estimate, hourly: ErrorTally, daily: ErrorTally) -> dict[str, float]:
        return {
            "estimate": estimate.value,
            "standard_error": estimate.standard_error,
            "error": estimate.value - study.truth,
            "rmse_hour": hourly.rmse,
            "rmse_day": daily.rmse,
            "bias": hourly.bias,
            "predicted_hour": hourly.predicted,
            "predicted_day": daily.predicted,
        }

    return {
        "schema": "rase.demo/2",
        "devices": fleet.devices,
        "days": fleet.days,
        "epsilon": study.plan.randomizer.guarantee.epsilon,
        "range": [_POWER_W.low, _POWER_W.high],
        "truth": study.truth,
        "estimators": {
            name: said(estimate, study.hourly[name], study.daily[name])
            for name, estimate in study.whole.estimates.items()
        },
        "guarantee": str(study.plan.randomizer.guarantee),
        "shuffle": str(study.manifest.guarantee),
        "epsilon_per_device": study.summary.most_epsilon,
        "picture": None if picture is None else str(picture),
    }


def _about_paper(epsilon: float, devices: int) -> str:
    """Say what the paper's estimators make of the reports of this mechanism."""
    name = best_mechanism(epsilon)
    bias = ErrorModel(auto(epsilon, _POWER_W)).worst("sample_mean", devices).bias
    if bias < _NOTABLE_BIAS * _POWER_W.width:
        return (
            f"The reports of {name} can be averaged as they are; the median answers another "
            "question, and no window corrects that."
        )
    return (
        f"Averaged as they are, the reports of {name} pull sample_mean and bootstrap_mean by up to "
        f"{bias:.0f} W to the middle of the range, and the median answers another question; no "
        "window corrects either."
    )


def _words(
    study: _Study, fleet: SyntheticFleet, *, picture: Path | None, is_seeded: bool
) -> Iterator[str]:
    epsilon = study.plan.randomizer.guarantee.epsilon
    noise = study.hourly["unbiased_mean"].predicted
    yield ""
    yield (
        f"Errors in W against the true mean of {study.truth:.1f} W: root mean square per hour and "
        "per day, the error over all days, the mean error, and the standard errors the estimates "
        "came with (hour / day / all)."
    )
    yield f"privacy   {study.plan.randomizer.guarantee}"
    yield (
        f"budget    each device spent epsilon {epsilon:g} a report, {_HOURS * epsilon:g} a day, "
        f"{study.summary.most_epsilon:g} in all: whoever can link a device's reports learns more "
        "with each."
    )
    manifest = study.manifest
    yield f"shuffle   {manifest.method} in every hour: {manifest.reason}"
    yield f"          {manifest.guarantee}"
    if study.summary.clipped:
        yield (
            f"clipped   {study.summary.clipped} of {study.summary.reports} readings lay above "
            f"{_POWER_W.high:g} W."
        )
    if noise > study.truth / 2:
        yield (
            f"honestly  one hour of {fleet.devices} devices says little: noise of {noise:.0f} W on "
            f"a mean of {study.truth:.0f} W. More devices help (four times as many halve it), "
            f"longer windows do, and so does a range narrower than {_POWER_W.low:g} to "
            f"{_POWER_W.high:g} W, which clips more readings."
        )
    yield f"          {_about_paper(epsilon, fleet.devices)}"
    if is_seeded:
        yield "seeded noise: for study only, protects nobody."
    if picture is None:
        yield 'picture   not drawn: matplotlib is missing; pip install "rase-iot[plot]".'
    else:
        yield f"picture   {picture}"
    yield (
        "next      your own readings, columns time, device, value: "
        "rase run readings.csv --range 0 3000 --epsilon 1 --every 1h --window 1d"
    )
