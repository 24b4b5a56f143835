"""The command line: its commands, each imported when it is called, and how failures end it.

stdout carries data, stderr talk. Exit codes: 0 done, 1 unexpected, 2 usage or data, 3
configuration, 4 network, 5 refused for privacy, 6 cryptography, 7 not reproduced, 130 interrupted.
"""

import os
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import click

from rase import __version__
from rase.errors import RaseError

__all__ = ["COMMANDS", "main"]


class _Place(NamedTuple):
    """Where a command is, and what ``rase --help`` says of it without importing it."""

    module: str
    help: str


COMMANDS = {
    "demo": _Place("rase.cli.demo", "Watch a synthetic fleet go through the whole system."),
    "plan": _Place("rase.cli.plan", "Tell errors and guarantees before anything runs."),
    "run": _Place("rase.cli.run", "Estimate the means of a table of readings, round by round."),
    "attack": _Place("rase.cli.attack", "Attack a configuration on your own data."),
    "init": _Place("rase.cli.init", "Make the folders of two servers and a device, with keys."),
    "keys": _Place("rase.cli.keys", "Show, renew and exchange the keys of a server."),
    "doctor": _Place("rase.cli.doctor", "Check settings, keys, clocks, peers, databases and disk."),
    "device": _Place("rase.cli.device", "Take part in a campaign with a device."),
    "budget": _Place(
        "rase.cli.budget", "Show what a device has spent, what is left, and when it refreshes."
    ),
    "lab": _Place("rase.cli.lab", "Reproduce the paper's evaluation, and see what it hides."),
    "shuffler": _Place("rase.cli.shuffler", "Run the server that hides senders."),
    "campaign": _Place("rase.cli.campaign", "Publish, change and show what a fleet agrees to."),
    "fusion": _Place("rase.cli.fusion", "Run the server that estimates."),
    "query": _Place("rase.cli.query", "Ask a fusion centre for a mean."),
    "watch": _Place("rase.cli.watch", "See estimates as they come."),
}

# What the base installation leaves out, and the extra that brings it.
_EXTRA_OF = {
    "fastapi": "service",
    "httpx": "service",
    "matplotlib": "plot",
    "pyarrow": "batch",
    "pydantic": "service",
    "scipy": "lab",
    "sklearn": "lab",
    "starlette": "service",
    "uvicorn": "service",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        arguments: What was typed after ``rase``; ``sys.argv`` if None.

    Returns:
        The exit code; failures have been told in one line on stderr.
    """
    try:
        _rase.main(args=arguments, prog_name="rase", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - one line, not a traceback
        if os.environ.get("RASE_DEBUG") == "1":
            traceback.print_exc()
        return _failed(error)
    return 0


def _failed(error: BaseException) -> int:
    match error:
        case click.ClickException():
            message, exit_code = error.format_message(), error.exit_code
        case RaseError():
            message, exit_code = str(error), error.exit_code
        case click.Abort() | KeyboardInterrupt():
            message, exit_code = "interrupted.", 130
        case ModuleNotFoundError() if (error.name or "").partition(".")[0] in _EXTRA_OF:
            package = (error.name or "").partition(".")[0]
            extra = f'pip install "rase-iot[{_EXTRA_OF[package]}]"'
            message, exit_code = f"this command needs {package}; install it with: {extra}.", 3
        case OSError():
            message, exit_code = f"{error.filename or 'writing'}: {error.strerror}.", 1
        case _:
            exit_code = 1
            message = (
                f"unexpected {type(error).__name__}; please report it, with what RASE_DEBUG=1 "
                "prints and without private data."
            )
    click.echo(f"rase: error: {' '.join(message.split())}", err=True)
    return exit_code


class _LazyGroup(click.Group):
    """Import a command when it is called, so that help costs nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name].module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.help) for name, place in COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rase", message="%(prog)s %(version)s")
def _rase() -> None:
    """Randomize, shuffle, estimate: private averages from fleets of devices."""
