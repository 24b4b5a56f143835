"""Build the images with docker, or with buildah where there is no daemon, and check each.

    python scripts/images.py [TARGET ...] [--base IMAGE] [--certificates FILE] [--storage FOLDER]

Each image must run as nobody in particular, say how its health is found, hold its bill of materials
and no private key. Nothing is pushed.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["TARGETS", "main", "mistakes_of"]

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "deploy/compose/Dockerfile"
# Every server, and the demonstration: whatever is made of the stage that they share.
TARGETS = tuple(re.findall(r"^FROM server AS (\S+)$", DOCKERFILE.read_text("utf-8"), re.MULTILINE))
# Runs in the image: what must be there, and what must not.
_LOOK = """
import json, os, pathlib
from rase.kernels.backend import kernels_in_use
found = []
for folder, _, names in os.walk("/"):
    if folder.startswith(("/proc", "/sys", "/dev")):
        continue
    for name in names:
        path = pathlib.Path(folder, name)
        if name.endswith(".key"):
            found.append(str(path))
bill = json.loads(pathlib.Path("/opt/rase/share/sbom.cdx.json").read_text("utf-8"))
print(json.dumps({"uid": os.getuid(), "keys": found, "packages": len(bill["components"]),
                  "kernels": kernels_in_use()}))
"""


def main() -> int:
    """Build and check the images that are named, or all; return the exit code."""
    parser = argparse.ArgumentParser(description="Build and check the images.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", default=list(TARGETS))
    parser.add_argument("--base", help="another base image than the pinned one")
    parser.add_argument("--certificates", type=Path, help="of a proxy between here and the index")
    parser.add_argument("--storage", type=Path, help="where buildah keeps images")
    options = parser.parse_args()
    is_bad = False
    for target in options.targets:
        config, look = _built(target, options)
        mistakes = mistakes_of(target, config, look)
        is_bad |= bool(mistakes)
        print(f"{target}: {'; '.join(mistakes) or 'built, as it must be'}", flush=True)
    return 1 if is_bad else 0


def mistakes_of(target: str, config: dict[str, Any], look: dict[str, Any]) -> list[str]:
    """Return what is wrong with an image.

    Args:
        target: Its name.
        config: Its configuration, as docker has it.
        look: What was found in it.
    """
    user = str(config.get("User") or "0").partition(":")[0]
    probe = (config.get("Healthcheck") or {}).get("Test") or []
    wrong = []
    if not user.isdecimal() or int(user) == 0 or look["uid"] != int(user):
        wrong.append(f"the user must be a number other than 0, got {user!r}")
    if target != "demo" and (not probe or probe == ["NONE"]):
        wrong.append("a server must have a health check")
    if look["keys"]:
        wrong.append(f"no private key may be in it, got {', '.join(look['keys'])}")
    if not look["packages"]:
        wrong.append("its bill of materials must not be empty")
    if "NumPy" in look["kernels"]:
        wrong.append("its kernels must be compiled")
    return wrong


def _built(target: str, options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build one image; return its configuration and what a look into it finds."""
    name = f"localhost/rase-{target}"
    words = ["--target", target, "-f", "deploy/compose/Dockerfile", "-t", name]
    if options.base:
        words += ["--build-arg", f"PYTHON_IMAGE={options.base}"]
    python = ["/opt/rase/bin/python", "-c", _LOOK]
    if shutil.which("buildah"):
        tool = ["buildah"]
        if options.storage:
            folder = options.storage
            tool += ["--storage-driver=vfs", f"--root={folder}/images", f"--runroot={folder}/run"]
        if options.certificates:
            # Seen while it is built, and by nobody who runs the image.
            words += ["--volume", f"{options.certificates}:/run/certificates.pem:ro"]
            words += ["--build-arg", "PIP_CERT=/run/certificates.pem"]
        _run([*tool, "bud", "--quiet", "--format=docker", "--isolation=chroot", *words, "."])
        image = json.loads(_run([*tool, "inspect", "--type=image", name]))
        container = _run([*tool, "from", name]).strip()
        try:
            seen = _run([*tool, "run", "--isolation=chroot", container, "--", *python])
        finally:
            _run([*tool, "rm", container])
        return image["Docker"]["config"], json.loads(seen)
    _run(["docker", "build", "--quiet", *words, "."])
    [image] = json.loads(_run(["docker", "inspect", name]))
    shown = ["docker", "run", "--rm", "--read-only", "--network=none", "--entrypoint", python[0]]
    return image["Config"], json.loads(_run([*shown, name, *python[1:]]))


def _run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"{done.stderr}\nimages: error: {' '.join(command[:2])} failed, see above."
        )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
