"""Plant the faults one after the other: ``python -m faults --only lease-not-checked``."""

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

import click

from faults.fault import Fault
from faults.planted import FAULTS
from faults.run import Outcome, Runner
from rase.lab.provenance import Measurement

__all__ = ["main"]

_ROOT: Final = Path(__file__).parents[1]


def main(
    arguments: Sequence[str] | None = None,
    *,
    faults: Sequence[Fault] = FAULTS,
    root: Path = _ROOT,
) -> int:
    """Plant the chosen faults, print what came of each, and return the exit code.

    Args:
        arguments: Those of the command line unless given.
        faults: The faults to choose from.
        root: The repository.

    Returns:
        0 if every chosen fault was caught, 1 if one was not, 130 after Ctrl-C.
    """
    names = [fault.name for fault in faults]
    parser = argparse.ArgumentParser(
        prog="python -m faults", description="Plant faults, and see that the tests notice."
    )
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these faults")
    parser.add_argument("--list", action="store_true", help="print the faults and plant none")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the result goes")
    options = parser.parse_args(arguments)
    chosen = [fault for fault in faults if fault.name in (options.only or names)]
    if options.list:
        for fault in chosen:
            click.echo(f"{fault.name}: {fault.wrong} ({', '.join(fault.tests)})")
        return 0
    measurement = Measurement(sorted({fault.file.removeprefix("rase/") for fault in FAULTS}))
    runner = Runner(root)
    outcomes: list[Outcome] = []
    try:
        for outcome in _outcomes(runner, chosen, jobs=max(options.jobs, 1)):
            outcomes.append(outcome)
            click.echo(f"{len(outcomes)}/{len(chosen)} {_line(outcome)}")
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        return 130
    caught = sum(outcome.is_caught for outcome in outcomes)
    click.echo(f"{caught} of {len(outcomes)} caught")
    if options.json is not None:
        command = "python -m faults"
        if options.only:
            command += f" --only {' '.join(options.only)}"
        # Where several ran at once they ended in another order than they are listed in.
        outcomes.sort(key=lambda outcome: names.index(outcome.fault.name))
        document = {
            "schema": "rase.faults/1",
            **measurement.header(command, seed=None),
            **_figures(outcomes),
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if caught == len(outcomes) else 1


def _outcomes(runner: Runner, faults: Sequence[Fault], *, jobs: int) -> Iterator[Outcome]:
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(runner.run, fault) for fault in faults]
        try:
            for one in as_completed(waiting):
                yield one.result()
        except BaseException:
            for one in waiting:
                one.cancel()
            runner.stop()
            raise


def _line(outcome: Outcome) -> str:
    name, seconds = outcome.fault.name, f"{outcome.seconds:.1f} s"
    if outcome.is_caught:
        return f"caught      {name} ({seconds}) by {outcome.test}"
    if outcome.verdict == "error":
        return f"ERROR       {name}: {outcome.detail}"
    return f"NOT CAUGHT  {name} ({seconds}): {outcome.fault.wrong}"


def _figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "violations": [f"{one.fault.name}: {one.verdict}" for one in outcomes if not one.is_caught],
        "faults": [
            {
                "name": one.fault.name,
                "wrong": one.fault.wrong,
                "file": one.fault.file,
                "verdict": one.verdict,
                "test": one.test,
                "seconds": round(one.seconds, 1),
            }
            for one in outcomes
        ],
    }


if __name__ == "__main__":
    # Whoever ends it otherwise than by Ctrl-C leaves no copies behind either.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
