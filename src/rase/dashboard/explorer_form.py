"""The Explorer's parameters: their fields, their bounds, and how an address becomes a question."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlencode

from rase.accounting.candidates import MECHANISMS
from rase.accounting.plan_schedule import SCHEDULES
from rase.clock import parse_duration_s
from rase.randomize.grid import MAX_EPSILON, MIN_EPSILON
from rase.stream import ValueRange

__all__ = [
    "FIELDS",
    "MOST_DEVICES",
    "USUAL",
    "Asked",
    "Choice",
    "Field",
    "Refused",
    "asked_of",
    "shown_number",
]

Scale = Literal["linear", "log", "both", "stops"]

MOST_DEVICES: Final = 10**7
_MOST_WINDOW: Final = 10**6
_LONGEST_S: Final = 366 * 86400
_FURTHEST: Final = 1e9
# A number that is told back to whoever typed it is cut.
_LONGEST_ECHO: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Describe a parameter with a number box and a slider.

    Args:
        name: Its name in the address.
        label: As the form calls it.
        hint: What it means, in a few words.
        usual: What stands in the box at first; empty if it may be left out.
        low: The lower end of the slider.
        high: The upper end of the slider.
        scale: How the slider runs: "both" is logarithmic on both sides of 0, "stops" goes through
            ``stops``.
        stops: The values of a slider with stops.
        unit: Stands behind the label.
        is_whole: Whether the slider stops at whole numbers.
    """

    name: str
    label: str
    hint: str
    usual: str
    low: float = 0.0
    high: float = 1.0
    scale: Scale = "linear"
    stops: tuple[str, ...] = ()
    unit: str = ""
    is_whole: bool = False

    @property
    def has_slider(self) -> bool:
        """Whether a slider stands below the box; not for what is usually left out."""
        return self.usual != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Describe a parameter chosen from a list.

    Args:
        name: Its name in the address.
        label: As the form calls it.
        hint: What it means.
        usual: The choice at first.
        options: Value and text of each choice.
    """

    name: str
    label: str
    hint: str
    usual: str
    options: tuple[tuple[str, str], ...]


_EVERY: Final = ("8s", "30s", "1min", "5min", "15min", "30min", "1h", "2h", "6h", "12h", "1d", "7d")

FIELDS: Final[Mapping[str, tuple[Field | Choice, ...]]] = {
    "Readings": (
        Field(
            name="low",
            label="Range from",
            hint="The smallest reading, public; chosen without looking at the data.",
            usual="0",
            low=-1e5,
            high=1e5,
            scale="both",
        ),
        Field(
            name="high",
            label="Range to",
            hint="The largest. The error is proportional to the width.",
            usual="3000",
            low=-1e5,
            high=1e5,
            scale="both",
        ),
    ),
    "Privacy": (
        Field(
            name="epsilon",
            label="Epsilon",
            unit="a report",
            hint="The budget of one report: smaller is more private and noisier.",
            usual="1",
            low=0.01,
            high=20,
            scale="log",
        ),
        Choice(
            name="mechanism",
            label="Mechanism",
            hint="How a device makes its report noisy.",
            usual="auto",
            options=(("auto", "auto: the best at this epsilon"), *((m, m) for m in MECHANISMS)),
        ),
        Field(
            name="delta",
            label="Delta",
            hint="How improbable a failure of a central guarantee must be.",
            usual="1e-6",
            low=1e-12,
            high=1e-2,
            scale="log",
        ),
    ),
    "Fleet and time": (
        Field(
            name="devices",
            label="Devices",
            hint="How many report in a round.",
            usual="1000",
            low=2,
            high=MOST_DEVICES,
            scale="log",
            is_whole=True,
        ),
        Field(
            name="every",
            label="Round length",
            hint="Such as 30s, 15min, 1h or 1d.",
            usual="1h",
            scale="stops",
            stops=_EVERY,
        ),
        Field(
            name="window",
            label="Window",
            unit="rounds",
            hint="How many rounds are averaged.",
            usual="24",
            low=1,
            high=10_000,
            scale="log",
            is_whole=True,
        ),
        Choice(
            name="schedule",
            label="Devices report",
            hint="With this epsilon; to split or rotate, the window's budget follows from it.",
            usual="every",
            options=(
                ("every", "in every round"),
                ("split", "split: a share of a window's budget each round"),
                ("rotate", "rotate: in one round of each window"),
            ),
        ),
    ),
    "Precision asked for": (
        Field(
            name="beta",
            label="Beta",
            hint="A report shall lie this near, as a share of the reading …",
            usual="0.5",
        ),
        Field(name="rho", label="Rho", hint="… with this probability.", usual="0.9"),
    ),
    "Shuffler": (
        Choice(
            name="shuffle",
            label="Order",
            hint="Uniform is best for means; robust keeps places where that hides enough.",
            usual="uniform",
            options=(("uniform", "uniform"), ("robust", "robust, with alpha and groups")),
        ),
        Field(
            name="alpha",
            label="Alpha",
            hint="The loss allowed inside a group. For the robust shuffler.",
            usual="30",
            low=0.01,
            high=1000,
            scale="log",
        ),
        Field(
            name="groups",
            label="Groups",
            hint="How many groups. For the robust shuffler.",
            usual="4",
            low=1,
            high=1024,
            scale="log",
            is_whole=True,
        ),
    ),
    "Wishes, if you have any": (
        Field(
            name="error",
            label="Error of the window's mean",
            hint="What would meet it? In the unit of the readings.",
            usual="",
        ),
        Field(
            name="attacker_cap",
            label="Attacker's cap",
            hint="How many times better than chance may an observer of order be?",
            usual="",
        ),
    ),
}

USUAL: Final[Mapping[str, str]] = {one.name: one.usual for part in FIELDS.values() for one in part}


class Refused(ValueError):
    """The address does not ask a question that can be answered; ``mistakes`` says why by field."""

    def __init__(self, mistakes: Mapping[str, str]) -> None:
        self.mistakes = dict(mistakes)
        super().__init__(" ".join(self.mistakes.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Hold a question to the planner, checked.

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
        attacker_cap: A cap on an observer of order, if any.
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
        """The question as an address has it, without what is usual."""
        shown = {name: shown_number(getattr(self, name)) for name in USUAL}
        if not self.is_robust:
            shown = {name: text for name, text in shown.items() if name not in ("alpha", "groups")}
        changed = {name: text for name, text in shown.items() if text != _told(name, USUAL[name])}
        return urlencode(changed)

    def for_plan(self) -> dict[str, Any]:
        """Return the arguments of `rase.accounting.planner.plan` beside range and epsilon."""
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
    """Return the question in an address; what is absent is as usual.

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
            ValueRange(values["low"], values["high"])
        except ValueError as error:
            mistakes["high"] = str(error)
    if mistakes:
        raise Refused(mistakes)
    return Asked(**values)


def shown_number(value: object) -> str:
    """Return a value as a box shows it: the shortest text that means the same number."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def _told(name: str, text: str) -> str:
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
    "mechanism": _choice("auto", *MECHANISMS),
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
