"""Images are really built where buildah is, from a Debian that this test made, and looked into."""

import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts.images import mistakes_of
from tests.cases import each_case
from tests.deploy.conftest import DebianRoot
from tests.programs import program

ROOT = Path(__file__).parents[2]
GOOD = {"User": "10001", "Healthcheck": {"Test": ["CMD", "python3"]}}
SEEN = {"uid": 10001, "keys": [], "packages": 30, "kernels": "compiled (avx2)"}


@each_case(
    ("config", "look", "words"),
    [
        ({}, {}, ""),
        ({"User": ""}, {}, "other than 0, got '0'"),
        ({"User": "rase"}, {}, "got 'rase'"),
        ({}, {"uid": 0}, "the user must be"),
        ({"Healthcheck": None}, {}, "must have a health check"),
        ({"Healthcheck": {"Test": ["NONE"]}}, {}, "must have a health check"),
        ({}, {"keys": ["/etc/rase/signing.key"]}, "got /etc/rase/signing.key"),
        ({}, {"packages": 0}, "bill of materials"),
        ({}, {"kernels": "NumPy (not compiled here)"}, "kernels must be compiled"),
    ],
)
def test_what_is_wrong_with_an_image_is_named(
    config: dict[str, Any], look: dict[str, Any], words: str
) -> None:
    """Root, no health check, a key, no bill of materials and slow kernels are refused."""
    mistakes = mistakes_of("fusion", {**GOOD, **config}, {**SEEN, **look})
    assert bool(mistakes) is bool(words)
    assert words in "; ".join(mistakes)


@pytest.mark.packaging
@pytest.mark.needs("buildah")
def test_a_server_is_built_without_a_daemon(debian_root: DebianRoot, tmp_path: Path) -> None:
    """Of the Dockerfile as it is, but for the base: the kernels compile, and nothing is amiss."""
    storage = [f"--root={tmp_path}/images", f"--runroot={tmp_path}/run", "--storage-driver=vfs"]
    tool = [program("buildah"), *storage]

    def run(*words: str) -> str:
        done = subprocess.run([*tool, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    base = run("from", "scratch")
    run("add", "--quiet", base, str(debian_root.path), "/")
    run("commit", "--quiet", base, "localhost/rase-base")
    trusted = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile
    words = ["--base=localhost/rase-base", f"--storage={tmp_path}"]
    words += [f"--certificates={trusted}"] if trusted else []
    done = subprocess.run(
        [sys.executable, "scripts/images.py", "fusion", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "fusion: built, as it must be\n"
