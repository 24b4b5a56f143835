"""The range of ``rase plan --range-from``: what probing rounds recommend, and what it changes."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from rase.accounting.plan_values import Plan
from rase.domain import Range

__all__ = ["RangeChange", "RecommendedRange", "change_lines", "read_recommended"]

_SCHEMA = "rase/range/1"
_LABEL = 10


@dataclass(frozen=True, slots=True)
class RecommendedRange:
    """Hold what ``rase campaign range --json`` told.

    Args:
        present: The range of the campaign's newest version.
        recommended: The one that its probing rounds recommend.
        clip_bias: What clipping to the latter adds to the mean.
        clip_bias_error: The standard error of that.
        probes: From how many probing rounds it was learnt.
    """

    present: Range
    recommended: Range
    clip_bias: float
    clip_bias_error: float
    probes: int


@dataclass(frozen=True, slots=True)
class RangeChange:
    """Hold what the recommended range changes of a plan.

    Args:
        range: Both ranges, and what clipping adds.
        present_error: The worst error of the plan's recommended estimator with the present range.
        error: The same with the recommended range: the plan's own, and the clip bias.
    """

    range: RecommendedRange
    present_error: float
    error: float

    @classmethod
    def between(cls, found: RecommendedRange, *, present: Plan, then: Plan) -> "RangeChange":
        """Compare the plans of both ranges, by the unbiased mean of a window."""
        error = _error(then)
        return cls(found, _error(present), math.hypot(error, found.clip_bias))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        ranges = {
            name: [reach.low, reach.high]
            for name, reach in (
                ("present", self.range.present),
                ("recommended", self.range.recommended),
            )
        }
        more = {key: value for key, value in asdict(self.range).items() if key not in ranges}
        return {**ranges, **more, "present_error": self.present_error, "error": self.error}


def read_recommended(file: Path) -> RecommendedRange:
    """Read what ``rase campaign range --json`` wrote; ``-`` is standard input.

    Raises:
        click.UsageError: If it cannot be read, is no such document, or recommends nothing yet.
    """
    name = "standard input" if str(file) == "-" else str(file)
    wanted = "--range-from must be what `rase campaign range --json` writes"
    try:
        with click.open_file(str(file), encoding="utf-8") as opened:
            document = json.load(opened)
    except OSError as error:
        raise click.UsageError(f"--range-from cannot be read: {error.strerror}: {name}.") from None
    except ValueError:
        raise click.UsageError(f"{wanted}, got no JSON in {name}.") from None
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise click.UsageError(f"{wanted}, got another document in {name}.")
    advice = document.get("advice")
    if advice is None:
        raise click.UsageError(
            f"--range-from must hold a recommended range; after {document.get('probes')} probing "
            f"rounds there is none yet in {name}. Give --range instead."
        )
    try:
        return RecommendedRange(
            Range(float(document["low"]), float(document["high"])),
            Range(float(advice["low"]), float(advice["high"])),
            _finite(advice["clip_bias"]["value"]),
            _finite(advice["clip_bias"]["standard_error"]),
            int(document["probes"]),
        )
    except (KeyError, TypeError, ValueError):
        raise click.UsageError(f"{wanted}, got a damaged document in {name}.") from None


def change_lines(change: RangeChange) -> Iterator[str]:
    """Say in words what the recommended range changes."""
    found = change.range
    yield (
        f"{'range':<{_LABEL}}{found.recommended.low:g} to {found.recommended.high:g}, as "
        f"{found.probes} probing rounds recommend, instead of {found.present.low:g} to "
        f"{found.present.high:g}."
    )
    yield (
        f"{'':<{_LABEL}}worst error of the unbiased mean, clipping included: {change.error:.4g} "
        f"instead of {change.present_error:.4g}; clipping adds {found.clip_bias:.3g} ± "
        f"{found.clip_bias_error:.2g} to it."
    )


def _error(plan: Plan) -> float:
    return next(
        row.window.total
        for row in plan.errors
        if (row.estimator, row.readings) == ("unbiased_mean", "worst")
    )


def _finite(value: object) -> float:
    number = float(str(value))
    if not math.isfinite(number):
        raise ValueError("must be finite")
    return number
