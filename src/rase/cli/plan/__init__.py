"""``rase plan``: what parameters will do, before a single device reports.

With ``--range-from`` it plans with the range that probing rounds recommend.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from rase.accounting.plan import plan
from rase.accounting.plan.learnable import learnable
from rase.accounting.plan.promises import Promises, plan_promises
from rase.accounting.plan.schedule import SCHEDULES, report_schedule
from rase.accounting.plan.values import Plan
from rase.atomic_files import replacing
from rase.cli import output
from rase.cli.arguments import table_options, usage
from rase.cli.plan.report import NOT_PREDICTED, learnable_lines, plan_lines
from rase.clock import parse_duration_s
from rase.counts.registry import TRACKED
from rase.domain import Precision, Range
from rase.errors import DataError
from rase.laws.ladder import LOWEST_RUNG
from rase.laws.parts import HYBRID_FROM
from rase.laws.registry import MEAN_CHOICES, best_mechanism
from rase.privacy import MAX_EPSILON, MIN_EPSILON
from rase.tables.layouts import Columns

if TYPE_CHECKING:
    from rase.accounting.synthetic_forecast import FleetMovement
    from rase.cli.plan.forecast import Outlook

__all__ = ["RangeChange", "RecommendedRange", "change_lines", "command", "read_recommended"]

_SCHEMA = "rase/range/1"
_LABEL = 10


@dataclass(frozen=True, slots=True)
class RecommendedRange:
    """The answer of ``rase campaign range --json``.

    Args:
        present: The range of the campaign's newest version.
        recommended: The one that its probing rounds recommend.
        clip_bias: What clipping to the latter adds to the mean.
        clip_bias_error: The standard error of that.
        probes: From how many probing rounds it was learnt.
    """

    present: Range
    recommended: Range
    clip_bias: float
    clip_bias_error: float
    probes: int


@dataclass(frozen=True, slots=True)
class RangeChange:
    """What the recommended range changes of a plan.

    Args:
        range: Both ranges, and what clipping adds.
        present_error: The worst error of the plan's recommended estimator with the present range.
        error: The same with the recommended range: the plan's own, and the clip bias.
    """

    range: RecommendedRange
    present_error: float
    error: float

    @classmethod
    def between(cls, found: RecommendedRange, *, present: Plan, then: Plan) -> "RangeChange":
        """Compare the plans of both ranges, by the unbiased mean of a window."""
        error = _error(then)
        return cls(found, _error(present), math.hypot(error, found.clip_bias))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        ranges = {
            name: [reach.low, reach.high]
            for name, reach in (
                ("present", self.range.present),
                ("recommended", self.range.recommended),
            )
        }
        more = {key: value for key, value in asdict(self.range).items() if key not in ranges}
        return {**ranges, **more, "present_error": self.present_error, "error": self.error}


def read_recommended(file: Path) -> RecommendedRange:
    """Read what ``rase campaign range --json`` wrote; ``-`` is standard input.

    Raises:
        click.UsageError: If it cannot be read, is no such document, or recommends nothing yet.
    """
    name = "standard input" if str(file) == "-" else str(file)
    wanted = "--range-from must be what `rase campaign range --json` writes"
    try:
        with click.open_file(str(file), encoding="utf-8") as opened:
            document = json.load(opened)
    except OSError as error:
        raise click.UsageError(f"--range-from cannot be read: {error.strerror}: {name}.") from None
    except ValueError:
        raise click.UsageError(f"{wanted}, got no JSON in {name}.") from None
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise click.UsageError(f"{wanted}, got another document in {name}.")
    advice = document.get("advice")
    if advice is None:
        raise click.UsageError(
            f"--range-from must hold a recommended range; after {document.get('probes')} probing "
            f"rounds there is none yet in {name}. Give --range instead."
        )
    try:
        return RecommendedRange(
            Range(float(document["low"]), float(document["high"])),
            Range(float(advice["low"]), float(advice["high"])),
            _finite(advice["clip_bias"]["value"]),
            _finite(advice["clip_bias"]["standard_error"]),
            int(document["probes"]),
        )
    except (KeyError, TypeError, ValueError):
        raise click.UsageError(f"{wanted}, got a damaged document in {name}.") from None


def change_lines(change: RangeChange) -> Iterator[str]:
    """Say in words what the recommended range changes."""
    found = change.range
    yield (
        f"{'range':<{_LABEL}}{found.recommended.low:g} to {found.recommended.high:g}, as "
        f"{found.probes} probing rounds recommend, instead of {found.present.low:g} to "
        f"{found.present.high:g}."
    )
    yield (
        f"{'':<{_LABEL}}worst error of the unbiased mean, clipping included: {change.error:.4g} "
        f"instead of {change.present_error:.4g}; clipping adds {found.clip_bias:.3g} ± "
        f"{found.clip_bias_error:.2g} to it."
    )


def _error(plan: Plan) -> float:
    return next(
        row.window.total
        for row in plan.errors
        if (row.estimator, row.readings) == ("unbiased_mean", "worst")
    )


def _finite(value: object) -> float:
    number = float(str(value))
    if not math.isfinite(number):
        raise ValueError("must be finite")
    return number


_PICTURES = (".png", ".svg")
_PROMISED = (
    *("shuffled_epsilon", "max_local_epsilon", "reports", "k_min", "colluding"),
    "published_mean",
)
_CANDIDATES = 49


@click.command("plan", short_help="Compute errors and guarantees before anything runs.")
@click.option(
    "--range",
    "bounds",
    type=float,
    nargs=2,
    metavar="LOW HIGH",
    help="Public range of a reading, chosen without looking at the data.",
)
@click.option(
    "--range-from",
    type=click.Path(path_type=Path),
    help="Take the range that `rase campaign range --json` recommends; - reads it from stdin.",
)
@click.option(
    "--epsilon", type=float, help="Budget of one report; or give --window-budget and a --schedule."
)
@click.option(
    "--shuffled-epsilon",
    type=float,
    help="Instead of --epsilon: what shuffled reports may give away to the fusion centre.",
)
@click.option(
    "--max-local-epsilon", type=float, help="The most a report may have on its own; a limit to it."
)
@click.option(
    "--reports",
    type=int,
    help="How many reports of a device share --shuffled-epsilon.  [default: 1]",
)
@click.option(
    "--k-min",
    type=int,
    help="Fewest reports released together; promises hold there.  [default: 80 % of devices]",
)
@click.option(
    "--colluding", type=int, help="How many of these may be the adversary's.  [default: 0]"
)
@click.option(
    "--published-mean",
    is_flag=True,
    default=None,
    help="With a promise: also what one mean a round gives away to whoever sees nothing else.",
)
@click.option("--categories", help="States in the place of --range: how exact will shares be?")
@click.option("--devices", type=int, help="Devices in a round; those of --data if not given.")
@click.option(
    "--beta", type=float, default=0.5, show_default=True, help="Half-width of the precision."
)
@click.option(
    "--rho", type=float, default=0.9, show_default=True, help="Probability of meeting it."
)
@click.option("--alpha", type=float, help="Loss allowed inside a group; takes --groups.")
@click.option(
    "--groups", type=click.IntRange(min=1), help="Number of groups for the robust shuffler."
)
@click.option("--every", help="Length of a round, as 15min, 1h, 1d: for costs per day and month.")
@click.option("--window", help="Average over windows: rounds, or a duration as 1d.")
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULES),
    default="every",
    show_default=True,
    help="Report every round, split a window's budget over its rounds, or rotate: once a window.",
)
@click.option("--window-budget", type=float, help="What a device may spend in any window.")
@click.option(
    "--delta", type=float, default=1e-6, show_default=True, help="Delta of central guarantees."
)
@click.option(
    "--mechanism",
    type=click.Choice(MEAN_CHOICES),
    default="auto",
    show_default=True,
    help="How a device makes its report noisy; auto takes the best at this epsilon.",
)
@click.option("--error", type=float, help="Wished error of the mean: what would meet it?")
@click.option(
    "--attacker-cap",
    type=float,
    help="How many times better than chance an observer of order may name the most exposed sender, "
    "the first or last: what keeps to it?",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Table of readings, CSV or Parquet, or a folder of such: errors on them too.",
)
@table_options("--data")
@click.option(
    "--fleet-sd",
    type=float,
    help="How far the fleet's mean wanders, as a standard deviation: forecast without --data.",
)
@click.option("--day-sd", type=float, help="The same of its daily wave.")
@click.option(
    "--fleet-mean", type=float, help="Where it lies on average.  [default: middle of the range]"
)
@click.option(
    "--plot", type=click.Path(path_type=Path), help="Draw error against epsilon: .png or .svg."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    *,
    bounds: tuple[float, float] | None,
    range_from: Path | None,
    devices: int | None,
    every: str | None,
    window: str | None,
    groups: int | None,
    data: Path | None,
    columns: Columns,
    dialect: dict[str, Any],
    fleet_sd: float | None,
    day_sd: float | None,
    fleet_mean: float | None,
    plot: Path | None,
    as_json: bool,
    categories: str | None,
    **asked: Any,
) -> None:
    """Compute errors and guarantees before anything runs.

    How wrong the mean will be with each estimator, what a report, a day and a month cost, what the
    shuffler will do, and what to change. Errors are root mean square errors, split into bias, which
    stays, and noise, which averages out. With --error or --attacker-cap also the parameters that
    would do. With --data, or --fleet-sd and --day-sd, also whether following the mean through time
    will beat repeating a constant, and if not, what would. With --range-from also what the range
    that probing rounds recommend changes. With --shuffled-epsilon, or --epsilon and --k-min, both
    promises: towards the fusion centre, for rounds of at least k_min reports, and what is left if
    both servers work together. With --devices and no budget: what can such a fleet learn at all?
    Nothing is drawn and nothing is sent. With --categories, how exact shares will be.

    Example: rase plan --range 0 3000 --epsilon 1 --devices 1000 --every 1h --window 1d --error 50
    Example: rase plan --range 0 3000 --shuffled-epsilon 1 --devices 10000
    Example: rase plan --devices 64
    """
    wished = {name: asked.pop(name) for name in _PROMISED}
    is_open = (every, window, data, asked["schedule"]) == (None, None, None, "every")
    if _answers_shares(
        categories, devices, bounds or data, {**asked, **wished}, as_json=as_json
    ) or (is_open and _answers_questions(devices, bounds, asked, wished, as_json=as_json)):
        return
    with usage():
        advised = None if range_from is None else read_recommended(range_from)
        # A promise is about shares of the range, whatever that is; readings need theirs.
        is_share = wished["shuffled_epsilon"] is not None and data is None
        public = _public(bounds, advised, is_share=is_share)
        interval_s = None if every is None else parse_duration_s(every)
        rounds = _rounds(window, interval_s)
        if plot is not None:
            _check_plot(plot)
        if devices is None and data is None:
            raise click.UsageError("--devices must be given; or --data, whose devices count.")
        _check_promised(asked, wished)
        if wished["shuffled_epsilon"] is None:
            _check_budgets(asked, rounds)
        if (asked["alpha"] is None) != (groups is None):
            missing, given = ("groups", "alpha") if groups is None else ("alpha", "groups")
            raise click.UsageError(f"--{missing} must be given with --{given}.")
        movement = _movement_of(public, data, interval_s, moves=(fleet_mean, fleet_sd, day_sd))
    sample = None
    if data is not None:
        sample = _sample(data, columns, dialect, interval_s=interval_s)
        devices = sample.devices if devices is None else devices
    with usage():
        promised = _promises(public, asked, wished, devices=devices or 0, every_s=interval_s)
    shared = {
        "devices": devices or 0,
        "group_count": groups,
        "interval_s": interval_s,
        "window": rounds,
        "readings": None if sample is None else sample.readings,
        **asked,
    }
    with usage():
        curve = () if plot is None else _candidates(public, asked, rounds)
        made = plan(public, curve=curve, promises=promised, **shared)
        change = None
        if advised is not None:
            present = plan(advised.present, **shared)
            change = RangeChange.between(advised, present=present, then=made)
    table = None if sample is None else sample.table
    outlook, forecast = _forecast(made, table, movement, every_s=interval_s)
    drawn = None if plot is None else _draw_plot(made, plot)
    if as_json:
        document = _document(made, outlook, change, promised)
        click.echo(output.as_json(document, indent=2))
    else:
        lines = plan_lines(made, outlook, promised)
        for line in (*lines, *forecast, *([] if change is None else change_lines(change))):
            click.echo(line)
    for note in _notes(sample, plot, drawn=drawn):
        click.echo(note, err=True)


def _forecast(
    made: Plan,
    table: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    movement: "FleetMovement | None",
    *,
    every_s: int | None,
) -> tuple["Outlook | None", list[str]]:
    """Return what following the mean will be like, and in words, where a fleet's moves are known.

    Most questions are not about that, and should not wait for its import.
    """
    if table is None and movement is None:
        return None, []
    from rase.cli.plan.forecast import forecast_lines, outlook_of, outlook_of_movement

    outlook = None if table is None else outlook_of(made, table)
    if movement is not None and every_s is not None:
        outlook = outlook_of_movement(made, movement, every_s=every_s)
    return outlook, [] if outlook is None else list(forecast_lines(outlook))


def _answers_shares(
    categories: str | None,
    devices: int | None,
    other: object,
    asked: dict[str, Any],
    *,
    as_json: bool,
) -> bool:
    """Answer a question about shares of states, and return whether it was one."""
    if categories is None:
        return False
    from rase.cli.plan.shares import plan_shares, show_shares

    with usage():
        if other is not None:
            raise click.UsageError("--categories takes the place of --range and --data.")
        found = plan_shares(categories, devices, asked)
    show_shares(found, as_json=as_json)
    return True


def _answers_questions(
    devices: int | None,
    bounds: tuple[float, float] | None,
    asked: dict[str, Any],
    wished: dict[str, Any],
    *,
    as_json: bool,
) -> bool:
    """Say what a fleet can learn if that is asked: devices are given, and no budget is."""
    budgets = [asked["epsilon"], asked["window_budget"], asked["error"]]
    others = ("max_local_epsilon", "reports", "colluding", "published_mean")
    budgets += [wished[name] for name in others]
    # With a range the promise towards the fusion centre plans one law.
    budgets += [] if bounds is None else [wished["shuffled_epsilon"]]
    if devices is None or any(value is not None for value in budgets):
        return False
    with usage():
        public = None if bounds is None else Range(*bounds)
        found = learnable(
            devices,
            shuffled_epsilon=wished["shuffled_epsilon"] or 1.0,
            delta=asked["delta"],
            k_min=wished["k_min"],
        )
    if as_json:
        document = {"schema": "rase.plan.questions/1", **found.to_dict()}
        document["range"] = None if public is None else [public.low, public.high]
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return True
    for line in learnable_lines(found, public):
        click.echo(line)
    return True


def _document(
    made: Plan, outlook: "Outlook | None", change: RangeChange | None, promised: Promises | None
) -> dict[str, Any]:
    document = made.to_dict()
    document["forecast"] = None if outlook is None else outlook.to_dict()
    document["not_predicted"] = {TRACKED: NOT_PREDICTED} if outlook is None else {}
    if change is not None:
        document["range_change"] = change.to_dict()
    if promised is not None:
        document["promises"] = promised.to_dict()
    return document


def _public(
    bounds: tuple[float, float] | None, advised: RecommendedRange | None, *, is_share: bool
) -> Range:
    if bounds is not None and advised is None:
        return Range(*bounds)
    if bounds is None and advised is None and is_share:
        click.echo("range     none was given: errors are for 0 to 1, shares of yours.", err=True)
        return Range(0, 1)
    if advised is None or bounds is not None:
        how = "neither" if bounds is None else "both"
        raise click.UsageError(f"rase plan takes --range or --range-from, got {how}.")
    return advised.recommended


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Sample:
    """Readings as devices would contribute them, and of how many devices."""

    readings: NDArray[np.float64]
    devices: int
    notes: list[str]
    table: tuple[NDArray[np.float64], NDArray[np.float64]]


def _sample(
    data: Path, columns: Columns, dialect: dict[str, Any], *, interval_s: int | None
) -> _Sample:
    from rase.cli.plan.forecast import table_of
    from rase.tables.columns import Hints
    from rase.tables.source import open_source

    with usage():
        hints = Hints(**dialect)
    table = open_source(data, columns=columns, hints=hints)
    interval_ms = None if interval_s is None else 1000 * interval_s
    some = table.contributions(interval_ms)
    devices = len(table.device_codes)
    if devices < 2:
        raise DataError(f"{data} must hold readings of two devices or more, got one.")
    return _Sample(some.reading, devices, table.notes, table_of(some, interval_ms or 1))


def _movement_of(
    public: Range,
    data: Path | None,
    interval_s: int | None,
    *,
    moves: tuple[float | None, float | None, float | None],
) -> "FleetMovement | None":
    mean, fleet_sd, day_sd = moves
    if fleet_sd is None and day_sd is None:
        if mean is not None:
            raise click.UsageError("--fleet-mean must come with --fleet-sd or --day-sd.")
        return None
    if data is not None:
        raise click.UsageError(
            "--fleet-sd and --day-sd must not come with --data, which shows how the fleet moves."
        )
    if interval_s is None:
        raise click.UsageError("--every must be given with --fleet-sd or --day-sd.")
    middle = public.low + public.width / 2
    from rase.accounting.synthetic_forecast import FleetMovement

    movement = FleetMovement(middle if mean is None else mean, fleet_sd or 0.0, day_sd or 0.0)
    if not movement.within(public):
        raise click.UsageError(
            f"--fleet-mean must lie in the range {public.low:g} to {public.high:g}, got {mean:g}."
        )
    return movement


def _rounds(window: str | None, interval_s: int | None) -> int:
    if window is None:
        return 1
    if window.strip().lstrip("-").isdigit():
        return int(window)
    if interval_s is None:
        raise click.UsageError(f"--window {window} needs --every; or give rounds.")
    rounds, rest = divmod(parse_duration_s(window), interval_s)
    if rest:
        raise click.UsageError(f"--window must hold whole rounds, got {window}.")
    return rounds


def _check_budgets(asked: dict[str, Any], rounds: int) -> None:
    schedule, epsilon, budget = asked["schedule"], asked["epsilon"], asked["window_budget"]
    if schedule == "every":
        if epsilon is None:
            raise click.UsageError(
                "--epsilon must be given; or --window-budget with --schedule split or rotate."
            )
        return
    if rounds < 2:
        raise click.UsageError(
            f"--window must be at least 2 rounds with --schedule {schedule}, got {rounds}."
        )
    if (epsilon is None) == (budget is None):
        how = "neither" if epsilon is None else "both"
        raise click.UsageError(
            f"--schedule {schedule} takes --epsilon or --window-budget, got {how}."
        )


def _check_promised(asked: dict[str, Any], wished: dict[str, Any]) -> None:
    if all(value is None for value in wished.values()):
        return
    if asked["alpha"] is not None:
        raise click.UsageError(
            "--alpha must not come with promises towards the fusion centre: no theorem covers a "
            "shuffle that keeps groups together."
        )
    if asked["schedule"] != "every" or asked["window_budget"] is not None:
        raise click.UsageError(
            "--schedule and --window-budget must not come with promises towards the fusion centre; "
            "where devices take turns, give --devices and --k-min of one turn."
        )
    if (wished["shuffled_epsilon"] is None) == (asked["epsilon"] is None):
        how = "neither" if asked["epsilon"] is None else "both"
        raise click.UsageError(f"--shuffled-epsilon or --epsilon must be given, got {how}.")


def _promises(
    public: Range,
    asked: dict[str, Any],
    wished: dict[str, Any],
    *,
    devices: int,
    every_s: int | None,
) -> Promises | None:
    """Return both promises, if they are wished for, and plan on with their law."""
    if all(value is None for value in wished.values()):
        return None
    made = plan_promises(
        public,
        devices=devices,
        local_epsilon=asked["epsilon"],
        shuffled_epsilon=wished["shuffled_epsilon"],
        delta=asked["delta"],
        k_min=wished["k_min"],
        colluding=wished["colluding"] or 0,
        reports=1 if wished["reports"] is None else wished["reports"],
        max_local_epsilon=wished["max_local_epsilon"],
        mechanism=asked["mechanism"],
        interval_s=every_s,
        published_mean=bool(wished["published_mean"]),
    )
    law = made.randomizer
    asked |= {"epsilon": law.epsilon, "mechanism": law.name, "detail": "live"}
    return made


def _check_plot(plot: Path) -> None:
    if plot.suffix not in _PICTURES:
        raise click.UsageError(f"--plot must end in {' or '.join(_PICTURES)}, got {plot.name!r}.")
    if plot.is_dir() or not plot.parent.is_dir():
        raise click.UsageError(f"--plot must be a file in a folder that exists, got {plot}.")


def _candidates(public: Range, asked: dict[str, Any], rounds: int) -> list[float]:
    """Return epsilons for a smooth curve: the one asked for, and both sides of a change of law."""
    epsilon = asked["epsilon"]
    if epsilon is None:
        budget = asked["window_budget"]
        planned = report_schedule(asked["schedule"], rounds, epsilon=None, window_budget=budget)
        epsilon = planned.epsilon
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        return []
    low, high = max(min(0.05, epsilon / 2), MIN_EPSILON), min(max(10.0, 2 * epsilon), MAX_EPSILON)
    name = best_mechanism(epsilon) if asked["mechanism"] == "auto" else asked["mechanism"]
    spread = {*np.geomspace(low, high, _CANDIDATES).tolist()}
    jumps = {
        "budget-aware": Precision(asked["beta"], asked["rho"]).epsilon_bound(public),
        "hybrid": HYBRID_FROM * (1 + 1e-9),
        "optimal": LOWEST_RUNG,
    }
    jump = jumps.get(name, 0.0)
    spread |= {jump * (1 - 1e-8), jump, epsilon}
    return sorted(one for one in spread if low <= one <= high)


def _draw_plot(made: Plan, plot: Path) -> bool:
    try:
        from rase.lab.plan_figure import draw_plan
    except ModuleNotFoundError:
        return False
    with replacing(plot) as file:
        draw_plan(made, file, kind=plot.suffix.removeprefix("."))
    return True


def _notes(sample: _Sample | None, plot: Path | None, *, drawn: bool | None) -> Iterator[str]:
    if sample is not None:
        yield from sample.notes
        yield "data      this plan was computed from readings without noise; keep it to yourself."
    if drawn:
        yield f"picture   {plot}"
    elif plot is not None:
        yield 'picture   not drawn: matplotlib is missing; pip install "rase-iot[plot]".'
