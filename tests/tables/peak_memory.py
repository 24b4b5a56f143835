"""The peak memory of a piece of work, alone in a process whose allocator gives memory back."""

import os
import subprocess
import sys

# Allocators that keep freed memory, one part for each thread, make peaks differ by tens of MiB from
# run to run; so peaks are of what is in use.
_PLAIN_ALLOCATOR = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "OMP_NUM_THREADS": "1",
}
# Not ru_maxrss: that one begins with the size of the process that started this one.
_PEAK = """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].removesuffix("kB\\n"))
"""


def peak_mib_of(code: str, *arguments: str) -> tuple[list[int], float]:
    """Run code; return the whole numbers that it printed, and its peak in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", code + _PEAK, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **_PLAIN_ALLOCATOR},
    )
    *printed, peak = map(int, done.stdout.split())
    return printed, peak / 1024
