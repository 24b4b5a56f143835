"""The device as a program of its own: ``rase-device.pyz``, for a bare Python.

The commands are those of ``rase device``, read by the standard library alone. What is imported
from here is all that ``make device`` packs.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Final, NoReturn, TextIO

from rase.device.commands import DEFAULT_FOLDER, DEFAULT_PORT
from rase.errors import describe_failure, write_failure
from rase.version import __version__

__all__ = ["main"]

_PROGRAM: Final = "rase-device.pyz"
# Messages name commands as the package has them; in this file they are its first word.
_COMMANDS: Final = {
    "rase device ": f"{_PROGRAM} ",
    "rase budget": f"{_PROGRAM} budget",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        arguments: What was typed after the program; ``sys.argv`` if None.

    Returns:
        The exit code, as ``rase device`` has it; failures have been shown in one line on stderr.
    """
    try:
        options = vars(_parser().parse_args(arguments))
        options.pop("command")
        work: Callable[..., None] = options.pop("work")
        work(**options)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - one line, not a traceback
        message, exit_code = describe_failure(error)
        write_failure(_as_typed(message), program=_PROGRAM, error=error)
        return exit_code
    return 0


class _Parser(argparse.ArgumentParser):
    """Say in one line what is wrong with how a command was typed."""

    def error(self, message: str) -> NoReturn:
        """Exit as the whole package does for wrong use."""
        write_failure(f"{message}; {self.prog} --help lists what there is.", program=_PROGRAM)
        self.exit(2)


def _parser() -> _Parser:
    parser = _Parser(prog=_PROGRAM, description="Take part in a campaign with this device.")
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, work: Callable[..., None], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(work=work)
        command.add_argument(
            "--folder", type=Path, default=Path(DEFAULT_FOLDER), help="the device's folder"
        )
        return command

    _add_enrolment(add("enrol", _enrol, "Write the settings, and give a token for a credential."))
    run = add("run", _run, "Read, randomize within the budget, send. Stops on SIGTERM.")
    run.add_argument(
        "--also",
        type=Path,
        action="append",
        metavar="FOLDER",
        help="folder of one more quantity, run in the same process; may be repeated",
    )
    run.add_argument("--rounds", type=_count, help="stop after so many rounds")
    run.add_argument(
        "--page",
        dest="page_port",
        type=_port,
        nargs="?",
        const=DEFAULT_PORT,
        metavar="PORT",
        help=f"serve the owner's page on this machine; port {DEFAULT_PORT} unless named",
    )
    add("page", _page, "Print the address of the page that a running agent serves.")
    more = add("add", _add, "Add one more quantity, under the same budget and ledger.")
    more.add_argument("campaign", help="id of its campaign")
    more.add_argument("--campaign-hash", help="hash of the first terms to accept")
    more.add_argument(
        "--range",
        dest="value_range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="the widest range of readings to accept",
    )
    more.add_argument("--turns", type=_turns, default=1, help="how many turns of a cycle it has")
    add("list", _list, "List the device's quantities.")
    status = add("status", _status, "Show each quantity, whose turn it is, and what all spent.")
    status.add_argument("--json", dest="as_json", action="store_true", help="one JSON document")
    for name, work, text in (
        ("pause", _pause, "Send cover reports only, which carry nothing."),
        ("resume", _resume, "Share again."),
    ):
        add(name, work, text).add_argument("--campaign", help="one of its quantities alone")
    forget = add("forget", _forget, "Erase unsent reports, credential and key; not the ledger.")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    budget = add("budget", _budget, "Show what was spent, what is left, and when it refreshes.")
    budget.add_argument("--history", type=_whole, default=0, help="also the last so many entries")
    budget.add_argument("--json", dest="as_json", action="store_true", help="one JSON document")
    return parser


def _add_enrolment(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--token-file",
        required=True,
        metavar="FILE",
        help="the token of the shuffler's operator; - for standard input",
    )
    command.add_argument(
        "--approval-file",
        required=True,
        metavar="FILE",
        help="the approval of the registrar's operator; - for standard input",
    )
    command.add_argument("--shuffler", help="address of the shuffler")
    command.add_argument("--campaign", help="id of the campaign")
    command.add_argument("--fusion-key", help="public key of the fusion centre, hex or base64")
    command.add_argument("--shuffler-key", help="public key of the shuffler, hex or base64")
    command.add_argument("--registrar", help="address of the registrar")
    command.add_argument("--registrar-key", help="public key of the registrar, hex or base64")
    command.add_argument("--report-epsilon", type=float, help="the most one report may spend")
    command.add_argument("--span-epsilon", type=float, help="the most of a day's reports")
    command.add_argument("--total-epsilon", type=float, help="the most of all reports ever")
    command.add_argument(
        "--shuffled-epsilon", type=float, help="the most of one report towards the fusion centre"
    )
    command.add_argument(
        "--span-shuffled-epsilon", type=float, help="the most of a day's reports towards it"
    )
    command.add_argument(
        "--range",
        dest="value_range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="the widest range of readings to accept",
    )
    command.add_argument(
        "--least-k", type=_group, default=2, help="the fewest reports released together"
    )


