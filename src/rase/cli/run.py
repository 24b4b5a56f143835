"""``rase run``: a table of readings through the whole pipeline."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from rase.cli.arguments import MECHANISMS, RunOptions, usage
from rase.cli.output import JsonSink, Sink, TextSink, check_out, file_sink
from rase.cli.progress import Progress
from rase.cli.report import RunReport, decimals_for
from rase.engine.feedback import FeedbackRun
from rase.engine.groups import GraphGroups
from rase.engine.local import RunSummary, TableRun, run_table
from rase.engine.ranging import RangeFeedback
from rase.engine.score import Windows
from rase.engine.table import Table, open_table
from rase.kernels.words import Random, SeededRandom
from rase.pipeline import Pipeline

__all__ = ["command"]


@click.command("run", short_help="Estimate the means of a table of readings, round by round.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--range",
    "value_range",
    type=float,
    nargs=2,
    required=True,
    metavar="LOW HIGH",
    help="Public range of a reading, chosen without looking at the data.",
)
@click.option("--epsilon", type=float, required=True, help="Budget of one report.")
@click.option(
    "--epsilons",
    type=click.Path(path_type=Path),
    help="CSV of devices and what their owners allow, where that is less than --epsilon.",
)
@click.option(
    "--mechanism",
    type=click.Choice(MECHANISMS),
    default=MECHANISMS[0],
    show_default=True,
    help="How a device makes its report noisy; auto takes the best for a mean.",
)
@click.option("--steps", type=int, default=4096, show_default=True, help="Grid steps of the range.")
@click.option("--beta", type=float, help="Half-width of the precision interval.  [default: 0.5]")
@click.option("--rho", type=float, help="Probability of meeting it.  [default: 0.9]")
@click.option("--alpha", type=float, help="Loss allowed inside a group; takes --groups.")
@click.option("--groups", type=int, help="Number of groups for the robust shuffler.")
@click.option(
    "--graph",
    type=click.Path(path_type=Path),
    help="CSV of pairs of devices that belong together: the real groups.",
)
@click.option(
    "--estimator",
    multiple=True,
    default=("auto",),
    show_default=True,
    help="auto, unbiased_mean, winsorized_mean, sample_mean, median or bootstrap_mean; "
    "may be repeated.",
)
@click.option(
    "--feedback",
    is_flag=True,
    help="Learn a better range from probing rounds; --range is the widest. Holds the table.",
)
@click.option("--every", help="Length of a round, as 15min, 1h, 1d; without it each time is one.")
@click.option("--window", help="Also means over windows: rounds, or a duration as 1d.")
@click.option("--truth", is_flag=True, help="Also the true means and the error; for study.")
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Repeat with fresh noise; for study, needs --seed.",
)
@click.option("--seed", type=int, help="Reproducible noise that protects nobody; for study.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Coverage of intervals.")
@click.option("--time-column", default="time", show_default=True, help="Its name in FILE.")
@click.option("--device-column", default="device", show_default=True, help="Its name in FILE.")
@click.option("--value-column", default="value", show_default=True, help="Its name in FILE.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write results to a .csv, .parquet or .json file.",
)
def command(
    file: Path,
    *,
    time_column: str,
    device_column: str,
    value_column: str,
    as_json: bool,
    out: Path | None,
    **asked: Any,
) -> None:
    """Estimate the means of a table of readings, round by round.

    FILE is CSV (also .csv.gz) or Parquet with columns time, device and value, sorted by device and
    time. Times without a zone are UTC; whole numbers are seconds since 1970 (milliseconds if larger
    than 1e11). Empty values do not report; several readings of a device in one round are averaged
    before any noise. Readings outside the range are clipped and counted.

    Example: rase run readings.csv --range 0 3000 --epsilon 1 --every 1h --window 1d
    """
    with usage():
        options = RunOptions(**asked)
        pipeline = options.pipeline()
        report = RunReport(options, pipeline)
        if out is not None:
            check_out(out)
    table = open_table(
        file, time_column=time_column, device_column=device_column, value_column=value_column
    )
    budgets = options.personal_budgets(table)
    if budgets is not None:
        with usage():
            pipeline = options.pipeline(budgets)
            report = RunReport(options, pipeline)
    with ExitStack() as stack:
        sinks: list[Sink] = []
        if out is not None:
            sinks.append(stack.enter_context(file_sink(out, report.head)))
        if as_json:
            sinks.append(JsonSink(sys.stdout, report.head))
        elif out is None:
            decimals = decimals_for(pipeline.randomizer.value_range)
            sinks.append(TextSink(sys.stdout, report.widths, decimals=decimals))
        summary = _run(table, pipeline, options=options, report=report, sinks=sinks)
        for sink in sinks:
            sink.finish(report.tail(summary))
    for line in (*table.notes, *report.words(summary)):
        click.echo(line, err=True)
    if options.seed is not None:
        click.echo("seeded noise: for study only, protects nobody.", err=True)
    if out is not None:
        click.echo(f"written   {out}", err=True)


def _run(
    table: Table,
    pipeline: Pipeline,
    *,
    options: RunOptions,
    report: RunReport,
    sinks: list[Sink],
) -> RunSummary:
    groups = options.graph_groups(table)
    window_rounds = options.window_rounds
    with Progress() as progress:
        for trial in range(1, options.trials + 1):
            run = _started(table, pipeline, options, trial=trial, groups=groups, progress=progress)
            windows = None
            if window_rounds:
                windows = Windows(window_rounds, is_gapless=options.every is not None)
            for number, result in enumerate(run, start=1):
                window = None if windows is None else windows.add(result)
                for row in report.rows(result, window, trial=trial):
                    for sink in sinks:
                        sink.add(row)
                progress.show(f"round {number} released")
    if isinstance(run, FeedbackRun):
        click.echo(_range_in_words(run.feedback), err=True)
    return run.summary


def _started(
    table: Table,
    pipeline: Pipeline,
    options: RunOptions,
    *,
    trial: int,
    groups: GraphGroups | None,
    progress: Progress,
) -> TableRun | FeedbackRun:
    def show() -> None:
        progress.show(f"reading {table.path.name}", table.share_read)

    if options.feedback:
        return FeedbackRun(
            table,
            pipeline,
            feedback=options.range_feedback(),
            every=options.every,
            rng=_source(options, trial),
            truth=options.truth,
            on_batch=show,
        )
    return run_table(
        table,
        pipeline,
        every=options.every,
        rng=_source(options, trial),
        truth=options.truth,
        shuffler_of_round=groups,
        on_batch=show,
    )


def _range_in_words(feedback: RangeFeedback) -> str:
    reach = feedback.value_range
    told = f"range     {reach.low:g} to {reach.high:g} at the end"
    advice = feedback.advice
    if advice is None:
        return f"{told}; too few rounds to choose another."
    return (
        f"{told}: clipping adds {advice.clip_bias.value:.3g} ± "
        f"{advice.clip_bias.standard_error:.2g} with the range recommended last."
    )


def _source(options: RunOptions, trial: int) -> Random | None:
    if options.seed is None:
        return None
    source = SeededRandom(options.seed)
    return source if options.trials == 1 else source.child(trial)
