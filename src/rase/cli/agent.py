"""``rase device run`` without click, whose import costs a third of the agent's whole start.

Only what needs no help is read here; everything else is left to click, which knows the same
options (rase.cli.device) and tells what is wrong with them.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rase.device.commands import DEFAULT_FOLDER, DEFAULT_PORT, run_agent

__all__ = ["agent_command"]

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
