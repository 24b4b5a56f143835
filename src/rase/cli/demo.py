"""``rase demo``: a synthetic fleet through the whole pipeline, with a table and a picture."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from rase.cli.arguments import usage
from rase.cli.output import TextSink, replacing
from rase.cli.progress import Progress
from rase.engine.local import RunSummary, run_table
from rase.engine.score import ErrorTally, WindowResult, Windows
from rase.estimate.estimate import Estimate
from rase.estimate.mean import ESTIMATORS
from rase.kernels.words import SeededRandom
from rase.lab.fleet import SyntheticFleet
from rase.pipeline import Pipeline, RoundResult
from rase.randomize.budget_aware import BudgetAware
from rase.shuffle.shufflers import Manifest
from rase.stream import Precision, ValueRange

__all__ = ["command"]

# Public and round: what the hourly mean power of a household appliance may be.
_POWER_W = ValueRange(0, 1000)
_HOURS = 24


@click.command("demo", short_help="Watch a synthetic fleet go through the whole pipeline.")
@click.option("--epsilon", type=float, default=2.0, show_default=True, help="Budget of one report.")
@click.option("--devices", type=int, default=64, show_default=True, help="Appliances.")
@click.option("--days", type=int, default=25, show_default=True, help="Days, a round each hour.")
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
    *, epsilon: float, devices: int, days: int, seed: int | None, out: Path, as_json: bool
) -> None:
    """Watch a synthetic fleet go through the whole pipeline.

    Appliances of made-up homes report their mean power every hour. Each report is made noisy on its
    device, each hour is shuffled, and four estimators try to learn the fleet's mean, which here is
    known. The picture shows truth against estimates, day by day.
    """
    with usage():
        fleet = SyntheticFleet(devices=devices, days=days)
        randomizer = BudgetAware(epsilon, _POWER_W, Precision(beta=0.5, rho=0.9))
        pipeline = Pipeline(randomizer, estimator=tuple(ESTIMATORS))
        if not out.parent.is_dir() or out.is_dir():
            raise click.BadParameter(f"--out must be a file in a folder that exists, got {out}.")
    study = _studied(fleet, pipeline, seed)
    picture = _drawn(study, out, title=_title(fleet, epsilon))
    if as_json:
        click.echo(json.dumps(_document(study, fleet, picture), indent=2))
    else:
        widths = {"estimator": 14, "hour": 8, "day": 8, f"{days} days": 8, "bias": 8}
        sink = TextSink(sys.stdout, {**widths, "predicted": 20}, decimals=1)
        for row in _table(study, days):
            sink.add(row)
        sink.finish({})
    for line in _words(study, fleet, picture=picture, is_seeded=seed is not None):
        click.echo(line, err=True)


@dataclass(frozen=True, slots=True)
class _Study:
    """What the demonstration found."""

    pipeline: Pipeline
    summary: RunSummary
    days: list[WindowResult]
    whole: WindowResult
    hourly: dict[str, ErrorTally]
    daily: dict[str, ErrorTally]
    manifest: Manifest

    @property
    def truth(self) -> float:
        return self.whole.truth or 0.0


def _studied(fleet: SyntheticFleet, pipeline: Pipeline, seed: int | None) -> _Study:
    rng = None if seed is None else SeededRandom(seed)
    run = run_table(fleet, pipeline, every="1h", rng=rng, truth=True)
    daily_windows = Windows(_HOURS, is_gapless=True)
    all_windows = Windows(_HOURS * fleet.days, is_gapless=True)
    hourly = {name: ErrorTally() for name in pipeline.estimators}
    daily = {name: ErrorTally() for name in pipeline.estimators}
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
    return _Study(pipeline, run.summary, days, whole[0], hourly, daily, result.manifest)


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
        "schema": "rase.demo/1",
        "devices": fleet.devices,
        "days": fleet.days,
        "epsilon": study.pipeline.randomizer.guarantee.epsilon,
        "range": [_POWER_W.low, _POWER_W.high],
        "truth": study.truth,
        "estimators": {
            name: said(estimate, study.hourly[name], study.daily[name])
            for name, estimate in study.whole.estimates.items()
        },
        "guarantee": str(study.pipeline.randomizer.guarantee),
        "shuffle": str(study.manifest.guarantee),
        "epsilon_per_device": study.summary.most_epsilon,
        "picture": None if picture is None else str(picture),
    }


def _words(
    study: _Study, fleet: SyntheticFleet, *, picture: Path | None, is_seeded: bool
) -> Iterator[str]:
    epsilon = study.pipeline.randomizer.guarantee.epsilon
    noise = study.hourly["unbiased_mean"].predicted
    yield ""
    yield (
        f"Errors in W against the true mean of {study.truth:.1f} W: root mean square per hour and "
        "per day, the error over all days, the mean error, and the standard errors the estimates "
        "came with (hour / day / all)."
    )
    yield f"privacy   {study.pipeline.randomizer.guarantee}"
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
    yield (
        "          Clamped reports pull the paper's sample_mean and bootstrap_mean to the middle "
        "of the range, and its median answers another question; no window mends either."
    )
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
