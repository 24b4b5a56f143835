"""What a piece of work costs: wall time, and the CPU time of this process and its children."""

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cost", "cost_of", "cpu_s", "resident_bytes"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by the clock on the wall, and seconds of processors."""

    wall_s: float
    cpu_s: float

    def least(self, other: "Cost") -> "Cost":
        """Return the smaller of each."""
        return Cost(min(self.wall_s, other.wall_s), min(self.cpu_s, other.cpu_s))


def cost_of(work: Callable[[], object]) -> Cost:
    """Run some work; its processes must have been started before and stay."""
    start, busy = time.perf_counter(), _all_cpu_s()
    work()
    return Cost(time.perf_counter() - start, _all_cpu_s() - busy)


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used, its own and the system's for it."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the memory that a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _all_cpu_s() -> float:
    children = (child.pid for child in multiprocessing.active_children())
    return time.process_time() + sum(cpu_s(pid) for pid in children if pid is not None)
