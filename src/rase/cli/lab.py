"""``rase lab``: the paper's figures and tables again, and what it hides, with a report."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.arguments import usage
from rase.cli.lab_audit import audit_command
from rase.cli.lab_data import data_command, fleet_command
from rase.cli.lab_prepare import prepare_command
from rase.cli.output import TextSink
from rase.cli.progress import Progress
from rase.cli.run_options import EngineOptions

if TYPE_CHECKING:
    from rase.lab.experiments.conduct import CellEngine
    from rase.lab.experiments.study import Setup, Study

__all__ = ["command"]

_FAST_TRIALS = 1
_TRIALS = 10


class NotReproduced(click.ClickException):
    """Claims that must hold do not: exit code 7."""

    exit_code = 7


@click.group("lab", short_help="Reproduce the paper's evaluation, and see what it hides.")
def command() -> None:
    """Reproduce the paper's evaluation, and see what it hides."""


command.add_command(audit_command)
command.add_command(data_command)
command.add_command(fleet_command)
command.add_command(prepare_command)


@command.command("list", short_help="Name the experiments.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def list_experiments(*, as_json: bool) -> None:
    """Name the experiments, in the order of the paper."""
    from rase.lab.experiments.registry import EXPERIMENTS

    rows = [
        {"name": one.name, "figure": one.figure, "title": one.title} for one in EXPERIMENTS.values()
    ]
    if as_json:
        click.echo(json.dumps({"schema": "rase.lab.list/1", "experiments": rows}, indent=2))
        return
    sink = TextSink(sys.stdout, {"name": 16, "figure": 30, "title": 40}, decimals=0)
    for row in rows:
        sink.add(row)
    sink.finish({})


@command.command("run", short_help="Run experiments and write their report.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--data",
    default="fleet",
    show_default=True,
    help="A data set of rase lab data, fleet:DEVICESxDAYS:SEED, or a path.",
)
@click.option("--every", default="1h", show_default=True, help="Length of a round.")
@click.option(
    "--trials",
    type=click.IntRange(1, 100),
    help=f"How often noise and split are drawn; {_TRIALS}, or {_FAST_TRIALS} with --fast.",
)
@click.option("--seed", type=click.IntRange(0, 4_000_000), default=1, show_default=True,
              help="Of everything that is drawn.")  # fmt: skip
@click.option("--fast", is_flag=True, help="Fewer points and one trial: a minute, not an hour.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("rase-lab"),
    show_default=True,
    help="Folder of report, tables, pictures and measured cells; made if it is not there.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=min(2, os.cpu_count() or 1),
    help="Processes that measure; two, or one where there is one core.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where cells are measured: processes here, or a Spark cluster.",
)
@click.option("--master", help="Address of the cluster, for --engine spark.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def run_experiments(
    *,
    names: tuple[str, ...],
    data: str,
    every: str,
    trials: int | None,
    seed: int,
    fast: bool,
    out: Path,
    jobs: int,
    engine: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Run experiments and write their report.

    NAME is a name of rase lab list, fig6 for all its parts, or all. What was measured is kept in
    the folder: the same command goes on where it was interrupted, and measures again only what the
    code, the data or the settings changed. Exit code 7 says that a claim does not hold.
    """
    try:
        from rase.lab.experiments.registry import experiments_named
        from rase.lab.report import keep_study, write_report
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f'the lab needs {error.name}; pip install "rase-iot[lab]".'
        ) from error
    with usage():
        chosen = experiments_named(names)
        cell_engine = EngineOptions(engine=engine, master=master).cell_engine()
        _check_folder(out)
        setup = _setup(data, every, trials=trials, seed=seed, is_fast=fast)
    out.mkdir(exist_ok=True)
    studies = _conducted(chosen, setup, data=data, out=out, jobs=jobs, engine=cell_engine)
    for study in studies:
        keep_study(study, out)
    report = write_report(out)
    _tell(studies, report, as_json=as_json)


@command.command("report", short_help="Write the report of experiments that have run.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("rase-lab"),
    show_default=True,
    help="The folder of rase lab run.",
)
def write_report_again(*, out: Path) -> None:
    """Write the report of all experiments that have run in a folder."""
    from rase.lab.report import write_report

    click.echo(str(write_report(out)))


def _check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written, before any work is done."""
    if out.exists() and not out.is_dir():
        raise click.BadParameter(f"--out must be a folder, got the file {out}.")
    where = out if out.is_dir() else out.parent
    if not where.is_dir():
        raise click.BadParameter(f"--out must lie in a folder that exists, got {where}.")
    if not os.access(where, os.W_OK):
        raise click.BadParameter(f"--out must be a folder you may write to, got {where}.")


def _setup(data: str, every: str, *, trials: int | None, seed: int, is_fast: bool) -> "Setup":
    from rase.lab.datasets import open_panel
    from rase.lab.experiments.study import Setup, study_part

    panel = study_part(open_panel(data, every=every))
    usual = _FAST_TRIALS if is_fast else _TRIALS
    return Setup(panel, trials=usual if trials is None else trials, seed=seed, is_fast=is_fast)


def _conducted(
    chosen: list[Any],
    setup: "Setup",
    *,
    data: str,
    out: Path,
    jobs: int,
    engine: "CellEngine | None",
) -> "list[Study]":
    from rase.lab.cache import CellCache
    from rase.lab.experiments.conduct import conducted
    from rase.lab.experiments.study import checksum_of

    checksum = checksum_of(setup.panel)
    cache = CellCache(out / ".cache", checksum=checksum)
    with Progress() as progress:

        def tell(done: int, total: int, left_s: float | None) -> None:
            left = "" if left_s is None else f", {_duration(left_s)} left"
            progress.show(f"measuring {done} of {total}{left}", done / total if total else 1.0)

        try:
            return conducted(
                chosen,
                setup,
                cache=cache,
                checksum=checksum,
                data=data,
                jobs=jobs,
                engine=engine,
                tell=tell,
            )
        except KeyboardInterrupt:
            progress.clear()
            click.echo("what was measured is kept: the same command goes on from there.", err=True)
            raise


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes >= 2 else f"{max(round(seconds), 1)} s"


def _tell(studies: "list[Study]", report: Path, *, as_json: bool) -> None:
    from rase.lab.report import as_document

    if as_json:
        document = {
            "schema": "rase.lab.run/1",
            "report": str(report),
            "studies": [as_document(study) for study in studies],
        }
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        sink = TextSink(sys.stdout, {"experiment": 16, "figure": 30, "claims": 8}, decimals=0)
        for study in studies:
            held = sum(check.holds for check in study.checks)
            claims = f"{held} of {len(study.checks)}"
            sink.add({"experiment": study.name, "figure": study.figure, "claims": claims})
        sink.finish({})
        for study in studies:
            click.echo(f"\n{study.name}: {study.measured}", err=True)
    click.echo(f"report: {report}", err=True)
    failed = [
        f"{study.name}: {check.claim}"
        for study in studies
        for check in study.checks
        if not check.holds
    ]
    if failed:
        raise NotReproduced(f"{len(failed)} claims do not hold: {' '.join(failed)}")
