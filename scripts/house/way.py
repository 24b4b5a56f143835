"""The way of one command through the source: which functions it calls, in which files."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["Way", "forwards", "way_of_round", "way_of_run"]

# Runs in a process of its own: what was imported or called before must not count.
_TRACED = """
import json, sys, threading
source, seen, code = sys.argv.pop(1), set(), 0
top = sys._getframe()
def note(frame, event, argument):
    running = frame.f_code
    if event != "call" or not running.co_filename.startswith(source):
        return
    # Bodies of classes have no local variables; generators and lambdas belong to their function.
    if not running.co_flags & 1 or running.co_name.startswith("<"):
        return
    if (running.co_filename, running.co_qualname) in seen:
        return
    above = frame.f_back
    while above is not None and above is not top:
        if above.f_code.co_name == "<module>":
            return  # called while a module is read, not by the command
        above = above.f_back
    seen.add((running.co_filename, running.co_qualname))
from rase.cli import main
threading.setprofile(note)
sys.setprofile(note)
try:
    code = main()
except SystemExit as ended:
    code = ended.code
finally:
    sys.setprofile(None)
called = sorted((file[len(source) + 1:], name) for file, name in seen)
print(json.dumps({"code": code, "called": called}), file=sys.stderr)
"""
_ROUNDS, _DEVICES = 12, 40
# Where the steps of a live round are: the programs, and what lies between them.
_PROGRAMS = ("device", "transport", "shuffler", "fusion", "subscriber")


@dataclass(frozen=True, slots=True)
class Way:
    """What a command passes through.

    Args:
        functions: Each function as (file, qualified name).
    """

    functions: tuple[tuple[str, str], ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files of these functions."""
        return tuple(sorted({file for file, _ in self.functions}))


def way_of_run(source: Path) -> Way:
    """Trace ``rase run`` on a small table: one campaign's range, epsilon and rounds of an hour.

    Raises:
        RuntimeError: If the command fails.
    """
    with TemporaryDirectory() as folder:
        table = Path(folder, "table.csv")
        rows = ["time,device,value"]
        for number in range(_ROUNDS):
            rows += [f"{3600 * number},d{one},{(7 * one) % 100}" for one in range(_DEVICES)]
        table.write_text("\n".join(rows) + "\n", encoding="utf-8")
        typed = ["run", str(table), "--range", "0", "100", "--epsilon", "1", "--every", "1h"]
        return _traced(source, [*typed, "--seed", "1"])


def way_of_round(source: Path) -> Way:
    """Trace the programs' functions in a live round: from a reading to a subscriber's answer.

    The round before it was lived through already: what is done once an installation is no step.

    Raises:
        RuntimeError: If the round does not come to an answer.
    """
    script = Path(__file__).with_name("live_round.py")
    ran = subprocess.run(
        [sys.executable, str(script), str(source.resolve())],
        env=_environment(source),
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise RuntimeError(f"a live round could not be traced: {ran.stderr[-400:]}")
    called = [(file, name) for file, name in json.loads(ran.stdout)]
    return Way(tuple(one for one in called if one[0].startswith(_PROGRAMS)))


def forwards(source: Path, way: Way) -> list[tuple[str, str]]:
    """Return the functions of a way that only call another one, with what they were given.

    A property or a kept value gives a name or saves work; without a decorator such a function is a
    layer, unless an interface asks for it.
    """
    files = dict.fromkeys(file for file, _ in way.functions)
    trees = {file: ast.parse((source / file).read_text(encoding="utf-8")) for file in files}
    found = ((one, _definition(trees[one[0]], one[1])) for one in way.functions)
    return [one for one, function in found if function is not None and _only_calls(function)]


def _definition(tree: ast.AST, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return a function by its qualified name."""
    at: ast.AST | None = tree
    for part in name.replace(".<locals>", "").split("."):
        inner = () if at is None else ast.walk(at)
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        at = next((one for one in inner if isinstance(one, kinds) and one.name == part), None)
    return at if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef) else None


def _only_calls(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if function.decorator_list or len(body) != 1:
        return False
    only = body[0].value if isinstance(body[0], ast.Return | ast.Expr) else None
    call = only.value if isinstance(only, ast.Await) else only
    if not isinstance(call, ast.Call):
        return False
    passed = [*call.args, *(one.value for one in call.keywords)]
    return all(isinstance(one, ast.Name | ast.Attribute | ast.Constant) for one in passed)


def _environment(source: Path) -> dict[str, str]:
    """Return an environment in which this source is imported, and nothing else is set."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RASE_", "COV"))}
    return {**kept, "PYTHONPATH": str(source.resolve().parent)}


def _traced(source: Path, typed: Sequence[str]) -> Way:
    # What is computed once an installation must not be found on some machines only.
    with TemporaryDirectory() as empty:
        ran = subprocess.run(
            [sys.executable, "-c", _TRACED, str(source.resolve()), *typed],
            env={**_environment(source), "XDG_CACHE_HOME": empty},
            capture_output=True,
            text=True,
            check=False,
        )
    last = ran.stderr.strip().splitlines()[-1:] or [""]
    if not last[0].startswith("{"):
        raise RuntimeError(f"rase {' '.join(typed)} could not be traced: {ran.stderr[-400:]}")
    found = json.loads(last[0])
    if found["code"] not in (0, None):
        raise RuntimeError(f"rase {' '.join(typed)} failed: {ran.stderr[-400:]}")
    return Way(tuple((file, name) for file, name in found["called"]))
