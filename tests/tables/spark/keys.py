"""Which run keys are alive: after a run none but those that other tests' modules hold."""

import gc

from rase.kernels.keyed import RunKey

__all__ = ["KeysElsewhere", "keys_alive"]

KeysElsewhere = frozenset[int]


def keys_alive() -> list[RunKey]:
    """Return every run key in this process."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, RunKey)]
