"""``rase run --quantity``: what is asked of several columns, and what is said of all of them."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rase.cli.report import plural, publish_once
from rase.cli.run_options import DEFAULT_DELTA, RunOptions
from rase.counts.registry import TRACKED
from rase.errors import DataError
from rase.privacy import LocalDP, rounded_up
from rase.tables.quantities import Quantities, QuantityRuns, folder_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rase.cli.report import RunReport
    from rase.kernels.words import Random
    from rase.tables.plan import RunPlan
    from rase.tables.run import TableRun

__all__ = ["AskedQuantities", "begin_quantities", "head_of", "read_quantities", "tail_of"]

_EXAMPLE = "power=0:3000, mode=off,on or heat=above:21"
_ABOVE = "above:"
# What is for one quantity alone, or says of one what --quantity says of several.
_EXCLUDED: Final = (
    *("value_range", "categories", "above", "epsilons", "graph", "alpha", "feedback"),
)
# Budgets that --split cuts into parts.
_CUT: Final = ("epsilon", "shuffled_epsilon", "max_local_epsilon")
_FLAGS: Final = {"value_range": "range"}


@dataclass(frozen=True, slots=True)
class AskedQuantities:
    """What was asked of several quantities.

    Args:
        options: The options of each, by its column, with its part of the budget.
        turns: How many turns of a cycle each has; None where each has a part of the budget.
        parts: The part of the budget of each; 1 for all that take turns.
        together: The budgets of a device and round, over all quantities, by their options.
    """

    options: Mapping[str, RunOptions]
    turns: Mapping[str, int] | None
    parts: Mapping[str, float]
    together: Mapping[str, float | None]

    @property
    def first(self) -> RunOptions:
        """The options of the first."""
        return next(iter(self.options.values()))

    def share_of(self, name: str) -> float:
        """Return the share of devices that report a quantity in a round, on average."""
        return 1.0 if self.turns is None else self.turns[name] / sum(self.turns.values())


def read_quantities(
    texts: Sequence[str], *, turns: str | None, split: str | None, asked: Mapping[str, Any]
) -> AskedQuantities:
    """Read what was typed.

    Args:
        texts: The quantities, as ``power=0:3000``.
        turns: How many turns of a cycle each has, as ``2,1``.
        split: Into which parts their budget is cut, as ``2,1``.
        asked: The other options.

    Raises:
        click.UsageError: If options contradict each other, or a text cannot be read.
    """
    domains: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, domain = _read(text)
        if name in domains:
            raise click.UsageError(f"--quantity {name} is given twice; give each column once.")
        domains[name] = domain
    for option in _EXCLUDED:
        if asked[option] not in (None, False):
            flag = _FLAGS.get(option, option)
            raise click.UsageError(f"--{flag} and --quantity cannot be used together.")
    if turns is not None and split is not None:
        raise click.UsageError("--turns and --split cannot be used together.")
    if split is None and asked["every"] is None:
        raise click.UsageError(
            "--quantity needs --every, so that a device can report one of them in a round; or "
            "--split, to report all of them with a part of the budget each."
        )
    parts = dict.fromkeys(domains, 1.0)
    taken = None
    if split is not None:
        weights = _numbers("split", split, domains)
        parts = {name: one / sum(weights) for name, one in zip(domains, weights, strict=True)}
    else:
        shares = _numbers("turns", turns or ",".join("1" * len(domains)), domains)
        if any(one != int(one) for one in shares):
            raise click.UsageError(f"--turns must be whole numbers, got {turns}.")
        taken = {name: int(one) for name, one in zip(domains, shares, strict=True)}
    options = {
        name: RunOptions(**_own(asked, domain, part=parts[name], split=split is not None))
        for name, domain in domains.items()
    }
    together = {name: asked[name] for name in (*_CUT, "delta")}
    return AskedQuantities(options, taken, parts, together)


def _read(text: str) -> tuple[str, dict[str, Any]]:
    """Return the column, and what its readings may be."""
    name, sign, domain = (one.strip() for one in text.partition("="))
    if not name or not sign or not domain:
        raise click.UsageError(
            f"--quantity must be a column and what its readings may be, such as {_EXAMPLE}; got "
            f"{text!r}."
        )
    if "," in domain:
        return name, {"categories": domain}
    ends = [domain.removeprefix(_ABOVE)] if domain.startswith(_ABOVE) else domain.split(":")
    numbers = [_number(end) for end in ends]
    if None in numbers or len(numbers) != (1 if domain.startswith(_ABOVE) else 2):
        raise click.UsageError(
            f"--quantity {name} must have a range LOW:HIGH, categories with commas between them, "
            f"or a bound {_ABOVE}NUMBER, such as {_EXAMPLE}; got {domain!r}."
        )
    if domain.startswith(_ABOVE):
        return name, {"above": numbers[0]}
    return name, {"value_range": tuple(numbers)}


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _numbers(option: str, text: str, names: Mapping[str, Any]) -> list[float]:
    numbers = [_number(one) for one in text.split(",")]
    found = [one for one in numbers if one is not None and one > 0]
    if len(found) != len(numbers) or len(found) != len(names):
        raise click.UsageError(
            f"--{option} must be a number above 0 for each quantity ({', '.join(names)}), with "
            f"commas between them; got {text}."
        )
    return found


def _own(
    asked: Mapping[str, Any], domain: Mapping[str, Any], *, part: float, split: bool
) -> dict[str, Any]:
    """Return the options of one quantity."""
    own = {**asked, **domain}
    for name in _CUT:
        own[name] = None if own[name] is None else part * own[name]
    is_promising = (own["shuffled_epsilon"], own["delta"]) != (None, None)
    if split and is_promising:
        # Deltas add up as epsilons do.
        own["delta"] = part * (own["delta"] or DEFAULT_DELTA)
    if "value_range" not in domain:
        own |= {"estimator": (TRACKED,), "as_known_then": False}
    return own


def begin_quantities(
    quantities: Quantities,
    begin: Callable[[str, RunPlan, Random | None], TableRun],
    *,
    rng: Random | None,
    work: Path | None,
    record: Path | None,
) -> QuantityRuns:
    """Run all quantities to their end.

    Raises:
        DataError: If the table cannot be used; nothing was shown, so nothing that was drawn is
            kept but in a record.
    """
    begun: list[str] = []

    def start(name: str, plan: RunPlan, own: Random | None) -> TableRun:
        begun.append(name)
        return begin(name, plan, own)

    try:
        return QuantityRuns(quantities, start, rng=rng, folder=work or record)
    except DataError:
        # A log that was refused is gone; one that another process has is still there.
        if work is not None and begun and not folder_of(work, begun[-1]).exists():
            shutil.rmtree(work, ignore_errors=True)
        raise


def head_of(asked: AskedQuantities, reports: Mapping[str, RunReport]) -> dict[str, Any]:
    """Return the members of a JSON document that come before the results."""
    heads = {name: report.head for name, report in reports.items()}
    first = next(iter(heads.values()))
    common = {**first["parameters"], "value_range": None, **asked.together}
    listed = (
        *("value_range", "categories", "above", "steps"),
        *("epsilon", "shuffled_epsilon", "delta", "k_min", "drawn_mechanism"),
    )
    for name in ("categories", "above", "drawn_mechanism"):
        common.pop(name, None)
    common["quantities"] = {
        name: {one: head["parameters"].get(one) for one in listed} for name, head in heads.items()
    }
    shares = asked.parts if asked.turns is None else asked.turns
    common["split" if asked.turns is None else "turns"] = dict(shares)
    return {"schema": first["schema"], "parameters": common}


def widths_of(reports: Mapping[str, RunReport]) -> dict[str, int]:
    """Return the columns people see of all of them, and how wide they are."""
    found: dict[str, int] = {}
    for report in reports.values():
        for name, width in report.widths.items():
            found[name] = max(width, found.get(name, 0))
    if "category" in found:
        # Means and shares stand in one table: a mean's category is that it is one.
        found.pop("method", None)
    own = {"quantity": max(8, *map(len, reports))}
    first: dict[str, int] = {name: found.pop(name) for name in ("trial", "time") if name in found}
    if "truth" in found:
        # One report may show more than others, and numbers come last.
        found |= {name: found.pop(name) for name in ("value", "standard_error", "low", "high", "n")}
    return {**first, **own, **found}


def tail_of(
    quantities: Quantities,
    runs: QuantityRuns,
    reports: Mapping[str, RunReport],
    *,
    is_short: bool,
) -> dict[str, Any]:
    """Return the members of a JSON document that come after the results.

    Args:
        quantities: What was done.
        runs: What came of it.
        reports: What is said of each.
        is_short: Whether nobody asks for more than the closing words.
    """
    tails = {
        name: report.tail(runs.runs[name].summary, is_short=is_short)
        for name, report in reports.items()
    }
    spent = runs.spent
    together = f"epsilon {rounded_up(spent.most_epsilon):g}"
    promised = _add_promises(runs, reports)
    guarantee = _in_a_round(quantities)
    tail: dict[str, Any] = {
        "guarantee": guarantee,
        "publish_once": publish_once(spent.most_epsilon),
        "quantities": tails,
        "summary": asdict(spent),
        "verdict": None,
    }
    if promised is not None:
        epsilon, delta = promised
        together = (
            f"towards the fusion centre ({rounded_up(epsilon):g}, {rounded_up(delta):g})-DP, the "
            f"quantities' promises added up; if both servers work together {together}"
        )
        tail["promises"] = [
            f"{name}: {one}" for name, own in tails.items() for one in own["promises"]
        ]
        tail["shuffled_epsilon"], tail["delta"] = epsilon, delta
    words = {
        name: "\n".join(f"{one}: {own['closing'][name]}" for one, own in tails.items())
        for name in ("says", "sure")
    }
    tail["closing"] = {
        **words,
        "promised": (
            f"{guarantee} A device sent up to {plural(spent.most_reports, 'report')} of all "
            f"quantities: together {together}. Publish one run of these readings only."
        ),
    }
    return tail


def _in_a_round(quantities: Quantities) -> str:
    names = ", ".join(quantities.plans)
    most = LocalDP(quantities.epsilon)
    if quantities.turns is None:
        parts = ", ".join(f"{plan.randomizer.budgets[-1]:g}" for plan in quantities.plans.values())
        return (
            f"In a round a device reports all of {names}, with epsilon {parts}: together epsilon "
            f"{rounded_up(quantities.epsilon):g}, {most.odds}."
        )
    turns = ", ".join(map(str, quantities.turns.values()))
    return f"In a round a device reports one of {names}, by turns ({turns}). {most}"


def _add_promises(
    runs: QuantityRuns, reports: Mapping[str, RunReport]
) -> tuple[float, float] | None:
    """Return what the reports of a device give away once shuffled; None if nothing is promised.

    By sequential composition; no device has more reports of a quantity than the most of any.
    """
    claims = [
        report.claim(runs.runs[name].summary.most_reports) for name, report in reports.items()
    ]
    known = [claim for claim in claims if claim is not None]
    if not known:
        return None
    return sum(claim.epsilon for claim in known), sum(claim.delta for claim in known)
