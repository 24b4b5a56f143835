"""``rase lab audit``: lower bounds on every epsilon from samples, against what is claimed."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.arguments import usage
from rase.cli.output import TextSink, check_out, file_sink
from rase.cli.progress import Progress

if TYPE_CHECKING:
    from rase.lab.audit.subject import Finding, LawSubject, Subject

__all__ = ["ClaimBroken", "audit_command"]

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
    """A bound from below is above its claim: exit code 7."""

    exit_code = 7


@click.command("audit", short_help="Audit the privacy claims by sampling.")
@click.option(
    "--samples",
    type=click.IntRange(1000, 1_000_000_000),
    help=f"Samples of each input that are counted; {_SAMPLES}, or {_FAST_SAMPLES} with --fast. "
    "Slow subjects take a share of it.",
)
@click.option("--fast", is_flag=True, help="A hundredth of the samples: a minute, looser bounds.")
@click.option("--only", multiple=True, metavar="NAME",
              help="A kind, or the beginning of a name; may be repeated.")  # fmt: skip
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="For study: the same samples again, but for live orders and keys after a fork, which are "
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
    likelihood-ratio test, chosen from a pilot, and Clopper-Pearson intervals of fresh samples tell
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
    findings = _audited(subjects, count, seed)
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
    _tell(rows, head, as_json=as_json)
    if broken:
        names = ", ".join(f"{one.name} ({one.lower_bound:.4g} > {one.claim:g})" for one in broken)
        raise ClaimBroken(f"{len(broken)} of {len(findings)} claims are broken: {names}.")


def _audited(
    subjects: "Sequence[Subject | LawSubject]", samples: int, seed: int | None
) -> "list[Finding]":
    from rase.kernels.words import SeededRandom
    from rase.lab.audit.subject import audited

    rng = None if seed is None else SeededRandom(seed)
    with Progress() as progress:
        return audited(
            subjects,
            samples=samples,
            rng=rng,
            tell=lambda name, share: progress.show(f"audit {name}", share),
        )


def _command(samples: int, only: Sequence[str], seed: int | None) -> str:
    parts = ["rase", "lab", "audit", "--samples", str(samples)]
    for name in only:
        parts += ["--only", name]
    if seed is not None:
        parts += ["--seed", str(seed)]
    return shlex.join(parts)


def _tell(rows: list[dict[str, Any]], head: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**head, "results": rows}, indent=1, ensure_ascii=False))
    else:
        sink = TextSink(sys.stdout, _WIDTHS, decimals=4)
        for row in rows:
            seconds = f"{row['seconds']:.1f}".rjust(_WIDTHS["seconds"])
            verdict = "holds" if row["holds"] else "BROKEN"
            sink.add({**row, "seconds": seconds, "verdict": verdict})
        sink.finish({})
    click.echo(
        f"{head['claims'] - head['broken']} of {head['claims']} claims hold; all lower bounds "
        f"together at confidence {100 * head['confidence']:.4f} %.",
        err=True,
    )
    if head["seed"] is not None:
        click.echo("seeded randomness: for study only.", err=True)
