"""A small fleet whose devices differ in level, power and hours."""

import numpy as np
import pytest

from rase.domain import Range
from rase.lab.panel import Panel

HOUR_MS = 3_600_000


def fleet(n: int, rounds: int, *, seed: int = 2026, hours: float = 1.0) -> Panel:
    """Return readings of devices with their own standby, power and time of day."""
    generator = np.random.default_rng(seed)
    hour = (np.arange(rounds) * hours).astype(np.int64) % 24
    standby = generator.uniform(0, 20, n)
    power = generator.uniform(20, 80, n)
    start = generator.integers(0, 24, n)
    length = generator.integers(3, 12, n)
    is_on = (hour[:, None] - start) % 24 < length
    is_on &= generator.random((rounds, n)) < 0.9
    values = standby + np.where(is_on, power, 0) * generator.uniform(0.9, 1.1, (rounds, n))
    times = (np.arange(rounds) * hours * HOUR_MS).astype(np.int64)
    return Panel(times, [f"d{i}" for i in range(n)], values, source="made for tests")


@pytest.fixture(scope="session")
def homes() -> Panel:
    """Sixteen devices over 25 days of hours."""
    return fleet(16, 600)


@pytest.fixture(scope="session")
def watts() -> Range:
    """The public range of that fleet."""
    return Range(0, 110)
