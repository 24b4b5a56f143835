"""Build the kernels with AddressSanitizer and UndefinedBehaviorSanitizer and run their tests.

The package is built into a folder of its own, build/sanitize, so that the installed kernels stay.
Needs gcc or clang with both sanitizers; any finding ends the run.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sanitize"
FLAGS = "-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"


def main() -> int:
    """Build, then run the tests given on the command line, or those of the kernels."""
    compiler = os.environ.get("CC", "cc")
    runtime = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    shutil.rmtree(BUILD, ignore_errors=True)
    build = [sys.executable, "setup.py", "--quiet", "build", "--build-base", str(BUILD)]
    build += ["--build-lib", str(BUILD / "lib")]
    flags = {"CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
    subprocess.run(build, cwd=ROOT, env={**os.environ, **flags}, check=True)
    if not list((BUILD / "lib" / "rase" / "kernels").glob("_native*.so")):
        print("The kernels were not built; the compiler's words are above.", file=sys.stderr)
        return 1
    settings = {
        # The interpreter itself leaks on purpose; what is looked for are wrong accesses.
        "ASAN_OPTIONS": "detect_leaks=0",
        "LD_PRELOAD": runtime,
        "PYTHONPATH": str(BUILD / "lib"),
        "PYTHONMALLOC": "malloc",
    }
    tests = sys.argv[1:] or [
        "tests/kernels",
        "tests/shuffle/test_mallows.py",
        "tests/laws/test_twins.py",
    ]
    # Hypothesis' deadlines and doctests of src are not what is tested here.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
