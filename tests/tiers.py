"""Which tests are of which tier: what each costs decides, not what it is about.

`make unit` runs what needs little but a processor, with coverage; `make system` runs what starts
processes, waits for clocks, sockets and disks, or runs whole worlds and long computations, without
coverage, which would double its cost; `make slow` runs what is marked so. `make test` is unit and
system.
"""

from collections.abc import Sequence
from pathlib import Path

__all__ = ["SPARK", "SYSTEM", "group_of", "runs_alone", "tier_of", "waits"]

# Folders and files, from the root, those that wait or take longest first: they begin in this
# sequence. A test that is not listed here is a unit test.
SYSTEM = (
    "tests/live",
    "tests/lab/experiments/test_all_fast.py",
    "tests/chaos",
    "tests/deploy",
    "tests/browser",
    "tests/simulation",
    "tests/cli/demo/test_command.py",
    "tests/cli/lab/test_lab.py",
    "tests/cli/plan/test_labels.py",
    "tests/docs",
    "tests/golden",
    "tests/test_programs.py",
    "tests/fuzz",
    "tests/examples",
    "tests/faults",
    "tests/accounting/ledger/test_kill.py",
    "tests/dashboard/test_stream.py",
    "tests/device/test_program.py",
    "tests/tables/test_killed_at_random.py",
    "tests/series/test_moving_together.py",
    "tests/benchmarks/test_million.py",
    "tests/fusion/test_kill.py",
    "tests/shuffler/test_mqtt_fleet.py",
    "tests/shuffler/test_program.py",
)
# Of these the ones that mostly wait, for processes, clocks, sockets and disks; the others compute.
_WAITING = (
    "tests/live",
    "tests/chaos",
    "tests/browser",
    "tests/cli/demo/test_command.py",
    "tests/cli/lab/test_lab.py",
    "tests/fuzz/test_http_interfaces.py",
    "tests/accounting/ledger/test_kill.py",
    "tests/dashboard/test_stream.py",
    "tests/device/test_program.py",
    "tests/fusion/test_kill.py",
    "tests/shuffler/test_mqtt_fleet.py",
    "tests/shuffler/test_program.py",
)
# Unit tests that take long: begun last, they would keep one process when all others are done.
_LONG = (
    "tests/tables/test_memory_promise.py",
    "tests/tables/test_spark_steps.py",
    "tests/fusion/test_parts.py",
    "tests/cli/test_query.py",
    "tests/cli/demo/test_live.py",
    "tests/shuffler",
)
# A group of its own: Java and the executors are started once, while the others run.
SPARK = "tests/tables/spark"


def tier_of(path: Path, root: Path) -> str:
    """Return "unit", "system" or "spark" for a file of tests."""
    if not path.is_relative_to(root):
        return "unit"
    place = path.relative_to(root).as_posix()
    if place.startswith(f"{SPARK}/"):
        return "spark"
    return "system" if _is_in(place, SYSTEM) else "unit"


def waits(path: Path, root: Path) -> bool:
    """Tell whether the tests of a file wait for most of their time."""
    return path.is_relative_to(root) and _is_in(path.relative_to(root).as_posix(), _WAITING)


def group_of(path: Path, root: Path) -> tuple[int, str]:
    """Return the group a file's tests run in, in one process; lower ones begin earlier.

    All on Spark are one group. What waits and what takes long begins first.
    """
    tier = tier_of(path, root)
    if tier == "spark":
        return 0, SPARK
    place = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
    listed = (i for i, one in enumerate((*SYSTEM, *_LONG), start=1) if _is_in(place, [one]))
    return next(listed, len(SYSTEM) + len(_LONG) + 1), place


def runs_alone(path: Path, root: Path) -> bool:
    """Tell whether the process that ran a file's group must run no other group."""
    return tier_of(path, root) == "spark"


def _is_in(place: str, listed: Sequence[str]) -> bool:
    return any(place == one or place.startswith(f"{one}/") for one in listed)
