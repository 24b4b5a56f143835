"""``rase device run`` without click, whose import costs a third of the agent's whole start.

Only what needs no help is read here; everything else is left to click, which knows the same
options (rase.cli.device) and tells what is wrong with them.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

__all__ = ["DEFAULT_FOLDER", "agent_command", "run_agent"]

DEFAULT_FOLDER: Final = "rase-device"
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
    options: dict[str, str | None] = {"--folder": DEFAULT_FOLDER, "--rounds": None}
    rest = iter(typed[2:])
    for word in rest:
        name, sign, value = word.partition("=")
        value = value if sign else next(rest, "")
        if name not in options or not value or value.startswith("-"):
            return None
        options[name] = value
    folder, rounds = Path(options["--folder"] or ""), options["--rounds"]
    is_whole = rounds is None or (rounds.isascii() and rounds.isdecimal() and int(rounds) > 0)
    if not is_whole or folder.is_file():
        return None
    return partial(run_agent, folder, rounds=None if rounds is None else int(rounds))


def run_agent(folder: Path, *, rounds: int | None) -> None:
    """Run the agent of a folder until SIGTERM, or for so many rounds.

    Raises:
        RaseError: If it cannot work.
    """
    # What is imported stays: looking for garbage in it would only cost time.
    gc.disable()
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda number, frame: stop.set())

    def wait(seconds: float) -> bool:
        gc.enable()
        return stop.wait(seconds)

    try:
        from rase.device.folder import DeviceFolder
        from rase.device.program import run_device

        # Modules of the owner for python sources are looked for where the agent was started.
        sys.path.append("")
        run_device(DeviceFolder(folder), os.environ, wait=wait, rounds=rounds)
    finally:
        gc.enable()
        signal.signal(signal.SIGTERM, before)
