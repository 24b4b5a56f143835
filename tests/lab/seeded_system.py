"""An operating system whose random bytes repeat, for claims that take secure words in any case.

The two sides of a fork get bytes of their own, as from a real one.
"""

import hashlib
import itertools
import os

import pytest

__all__ = ["seed_the_system"]


def seed_the_system(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Let `os.urandom` give bytes that follow from a seed while the patch lasts.

    Args:
        patch: What takes it back.
        seed: Of all bytes.
    """
    home, calls = os.getpid(), itertools.count()

    def urandom(size: int) -> bytes:
        side = "process" if os.getpid() == home else "fork"
        return hashlib.shake_256(f"{seed} {side} {next(calls)}".encode()).digest(size)

    patch.setattr(os, "urandom", urandom)
