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

__all__ = ["DEFAULT_FOLDER", "DEFAULT_PORT", "agent_command", "run_agent"]

DEFAULT_FOLDER: Final = "rase-device"
DEFAULT_PORT: Final = 8750
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


def run_agent(folder: Path, *, rounds: int | None, page_port: int | None = None) -> None:
    """Run the agent of a folder until SIGTERM, or for so many rounds.

    Args:
        folder: The device's folder.
        rounds: Stop by itself after so many rounds.
        page_port: Serve the owner's page on this port; as the settings say if None.

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
        run_device(DeviceFolder(folder), os.environ, wait=wait, rounds=rounds, page_port=page_port)
    finally:
        gc.enable()
        signal.signal(signal.SIGTERM, before)
