"""Build the kernels with AddressSanitizer and UndefinedBehaviorSanitizer and run their tests.

Three times: in plain C, with AVX2 and with AVX-512, as far as the processor has them, because a
machine runs only the newest of what it has. The package is built into a folder of its own,
build/sanitize, so that the installed kernels stay. Needs gcc or clang with both sanitizers; any
finding ends the run.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sanitize"
FLAGS = "-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"


INSTRUCTIONS = {0: "plain C", 1: "up to AVX2", 2: "up to AVX-512"}
TESTS = [
    *("tests/kernels", "tests/shuffle/test_mallows.py", "tests/laws/test_twins.py"),
    "tests/series/test_compiled.py",
]


def main() -> int:
    """Build and run the tests given on the command line, or those of the kernels."""
    compiler = os.environ.get("CC", "cc")
    runtime = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    settings = {
        # The interpreter itself leaks on purpose; what is looked for are wrong accesses.
        "ASAN_OPTIONS": "detect_leaks=0",
        "LD_PRELOAD": runtime,
        "PYTHONPATH": str(BUILD / "lib"),
        "PYTHONMALLOC": "malloc",
        # Kernels that cannot be loaded would have their tests skipped; so that is a failure.
        "CI": "1",
    }
    # Hypothesis' deadlines and doctests of src are not what is tested here.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    for newest, name in INSTRUCTIONS.items():
        print(f"Kernels with instructions {name}:", flush=True)
        if not build_kernels(newest):
            print("The kernels were not built; the compiler's words are above.", file=sys.stderr)
            return 1
        tests = subprocess.run(
            [*command, *(sys.argv[1:] or TESTS)],
            cwd=ROOT,
            env={**os.environ, **settings},
            check=False,
        )
        if tests.returncode:
            return tests.returncode
    return 0


def build_kernels(newest: int) -> bool:
    """Build the package with instructions up to these; return whether there are kernels."""
    shutil.rmtree(BUILD, ignore_errors=True)
    build = [sys.executable, "setup.py", "--quiet", "build", "--build-base", str(BUILD)]
    build += ["--build-lib", str(BUILD / "lib")]
    flags = {
        "CFLAGS": f"{FLAGS} -DRASE_INSTRUCTIONS={newest}",
        "LDFLAGS": "-fsanitize=address,undefined",
    }
    subprocess.run(build, cwd=ROOT, env={**os.environ, **flags}, check=True)
    return bool(list((BUILD / "lib" / "rase" / "kernels").glob("_native*.so")))


if __name__ == "__main__":
    sys.exit(main())
