"""Attack several schemes on one set of readings, and score each device.

What the dashboard's attack lab runs in a process of its own; the result is plain values, so that it
can travel as JSON.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rase.domain import Range
from rase.kernels.words import SeededRandom
from rase.lab.attacks import ATTACK_NAMES, attack_named
from rase.lab.attacks.runner import attack_release
from rase.lab.metrics import AttackResult, Interval
from rase.lab.panel import Panel
from rase.lab.schemes import SCHEME_NAMES, scheme_named

__all__ = ["SCHEMA", "AttackPlan", "attack_study"]

SCHEMA = "rase.attack-lab/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackPlan:
    """What is attacked, and how.

    Args:
        attacks: Names out of `ATTACK_NAMES`.
        schemes: Names out of `SCHEME_NAMES`.
        low: The lower end of the public range.
        high: The upper end of the public range.
        epsilon: The budget of one report.
        alpha: The loss allowed to a Mallows law.
        groups: The number of groups.
        split: Whether a fifth of the records is kept for the test at random, or the last.
        arrival: Whether devices report in the same sequence every round.
        seed: Of noise, order, split and attacks.

    Raises:
        ValueError: If a name is unknown, there is none, or a number is out of range.
    """

    attacks: tuple[str, ...]
    schemes: tuple[str, ...]
    low: float = 0.0
    high: float = 3000.0
    epsilon: float = 1.0
    alpha: float = 30.0
    groups: int = 8
    split: Literal["random", "time"] = "random"
    arrival: Literal["fixed", "random"] = "fixed"
    seed: int = 1

    def __post_init__(self) -> None:
        """Check the names, and let the schemes check the numbers."""
        for what, names, known in (
            ("attacks", self.attacks, ATTACK_NAMES),
            ("schemes", self.schemes, SCHEME_NAMES),
        ):
            if not names or set(names) - set(known):
                raise ValueError(f"{what} must be some of {', '.join(known)}, got {list(names)}.")
        for name in self.schemes:
            self.scheme(name)

    def scheme(self, name: str) -> Any:
        """Return a scheme with these numbers."""
        return scheme_named(
            name,
            Range(self.low, self.high),
            epsilon=self.epsilon,
            alpha=self.alpha,
            group_count=self.groups,
        )


def attack_study(
    panel: Panel, plan: AttackPlan, *, on_step: Callable[[int, int, str], None] | None = None
) -> dict[str, Any]:
    """Run every attack against every scheme.

    Args:
        panel: The readings.
        plan: What is attacked, and how.
        on_step: Called before each attack with how many are done, how many there are, and what
            comes next.

    Returns:
        Plain values: the plan, the devices, chance, and for each attack and scheme precision and
        recall, in the mean with an interval and for each device (None where a device had no
        record in the test).

    Raises:
        DataError: If the readings cannot be attacked.

    Example:
        >>> from rase.lab.datasets import open_panel
        >>> plan = AttackPlan(attacks=("bayes",), schemes=("raw",))
        >>> found = attack_study(open_panel("fleet:4x6:1"), plan)
        >>> found["chance"], len(found["results"][0]["device_recall"])
        (0.25, 4)
    """
    panel.check_attackable()
    total = len(plan.attacks) * len(plan.schemes)
    results: list[dict[str, Any]] = []
    for name in plan.schemes:
        rng = SeededRandom(plan.seed).child("lab")
        release, secret = plan.scheme(name).release(panel, arrival=plan.arrival, rng=rng)
        for attack in plan.attacks:
            if on_step is not None:
                on_step(len(results), total, f"{attack} against {name}")
            found = attack_release(
                attack_named(attack),
                release,
                secret=secret,
                panel=panel,
                scheme=name,
                split=plan.split,
                seed=plan.seed,
            )
            results.append(_result_row(found))
    return {
        "schema": SCHEMA,
        "data": panel.source,
        "rounds": panel.rounds,
        "devices": list(panel.devices),
        "chance": 1 / panel.n,
        "plan": asdict(plan),
        "results": results,
    }


def _result_row(found: AttackResult) -> dict[str, Any]:
    return {
        "attack": found.attack,
        "scheme": found.scheme,
        "recall": _interval(found.macro_recall),
        "precision": _interval(found.macro_precision),
        "is_above_chance": found.is_above_chance,
        "records": found.records,
        "confident": found.confident,
        "confident_right": found.confident_right,
        "device_recall": _plain(found.recall),
        "device_precision": _plain(found.precision),
    }


def _interval(share: Interval) -> dict[str, float]:
    return {"value": share.value, "low": share.low, "high": share.high}


def _plain(shares: NDArray[np.float64]) -> list[float | None]:
    return [None if math.isnan(one) else one for one in shares.tolist()]
