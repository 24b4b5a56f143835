"""Several quantities of one table under one budget: in turns, or each with a part of it.

Each quantity is a column with a plan, a run and noise of its own. A device either reports one
quantity a round, by a schedule as live devices have (`rase.accounting.schedule.Turns`), or all of
them, each with its part of the budget. What a device spent is added up over all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rase.atomic_files import write_atomic
from rase.errors import StorageUnusable
from rase.kernels.keyed import RunKey
from rase.kernels.words import Random, SeededRandom, source_of
from rase.series.rounds import Rounds
from rase.tables.summary import DeviceCounts

if TYPE_CHECKING:
    from rase.arrays import Flags, Places, Words
    from rase.tables.plan import RunPlan
    from rase.tables.run import TableRun

__all__ = ["MOST_TURNS", "Quantities", "QuantityRuns", "Spent", "Turn", "folder_of"]

# Of one cycle, all quantities together.
MOST_TURNS: Final = 64
_KEY_FILE = "turns.key"
_KEY_BYTES = 32
# So many rows at a time: each takes a word for every turn of a cycle.
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Turn:
    """Say which of several quantities one is, and in which rounds a device reports it.

    Rounds are cut into cycles in which each quantity has its number of turns, in an order of the
    device's and the cycle's own.

    Guarantee: in a round a device has the turn of exactly one quantity, and in each cycle exactly
    the stated turns of each, whatever the readings are; who lacks the key learns nothing about one
    order from others (tests/tables/test_quantities.py).

    Args:
        quantity: Its column.
        shares: For each quantity its turns of a cycle, or its part of the budget.
        key: What orders turns; None where each device reports every quantity in every round.
    """

    quantity: str
    shares: Mapping[str, float]
    key: RunKey | None = field(default=None, repr=False)

    def is_own(self, public: Words, rounds: Places) -> Flags:
        """Return where it is this quantity's turn.

        Args:
            public: The public number of the device of each row.
            rounds: The round of each row.
        """
        if self.key is None:
            return np.ones(len(rounds), dtype=np.bool_)
        turns = [int(count) for count in self.shares.values()]
        owner = np.repeat(np.arange(len(turns)), turns)
        cycles, places = np.divmod(rounds, len(owner))
        found = np.empty(len(rounds), dtype=np.bool_)
        for start in range(0, len(rounds), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            words = self.key.turn_words(public[part], cycles[part], slots=len(owner))
            order = np.argsort(words, axis=1, kind="stable")
            slots = np.take_along_axis(order, places[part, None], axis=1)[:, 0]
            found[part] = owner[slots] == list(self.shares).index(self.quantity)
        return found

    def described(self) -> dict[str, Any]:
        """Return it in words and numbers, for a manifest."""
        how = "split" if self.key is None else "turns"
        return {"quantity": self.quantity, how: dict(self.shares)}


@dataclass(frozen=True, kw_only=True)
class Quantities:
    """Several columns of a table, each with a plan, under one budget of a device.

    Args:
        plans: A plan for each column; all with the same rounds.
        turns: How many turns of a cycle each has, by column: a device then reports one of them in a
            round. None lets it report all of them in every round, and their epsilons add up.

    Attributes:
        epsilon: The most that a device spends in a round.

    Raises:
        ValueError: If plans have other rounds than each other, or turns are out of bounds.

    Example:
        >>> from rase import Categories, Range, RunPlan, auto
        >>> power = RunPlan(randomizer=auto(1.0, Range(0, 3000)), every="1h")
        >>> mode = RunPlan(randomizer=auto(1.0, Categories(("off", "on"))), every="1h")
        >>> both = {"power": power, "mode": mode}
        >>> Quantities(plans=both, turns={"power": 2, "mode": 1}).epsilon
        1.0
        >>> Quantities(plans=both).epsilon
        2.0
    """

    plans: Mapping[str, RunPlan]
    turns: Mapping[str, int] | None = None
    epsilon: float = field(init=False)

    def __post_init__(self) -> None:
        """Check what can be checked before a table is read."""
        if not self.plans:
            raise ValueError("plans must have at least one quantity, got none.")
        if len({plan.every for plan in self.plans.values()}) > 1:
            raise ValueError("every must be the same in all plans: they share rounds.")
        budgets = [plan.randomizer.budgets[-1] for plan in self.plans.values()]
        object.__setattr__(self, "epsilon", sum(budgets) if self.turns is None else max(budgets))
        if self.turns is not None:
            self._check_turns(self.turns)
        # Whatever a plan cannot share a budget with is refused here.
        self.share_plans(None if self.turns is None else RunKey(bytes(32)))

    def _check_turns(self, turns: Mapping[str, int]) -> None:
        if list(turns) != list(self.plans):
            raise ValueError(
                f"turns must be given for {', '.join(self.plans)}, got {', '.join(turns)}."
            )
        if min(turns.values()) < 1 or sum(turns.values()) > MOST_TURNS:
            raise ValueError(
                f"turns must be whole numbers from 1 on, {MOST_TURNS} together at most, got "
                f"{', '.join(map(str, turns.values()))}."
            )

    def share_plans(self, key: RunKey | None) -> dict[str, RunPlan]:
        """Return the plans, each with what it shares.

        Args:
            key: What orders turns; None where there are none.
        """
        parts = {name: plan.randomizer.budgets[-1] for name, plan in self.plans.items()}
        shares = parts if self.turns is None else self.turns
        return {
            name: replace(plan, turn=Turn(name, shares, key)) for name, plan in self.plans.items()
        }

    def described(self) -> dict[str, Any]:
        """Return all of it in words and numbers, for a manifest."""
        parts = {name: plan.described() for name, plan in self.plans.items()}
        return {"quantities": parts, **({} if self.turns is None else {"turns": dict(self.turns)})}


@dataclass(frozen=True, slots=True)
class Spent:
    """What devices spent on all quantities together.

    Args:
        devices: How many reported.
        reports: How many reports were drawn.
        most_reports: The most reports of one device.
        most_epsilon: The most any device spent: the sum of the epsilon of its reports.
    """

    devices: int
    reports: int
    most_reports: int
    most_epsilon: float


class QuantityRuns(Mapping[str, Rounds]):
    """The rounds of each quantity, by its column; all were drawn when this is made.

    Nothing of the first is shown before the last was drawn: a table that is refused for one column
    releases nothing of another.

    Args:
        quantities: What to do.
        begin: Begins the run of a quantity: its column, its plan and its source of randomness.
        rng: None for secure randomness; a `SeededRandom` for study.
        folder: Where runs keep what they drew, so that turns stay when they go on; None where
            nothing is kept.

    Attributes:
        runs: The runs.
        spent: What devices spent, added up over all quantities.
    """

    def __init__(
        self,
        quantities: Quantities,
        begin: Callable[[str, RunPlan, Random | None], TableRun],
        *,
        rng: Random | None = None,
        folder: Path | None = None,
    ) -> None:
        key = None if quantities.turns is None else _turn_key(rng, folder)
        self._folder = folder
        if folder is not None:
            folder.mkdir(mode=0o700, exist_ok=True)
        self.runs: dict[str, TableRun] = {}
        self._rounds: dict[str, Rounds] = {}
        counts = DeviceCounts()
        for name, plan in quantities.share_plans(key).items():
            # Noise of its own: two quantities of a device never share a word.
            own = rng.child(f"quantity {name}") if isinstance(rng, SeededRandom) else rng
            run = self.runs[name] = begin(name, plan, own)
            self._rounds[name] = Rounds(run)
            found = run.devices.by_public()
            spent = (found.reports * plan.randomizer.budgets[-1]).astype(np.float64)
            counts.add(DeviceCounts(found.device, found.reports, spent))
        most = 0.0 if counts.spent is None else float(counts.spent.max(initial=0.0))
        self.spent = Spent(
            devices=len(counts.device),
            reports=int(counts.reports.sum()),
            most_reports=int(counts.reports.max(initial=0)),
            most_epsilon=most,
        )

    def __getitem__(self, name: str) -> Rounds:
        """Return the rounds of a quantity."""
        return self._rounds[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the columns."""
        return iter(self._rounds)

    def __len__(self) -> int:
        """Return how many quantities there are."""
        return len(self._rounds)

    def __repr__(self) -> str:
        """Return what there is of each."""
        return f"QuantityRuns({self._rounds!r})"

    def finish(self) -> None:
        """Forget what interrupted runs would need: the results are in their place.

        What a record holds stays, and with it whose turn it was when.
        """
        for run in self.runs.values():
            run.finish()
        left = set() if self._folder is None else {one.name for one in self._folder.iterdir()}
        if self._folder is not None and left <= {_KEY_FILE}:
            (self._folder / _KEY_FILE).unlink(missing_ok=True)
            self._folder.rmdir()


def folder_of(folder: Path, quantity: str) -> Path:
    """Return where the run of a quantity keeps what it drew; columns may have any name."""
    return folder / hashlib.sha256(quantity.encode()).hexdigest()[:16]


def _turn_key(rng: Random | None, folder: Path | None) -> RunKey:
    """Return what orders turns: that of the runs this one goes on with, or a fresh one.

    With a fresh one a run that goes on would give some devices two turns in a round.
    """
    if isinstance(rng, SeededRandom):
        return RunKey.draw_key(rng.child("turns"))
    if folder is None:
        return RunKey.draw_key(rng)
    place = folder / _KEY_FILE
    key = place.read_bytes() if place.exists() else b""
    if not key and not (folder.exists() and any(folder.iterdir())):
        folder.mkdir(mode=0o700, exist_ok=True)
        key = source_of(rng).words(4).astype("<u8").tobytes()
        write_atomic(place, key, mode=0o600)
    if len(key) != _KEY_BYTES:
        raise StorageUnusable(
            f"{place} is missing or damaged, which says whose turn it was when; without it a "
            "device could report twice in a round. Put it back, or give another --out."
        )
    return RunKey(key)
