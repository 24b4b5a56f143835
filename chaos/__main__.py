"""Break a real installation at random from a seed, and count what was lost, doubled or wrong."""

import json
import sys
from pathlib import Path

import click

from chaos.evidence import INSTALLATION
from chaos.kinds import KINDS
from chaos.run import Outcome, Plan, run
from rase.lab.provenance import Measurement


@click.command()
@click.option("--seconds", type=float, default=60.0, show_default=True, help="How long faults go.")
@click.option("--seed", type=int, default=2026, show_default=True, help="Decides all faults.")
@click.option("--kinds", default=",".join(KINDS), help="Which kinds, with commas between.")
@click.option(
    "--store", type=click.Choice(("sqlite", "postgresql")), default="sqlite", show_default=True
)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Where the result goes.")
@click.option("--keep", type=click.Path(path_type=Path), help="A new folder for logs that stays.")
@click.option("--quiet", is_flag=True, help="Do not tell each fault.")
def main(
    *,
    seconds: float,
    seed: int,
    kinds: str,
    store: str,
    file: Path | None,
    keep: Path | None,
    quiet: bool,
) -> None:
    """Break a real installation at random from a seed, and print what came of it."""
    try:
        plan = Plan(seconds, seed=seed, kinds=tuple(kinds.split(",")), store=store)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    measurement = Measurement(INSTALLATION)
    outcome = run(plan, tell=(lambda _: None) if quiet else _tell, keep=keep)
    for line in table(outcome):
        click.echo(line)
    if file is not None:
        command = f"python -m chaos --seconds {seconds:g} --seed {seed} --store {store}"
        if tuple(plan.kinds) != tuple(KINDS):
            command += f" --kinds {kinds}"
        header = measurement.header(command, seed=seed)
        document = {
            "schema": "rase.chaos/1",
            **header,
            "store": store,
            **(outcome.as_document() | header),
        }
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if outcome.violations:
        sys.exit(1)


def table(outcome: Outcome) -> list[str]:
    """Return what came out, line by line."""
    lines = [f"{kind:<12} {outcome.faults[kind]:>6}  {KINDS[kind]}" for kind in outcome.faults]
    lines += [f"{kind:<12} {'–':>6}  left out: {why}" for kind, why in outcome.left_out.items()]
    verdict = outcome.verdict
    counts = {
        "faults": outcome.faults.total(),
        "rounds": verdict.rounds,
        "withheld": verdict.withheld,
        "accepted": verdict.accepted,
        "lost": verdict.lost,
        "doubled": verdict.doubled,
        "wrong": verdict.wrong,
        "paid twice": verdict.repaid,
        "unexplained": outcome.unexplained,
        "violations": len(outcome.violations),
    }
    return [*lines, "", *(f"{name:<12} {count:>6}" for name, count in counts.items())]


def _tell(words: str) -> None:
    click.echo(words, err=True)


if __name__ == "__main__":
    main()
