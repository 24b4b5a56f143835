"""Install Home Assistant into .venv-homeassistant, for the tests against the real thing.

It pins Python closely: below is the newest release for each Python that is likely at hand. All of
it is installed under its own constraints, with the frontend, because it does not start without, and
with what the form of its MQTT integration imports.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# By the oldest Python that each admits, the newest first.
RELEASES = {(3, 14, 2): "2026.11.0", (3, 13, 2): "2026.2.3", (3, 13, 0): "2025.4.4"}
PYTHONS = ("python3.14", "python3.13", "python3")
# Their own lists say what they need beyond Home Assistant itself.
COMPONENTS = ("mqtt", "hassio", "frontend")
VENV = Path(__file__).resolve().parent.parent / ".venv-homeassistant"


def main() -> int:
    """Make the environment, unless it is there."""
    asked = os.environ.get("PYTHON_HOMEASSISTANT")
    fitting = ((name, newest(name)) for name in ([asked] if asked else PYTHONS))
    python, release = next(((name, one) for name, one in fitting if one), (None, None))
    if python is None:
        print(
            "Home Assistant needs Python 3.13 or 3.14 on PATH, or its path in "
            "PYTHON_HOMEASSISTANT; none is.",
            file=sys.stderr,
        )
        return 1
    if (VENV / "stamp").exists() and (VENV / "stamp").read_text("utf-8") == release:
        return 0
    subprocess.run([python, "-m", "venv", "--clear", str(VENV)], check=True)
    pip = [str(VENV / "bin/pip"), "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [*pip, "download", "--no-deps", "--dest", scratch, f"homeassistant=={release}"],
            check=True,
        )
        (wheel,) = Path(scratch).glob("homeassistant-*.whl")
        with zipfile.ZipFile(wheel) as content:
            pins = content.extract("homeassistant/package_constraints.txt", scratch)
            lists = [f"homeassistant/components/{name}/manifest.json" for name in COMPONENTS]
            needed = [json.loads(content.read(one)).get("requirements", []) for one in lists]
        wanted = [str(wheel), *(one for several in needed for one in several)]
        subprocess.run([*pip, "install", "--constraint", pins, *wanted], check=True)
    (VENV / "stamp").write_text(str(release), encoding="utf-8")
    print(f"Home Assistant {release} is in {VENV.name}.")
    return 0


def newest(name: str) -> str | None:
    """Return the newest release that an interpreter admits; None if it is too old or not there."""
    found = shutil.which(name)
    if found is None:
        return None
    code = "import sys; print(*sys.version_info[:3])"
    # Some names on PATH are only shims, so each has to prove itself.
    done = subprocess.run([found, "-c", code], check=False, capture_output=True, text=True)
    version = tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()
    return next((release for oldest, release in RELEASES.items() if version >= oldest), None)


if __name__ == "__main__":
    sys.exit(main())
