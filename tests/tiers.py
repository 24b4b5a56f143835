"""Which tests are of which tier: what each costs decides, not what it is about.

`make unit` runs what needs little but a processor, with coverage; `make system` runs what starts
processes, waits for clocks, sockets and disks, or runs whole worlds and long computations, without
coverage, which would double its cost; `make slow` runs what is marked so. `make test` is unit and
system.
"""

from pathlib import Path

__all__ = ["SPARK", "SYSTEM", "group_of", "runs_alone", "tier_of"]

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
# A group of its own: Java and the executors are started once, while the others run.
SPARK = "tests/tables/spark"


def tier_of(path: Path, root: Path) -> str:
    """Return "unit", "system" or "spark" for a file of tests."""
    if not path.is_relative_to(root):
        return "unit"
    place = path.relative_to(root).as_posix()
    if place.startswith(f"{SPARK}/"):
        return "spark"
    is_system = any(place == one or place.startswith(f"{one}/") for one in SYSTEM)
    return "system" if is_system else "unit"


def group_of(path: Path, root: Path) -> tuple[int, str]:
    """Return the group a file's tests run in, in one process; lower ones begin earlier.

    All on Spark are one group. What waits and what takes long begins first.
    """
    tier = tier_of(path, root)
    if tier == "spark":
        return 0, SPARK
    place = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
    if tier == "unit":
        return len(SYSTEM) + 1, place
    listed = (i for i, one in enumerate(SYSTEM) if place == one or place.startswith(f"{one}/"))
    return next(listed) + 1, place


def runs_alone(path: Path, root: Path) -> bool:
    """Tell whether the process that ran a file's group must run no other group."""
    return tier_of(path, root) == "spark"
