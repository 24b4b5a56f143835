"""Run the core's tests against the oldest versions that pyproject.toml allows.

    python scripts/floors.py [options of pytest]

In an environment of its own, .venv-floors: what the library and its extra `tables` need, each in
the version of its lower bound; the tools of the tests as they are locked. Servers and the lab have
bounds of their own and are not part of it.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-floors"
# What the tests of the core import besides.
TOOLS = ("coverage", "hypothesis", "pandas", "pytest", "pytest-cov", "setuptools")
# Whatever version of these goes with the oldest of the others.
FREE = ("httpx", "matplotlib", "scikit-learn", "scipy")
TESTS = (
    "tests/accounting",
    "tests/cli/plan/test_plan.py",
    "tests/cli/test_agent.py",
    "tests/cli/test_device.py",
    "tests/cli/test_main.py",
    "tests/cli/test_run.py",
    "tests/cli/test_run_errors.py",
    "tests/counts",
    "tests/kernels",
    "tests/laws",
    "tests/series",
    "tests/shuffle",
    "tests/tables",
    "tests/test_campaign.py",
    "tests/test_domain.py",
    "tests/test_privacy.py",
)


def main() -> int:
    """Make the environment, run the tests in it, and return their exit code."""
    uv = [sys.executable, "-m", "uv"]
    oldest = floors()
    print(f"The oldest versions allowed: {', '.join(oldest)}.", flush=True)
    subprocess.run(
        [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(VENV)], check=True
    )
    install = [
        *uv,
        "pip",
        "install",
        "--quiet",
        "--system-certs",
        "--python",
        str(VENV / "bin/python"),
    ]
    subprocess.run([*install, *oldest, *tools(), *FREE], check=True)
    offline = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    subprocess.run([*install, *offline], check=True)
    words = ["-q", "-p", "no:cacheprovider", "--without-spark", *TESTS, *sys.argv[1:]]
    return subprocess.run([VENV / "bin/pytest", *words], cwd=ROOT, check=False).returncode


def floors() -> list[str]:
    """Return the requirements of library and tables, each at its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["tables"]]
    return [re.sub(r"^([\w.-]+)>=([\w.]+)$", r"\1==\2", one) for one in wanted]


def tools() -> list[str]:
    """Return the tools of the tests as dev locks them."""
    text = (ROOT / "requirements/dev.txt").read_text("utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE))
    return [f"{name}=={locked[name]}" for name in TOOLS]


if __name__ == "__main__":
    sys.exit(main())
