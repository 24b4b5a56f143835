"""The interface of every attack: what it may know, what it sees, and what it returns."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from rase.lab.order_law import OrderLaw
from rase.laws.randomizer import RangeRandomizer

__all__ = ["Attack", "Case", "Codes", "Flags", "Floats", "Guesses", "Knowledge", "Target", "Unit"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]

T = TypeVar("T")
Unit = Literal["record", "round", "day"]
Target = Literal["sender", "slot"]


class Knowledge(Enum):
    """What an attacker may know beyond the released values and their times."""

    LABELS = "the true sender of each released training record"
    HISTORY = "the raw readings of every device in the training rounds"
    MECHANISM = "the randomizer and its budget, which are public"
    ORDER_LAW = "the law of the order, with its theta"
    CENTRE = "the order in which devices reported in each round"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Case:
    """The input of one attacker: the released values, and the knowledge that it declared.

    What an attack did not declare is None, so that it cannot use it by accident.

    Args:
        n: How many devices there are.
        times_ms: When each round began.
        values: The released values, rounds x slots; NaN in empty slots.
        is_train: Which cells are for training, rounds x slots.
        seed: For the attack's own choices.
        labels: The device behind each training cell, -1 elsewhere.
        history: Raw readings, rounds x devices, NaN outside the training rounds.
        randomizer: The mechanism; None also for raw readings.
        laws: The law of each round's order.
        arrival: The device at each arrival place, rounds x places; -1 where none.
    """

    n: int
    times_ms: Codes
    values: Floats
    is_train: Flags
    seed: int
    labels: Codes | None = None
    history: Floats | None = None
    randomizer: RangeRandomizer | None = None
    laws: tuple[OrderLaw, ...] | None = None
    arrival: Codes | None = None

    @property
    def is_test(self) -> Flags:
        """Which cells hold a value that must be attributed."""
        return ~self.is_train & ~np.isnan(self.values)

    def known_labels(self) -> Codes:
        """Return the labels of an attack that declared them."""
        return _check_declared(self.labels, Knowledge.LABELS)

    def known_history(self) -> Floats:
        """Return the raw readings of an attack that declared them."""
        return _check_declared(self.history, Knowledge.HISTORY)

    def known_arrival(self) -> Codes:
        """Return the arrivals of an attack that declared to know the centre."""
        return _check_declared(self.arrival, Knowledge.CENTRE)

    def known_laws(self) -> tuple[OrderLaw, ...]:
        """Return the laws of the order of an attack that declared them."""
        return _check_declared(self.laws, Knowledge.ORDER_LAW)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Guesses:
    """An attack's answers, one for each record it was asked about.

    Args:
        rounds: The round of each record; of a day's profile, its first round.
        slots: The slot of each record.
        ranked: The devices guessed, best first, records x guesses; -1 for none.
        confidence: The attacker's posterior of the first guess.
        clusters: Records that stand or fall together, for honest intervals.
    """

    rounds: Codes
    slots: Codes
    ranked: Codes
    confidence: Floats
    clusters: Codes


class Attack(Protocol):
    """Name the sender of released reports; every implementation is frozen and seeded by its case.

    ``unit`` says what a random split parts: single records, whole rounds, or a slot's days.
    ``target`` says what counts as right: the true sender, or the slot (the paper's set-up).
    ``cost`` says how time grows with the number of devices at a fixed number of rounds.
    """

    @property
    def name(self) -> str:
        """The attack's name in tables and on the command line."""
        ...

    @property
    def knows(self) -> frozenset[Knowledge]:
        """What it needs beyond the released values."""
        ...

    @property
    def unit(self) -> Unit:
        """What a random split separates."""
        ...

    @property
    def target(self) -> Target:
        """What counts as right."""
        ...

    @property
    def cost(self) -> str:
        """How its time grows: "n log n", "n^2" or "n^3"."""
        ...

    def guess(self, case: Case) -> Guesses:
        """Attribute the test records of a case."""
        ...


def _check_declared(value: T | None, knowledge: Knowledge) -> T:
    if value is None:
        raise ValueError(f"knows must declare {knowledge.name}: {knowledge.value}.")
    return value
