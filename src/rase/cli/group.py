"""All commands behind click: parsing, help, usage errors; each command is imported when called."""

from collections.abc import Sequence
from importlib import import_module

import click

from rase.cli import COMMANDS
from rase.errors import write_failure
from rase.version import __version__

__all__ = ["run"]


def run(arguments: Sequence[str] | None) -> int:
    """Run a command; report what is wrong with how it was typed, and raise the rest.

    Args:
        arguments: What was typed after ``rase``; ``sys.argv`` if None.

    Returns:
        The exit code.

    Raises:
        KeyboardInterrupt: If a question was not answered.
    """
    try:
        _rase.main(args=arguments, prog_name="rase", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        write_failure(error.format_message(), error=error)
        return error.exit_code
    return 0


class _LazyGroup(click.Group):
    """Import a command when it is called, so that help costs nothing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read ``rase help plan`` as ``rase plan --help``, ``rase version`` as ``--version``."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        elif args == ["version"]:
            args = ["--version"]
        return super().parse_args(ctx, args)

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


def _show_version(context: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if not is_asked:
        return
    from rase.kernels.backend import kernels_in_use

    click.echo(f"rase {__version__}\nkernels: {kernels_in_use()}")
    context.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and the kernels in use, and exit.",
)
def _rase() -> None:
    """Randomize, shuffle, estimate: private averages from fleets of devices."""
