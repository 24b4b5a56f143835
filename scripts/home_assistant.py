"""Install Home Assistant into .venv-homeassistant, for the tests against the real thing.

It pins Python closely: the release below is the newest that Python 3.13.0 admits. Everything is
installed under its own constraints, and the frontend with it, because it does not start without.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

RELEASE = "2025.4.4"
PYTHONS = ("python3.13", "python3")
OLDEST, NEWEST = (3, 13), (3, 13)
VENV = Path(__file__).resolve().parent.parent / ".venv-homeassistant"


def main() -> int:
    """Make the environment, unless it is there."""
    if (VENV / "stamp").exists() and (VENV / "stamp").read_text("utf-8") == RELEASE:
        return 0
    python = next((found for name in PYTHONS if (found := fitting(name))), None)
    if python is None:
        print("Home Assistant needs Python 3.13 on PATH; none is.", file=sys.stderr)
        return 1
    subprocess.run([python, "-m", "venv", "--clear", str(VENV)], check=True)
    pip = [str(VENV / "bin/pip"), "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [*pip, "download", "--no-deps", "--dest", scratch, f"homeassistant=={RELEASE}"],
            check=True,
        )
        (wheel,) = Path(scratch).glob("homeassistant-*.whl")
        with zipfile.ZipFile(wheel) as content:
            pins = content.extract("homeassistant/package_constraints.txt", scratch)
        wanted = [str(wheel), "home-assistant-frontend", "paho-mqtt"]
        subprocess.run([*pip, "install", "--constraint", pins, *wanted], check=True)
    (VENV / "stamp").write_text(RELEASE, encoding="utf-8")
    return 0


def fitting(name: str) -> str | None:
    """Return the path of an interpreter if its version fits."""
    found = shutil.which(name)
    if found is None:
        return None
    code = f"import sys; sys.exit(not {OLDEST} <= sys.version_info[:2] <= {NEWEST})"
    # Some names on PATH are only shims, so each has to prove itself.
    done = subprocess.run([found, "-c", code], check=False, capture_output=True)
    return found if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
