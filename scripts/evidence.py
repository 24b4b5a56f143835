"""Write the pages of evidence and of the audit from what was measured: the files in docs/evidence.

Usage: python scripts/evidence.py [--check]
"""

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["AUDIT", "FOLDER", "PAGE", "WORDS", "audit_tables", "main", "page", "with_audit"]

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/evidence"
PAGE = ROOT / "docs/explain/evidence.md"
AUDIT = ROOT / "docs/explain/audit.md"
_HEAD = """\
# Evidence

What was tried, and what came of it. This page is written by `make evidence` from the files in
`docs/evidence`, and a test compares the two: no figure here is typed by hand. Each part names the
command that measured it, its seed, and the date of the code. What is promised, and against whom, is
in the [threat model](threat-model.md).
"""
_FAULTS = """\
Intake, closer, fusion centre, devices and a subscriber run as they are deployed, in rounds of two
seconds. Faults come at random from a seed, and after each the invariants are looked at. *Lost* is a
report whose device was told that it is accepted and that is in no estimate although its round must
have one; *doubled* is one that counts twice; an estimate is *wrong* if it is not that of the
reports it counts."""
_LOAD = """\
One intake on SQLite; every report is a request of its own, answered when it is on the disk. Times
are from the moment at which a request was due; the longest answer from that at which it was sent.
Stalled means that another writer holds the database for half of the time. The load, and whatever
else ran, shared the machine with the server: the rate is a lower bound for that machine at that
time, and says nothing of others."""
_STORES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
# Read, not imported: the script also runs where the folder above it is not on the path.
WORDS: dict[str, str] = runpy.run_path(str(ROOT / "chaos/kinds.py"))["KINDS"]


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is as it must be."""
    text = page(FOLDER)
    if "--check" in arguments:
        is_same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
        print("as measured." if is_same else "differs: run make evidence.")
        return 0 if is_same else 1
    PAGE.write_text(text, encoding="utf-8")
    run = json.loads((FOLDER / "audit.json").read_text(encoding="utf-8"))
    AUDIT.write_text(with_audit(AUDIT.read_text(encoding="utf-8"), run), encoding="utf-8")
    return 0


def page(folder: Path) -> str:
    """Return the page of the results in a folder; what was not measured is not told."""
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}
    parts = [_HEAD]
    runs = [found[name] for name in ("chaos", "chaos-postgresql") if name in found]
    if runs:
        parts.append("\n".join(_chaos(runs)))
    for name, write in (
        ("load", _load),
        ("soak", _soak),
        ("fuzz", _fuzz),
        ("audit", _audit),
        ("poisoning", _poisoning),
    ):
        if name in found:
            parts.append("\n".join(write(found[name])))
    return "\n".join(parts)


def _chaos(runs: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines on faults with real processes."""
    yield "## Faults with real processes"
    yield ""
    yield _FAULTS
    yield ""
    for run in runs:
        yield _source(run, _file("chaos", run))
    yield ""
    yield f"| fault | what it is | {' | '.join(_STORES[run['store']] for run in runs)} |"
    yield f"|---|---|{'---|' * len(runs)}"
    for kind, words in WORDS.items():
        counts = [run["faults"].get(kind, "–") for run in runs]
        if any(count != "–" for count in counts):
            yield f"| `{kind}` | {words} | {' | '.join(map(str, counts))} |"
    yield ""
    yield f"| outcome | {' | '.join(_STORES[run['store']] for run in runs)} |"
    yield f"|---|{'---|' * len(runs)}"
    rows: dict[str, Callable[[dict[str, Any]], int]] = {
        "faults": lambda run: sum(run["faults"].values()),
        "seconds, with settling": lambda run: round(run["seconds"]),
        "starts of processes": lambda run: run["starts"],
        "rounds with an estimate": lambda run: run["rounds"],
        "rounds withheld by rule": lambda run: run["withheld"],
        "reports accepted": lambda run: run["accepted"],
        "reports lost": lambda run: run["lost"],
        "reports doubled": lambda run: run["doubled"],
        "wrong estimates": lambda run: run["wrong"],
        "estimates whose number alone could be checked": lambda run: run["unchecked"],
        "rounds paid for twice": lambda run: run["repaid"],
        "rounds told to the subscriber, each once": lambda run: run["told"],
        "5xx without a named problem, tracebacks": lambda run: run["unexplained"],
        "most memory of a server, MB": lambda run: _most(run, "most_memory_mb"),
        "most open files of a server": lambda run: _most(run, "most_files"),
        "violations": lambda run: len(run["violations"]),
    }
    if all("harmed" in run for run in runs):
        rows["connections harmed on their way"] = lambda run: run["harmed"]
    for name, value in rows.items():
        yield f"| {name} | {' | '.join(f'{value(run):,}' for run in runs)} |"
    yield ""
    for run in runs:
        for kind, why in run["left_out"].items():
            yield f"- `{kind}` was left out with {_STORES[run['store']]}: {why}."
    yield ""


