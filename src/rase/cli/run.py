"""``rase run``: a table of readings through the whole pipeline, on one machine or on many."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.arguments import parse_size, table_options, usage
from rase.cli.output import (
    JsonSink,
    Sink,
    TextSink,
    check_not_read,
    check_out,
    file_sink,
    write_manifest,
)
from rase.cli.run_jobs import job_of
from rase.cli.run_options import EngineOptions, RunOptions
from rase.cli.run_page import check_pictures, drawn_run
from rase.cli.run_quantities import AskedQuantities, read_quantities
from rase.counts.registry import ESTIMATORS
from rase.domain import Categories
from rase.errors import PrivacyRefused
from rase.laws.registry import CHOICES, mechanisms_of

if TYPE_CHECKING:
    from rase.tables.layouts import Columns

__all__ = ["command"]

_SOME = 1000


@click.command(
    "run",
    short_help="Simulate a fleet, or protect it, by a table of its readings.",
)
@click.argument("table", metavar="FILE")
@click.option(
    "--range",
    "value_range",
    type=float,
    nargs=2,
    metavar="LOW HIGH",
    help="Public range of a reading, chosen without looking at the data.",
)
@click.option(
    "--categories",
    metavar="NAMES",
    help="Instead: the names that a reading may be, with commas between; estimates their shares.",
)
@click.option(
    "--above",
    type=float,
    metavar="BOUND",
    help="Instead: the share of devices whose mean reading in the round lies above.",
)
@click.option(
    "--quantity",
    "quantities",
    multiple=True,
    metavar="COLUMN=DOMAIN",
    help="Instead, repeated: several columns under one budget, each with a range LOW:HIGH, "
    "names of categories with commas between them, or a bound above:X.",
)
@click.option(
    "--turns",
    metavar="NUMBERS",
    help="How many turns of a cycle each quantity has, as 2,1; in a round a device reports one of "
    "them.  [default: one each]",
)
@click.option(
    "--split",
    metavar="NUMBERS",
    help="Instead: into which parts their budget is cut, as 2,1; a device reports all of them.",
)
@click.option(
    "--label",
    metavar="COLUMN",
    help="Answers for each label of devices, too, as a region; those below --k-min are merged.",
)
@click.option(
    "--epsilon",
    type=float,
    help="Budget of one report, towards everybody; may be left out for --shuffled-epsilon.",
)
@click.option(
    "--shuffled-epsilon",
    type=float,
    help="What one report may give away once it is shuffled; the noise is fitted to it.",
)
@click.option("--delta", type=float, help="Delta of --shuffled-epsilon; 1e-6.")
@click.option(
    "--k-min",
    type=click.IntRange(min=2),
    help="Withhold rounds of fewer reports; four fifths of the devices, for a shuffled promise.",
)
@click.option(
    "--colluding", type=click.IntRange(min=0), help="Reports of a round of whoever looks; 0."
)
@click.option(
    "--max-local-epsilon", type=float, help="Largest budget that --shuffled-epsilon may take."
)
@click.option(
    "--epsilons",
    type=click.Path(path_type=Path),
    help="CSV of devices and what their owners allow, where that is less than --epsilon.",
)
@click.option(
    "--mechanism",
    type=click.Choice((*CHOICES, *mechanisms_of(Categories))),
    default=CHOICES[0],
    show_default=True,
    metavar="NAME",
    help="How a device makes its report noisy; auto takes the best at this epsilon. "
    f"Others: {', '.join((*CHOICES[1:], *mechanisms_of(Categories)))}.",
)
@click.option("--steps", type=int, default=4096, show_default=True, help="Grid steps of the range.")
@click.option("--beta", type=float, help="Half-width of the precision interval.  [default: 0.5]")
@click.option("--rho", type=float, help="Probability of meeting it.  [default: 0.9]")
@click.option("--alpha", type=float, help="Loss allowed inside a group; takes --groups.")
@click.option(
    "--groups", type=click.IntRange(min=1), help="Number of groups for the robust shuffler."
)
@click.option(
    "--graph",
    type=click.Path(path_type=Path),
    help="CSV of pairs of devices that belong together: the real groups.",
)
@click.option(
    "--estimator",
    multiple=True,
    default=ESTIMATORS[:1],
    show_default=True,
    help=f"{', '.join(ESTIMATORS)}; may be repeated.",
)
@click.option(
    "--feedback",
    is_flag=True,
    help="Learn a better range from probing rounds; --range is the widest. Holds the table.",
)
@click.option("--every", help="Length of a round, as 15min, 1h, 1d; without it each time is one.")
@click.option("--window", help="Also means over windows: rounds, or a duration as 1d.")
@click.option(
    "--timezone", help="Windows of 1d or 1w are calendar days or weeks there: a zone name."
)
@click.option("--strict", is_flag=True, help="No mean for a window that lacks a round.")
@click.option(
    "--as-known-then",
    is_flag=True,
    help="Each round of tracked as it was known then; without it later rounds help earlier ones.",
)
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
@table_options("FILE")
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where the work is done: this machine, or a Spark cluster.",
)
@click.option("--master", help="Address of the cluster, for --engine spark.")
@click.option("--workers", type=click.IntRange(min=1), help="Threads, or executors of a cluster.")
@click.option("--memory", help="Memory to use, as 4GB; half of what is free if not given.")
@click.option(
    "--continue",
    "continues",
    is_flag=True,
    help="Go on with --out when the table has grown: draw new rounds alone, never one twice.",
)
@click.option("--skip-bad", is_flag=True, help="Leave out what cannot be read, and count it.")
@click.option(
    "--partition-by",
    type=click.Choice(["day", "month", "year"]),
    help="Write a folder of Parquet files, one for each of these.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write results to a .csv, .parquet or .json file, with a manifest next to it.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    help="Draw the rounds with their intervals: .png or .svg.",
)
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path),
    help="Write a page with picture, rounds, promises and verdict that needs no other file.",
)
@click.option("--details", is_flag=True, help="Also say how all of it was done.")
def command(
    table: str,
    *,
    columns: Columns,
    dialect: dict[str, Any],
    engine: str,
    master: str | None,
    workers: int | None,
    memory: str | None,
    continues: bool,
    skip_bad: bool,
    partition_by: str | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
    page: Path | None,
    details: bool,
    quantities: tuple[str, ...],
    turns: str | None,
    split: str | None,
    **asked: Any,
) -> None:
    """Estimate the means of a table of readings, round by round.

    It simulates the fleet you have the readings of, or protects them before you hand means on. If
    you may see them and publish only a mean, noise added once is more exact: see the guides.

    FILE is CSV (also compressed) or Parquet with columns time, device and value; or a folder or a
    glob of such files, also Hive-partitioned, here or in an object store (s3://, gs://, abfs://).
    Rows may be in any order. Separators, decimal commas and the order of dates are found out and
    printed; what has two readings is refused with both. Times without a zone are UTC; numbers are
    seconds since 1970, or finer units from 1e11 on. Empty values and marks such as NA do not
    report; several readings of a device in one round are averaged before any noise, and of rows
    that repeat a time the first counts. Readings outside the range are clipped and counted.

    An interrupted run with --out goes on where it stopped when the same command is given again.
    With --continue the same goes for a table that grows, as by a file a day.

    Example: rase run readings.csv --range 0 3000 --epsilon 1 --every 1h --window 1d
    """
    from rase.tables.columns import Hints

    with usage():
        several = _asked_of(quantities, turns=turns, split=split, columns=columns, asked=asked)
        options = RunOptions(**asked) if several is None else several.first
        # Mistakes are refused before the table is looked at; what so many devices cannot promise,
        # those of the table may.
        for one in [options] if several is None else several.options.values():
            with suppress(PrivacyRefused):
                one.plan(most=_SOME)
        hints = Hints(**dialect)
        if engine == "spark" and hints != Hints():
            raise click.UsageError(
                "--decimal, --dates, --layout, --sheet and --times-in need --engine local."
            )
        engine_options = EngineOptions(
            engine=engine,
            master=master,
            workers=workers,
            memory_bytes=None if memory is None else parse_size(memory),
        )
        if out is not None:
            check_out(out, is_folder=partition_by is not None)
        check_pictures(plot, page, trials=options.trials)
        kept = engine_options.log_for(options, out, continues=continues, partition_by=partition_by)
    files = engine_options.find(table, columns=columns, skips_bad=skip_bad, hints=hints)
    if out is not None:
        check_not_read(out, [options.epsilons, options.graph, *(file.path for file in files.files)])
    job = job_of(options, several, engine=engine_options, files=files, kept=kept)
    with ExitStack() as stack:
        sinks: list[Sink] = []
        if out is not None:
            sinks.append(stack.enter_context(file_sink(out, job.head, partition_by=partition_by)))
        if as_json:
            sinks.append(JsonSink(sys.stdout, job.head))
        elif out is None:
            sinks.append(TextSink(sys.stdout, job.widths, decimals=job.decimals))
        drawn = drawn_run(files.name, job.head, decimals=job.decimals, plot=plot, page=page)
        sinks += drawn
        for row in job.all_rows(options):
            for sink in sinks:
                sink.add(row)
        is_short = not (as_json or details or out or page)
        tail = job.tail(is_short=is_short)
        for sink in sinks:
            sink.finish(tail)
    lines = job.words(tail, with_details=details)
    lines += ["seeded noise: for study only, protects nobody."] * (options.seed is not None)
    if out is not None:
        manifest = write_manifest(
            out, files, head=job.head, plan=job.plan, tail=tail, engine=engine_options.engine
        )
        job.finish()
        lines.append(f"written   {out}, and what was done in {manifest.name}")
    lines += [f"drawn     {path}" for one in drawn for path in one.written]
    lines += [
        f"{name:<10}{sentence}".replace("\n", "\n" + 10 * " ")
        for name, sentence in tail["closing"].items()
    ]
    for line in lines:
        click.echo(line, err=True)


def _asked_of(
    quantities: tuple[str, ...],
    *,
    turns: str | None,
    split: str | None,
    columns: Columns,
    asked: dict[str, Any],
) -> AskedQuantities | None:
    """Return what was asked of several quantities; None where there is one."""
    if not quantities:
        if (turns, split) != (None, None):
            raise click.UsageError("--turns and --split need --quantity.")
        return None
    if columns.value != type(columns)().value:
        raise click.UsageError("--value-column and --quantity cannot be used together.")
    return read_quantities(quantities, turns=turns, split=split, asked=asked)
