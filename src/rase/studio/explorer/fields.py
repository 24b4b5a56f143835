"""The Explorer's boxes and sliders: name, bounds and initial value of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from rase.laws.registry import FOR_MEANS

__all__ = ["FIELDS", "MOST_DEVICES", "USUAL", "Choice", "Field"]

Scale = Literal["linear", "log", "both", "stops"]

MOST_DEVICES: Final = 10**7


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A parameter with a number box and a slider.

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
    """A parameter chosen from a list.

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
            options=(("auto", "auto: the best at this epsilon"), *((m, m) for m in FOR_MEANS)),
        ),
        Field(
            name="delta",
            label="Delta",
            hint="What may be added to e^epsilon times a probability; well below 1 / devices.",
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
            hint="A report should lie this near, as a share of the reading …",
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
            hint="How many times better than chance may an observer of order name the most exposed "
            "sender, the first or last?",
            usual="",
        ),
    ),
}

USUAL: Final[Mapping[str, str]] = {one.name: one.usual for part in FIELDS.values() for one in part}
