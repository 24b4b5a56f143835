"""Renew the hash-locked requirement files of all profiles.

`dev` is solved first from everything pyproject.toml names; `demo` is the part of that solution
which running the program needs, so one environment serves both, and `server` that of a server
alone, for its image; `bench` adds the peers of requirements/bench.in to it, `fuzz` the fuzzer of
requirements/fuzz.in, `spark` Spark; `installer` is what installs all of them, and `release` what
builds and lints a release. With --keep the versions that are locked already stay, and only what is
missing is added. The files name versions and hashes alone: no index, host or path, so they work
with any mirror of the index. Last, what they download is measured (sizes.py).
"""

import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("requirements")
OPTIONS = [
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-header",
    "--no-annotate",
    "--no-config",
    "--quiet",
]


def main() -> int:
    """Write the locks of all profiles into requirements."""
    renew = [] if sys.argv[1:] == ["--keep"] else ["--upgrade"]
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(scratch, with_pip=True)
        print("Fetching the resolver ...", flush=True)
        subprocess.run([f"{scratch}/bin/pip", "install", "--quiet", "uv"], check=True)
        uv = f"{scratch}/bin/uv"
        compile_lock(uv, "dev", ["--extra=dev", *renew])
        constraint = f"--constraint={FOLDER}/dev.txt"
        for profile, extras in (
            ("demo", ("plot", "service", "tables")),
            ("server", ("service", "mqtt", "postgres")),
        ):
            compile_lock(uv, profile, [*(f"--extra={name}" for name in extras), constraint])
        tests = ["--extra=dev", constraint]
        for profile in ("bench", "fuzz"):
            compile_lock(uv, profile, [str(FOLDER / f"{profile}.in"), *tests])
        compile_lock(uv, "spark", ["--extra=spark", *tests])
        compile_lock(uv, "installer", renew, sources=[str(FOLDER / "installer.in")])
        builders = [str(FOLDER / "release.in"), str(FOLDER / "build.in")]
        compile_lock(uv, "release", [constraint, *renew], sources=builders)
    print("Measuring what they download ...", flush=True)
    return subprocess.run([sys.executable, "scripts/sizes.py"], check=True, cwd=ROOT).returncode


def compile_lock(
    uv: str,
    profile: str,
    choice: list[str],
    sources: Sequence[str] = ("pyproject.toml", str(FOLDER / "build.in")),
) -> None:
    """Solve one profile and refuse a file that names a place."""
    print(f"Solving {profile} ...", flush=True)
    target = FOLDER / f"{profile}.txt"
    # Settings that point at another index would put other files' hashes into the lock.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("UV_", "PIP_"))}
    environment["UV_SYSTEM_CERTS"] = "1"
    subprocess.run(
        [uv, "pip", "compile", *sources, *choice, *OPTIONS, f"--output-file={target}"],
        check=True,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    for line in (ROOT / target).read_text(encoding="utf-8").splitlines():
        if "/" in line or line.lstrip().startswith(("-i", "-f", "--index", "--extra", "--find")):
            sys.exit(f"{target} must name no address or path, got {line!r}.")


if __name__ == "__main__":
    sys.exit(main())
