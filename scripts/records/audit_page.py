"""The figures on the page about the audit of the claims, from the record of the audit."""

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["audit_tables", "with_audit"]

Record = Mapping[str, Any]
_COUNTED: Final = re.compile(r"(?<=## What came out\n\n).*? for all rows together\.", re.DOTALL)


def with_audit(text: str, run: Record) -> str:
    """Return the audit's page with the counts and tables of a run, each below its head."""
    counted = (
        f"{run['samples']:,} samples of each input, {run['randomness']} randomness,"
        f" {100 * run['confidence']:.4f} % for all rows together."
    )
    text = _COUNTED.sub(counted, text, count=1)
    for lines in audit_tables(run):
        start = text.index("\n".join(lines[:2]))
        text = text[:start] + "\n".join(lines) + text[text.index("\n\n", start) :]
    return text


def audit_tables(run: Record) -> tuple[list[str], list[str]]:
    """Return the audit's tables: single reports by mechanism and epsilon, then all else."""
    found = {row["name"]: row for row in run["results"]}
    single = ["| mechanism | 0.5 | 1 | 4 | 1, off the grid |", "|---|---|---|---|---|"]
    first = [name for name, row in found.items() if row["kind"] == "report" and name[-4:] == " 0.5"]
    for name in (name.removesuffix(" 0.5") for name in first):
        of = [found[f"{name} {rest}"] for rest in ("0.5", "1", "4", "1, off the grid")]
        bounds = " | ".join(f"{row['lower_bound']:.4f}" for row in of)
        single.append(f"| {name} | {bounds} |")
    others = ["| what | claim | at least | samples |", "|---|---|---|---|"]
    for name, row in found.items():
        if row["kind"] != "report":
            claim = f"{row['claim']:.4g}" + (f", δ = {row['delta']:g}" if row["delta"] else "")
            cells = (name, claim, f"{row['lower_bound']:.4f}", f"{row['samples']:,}")
            others.append(f"| {' | '.join(cells)} |")
    return single, others
