"""Let atheris search every target: ``python -m fuzz --runs 400000 --only cbor --only batch``.

Each target runs in a process of its own, because a finding ends it. The input that was found is
put into the target's corpus, where every test run meets it again. Counts are libFuzzer's own.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from fuzz.seeds import keep
from fuzz.settings_targets import SETTINGS_TARGETS
from fuzz.targets import CORPUS, TARGETS, corpus_of
from rase.lab.provenance import Measurement

__all__ = ["ROOMS", "add_results", "main"]

# All that the targets import; tests/docs/test_evidence.py compares.
ROOMS: Final = (
    "cli/attack.py",
    "cli/campaign.py",
    "device",
    "fusion",
    "lab/readers.py",
    "service",
    "shuffler",
    "subscriber",
    "tables",
    "transport",
    "wire",
)

_LONGEST_BYTES: Final = 1 << 14
# tomllib takes time with the square of a dotted key's parts: 0.2 s for 6 kB of them. One such
# input among those that are mutated takes the time of a thousand others.
_LONGEST_SETTINGS_BYTES: Final = 1 << 11
_WORD: Final = re.compile(rb"[A-Za-z_][\w./:-]{1,30}")
_MOST_WORDS: Final = 400
_MOST_MB: Final = 2048
_SLOWEST_S: Final = 20


def main() -> int:
    """Run the targets one after another, and tell what was executed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20_000, help="executions of each target")
    parser.add_argument("--seconds", type=int, default=60, help="the most time for each target")
    parser.add_argument("--seed", type=int, default=2026, help="of the search")
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), help="a target")
    parser.add_argument("--grow", action="store_true", help="keep inputs that reach new code")
    parser.add_argument("--results", type=Path, help="a JSON file to which counts are added")
    parser.add_argument("--inside", choices=sorted(TARGETS), help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    if options.inside:
        search(options.inside, rest)
    command = f"python -m fuzz --runs {options.runs} --seconds {options.seconds}"
    command += f" --seed {options.seed}"
    command += "".join(f" --only {name}" for name in options.only or ())
    found = 0
    done: dict[str, int] = {}
    for name in options.only or TARGETS:
        measurement = Measurement(ROOMS) if options.results else None
        executions, finding = run(name, options)
        done[name] = executions
        print(f"{name:<16} {executions:>10} executions, {finding or 'nothing found'}", flush=True)
        found += finding is not None
        if measurement is not None:
            add_results(
                options.results,
                {name: executions},
                seed=options.seed,
                header=measurement.header(command, seed=options.seed),
                findings={name: finding} if finding else {},
            )
    print(f"{sum(done.values())} executions of {len(done)} targets, {found} findings.")
    return 1 if found else 0


def run(name: str, options: argparse.Namespace) -> tuple[int, str | None]:
    """Search one target in a process; return its executions and what was found."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "new").mkdir()
        dictionary = folder / "new.dict"
        dictionary.write_text(words_of(corpus_of(name)), "ascii")
        longest = _LONGEST_SETTINGS_BYTES if name in SETTINGS_TARGETS else _LONGEST_BYTES
        done = subprocess.run(
            [
                *(sys.executable, "-m", "fuzz", "--inside", name),
                f"-runs={options.runs}",
                f"-max_total_time={options.seconds}",
                f"-seed={options.seed}",
                f"-max_len={longest}",
                # Where there are no words, in ciphertexts, there is no dictionary either.
                *([f"-dict={dictionary}"] if dictionary.stat().st_size else []),
                f"-artifact_prefix={folder}/",
                *(str(folder / "new"), str(CORPUS / name)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if options.grow:
            for path in (folder / "new").iterdir():
                keep(name, path.read_bytes())
        kept = [
            keep(name, path.read_bytes())
            for path in folder.iterdir()
            if path.is_file() and path != dictionary and not path.name.startswith("slow-unit")
        ]
    counts = [int(count) for count in re.findall(r"^(?:Done (\d+) runs)", done.stdout, re.M)]
    counts += [int(count) for count in re.findall(r"^#(\d+)\t", done.stdout, re.M)]
    counts += [int(c) for c in re.findall(r"stat::number_of_executed_units: (\d+)", done.stdout)]
    finding = None
    if done.returncode:
        finding = f"ended with {done.returncode}, kept {', '.join(map(str, kept)) or 'nothing'}"
        print(done.stdout[-3000:], file=sys.stderr)
    return max(counts, default=0), finding


def words_of(inputs: Iterable[bytes]) -> str:
    r"""Return a dictionary of libFuzzer's with the words in some inputs.

    Chance alone does not find the name of a setting; with all of them it puts together files that
    are read beyond their syntax.

    Example:
        >>> print(words_of([b"[device]\nround_s = 2", b"[device]"]), end="")
        "device"
        "round_s"
    """
    words = dict.fromkeys(word for data in inputs for word in _WORD.findall(data[:4096]))
    return "".join(f'"{word.decode()}"\n' for word in list(words)[:_MOST_WORDS])


def search(name: str, arguments: list[str]) -> None:
    """Become libFuzzer; this does not return."""
    import atheris

    target = TARGETS[name]
    # All of our code tells where it goes; libraries underneath do not.
    for module in [one for key, one in sys.modules.items() if key.startswith("rase.")]:
        for value in list(vars(module).values()):
            _instrument(atheris, module, value)
    limits = [f"-rss_limit_mb={_MOST_MB}", f"-timeout={_SLOWEST_S}"]
    atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", *arguments], target)
    atheris.Fuzz()


def _instrument(atheris: Any, module: Any, value: Any) -> None:
    """Instrument a function, or the methods of a class, that a module of ours defines."""
    if getattr(value, "__module__", None) != module.__name__:
        return
    held = vars(value).values() if isinstance(value, type) else [value]
    for one in held:
        function = getattr(one, "__func__", one)
        if hasattr(function, "__code__"):
            atheris.instrument_func(function)


def add_results(
    path: Path,
    done: Mapping[str, int],
    *,
    seed: int,
    header: Mapping[str, Any] | None = None,
    findings: Mapping[str, str] | None = None,
) -> None:
    """Add executions to those that a file of results holds, and the seed to its seeds.

    Args:
        path: The file; made if it is not there.
        done: How often each target was executed.
        seed: Of the search.
        header: What the results state about themselves. Results of other code are replaced.
        findings: What was found, by target.
    """
    kept: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if header is not None:
        if header["code"] is None or kept.get("code") != header["code"]:
            kept = {}
        seconds = round(kept.get("seconds", 0) + header["seconds"], 1)
        found = {**kept.get("findings", {}), **(findings or {})}
        head = {"schema": "rase.fuzz/1", **header, "seconds": seconds, "findings": found}
        kept = {**head, **{name: kept[name] for name in kept if name not in head}}
    counts = kept.setdefault("executions", {})
    for name, executions in done.items():
        counts[name] = counts.get(name, 0) + executions
    kept["total"] = sum(counts.values())
    kept["seeds"] = sorted({*kept.get("seeds", []), seed})
    path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
