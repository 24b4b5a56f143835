"""``rase lab``: the paper's figures and tables again, and what it hides, with a report.

``rase lab audit`` compares lower bounds on every epsilon, from samples, with what is claimed.
"""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.arguments import usage
from rase.cli.lab.data import data_command, fleet_command, prepare_command
from rase.cli.output import TextSink, check_out, file_sink, show_progress
from rase.cli.run_options import EngineOptions

if TYPE_CHECKING:
    from rase.lab.audit.subject import AnySubject, Finding
    from rase.lab.experiments.conduct import CellEngine
    from rase.lab.experiments.study import Setup, Study

__all__ = ["ClaimBroken", "audit_command", "command"]

_SAMPLES = 10_000_000
_FAST_SAMPLES = 100_000
# What is audited: the catalogue imports every mechanism, shuffler and channel.
_ROOMS = ("lab/audit",)
_WIDTHS = {
    "name": 38,
    "kind": 7,
    "claim": 7,
    "delta": 7,
    "lower_bound": 11,
    "samples": 8,
    "seconds": 8,
    "verdict": 7,
}


class ClaimBroken(click.ClickException):
    """A lower bound is above its claim: exit code 7."""

    exit_code = 7


@click.command("audit", short_help="Audit the privacy claims by sampling.")
@click.option(
    "--samples",
    type=click.IntRange(1000, 1_000_000_000),
    help=f"Samples to count for each input; {_SAMPLES}, or {_FAST_SAMPLES} with --fast. "
    "Slow subjects take a share of it.",
)
@click.option("--fast", is_flag=True, help="A hundredth of the samples: a minute, looser bounds.")
@click.option("--only", multiple=True, metavar="NAME",
              help="A kind, or the beginning of a name; may be repeated.")  # fmt: skip
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="For study: repeatable samples, except live orders and keys after a fork, which are "
    "always secure. Without it all randomness is secure, as in production.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write results to .csv, .parquet or .json."
)
def audit_command(
    *,
    samples: int | None,
    fast: bool,
    only: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    out: Path | None,
) -> None:
    """Audit the privacy claims by sampling.

    Every randomizer, device law, shuffler and whole channel is run many times on two inputs. A
    likelihood-ratio test, chosen from a pilot, and Clopper-Pearson intervals of fresh samples show
    how much is given away at least. A bound above its claim ends with exit code 7.
    """
    try:
        from rase.lab.audit.catalogue import subjects_named
        from rase.lab.audit.subject import CONFIDENCE
        from rase.lab.provenance import Measurement
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f'the lab needs {error.name}; pip install "rase-iot[lab]".'
        ) from error
    count = samples or (_FAST_SAMPLES if fast else _SAMPLES)
    with usage():
        subjects = subjects_named(only)
        if out is not None:
            check_out(out)
    measurement = Measurement(_ROOMS)
    findings = _run_audit(subjects, count, seed)
    broken = [one for one in findings if not one.holds]
    head = {
        "schema": "rase.lab.audit/1",
        **measurement.header(_command(count, only, seed), seed=seed),
        "samples": count,
        "randomness": "secure" if seed is None else "seeded, for study",
        "confidence": CONFIDENCE,
        "claims": len(findings),
        "broken": len(broken),
    }
    rows = [one.as_row() for one in findings]
    if out is not None:
        with file_sink(out, head) as sink:
            for row in rows:
                sink.add(row)
            sink.finish({})
    _show_audit(rows, head, as_json=as_json)
    if broken:
        names = ", ".join(f"{one.name} ({one.lower_bound:.4g} > {one.claim:g})" for one in broken)
        raise ClaimBroken(f"{len(broken)} of {len(findings)} claims are broken: {names}.")


def _run_audit(subjects: "Sequence[AnySubject]", samples: int, seed: int | None) -> "list[Finding]":
    from rase.kernels.words import SeededRandom
    from rase.lab.audit.subject import audit_claims

    rng = None if seed is None else SeededRandom(seed)
    with show_progress() as show:
        return audit_claims(
            subjects,
            samples=samples,
            rng=rng,
            report_progress=lambda name, share: show(f"audit {name}", share),
        )


def _command(samples: int, only: Sequence[str], seed: int | None) -> str:
    parts = ["rase", "lab", "audit", "--samples", str(samples)]
    for name in only:
        parts += ["--only", name]
    if seed is not None:
        parts += ["--seed", str(seed)]
    return shlex.join(parts)


def _show_audit(rows: list[dict[str, Any]], head: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**head, "results": rows}, indent=1, ensure_ascii=False))
    else:
        sink = TextSink(sys.stdout, _WIDTHS, decimals=4)
        for row in rows:
            seconds = f"{row['seconds']:.1f}".rjust(_WIDTHS["seconds"])
            verdict = "holds" if row["holds"] else "BROKEN"
            delta = f"{row['delta']:.4g}".rjust(_WIDTHS["delta"])
            sink.add({**row, "delta": delta, "seconds": seconds, "verdict": verdict})
        sink.finish({})
    click.echo(
        f"{head['claims'] - head['broken']} of {head['claims']} claims hold; all lower bounds "
        f"together at confidence {100 * head['confidence']:.4f} %.",
        err=True,
    )
    if head["seed"] is not None:
        click.echo("seeded randomness: for study only.", err=True)


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


@command.command("list", short_help="List the experiments.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def list_experiments(*, as_json: bool) -> None:
    """List the experiments, in the order of the paper."""
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
              help="Seed of everything that is drawn.")  # fmt: skip
@click.option("--fast", is_flag=True, help="Fewer points and one trial: a minute, not an hour.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("rase-lab"),
    show_default=True,
    help="Folder of report, tables, pictures and measured cells; created if missing.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=min(2, os.cpu_count() or 1),
    help="Processes that measure; two, or one on a single core.",
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
    studies = _run_studies(chosen, setup, data=data, out=out, jobs=jobs, engine=cell_engine)
    for study in studies:
        keep_study(study, out)
    report = write_report(out)
    _show_studies(studies, report, as_json=as_json)


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


def _run_studies(
    chosen: list[Any],
    setup: "Setup",
    *,
    data: str,
    out: Path,
    jobs: int,
    engine: "CellEngine | None",
) -> "list[Study]":
    from rase.lab.cache import CellCache
    from rase.lab.experiments.conduct import run_experiments
    from rase.lab.experiments.study import checksum_of

    checksum = checksum_of(setup.panel)
    cache = CellCache(out / ".cache", checksum=checksum)
    try:
        with show_progress() as show:

            def show_count(done: int, total: int, left_s: float | None) -> None:
                left = "" if left_s is None else f", {_duration(left_s)} left"
                show(f"measuring {done} of {total}{left}", done / total if total else 1.0)

            return run_experiments(
                chosen,
                setup,
                cache=cache,
                checksum=checksum,
                data=data,
                jobs=jobs,
                engine=engine,
                report_progress=show_count,
            )
    except KeyboardInterrupt:
        click.echo("what was measured is kept: the same command goes on from there.", err=True)
        raise


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes >= 2 else f"{max(round(seconds), 1)} s"


def _show_studies(studies: "list[Study]", report: Path, *, as_json: bool) -> None:
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
