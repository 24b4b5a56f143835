"""Attacks on released reports, one per file behind one protocol, imported on demand.

Only the lab attacks: on your own data, to see what a configuration would reveal.
"""

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from rase.lab.attacks.protocol import Attack

__all__ = ["ATTACK_NAMES", "attack_named"]

_HOME = {
    "value": "value.ValueAttack",
    "value_time": "value_time.ValueTimeAttack",
    "value_slot": "value_slot.ValueSlotAttack",
    "slot": "slot.SlotAttack",
    "profile": "forest.ProfileAttack",
    "bayes": "bayes.BayesAttack",
    "matching": "matching.MatchingAttack",
    "mallows_aware": "mallows_aware.MallowsAwareAttack",
    "linkage": "linkage.LinkageAttack",
    "averaging": "averaging.AveragingAttack",
    "range": "range.RangeAttack",
}
ATTACK_NAMES = tuple(_HOME)


def attack_named(name: str) -> "Attack":
    """Return the attack of that name, with its usual options.

    Raises:
        ValueError: If the name is unknown.

    Example:
        >>> attack_named("bayes").cost
        'n log n'
    """
    if name not in _HOME:
        raise ValueError(f"name must be one of {', '.join(ATTACK_NAMES)}, got {name!r}.")
    module, attack = _HOME[name].split(".")
    return cast("Attack", getattr(import_module(f"{__name__}.{module}"), attack)())
