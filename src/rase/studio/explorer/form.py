"""How an address becomes a question to the Explorer, or a sentence next to each wrong field."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from rase.accounting.plan.schedule import SCHEDULES
from rase.clock import parse_duration_s
from rase.domain import Range
from rase.laws.registry import MEAN_CHOICES
from rase.privacy import MAX_EPSILON, MIN_EPSILON
from rase.studio.explorer.fields import MOST_DEVICES, USUAL

__all__ = ["Asked", "Refused", "asked_of", "shown_number"]

_MOST_WINDOW: Final = 10**6
_LONGEST_S: Final = 366 * 86400
_FURTHEST: Final = 1e9
# A number that is shown again to whoever typed it is cut.
_LONGEST_ECHO: Final = 40


class Refused(ValueError):
    """The address does not ask a question that can be answered; ``mistakes`` says why by field."""

    def __init__(self, mistakes: Mapping[str, str]) -> None:
        self.mistakes = dict(mistakes)
        super().__init__(" ".join(self.mistakes.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A validated question to the planner.

    Args:
        low: The smallest reading.
        high: The largest reading.
        epsilon: The budget of one report.
        mechanism: A name, or ``auto``.
        delta: The delta of central guarantees.
        devices: How many report in a round.
        every: The length of a round as it was written.
        window: How many rounds are averaged.
        schedule: In which rounds a device reports: ``every``, ``split`` or ``rotate``.
        beta: The precision's half-width.
        rho: Its probability.
        shuffle: ``uniform`` or ``robust``.
        alpha: The loss allowed to a robust shuffler.
        groups: Its number of groups.
        error: A wished error, if any.
        attacker_cap: A cap on an observer of order in the most exposed slot, if any.
    """

    low: float
    high: float
    epsilon: float
    mechanism: str
    delta: float
    devices: int
    every: str
    window: int
    schedule: str
    beta: float
    rho: float
    shuffle: str
    alpha: float
    groups: int
    error: float | None
    attacker_cap: float | None

    @property
    def interval_s(self) -> int:
        """The length of a round."""
        return parse_duration_s(self.every)

    @property
    def is_robust(self) -> bool:
        """Whether alpha and groups count."""
        return self.shuffle == "robust"

    @property
    def query(self) -> str:
        """The question as a query string, without default values."""
        shown = {name: shown_number(getattr(self, name)) for name in USUAL}
        if not self.is_robust:
            shown = {name: text for name, text in shown.items() if name not in ("alpha", "groups")}
        changed = {
            name: text for name, text in shown.items() if text != _format_field(name, USUAL[name])
        }
        return urlencode(changed)

    def for_plan(self) -> dict[str, Any]:
        """Return the arguments of `rase.accounting.plan.plan` besides range and epsilon."""
        return {
            "devices": self.devices,
            "beta": self.beta,
            "rho": self.rho,
            "alpha": self.alpha if self.is_robust else None,
            "group_count": self.groups if self.is_robust else None,
            "interval_s": self.interval_s,
            "window": self.window,
            "schedule": self.schedule,
            "delta": self.delta,
            "mechanism": self.mechanism,
            "error": self.error,
            "attacker_cap": self.attacker_cap,
        }


def asked_of(given: Mapping[str, str]) -> Asked:
    """Return the question in an address; missing parts take their defaults.

    Raises:
        Refused: With a sentence for every field that is wrong.

    Example:
        >>> asked_of({"epsilon": "0.5"}).query
        'epsilon=0.5'
    """
    values: dict[str, Any] = {}
    mistakes: dict[str, str] = {}
    for name, usual in USUAL.items():
        text = given.get(name, usual).strip()
        # A field that is emptied is as usual; so a form without scripts can leave fields out.
        text = text or usual
        try:
            values[name] = _READ[name](name, text) if text else None
        except ValueError as error:
            mistakes[name] = str(error)
    if "low" in values and "high" in values:
        try:
            Range(values["low"], values["high"])
        except ValueError as error:
            mistakes["high"] = str(error)
    if mistakes:
        raise Refused(mistakes)
    return Asked(**values)


def shown_number(value: object) -> str:
    """Return a value as shown in a box: the shortest text for the same number."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def _format_field(name: str, text: str) -> str:
    return shown_number(_READ[name](name, text)) if text else ""


def _number(low: float, high: float, *, is_open: bool = False) -> Callable[[str, str], float]:
    """Return a reader of numbers from low to high; an open one leaves out the lower end."""

    def read(name: str, text: str) -> float:
        try:
            value = float(text) + 0.0
        except ValueError:
            value = math.nan
        if not low <= value <= high or (is_open and value == low):
            bounds = (
                f"above {low:g} and at most {high:g}" if is_open else f"from {low:g} to {high:g}"
            )
            raise ValueError(f"{name} must be a number {bounds}, got {_echo(text)}.")
        return value

    return read


def _whole(low: int, high: int) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= 12
        if not is_number or not low <= int(text) <= high:
            raise ValueError(
                f"{name} must be a whole number from {low} to {high}, got {_echo(text)}."
            )
        return int(text)

    return read


def _choice(*known: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {_echo(text)}.")
        return text

    return read


def _duration(name: str, text: str) -> str:
    try:
        # Twenty digits are no duration, and int would read them for long.
        seconds = parse_duration_s(text) if len(text) <= 12 else 0
    except ValueError:
        seconds = 0
    if not 1 <= seconds <= _LONGEST_S:
        raise ValueError(
            f"{name} must be a duration such as 30s, 15min, 1h or 1d, up to 366d, got "
            f"{_echo(text)}."
        )
    return text


def _echo(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…")


_READ: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "low": _number(-_FURTHEST, _FURTHEST),
    "high": _number(-_FURTHEST, _FURTHEST),
    "epsilon": _number(MIN_EPSILON, MAX_EPSILON),
    "mechanism": _choice(*MEAN_CHOICES),
    "delta": _number(1e-30, 0.5),
    "devices": _whole(2, MOST_DEVICES),
    "every": _duration,
    "window": _whole(1, _MOST_WINDOW),
    "schedule": _choice(*SCHEDULES),
    "beta": _number(0, 1),
    "rho": _number(0, 1),
    "shuffle": _choice("uniform", "robust"),
    "alpha": _number(0, 1000, is_open=True),
    "groups": _whole(1, 1024),
    "error": _number(0, 2 * _FURTHEST, is_open=True),
    "attacker_cap": _number(1, MOST_DEVICES),
}
