"""What an owner does with a device: enrol it, run it, pause it, forget it, without any package.

Both programs call these: ``rase device`` (rase.cli.device, by click) and ``rase-device.pyz``
(rase.device.__main__, by the standard library alone).
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from rase.errors import ConfigurationError, RaseError

if TYPE_CHECKING:
    from rase.device.folder import DeviceFolder

__all__ = [
    "DEFAULT_FOLDER",
    "DEFAULT_PORT",
    "WrongUse",
    "enrol_device",
    "enrolled_folder",
    "forget_device",
    "pause_device",
    "resume_device",
    "run_agent",
]

DEFAULT_FOLDER: Final = "rase-device"
DEFAULT_PORT: Final = 8750
_OWNER: Final = (
    "shuffler",
    "campaign",
    "fusion_key",
    "shuffler_key",
    "registrar",
    "registrar_key",
)
_BUDGETS: Final = (
    "report_epsilon",
    "span_epsilon",
    "total_epsilon",
    "shuffled_epsilon",
    "span_shuffled_epsilon",
)
_LONGEST_TOKEN: Final = 512
_MAKERS: Final = {
    "--token-file": "shuffler enrol",
    "--approval-file": "registrar approve",
}


class WrongUse(RaseError):
    """Options that cannot be used together, or a file that does not hold what it must."""

    exit_code = 2


def enrol_device(
    folder: Path,
    token_file: TextIO,
    approval_file: TextIO,
    options: Mapping[str, Any],
) -> str:
    """Write a device's settings unless they are there, and give a token for a credential.

    Args:
        folder: The device's folder.
        token_file: Holds the token of the shuffler's operator.
        approval_file: Holds the approval of the registrar's operator.
        options: The settings by the names of `settings_text`; None where not given.

    Returns:
        The name the shuffler gave to the device.

    Raises:
        RaseError: If settings are missing or differ from those in the folder, or the shuffler
            refuses.
    """
    from rase.device.enrolment import enrol, settings_text
    from rase.device.folder import DeviceFolder
    from rase.device.settings import settings_of
    from rase.device.ways import registrar_transport_of, transport_of
    from rase.toml import parse_toml
    from rase.wire.private_files import write_private

    place = DeviceFolder(folder)
    token = _secret_in(token_file, "--token-file")
    approval = _secret_in(approval_file, "--approval-file")
    if place.settings_file.exists():
        _check_same(place.settings_file, options)
    else:
        missing = [f"{name} is missing." for name in _missing(options)]
        if missing:
            raise ConfigurationError(missing)
        text = settings_text(**options)
        # Whoever mistyped an option types it again, and must not find a file in the way.
        settings_of(parse_toml(text.encode()), os.environ)
        place.make()
        write_private(place.settings_file, text)
    settings = place.settings(os.environ)
    return enrol(
        place,
        token,
        transport=transport_of(settings, folder),
        approval=approval,
        registrar=registrar_transport_of(settings, folder),
        settings=settings,
    )


def run_agent(
    folder: Path,
    *,
    rounds: int | None,
    page_port: int | None = None,
    more: Sequence[Path] = (),
) -> None:
    """Run the agent of a folder until SIGTERM, or for so many rounds.

    Args:
        folder: The device's folder.
        more: Folders of more quantities, which are run in the same process; mostly they share a
            ledger. The page shows the first.
        rounds: Stop by itself after so many rounds.
        page_port: Serve the owner's page on this port; as the settings say if None.

    Raises:
        RaseError: If the agent cannot work.
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
        if more:
            _run_together([folder, *more], stop, rounds=rounds, page_port=page_port)
        else:
            run_device(
                DeviceFolder(folder), os.environ, wait=wait, rounds=rounds, page_port=page_port
            )
    finally:
        gc.enable()
        signal.signal(signal.SIGTERM, before)


def _run_together(
    folders: Sequence[Path], stop: threading.Event, *, rounds: int | None, page_port: int | None
) -> None:
    """Run an agent for each folder, each in a thread; one that cannot work ends all.

    Raises:
        RaseError: If one of them cannot work.
    """
    from rase.device.folder import DeviceFolder
    from rase.device.program import run_device, run_together

    works = [
        partial(
            run_device,
            DeviceFolder(folder),
            os.environ,
            wait=stop.wait,
            rounds=rounds,
            page_port=None if number else page_port,
        )
        for number, folder in enumerate(folders)
    ]
    run_together(works, stop)


def pause_device(folder: Path, campaign: str | None = None) -> None:
    """Pause sharing, of one quantity or of all.

    Raises:
        ConfigurationError: If the device is not enrolled, or does not have the quantity.
    """
    _quantity_of(folder, campaign).pause(is_alone=campaign is not None)


def resume_device(folder: Path, campaign: str | None = None) -> None:
    """Share again, after a pause or after sharing was switched off on the page.

    Args:
        folder: The device's folder.
        campaign: One of its quantities alone; all if None.

    Raises:
        ConfigurationError: If the device is not enrolled, or does not have the quantity.
    """
    place = _quantity_of(folder, campaign)
    place.resume(is_alone=campaign is not None)
    if place.is_off:
        place.switch(is_on=True)


def forget_device(folder: Path) -> Path:
    """Erase unsent reports, credential and key.

    Returns:
        The ledger, which keeps what was spent.

    Raises:
        RaseError: If the settings cannot be read, or an agent is running.
    """
    from rase.device.folder import DeviceFolder

    place = DeviceFolder(folder)
    place.forget(place.settings(os.environ))
    return place.ledger_path(place.settings(os.environ))


def enrolled_folder(folder: Path) -> "DeviceFolder":
    """Return the folder of a device that is enrolled.

    Raises:
        ConfigurationError: If it is not.
    """
    from rase.device.folder import DeviceFolder

    place = DeviceFolder(folder)
    if not place.is_enrolled:
        raise ConfigurationError([f"{folder} is not enrolled; run rase device enrol first."])
    return place


def _quantity_of(folder: Path, campaign: str | None) -> "DeviceFolder":
    place = enrolled_folder(folder)
    if campaign is None:
        return place
    from rase.device.quantities import quantity_folder

    return quantity_folder(place, campaign)


def _missing(options: Mapping[str, Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in _OWNER if options[name] is None]


def _check_same(file: Path, options: Mapping[str, Any]) -> None:
    """Refuse options that say something else than the settings that are there."""
    from rase.device.enrolment import settings_text

    given = [f"--{name.replace('_', '-')}" for name in (*_OWNER, *_BUDGETS) if options.get(name)]
    given += ["--range"] if options["value_range"] else []
    if not given:
        return
    # After an attempt that failed the same command is given again.
    if _missing(options) or file.read_text(encoding="utf-8") != settings_text(**options):
        raise WrongUse(
            f"{file} is there already; give --token-file and --approval-file alone to use it, or "
            f"edit it instead of {', '.join(given)}."
        )


def _secret_in(file: TextIO, name: str) -> str:
    from rase.wire.private_files import secret_of

    token: str | None
    try:
        token = secret_of(file, most=_LONGEST_TOKEN + 1)
    except ValueError:
        token = None
    if token == "":
        raise WrongUse(f"{name} must hold a token; it is empty.")
    if token is None or len(token) > _LONGEST_TOKEN or not _is_token(token):
        raise WrongUse(
            f"{name} must hold one token and nothing else; rase {_MAKERS[name]} prints one a line."
        )
    return token


def _is_token(text: str) -> bool:
    return text.isprintable() and " " not in text and "." in text
