"""What an experiment is: it requests cells, and draws its conclusions from them."""

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rase.errors import DataError
from rase.lab.panel import Panel
from rase.lab.pictures import Picture

__all__ = [
    "Cell",
    "Check",
    "Experiment",
    "Findings",
    "Outcome",
    "Row",
    "Setup",
    "Steps",
    "Study",
    "checksum_of",
    "study_part",
]

Row = Mapping[str, Any]
Outcome = Mapping[str, Any]

_LEAST_DEVICES = 16
_LEAST_DAYS = 5
_MOST_DEVICES = 64
_MOST_DAYS = 25
_DAY_MS = 86_400_000
# The ranges behind the paper's numbers, in W (docs/explain/reproduction.md): that of Table I, the
# one which gives its average error, and the one which gives its largest square error.
_TABLE_HIGH_W = 178.3
_ERROR_HIGH_W = 2800.0
_SQUARE_HIGH_W = 1300.0
# Watts beyond are of households, for which the paper's ranges would clip nearly every reading.
_APPLIANCE_HIGH_W = 1000.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement, the smallest unit that is computed, cached and resumed.

    Args:
        measure: The name of a function in `rase.lab.experiments.measure`.
        settings: Its arguments; plain values, because they are the key of the cache.
    """

    measure: str
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The measurement as one line of text, the same for equal settings."""
        return json.dumps([self.measure, dict(self.settings)], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a claim holds in the measurements.

    Args:
        claim: The claim, as a sentence.
        holds: Whether it does.
        is_departure: Whether it is one that the paper would deny.
    """

    claim: str
    holds: bool
    is_departure: bool = False

    def __post_init__(self) -> None:
        """Convert NumPy's booleans to plain ones."""
        object.__setattr__(self, "holds", bool(self.holds))


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of one experiment.

    Args:
        rows: The table behind the picture; all rows have the same columns.
        picture: What to draw.
        measured: "We measured", in sentences made from the numbers.
        checks: The claims that must hold.
        chance: What blind guessing achieves, where the experiment is an attack.
    """

    rows: tuple[Row, ...]
    picture: Picture
    measured: str
    checks: tuple[Check, ...]
    chance: float | None = None


Steps = Generator[Sequence[Cell], Sequence[Outcome], Findings]


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings that all experiments of a run share.

    Args:
        panel: The readings.
        trials: How often noise, order and split are drawn again.
        seed: Of everything that is drawn.
        is_fast: Whether small sizes are enough, as in the tests.

    Raises:
        ValueError: If ``trials`` or ``seed`` is out of range.
        DataError: If there are too few devices or days, or a device has no reading.
    """

    panel: Panel
    trials: int = 10
    seed: int = 1
    is_fast: bool = False

    def __post_init__(self) -> None:
        """Refuse data for which the figures would be meaningless."""
        if not 1 <= self.trials <= 100:
            raise ValueError(f"trials must be between 1 and 100, got {self.trials}.")
        if not 0 <= self.seed <= 4_000_000:
            raise ValueError(f"seed must be between 0 and 4000000, got {self.seed}.")
        if self.panel.n < _LEAST_DEVICES:
            raise DataError(
                f"the experiments need at least {_LEAST_DEVICES} devices, got {self.panel.n}; "
                "rase attack takes any two or more."
            )
        days = len(np.unique(self.panel.times_ms // _DAY_MS))
        if days < _LEAST_DAYS:
            raise DataError(f"the experiments need at least {_LEAST_DAYS} days, got {days}.")
        self.panel.check_attackable()

    @property
    def n(self) -> int:
        """How many devices an attack tells apart: the paper's 64, or all where there are fewer."""
        return min(_MOST_DEVICES, self.panel.n)

    def seeds(self, draws: int = 1) -> tuple[int, ...]:
        """Return the seed of each trial, or of several draws a trial.

        Runs with different seeds share none, up to 10 draws a trial.
        """
        return tuple(1000 * self.seed + number for number in range(self.trials * draws))

    @property
    def table_high(self) -> float:
        """The upper end of the range of Table I, under which the attacks run."""
        return _TABLE_HIGH_W * self.range_scale

    @property
    def error_high(self) -> float:
        """The upper end of the range under which Fig. 7 comes out."""
        return _ERROR_HIGH_W * self.range_scale

    @property
    def square_high(self) -> float:
        """The upper end of the range under which Fig. 8 comes out."""
        return _SQUARE_HIGH_W * self.range_scale

    @property
    def range_scale(self) -> float:
        """1 for watts of appliances; elsewhere ranges grow with the bulk of the readings."""
        bulk = float(np.nanquantile(self.panel.values, 0.99))
        if bulk <= 0 or (self.panel.unit == "W" and bulk < _APPLIANCE_HIGH_W):
            return 1.0
        return bulk / _TABLE_HIGH_W


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure or table: what the paper says about it, and how it is measured here.

    Args:
        name: What one types.
        figure: Where it stands in the paper; "not in the paper" otherwise.
        title: What it shows.
        paper_says: The paper's numbers and claims.
        why: Why ours differ, as far as known.
        choices: What the paper leaves open, and what is taken here.
        steps: Yields the cells it needs, is sent their outcomes, and returns what it found.
    """

    name: str
    figure: str
    title: str
    paper_says: str
    why: str
    choices: Mapping[str, str]
    steps: Callable[[Setup], Steps]


@dataclass(frozen=True, slots=True)
class Study:
    """The result of one experiment, with everything needed to reproduce it.

    Args:
        name: What one types.
        figure: Where it stands in the paper.
        title: What it shows.
        rows: The table.
        paper_says: The paper's numbers and claims.
        measured: Ours.
        why: Why they differ.
        choices: What the paper leaves open, and what was taken.
        checks: The claims that were checked.
        chance: What blind guessing achieves, or None.
        command: What to type to get it again.
        seed: The seed.
        trials: The number of trials.
        data: Where the readings came from.
        checksum: SHA-256 of the readings.
        code: The version of the code that measured.
        picture: What to draw; not kept in files, where it is drawn.
    """

    name: str
    figure: str
    title: str
    rows: tuple[Row, ...]
    paper_says: str
    measured: str
    why: str
    choices: Mapping[str, str]
    checks: tuple[Check, ...]
    chance: float | None
    command: str
    seed: int
    trials: int
    data: str
    checksum: str
    code: str
    picture: Picture | None = field(default=None, compare=False)

    @property
    def is_reproduced(self) -> bool:
        """Whether all claims that must hold do."""
        return all(check.holds for check in self.checks)


def study_part(panel: Panel) -> Panel:
    """Return the part of a panel that the figures need: 25 days, and 64 devices.

    The first days are taken, and of the devices those with most readings in them; devices without
    any reading are left out.
    """
    days = np.unique(panel.times_ms // _DAY_MS, return_inverse=True)[1]
    some = panel.first_rounds(int(np.count_nonzero(days < _MOST_DAYS)))
    present = (~np.isnan(some.values)).sum(axis=0)
    most = np.argsort(-present, kind="stable")[:_MOST_DEVICES]
    return some.of_devices(np.sort(most[present[most] > 0]))


def checksum_of(panel: Panel) -> str:
    """Return the SHA-256 of a panel's times, devices and readings, whatever file they came from.

    Example:
        >>> checksum_of(Panel([0], ["a"], [[1.0]]))[:12]
        'c238db01fc2e'
    """
    digest = hashlib.sha256()
    digest.update(json.dumps([panel.unit, *panel.devices]).encode())
    digest.update(panel.times_ms.astype("<i8").tobytes())
    # One bit pattern for every kind of NaN.
    values = np.where(np.isnan(panel.values), np.nan, panel.values)
    digest.update(values.astype("<f8").tobytes())
    return digest.hexdigest()