def _load(run: dict[str, Any]) -> Iterator[str]:
    """Yield the lines on load and soak."""
    yield "## Load"
    yield ""
    yield _LOAD
    yield ""
    yield _source(run, "load.json")
    yield ""
    yield (
        "| | asked a second | answered a second | p50, ms | p99, ms | longest answer, ms | answers "
        "| memory, MB |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    steady, rate = run["steady"], run["rate_a_second"]
    words = f"highest rate with p99 below 250 ms, for {steady['seconds']:.0f} s"
    yield _load_row(words, rate, steady, memory="")
    for name, words in (
        ("overload", f"twice that, {run['connections']:,} connections"),
        ("stalled", "the same, stalled for {stalled_s:g} s"),
    ):
        over = run[name]
        held = over["memory_mb"]
        memory = f"{held['before']} → {held['most']} → {held['after']}"
        yield _load_row(words.format(**over), over["asked_a_second"], over, memory=memory)
        yield _load_row("… then half the steady rate", rate / 2, over["recovery"], memory="")
    yield ""
    refused = sum(run[name]["refusals_without_retry_after"] for name in _OVERLOADS)
    yield (
        f"At most {run['max_waiting']:,} reports wait for the disk (`max_waiting`); others are"
        " refused with 429. Refusals that did not\nsay when to try again (`Retry-After`):"
        f" {refused}. Of {run['accepted']:,} reports that were accepted in all,"
        f" {run['stored']:,} are stored."
    )
    yield ""


_OVERLOADS = ("overload", "stalled")


def _load_row(words: str, asked: float, run: dict[str, Any], *, memory: str) -> str:
    answers = ", ".join(f"{count:,} × {status}" for status, count in run["statuses"].items())
    if run["never_sent"]:
        answers += f", {run['never_sent']:,} never sent"
    cells = (
        words,
        f"{asked:,.0f}",
        f"{run['answered_a_second']:,}",
        f"{run['p50_ms']:,}",
        f"{run['p99_ms']:,}",
        f"{run['longest_answer_ms']:,}",
        answers,
        memory,
    )
    return f"| {' | '.join(cells)} |"


def _soak(soak: dict[str, Any]) -> Iterator[str]:
    """Yield the lines on the soak."""
    answers = ", ".join(f"{count:,} × {status}" for status, count in soak["statuses"].items())
    yield "## Soak"
    yield ""
    yield (
        f"A whole installation under a steady load: {soak['seconds']:,} seconds,"
        f" {soak['rounds']:,} rounds, {soak['accepted']:,} reports accepted,\n{soak['lost']} lost,"
        f" {soak['doubled']} doubled; answers: {answers}; p99 of the worst round"
        f" {soak['worst_round_p99_ms']:,} ms.\n201 is accepted; 410 came after its round"
        " had closed, and is refused.\nMedians of the second and the last quarter of that time,"
        " and the most:"
    )
    yield ""
    yield _source(soak, "soak.json")
    yield ""
    yield "| process | memory, MB | open files |"
    yield "|---|---|---|"
    for name, memory in soak["memory_mb"].items():
        files = soak["files"][name]
        cells = [f"{one['early']} → {one['late']} (most {one['most']})" for one in (memory, files)]
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""


def _fuzz(run: dict[str, Any]) -> Iterator[str]:
    """Yield the lines on bad inputs."""
    yield "## Bad inputs"
    yield ""
    yield _source(run, "fuzz.json")
    yield ""
    counts: dict[str, int] = run["executions"]
    yield (
        f"{sum(counts.values()):,} executions of {len(counts)} parsers of foreign bytes, at least"
        f" {min(counts.values()):,} of each, steered by the\ncoverage of the code and the words of"
        " kept inputs."
    )
    yield ""
    yield "| parser | executions | parser | executions |"
    yield "|---|---:|---|---:|"
    rows = [f"`{name}` | {count:,}" for name, count in sorted(counts.items())]
    rows += [" | "] * (len(rows) % 2)
    half = len(rows) // 2
    for left, right in zip(rows[:half], rows[half:], strict=True):
        yield f"| {left} | {right} |"
    yield ""


def _audit(run: dict[str, Any]) -> Iterator[str]:
    """Yield the lines on the audit of the privacy claims."""
    yield "## Privacy claims"
    yield ""
    nearest = max(run["results"], key=_share)
    yield (
        f"{run['claims']} claims of epsilon were put to a test with {run['samples']:,} samples of"
        f" each input; {run['broken']} were broken. The lower bound\nnearest to its claim is"
        f" {nearest['lower_bound']:.4f} of {nearest['claim']:.4g} ({nearest['name']}). All bounds"
        f" hold together with probability {run['confidence']}. The\nwhole table and how it is done:"
        " [the audit of the claims](audit.md)."
    )
    yield ""
    yield _source(run, "audit.json")
    yield ""


def with_audit(text: str, run: dict[str, Any]) -> str:
    """Return the audit's page with the tables of a run, each below its own head."""
    for lines in audit_tables(run):
        start = text.index("\n".join(lines[:2]))
        text = text[:start] + "\n".join(lines) + text[text.index("\n\n", start) :]
    return text


def audit_tables(run: dict[str, Any]) -> tuple[list[str], list[str]]:
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


def _share(row: dict[str, Any]) -> float:
    return float(row["lower_bound"] / row["claim"]) if row["claim"] else 0.0


def _poisoning(study: dict[str, Any]) -> Iterator[str]:
    """Yield the lines on lying devices."""
    yield "## Lying devices"
    yield ""
    yield study["measured"]
    yield ""
    checks = study["checks"]
    held = sum(check["holds"] for check in checks)
    yield (
        f"{held} of {len(checks)} checks hold; the table is on the page about"
        " [lying devices](poisoning.md)."
    )
    yield ""
    yield _source(study, "poisoning.json")
    yield ""


def _source(run: dict[str, Any], file: str) -> str:
    seeds = run.get("seeds", [run.get("seed")])
    seed = "no seed" if seeds == [None] else "seed " + ", ".join(str(one) for one in seeds)
    date = f" of {run['code_date']}" if "code_date" in run else ""
    code = f" (`{run['code']}`)" if "code" in run else ""
    return f"- `{run['command']}`: {seed}, code{date}{code}, [{file}](../evidence/{file})"


def _file(name: str, run: dict[str, Any]) -> str:
    return f"{name}.json" if run["store"] == "sqlite" else f"{name}-{run['store']}.json"


def _most(run: dict[str, Any], what: str) -> int:
    return max(int(run[what].get(name, 0)) for name in ("intake", "closer", "fusion"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