def _enrol(folder: Path, *, token_file: str, approval_file: str, **options: object) -> None:
    from rase.device.commands import enrol_device

    given = options["value_range"]
    options["value_range"] = tuple(given) if isinstance(given, list) else None
    with ExitStack() as stack:
        token = stack.enter_context(_open_text(token_file))
        approval = stack.enter_context(_open_text(approval_file))
        device = enrol_device(folder, token, approval, options)
    _say(
        f"enrolled as {device}. Set [source] in {folder / 'device.toml'}, then: "
        f"{_PROGRAM} run --folder {folder}"
    )


def _open_text(name: str) -> AbstractContextManager[TextIO]:
    """Open a file to read; - is standard input, which stays open."""
    return nullcontext(sys.stdin) if name == "-" else Path(name).open(encoding="utf-8")


def _run(
    folder: Path, *, also: list[Path] | None, rounds: int | None, page_port: int | None
) -> None:
    from rase.device.commands import run_agent

    run_agent(folder, rounds=rounds, page_port=page_port, more=also or ())


def _page(folder: Path) -> None:
    from rase.device.folder import DeviceFolder

    sys.stdout.write(f"{DeviceFolder(folder).page_address()}\n")


def _add(
    folder: Path,
    campaign: str,
    *,
    campaign_hash: str | None,
    value_range: list[float] | None,
    turns: int,
) -> None:
    from rase.device.commands import enrolled_folder
    from rase.device.quantities import add_quantity

    file = add_quantity(
        enrolled_folder(folder),
        campaign,
        campaign_hash=campaign_hash,
        value_range=None if value_range is None else (value_range[0], value_range[1]),
        turns=turns,
    )
    _say(f"Set [source] in {file}, then start the agent again.")


def _list(folder: Path) -> None:
    from rase.device.commands import enrolled_folder
    from rase.device.quantities import list_text

    sys.stdout.write(f"{list_text(enrolled_folder(folder))}\n")


def _status(folder: Path, *, as_json: bool) -> None:
    from rase.device.commands import enrolled_folder
    from rase.device.quantities import status_text

    sys.stdout.write(f"{status_text(enrolled_folder(folder), as_json=as_json)}\n")


def _pause(folder: Path, *, campaign: str | None) -> None:
    from rase.device.commands import pause_device

    pause_device(folder, campaign)
    _say(f"paused; a running agent notices it. {_PROGRAM} resume ends it.")


def _resume(folder: Path, *, campaign: str | None) -> None:
    from rase.device.commands import resume_device

    resume_device(folder, campaign)
    _say("sharing again.")


def _forget(folder: Path, *, yes: bool) -> None:
    from rase.device.commands import forget_device

    if not yes:
        _say(f"Erase unsent reports, credential and key of {folder}? Type yes:")
        if sys.stdin.readline().strip() != "yes":
            raise KeyboardInterrupt
    _say(f"forgotten. {forget_device(folder)} keeps what was spent.")


def _budget(folder: Path, *, history: int, as_json: bool) -> None:
    from rase.device.budget import budget_text

    sys.stdout.write(f"{budget_text(folder, history=history, as_json=as_json)}\n")


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")


def _as_typed(message: str) -> str:
    for other, own in _COMMANDS.items():
        message = message.replace(other, own)
    return message


def _whole_number_reader(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return a reader of whole numbers within bounds."""

    def read(text: str) -> int:
        is_whole = text.isascii() and text.isdecimal()
        if not is_whole or int(text) < low or (high is not None and int(text) > high):
            bounds = f"at least {low}" if high is None else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"must be a whole number {bounds}, got {text!r}")
        return int(text)

    return read


_count, _group, _port, _turns, _whole = (
    _whole_number_reader(1),
    _whole_number_reader(2),
    _whole_number_reader(0, 65535),
    _whole_number_reader(1, 64),
    _whole_number_reader(0),
)

if __name__ == "__main__":
    sys.exit(main())
