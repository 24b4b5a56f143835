"""The sections of the page of evidence: one for each kind of record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from chaos.kinds import KINDS

__all__ = ["sections"]

Record = Mapping[str, Any]
_FAULTS = """\
Intake, closer, fusion centre, devices and a subscriber run as they are deployed, in rounds of two
seconds. Faults are drawn at random from a seed, and the invariants are checked after each. A report
is *lost* if its device got an acknowledgement but no estimate includes it, although its round must
have one. It is *doubled* if it counts twice. An estimate is *wrong* if it does not match the
reports it counts."""
_LOAD = """\
One intake on SQLite; every report is a separate request, answered once the report is on the disk.
Times are measured from the moment a request was due; the longest answer, from the moment it was
sent. *Stalled* means that another writer holds the database for half of the time. The load
generator and everything else on the machine shared it with the server, so the rate is a lower bound
for that machine at that time and says nothing about others."""
_STORES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_SLOW: Final = """\
Tests that take too long to run for every change: statistical tests with many draws, long random
histories of whole systems under a simulated clock with faults, and processes that are killed.
Statistical tests have fixed seeds and a stated rate of false alarms. *Skipped* are tests whose
program or data set was missing."""
_PLANTED: Final = """\
Do the tests notice a fault? Each fault is planted alone in a copy of the sources, and the tests
named for it run there; all are part of `make test`. A fault counts as *caught* only if a test ran
and failed."""
_OVERLOADS: Final = ("overload", "stalled")


def sections(found: Mapping[str, Record]) -> Iterator[str]:
    """Yield the sections of the records that there are, by name."""
    groups = [(name, found[name]) for name in _GROUPS if name in found]
    if groups:
        yield "\n".join(_slow(groups))
    runs = [found[name] for name in ("chaos", "chaos-postgresql") if name in found]
    if runs:
        yield "\n".join(_chaos(runs))
    for name, write in _SECTIONS.items():
        if name in found:
            yield "\n".join(write(found[name]))


def _slow(groups: Sequence[tuple[str, Record]]) -> Iterator[str]:
    """Yield the lines on the slow tests."""
    yield "## Slow tests"
    yield ""
    yield _SLOW
    yield ""
    for name, run in groups:
        yield _source(run, f"{name}.json")
    yield ""
    yield "| group | tests | passed | failed | skipped |"
    yield "|---|---:|---:|---:|---:|"
    for name, run in groups:
        counts = (run[what] for what in ("tests", "passed", "failed", "skipped"))
        yield f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |"
    yield ""
    failures = [one for _, run in groups for one in run["failures"]]
    yield from (f"- failed: `{one}`" for one in failures)
    if failures:
        yield ""


def _chaos(runs: Sequence[Record]) -> Iterator[str]:
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
    for kind, words in KINDS.items():
        counts = [run["faults"].get(kind, "–") for run in runs]
        if any(count != "–" for count in counts):
            yield f"| `{kind}` | {words} | {' | '.join(map(str, counts))} |"
    yield ""
    yield f"| outcome | {' | '.join(_STORES[run['store']] for run in runs)} |"
    yield f"|---|{'---|' * len(runs)}"
    rows: dict[str, Callable[[Record], int]] = {
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
        "rounds delivered to the subscriber, each once": lambda run: run["told"],
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
        for violation in run["violations"]:
            yield f"- violation with {_STORES[run['store']]}: {violation}."
    yield ""


def _load(run: Record) -> Iterator[str]:
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
        f" refused with 429. Refusals without\n`Retry-After`: {refused}. Of {run['accepted']:,}"
        f" accepted reports, {run['stored']:,} are stored."
    )
    yield ""
    yield from _failures(run)


def _load_row(words: str, asked: float, run: Record, *, memory: str) -> str:
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


def _soak(soak: Record) -> Iterator[str]:
    """Yield the lines on the soak."""
    answers = ", ".join(f"{count:,} × {status}" for status, count in soak["statuses"].items())
    loaded_s = soak.get("loaded_s", soak["seconds"])
    yield "## Soak"
    yield ""
    yield (
        f"A whole installation under a steady load: {loaded_s:,} seconds,"
        f" {soak['rounds']:,} rounds, {soak['accepted']:,} reports accepted,\n{soak['lost']} lost,"
        f" {soak['doubled']} doubled; answers: {answers}; p99 of the worst round"
        f" {soak['worst_round_p99_ms']:,} ms.\n201 means accepted; 410 means that the round had"
        " already closed.\nMedians of the second and the last quarter of that time, and the"
        " maximum:"
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
    yield from _failures(soak)


def _failures(run: Record) -> Iterator[str]:
    """Yield what was not held, if anything."""
    yield from (f"- violation: {failure}." for failure in run["failures"])
    if run["failures"]:
        yield ""


def _fuzz(run: Record) -> Iterator[str]:
    """Yield the lines on bad inputs."""
    yield "## Bad inputs"
    yield ""
    yield _source(run, "fuzz.json")
    yield ""
    counts: dict[str, int] = run["executions"]
    yield (
        f"{sum(counts.values()):,} executions of {len(counts)} parsers of foreign bytes, at least"
        f" {min(counts.values()):,} of each, guided by\ncode coverage and by the words in saved"
        " inputs."
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
    findings: Mapping[str, str] = run.get("findings", {})
    yield from (f"- found in `{name}`: {finding}." for name, finding in findings.items())
    if findings:
        yield ""


def _audit(run: Record) -> Iterator[str]:
    """Yield the lines on the audit of the privacy claims."""
    yield "## Privacy claims"
    yield ""
    nearest = max(run["results"], key=_share)
    yield (
        f"{run['claims']} claims of epsilon were tested with {run['samples']:,} samples of each"
        f" input; {run['broken']} were broken. The lower bound\nclosest to its claim is"
        f" {nearest['lower_bound']:.4f} of {nearest['claim']:.4g} ({nearest['name']}). All bounds"
        f" hold together with probability {run['confidence']}.\n[The audit of the claims](audit.md)"
        " has the whole table and the method."
    )
    yield ""
    yield _source(run, "audit.json")
    yield ""


def _share(row: Record) -> float:
    return float(row["lower_bound"] / row["claim"]) if row["claim"] else 0.0


def _poisoning(study: Record) -> Iterator[str]:
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


def _planted(run: Record) -> Iterator[str]:
    """Yield the lines on planted faults."""
    yield "## Planted faults"
    yield ""
    yield _PLANTED
    yield ""
    faults = run["faults"]
    caught = sum(one["verdict"] == "caught" for one in faults)
    yield f"{caught} of {len(faults)} faults were caught."
    yield ""
    yield _source(run, "faults.json")
    yield ""
    yield "| fault | what is wrong | caught by |"
    yield "|---|---|---|"
    for one in faults:
        test = f"`{one['test']}`" if one["verdict"] == "caught" else f"**{one['verdict']}**"
        yield f"| `{one['name']}` | {one['wrong']} | {test} |"
    yield ""


def _source(run: Record, file: str) -> str:
    """Return the line that says how a record came about."""
    seeds = run.get("seeds", [run["seed"]])
    seed = "no seed" if seeds == [None] else "seed " + ", ".join(str(one) for one in seeds)
    rooms = ", ".join(f"`{room}`" for room in run["rooms"] or ()) or "not recorded"
    code = f"`{run['code']}`" if run["code"] else "not recorded"
    link = f"[{file}](../evidence/{file})"
    return f"- `{run['command']}`: {seed}; rooms: {rooms}; code: {code}; {link}"


def _file(name: str, run: Record) -> str:
    return f"{name}.json" if run["store"] == "sqlite" else f"{name}-{run['store']}.json"


def _most(run: Record, what: str) -> int:
    return max(int(run[what].get(name, 0)) for name in ("intake", "closer", "fusion"))


_GROUPS: Final = ("statistics", "simulations", "processes")
_SECTIONS: Final[dict[str, Callable[[Record], Iterator[str]]]] = {
    "load": _load,
    "soak": _soak,
    "fuzz": _fuzz,
    "audit": _audit,
    "poisoning": _poisoning,
    "faults": _planted,
}
