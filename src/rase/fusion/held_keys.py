"""Keys are published only if they can be opened: by every fusion centre that runs now.

A key that devices seal for and no server holds would leave every batch of it waiting.
"""

import threading
from typing import Final

from rase.clock import Clock
from rase.errors import RaseError
from rase.fusion.key_check import missing_keys
from rase.fusion.settings import FusionSettings
from rase.service.heartbeat import key_rows, running
from rase.service.key_settings import read_opening_keys
from rase.storage.interface import Database
from rase.wire.keys import Keyset, Role

__all__ = ["KeyNotHeld", "check_held", "wait_until_held"]

_PATIENCE_S: Final = 15.0
_AGAIN_S: Final = 0.2


class KeyNotHeld(RaseError):
    """A keyset names a key that a running fusion centre does not hold; nothing is published."""

    exit_code = 3


def wait_until_held(
    database: Database, keyset: Keyset, *, settings: FusionSettings, clock: Clock
) -> None:
    """Wait some seconds for processes that are about to read a new key; see `check_held`.

    Raises:
        KeyNotHeld: Naming the keys that are still not held.
        ConfigurationError: If none runs and the files cannot be read.
    """
    until_s = clock.monotonic_s() + _PATIENCE_S
    never = threading.Event()
    while True:
        try:
            check_held(database, keyset, settings=settings, clock=clock)
        except KeyNotHeld:
            if clock.monotonic_s() >= until_s:
                raise
            never.wait(_AGAIN_S)
        else:
            return


def check_held(
    database: Database, keyset: Keyset, *, settings: FusionSettings, clock: Clock
) -> None:
    """Refuse a keyset with a key that not all running processes have proved to hold.

    Where none runs, the files that the settings name count: a server that starts reads them.

    Args:
        database: The fusion centre's, in which its processes say what they hold.
        keyset: What is to be published.
        settings: The fusion centre's.
        clock: Says which keys are long past use, and need not be held.

    Raises:
        KeyNotHeld: Naming the keys.
        ConfigurationError: If none runs and the files cannot be read.
    """
    now_s = clock.now_s()
    with database.snapshot() as transaction:
        held = [one.keys for one in running(transaction, now_s=now_s, part="fusion")]
    if not held:
        keys = read_opening_keys(settings.opening_key_files, role=Role.FUSION)
        held = [frozenset(key_rows(keys))]
        who = "no file of opening_key_files holds"
    else:
        who = "the running fusion centre does not hold"
        if len(held) > 1:
            who = f"not every one of the {len(held)} running fusion centres holds"
    missing = sorted(
        {number for rows in held for number in missing_keys(keyset, rows, now_s=now_s)}
    )
    if missing:
        numbers = ", ".join(str(number) for number in missing)
        raise KeyNotHeld(
            f"{who} key {numbers} of the keyset, so nothing is published. Put its file among "
            "opening_key_files in the settings of each; a running server reads it within seconds, "
            "and says in its log why if it cannot. Then publish again."
        )
