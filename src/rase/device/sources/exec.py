"""Readings from a command that prints a number."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rase.device.sources.interface import Reading, SourceFailed, reading_in

if TYPE_CHECKING:
    from rase.device.settings import SourceSettings
    from rase.transport.broker import Broker

__all__ = ["ExecSource"]


class ExecSource:
    """Run a command each time and take the last line it prints.

    Args:
        command: The program and its arguments; no shell reads them.
        scale: What the number is multiplied by.
        states: The names of states by what is said, where it is states; None for numbers.
        timeout_s: After how long the command is ended.
    """

    KIND = "exec"

    def __init__(
        self,
        command: Sequence[str],
        *,
        scale: float = 1.0,
        states: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._command = list(command)
        self._scale = scale
        self._states = states
        self._timeout_s = timeout_s

    @classmethod
    def from_settings(
        cls, settings: "SourceSettings", *, folder: Path, home: "Broker | None" = None
    ) -> "ExecSource":
        """Make the source that the section [source] describes."""
        return cls(
            settings.command or (),
            scale=settings.scale,
            states=settings.states,
            timeout_s=settings.timeout_s,
        )

    def read(self) -> list[Reading]:
        """Run the command and return its reading; none if it prints nothing.

        Raises:
            SourceFailed: If the program cannot be run, fails, takes too long, or prints no number.
        """
        import subprocess

        try:
            done = subprocess.run(  # noqa: S603 - the owner's own command, no shell
                self._command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._timeout_s,
                check=False,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "is no command"
            raise SourceFailed(self.KIND, f"{self._command[0]}: {reason}.") from None
        except subprocess.TimeoutExpired:
            raise SourceFailed(self.KIND, f"took more than {self._timeout_s:g} s.") from None
        if done.returncode:
            raise SourceFailed(self.KIND, f"ended with exit code {done.returncode}.")
        lines = done.stdout.split(b"\n")
        last = next((line for line in reversed(lines) if line.strip()), None)
        return (
            []
            if last is None
            else [reading_in(self.KIND, last, scale=self._scale, states=self._states)]
        )

    def close(self) -> None:
        """Have nothing to let go of: each command has ended."""
