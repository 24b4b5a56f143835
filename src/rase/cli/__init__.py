"""The command line: its commands, each imported when it is called, and how failures end it.

stdout carries data, stderr talk. Exit codes: 0 done, 1 unexpected, 2 usage or data, 3
configuration, 4 network, 5 refused for privacy, 6 cryptography, 7 not reproduced, 130 interrupted.

``rase device run`` is parsed without click, whose import costs a third of the agent's whole start.
Whatever is wrong with its options is left to click, which knows the same ones (rase.cli.device).
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from rase.device.commands import DEFAULT_FOLDER, DEFAULT_PORT, run_agent
from rase.errors import describe_failure, write_failure

__all__ = ["COMMANDS", "agent_command", "main"]


class _Place(NamedTuple):
    """Where a command is, and what ``rase --help`` says of it without importing it."""

    module: str
    help: str


COMMANDS = {
    "demo": _Place("rase.cli.demo", "Watch a made-up fleet go through the whole system."),
    "plan": _Place("rase.cli.plan", "Compute errors and guarantees before anything runs."),
    "run": _Place("rase.cli.run", "Estimate the means of a table of readings, round by round."),
    "attack": _Place("rase.cli.attack", "Attack a configuration on your own data."),
    "studio": _Place("rase.cli.studio", "Explore parameters and attacks in a browser, locally."),
    "init": _Place("rase.cli.init", "Make the folders of the servers and a device, with keys."),
    "keys": _Place("rase.cli.keys", "Show, renew and exchange the keys of a server."),
    "doctor": _Place(
        "rase.cli.doctor",
        "Check settings, keys, clocks, peers, databases, work that waits, brokers and disk.",
    ),
    "migrate": _Place("rase.cli.migrate", "Bring the databases of a server to the newest form."),
    "storage": _Place(
        "rase.cli.storage", "Back up a server's state, or move it to another database."
    ),
    "device": _Place("rase.cli.device", "Take part in a campaign with a device."),
    "budget": _Place(
        "rase.cli.budget", "Show what a device has spent, what is left, and when it refreshes."
    ),
    "lab": _Place("rase.cli.lab", "Reproduce the paper's evaluation, and see what it hides."),
    "fleet": _Place("rase.cli.fleet", "Write synthetic tables of any size."),
    "shuffler": _Place("rase.cli.shuffler", "Run the server that hides senders."),
    "registrar": _Place("rase.cli.registrar", "Run the server that gives devices their tokens."),
    "campaign": _Place("rase.cli.campaign", "Publish, change and show what a fleet agrees to."),
    "fusion": _Place("rase.cli.fusion", "Run the server that estimates."),
    "ha": _Place("rase.cli.ha", "Show a fleet or a device in Home Assistant."),
    "query": _Place("rase.cli.query", "Ask a fusion centre for a mean, shares or a difference."),
    "conformance": _Place(
        "rase.cli.conformance", "Try a device that is written in another language."
    ),
    "watch": _Place("rase.cli.watch", "See estimates as they come."),
}

# What the base installation leaves out, and the extra that brings it.
_EXTRA_OF = {
    "fastapi": "service",
    "httpx": "service",
    "jinja2": "service",
    "matplotlib": "plot",
    "opentelemetry": "otlp",
    "paho": "mqtt",
    "psycopg": "postgres",
    "pyarrow": "tables",
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
        The exit code; failures have been reported in one line on stderr.
    """
    try:
        run_agent = agent_command(arguments)
        if run_agent is not None:
            run_agent()
            return 0
        from rase.cli.group import run

        return run(arguments)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - one line, not a traceback
        message, exit_code = describe_failure(error)
        package = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and package in _EXTRA_OF:
            extra = f'pip install "rase-iot[{_EXTRA_OF[package]}]"'
            message, exit_code = f"this command needs {package}; install it with: {extra}.", 3
        write_failure(message, error=error)
        return exit_code


_WORDS: Final = ["device", "run"]


def agent_command(arguments: Sequence[str] | None) -> Callable[[], None] | None:
    """Return what ``rase device run`` does, if that was typed and nothing is wrong with it.

    Args:
        arguments: What was typed after ``rase``; ``sys.argv`` if None.

    Returns:
        The work; None if click must look at the arguments.
    """
    typed = list(sys.argv[1:] if arguments is None else arguments)
    # Click's completion of what is typed in a shell asks by a variable.
    if typed[:2] != _WORDS or "_RASE_COMPLETE" in os.environ:
        return None
    options: dict[str, str | None] = {"--folder": DEFAULT_FOLDER, "--rounds": None, "--page": None}
    words = typed[2:]
    while words:
        name, sign, value = words.pop(0).partition("=")
        if name == "--page" and not sign and (not words or words[0].startswith("-")):
            value = str(DEFAULT_PORT)
        elif not sign:
            value = words.pop(0) if words else ""
        if name not in options or not value or value.startswith("-"):
            return None
        options[name] = value
    folder, rounds, page = Path(options["--folder"] or ""), options["--rounds"], options["--page"]
    if not (_is_whole(rounds, 1) and _is_whole(page, 0, 65535)) or folder.is_file():
        return None
    return partial(
        run_agent,
        folder,
        rounds=None if rounds is None else int(rounds),
        page_port=None if page is None else int(page),
    )


def _is_whole(text: str | None, low: int, high: int | None = None) -> bool:
    """Return whether a text is none, or a whole number within bounds."""
    if text is None:
        return True
    if not (text.isascii() and text.isdecimal()):
        return False
    return low <= int(text) and (high is None or int(text) <= high)
