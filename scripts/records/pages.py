"""The page of evidence: which records are of this code, one row for each part, and the checks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from scripts.records.audit_page import with_audit
from scripts.records.parts import ROOT, Part
from scripts.records.sections import sections

from rase.atomic_files import write_atomic
from rase.lab.provenance import is_of_this_code

__all__ = ["Place", "State", "page", "problems", "records", "state", "violations", "write_pages"]

_HEAD = """\
# Evidence

What was tested, and with what result. `make evidence` runs the measurements and writes this page
from the records in `docs/evidence`; no figure here is typed by hand. The
[threat model](threat-model.md) says what is promised, and against whom.

How to read the table:

- **of this code** means that the rooms of the package that the record covers, and everything they
  import, are byte for byte what was measured. `make check` compares a hash of them.
- **of earlier code** means that one of these files has changed since the measurement, and that it
  has not been repeated. The commit and the day of the measurement are in brackets; `+changes` marks
  uncommitted sources.
- **never measured** means that there is no record.
- The hash covers the sources of `src/rase`: Python, C, SQL and noise tables. It does not cover
  tests, harness, libraries or the machine.
- A *violation* is a broken promise: a lost report, a failed test, a claim above its bound. It stays
  on the page until a later run has none.

After a change to a measured room, `make check` fails until the part is measured again (`make
evidence ARGS="chaos fuzz"`) or its row is marked as earlier (`make evidence ARGS=--pages`). `make
evidence ARGS=--list` shows the parts. `--quick` runs each part for a short time; its row shows the
command and the seconds.

"""
_EARLIER = "of earlier code"


class State(Enum):
    """How a record stands to the sources of today."""

    CURRENT = "of this code"
    EARLIER = _EARLIER
    NEVER = "never measured"


@dataclass(frozen=True, slots=True)
class Place:
    """Name the files that are read and written.

    Args:
        folder: Of the records.
        page: Of the evidence.
        audit: The page with the tables of the audit.
        logs: Folder of what parts print while they run.
    """

    folder: Path = ROOT / "docs/evidence"
    page: Path = ROOT / "docs/explain/evidence.md"
    audit: Path = ROOT / "docs/explain/audit.md"
    logs: Path = ROOT / "build/evidence"


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the records of a folder by name."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}


def state(record: Mapping[str, Any] | None) -> State:
    """Return whether a record is of the sources of today."""
    if record is None:
        return State.NEVER
    return State.CURRENT if is_of_this_code(record) else State.EARLIER


def violations(record: Mapping[str, Any]) -> int:
    """Return how many promises a record saw broken, whatever it is a record of."""
    return (
        len(record.get("violations", ()))
        + len(record.get("failures", ()))
        + len(record.get("findings", ()))
        + int(record.get("broken", 0))
        + sum(not check["holds"] for check in record.get("checks", ()))
    )


def page(found: Mapping[str, Mapping[str, Any]], parts: Sequence[Part]) -> str:
    """Return the page of some records."""
    table = [
        "| part | violations | code | seconds | command |",
        "|---|---:|---|---:|---|",
        *(_row(part, found.get(part.name)) for part in parts),
        "",
    ]
    return _HEAD + "\n".join(["\n".join(table), *sections(found)])


def write_pages(place: Place, parts: Sequence[Part]) -> None:
    """Write the page of evidence, and the figures on that of the audit."""
    found = records(place.folder)
    write_atomic(place.page, page(found, parts))
    if "audit" in found:
        text = place.audit.read_text(encoding="utf-8")
        write_atomic(place.audit, with_audit(text, found["audit"]))


def problems(place: Place, parts: Sequence[Part]) -> list[str]:
    """Return what is wrong with the pages: marks that do not fit the code, and other figures."""
    found = records(place.folder)
    text = place.page.read_text(encoding="utf-8") if place.page.is_file() else ""
    lines = text.splitlines()
    wrong = []
    for part in parts:
        now = state(found.get(part.name))
        row = next((line for line in lines if line.startswith(_first_cell(part))), "")
        if now is State.EARLIER and _EARLIER not in row:
            wrong.append(
                f"{part.name}: the code has changed since it was measured, and its row does not say"
                f' "{_EARLIER}": measure it (make evidence ARGS={part.name}), or mark it'
                " (make evidence ARGS=--pages)."
            )
        if now is State.CURRENT and _EARLIER in row:
            wrong.append(
                f'{part.name}: its row says "{_EARLIER}", but it was measured with this code:'
                " run make evidence ARGS=--pages."
            )
    names = {part.name for part in parts}
    wrong += [
        f"{name}.json in {place.folder.name} belongs to no part."
        for name in sorted(found.keys() - names)
    ]
    if not wrong and text != page(found, parts):
        wrong.append(f"{place.page.name} differs from the records: make evidence ARGS=--pages.")
    if "audit" in found:
        tables = place.audit.read_text(encoding="utf-8")
        if with_audit(tables, found["audit"]) != tables:
            wrong.append(f"{place.audit.name} differs from its record: make evidence ARGS=--pages.")
    return wrong


def _row(part: Part, record: Mapping[str, Any] | None) -> str:
    now = state(record)
    if record is None:
        return f"{_first_cell(part, is_linked=False)} – | {now.value} | – | – |"
    count = violations(record)
    cells = (
        f"**{count}**" if count else "0",
        f"{now.value} ({_measured_at(record)})",
        "not recorded" if record["seconds"] is None else f"{record['seconds']:,.0f}",
        f"`{record['command']}`",
    )
    return f"{_first_cell(part)} {' | '.join(cells)} |"


def _first_cell(part: Part, *, is_linked: bool = True) -> str:
    anchor = part.heading.lower().replace(" ", "-")
    return f"| [{part.title}](#{anchor}) |" if is_linked else f"| {part.title} |"


def _measured_at(record: Mapping[str, Any]) -> str:
    """Return commit and day; what an older record does not say is not guessed."""
    commit, _, changes = (record["commit"] or "").partition("+")
    where = f"`{commit[:12]}{changes and '+' + changes}`" if commit else "commit not recorded"
    if record["date"]:
        return f"{where}, {record['date']}"
    if record.get("code_date"):
        return f"{where}, code of {record['code_date']}"
    return "commit and date not recorded"
