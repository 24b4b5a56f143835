"""What gets into the image: the files the package is built from, and never a key."""

import base64
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from scripts.images import TARGETS
from tests.deploy.building import compile_quickly

from rase.cli import main

ROOT = Path(__file__).parents[2]
IGNORE = (ROOT / ".dockerignore").read_text("utf-8")
COMPOSE = (ROOT / "deploy/compose/compose.yaml").read_text("utf-8")
# Beside the package itself.
BUILT_FROM = {
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "pyproject.toml",
    "requirements/demo.txt",
    "requirements/server.txt",
    "scripts/sbom.py",
    "setup.py",
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files of this clone that could matter, without its environments."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("src", "deploy", "requirements", "scripts"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py", "Makefile"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_no_key_is_among_the_files_of_the_image(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `rase init` as compose.yaml says, or anywhere in the clone, no secret is sent along."""
    (typed,) = re.findall(r"^#   (rase init .*)$", COMPOSE, re.MULTILINE)
    (place,) = re.findall(r"^#   export RASE_INSTALLED=(\S+)", COMPOSE, re.MULTILINE)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(clone)
    secrets: set[bytes] = set()
    named = Path(place).expanduser()
    named.parent.mkdir(exist_ok=True)
    assert clone not in named.resolve().parents
    # As the page says, and where somebody might put it instead.
    for folder in (named, clone / "deploy/compose/installed", clone / "src/ours", clone / "ours"):
        words = shlex.split(typed.replace("$RASE_INSTALLED", str(folder)))
        assert main([*words[1:], "--registrar-url", "http://127.0.0.1:8704"]) == 0
        keys = sorted(folder.rglob("*.key"))
        assert len(keys) >= 5
        assert folder / "registrar/keys/signing.key" in keys
        secrets |= {key.read_bytes().strip() for key in keys}
    sent = context(clone)
    assert sent
    for path in sent:
        content = (clone / path).read_bytes()
        for secret in secrets:
            assert secret not in content, path
            assert base64.b64encode(secret) not in content, path


def test_only_what_the_package_is_built_from_is_sent() -> None:
    """Of this very clone, with all that lies in it, some files of the package and eight others."""
    sent = context(ROOT)
    assert {path for path in sent if not path.startswith("src/rase/")} == BUILT_FROM
    assert not [path for path in sent if path.endswith((".key", ".db", ".so", ".pyc", ".token"))]
    assert sum((ROOT / path).stat().st_size for path in sent) < 10e6


def test_the_package_builds_from_what_is_sent(clone: Path, tmp_path: Path) -> None:
    """Nothing that it needs is left out: the wheel holds every file of the package."""
    source = tmp_path / "src"
    for path in context(clone):
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(clone / path, source / path)
    compile_quickly(source)
    quiet = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", "wheel", *quiet, f"--wheel-dir={tmp_path}"]
    subprocess.run(
        [*command, str(source)], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sent = {path.removeprefix("src/") for path in context(clone) if path.startswith("src/rase/")}
    assert {name for name in sent if name.endswith(".py")} <= names
    pages = {name for name in sent if name.startswith("rase/dashboard/templates/")}
    assert pages
    assert pages <= names


def test_the_image_fails_without_compiled_kernels() -> None:
    """It is built with a compiler, proves that the kernels are there, and leaves the compiler."""
    text = (ROOT / "deploy/compose/Dockerfile").read_text("utf-8")
    _, builder, *others = re.split(r"^FROM ", text, flags=re.MULTILINE)
    assert " gcc " in builder
    assert "from rase.kernels import _native" in builder
    for stage in others:
        assert "gcc" not in stage
        assert "COPY . " not in stage
    assert "COPY --from=builder /opt/rase /opt/rase" in text


def test_images_are_pinned_not_root_and_say_how_they_are() -> None:
    """The base has a digest; every image has a numeric user, and each server a health check."""
    text = (ROOT / "deploy/compose/Dockerfile").read_text("utf-8")
    assert re.search(r"^ARG PYTHON_IMAGE=\S+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    stages = dict(re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE))
    assert set(stages) == {"${PYTHON_IMAGE}", "builder", "server"}
    server = text.split(" AS server\n")[1].split("\nFROM ")[0]
    assert re.search(r"^USER [1-9]\d*$", server, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK --interval.*HEALTH_URL", server, re.MULTILINE | re.DOTALL)
    assert {"shuffler", "fusion", "registrar", "demo"} <= set(TARGETS)
    for name in set(TARGETS) - {"demo"}:
        stage = text.split(f"FROM server AS {name}\n")[1].split("\nFROM ")[0]
        assert "HEALTHCHECK" not in stage
        assert re.search(
            r"^ENV HEALTH_URL=http://127\.0\.0\.1:87\d\d/healthz$", stage, re.MULTILINE
        )
        assert f'CMD ["{name}", "run", "--config", "/etc/rase/rase.toml"]' in stage
    for name, port in {"shuffler": 8701, "fusion": 8702, "registrar": 8704}.items():
        assert f"HEALTH_URL=http://127.0.0.1:{port}/healthz" in text
        assert f"target: {name}" in COMPOSE.split("services:")[1]


def test_an_installation_in_a_clone_is_not_committed() -> None:
    """Keys, and the environment that the page on installing has people make, are ignored."""
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert {"deploy/compose/installed/", "rase-installed/", "rase-env/", "*.key"} <= set(ignored)


@pytest.mark.parametrize(
    ("rules", "path", "is_sent"),
    [
        ("", "a/b", True),
        ("*", "a", False),
        ("*", "a/b", False),
        ("*\n!a", "a/b", True),
        ("*\n!a/b", "a/c", False),
        ("*\n!a\n**/*.key", "a/x/y.key", False),
        ("*\n!a\n**/*.key", "a/x/y.keys", True),
        ("# *\n\n", "a", True),
        ("a?c", "abc/d", False),
    ],
)
def test_rules_are_read_as_docker_reads_them(rules: str, path: str, is_sent: bool) -> None:
    """The last rule that fits a file or a folder above it decides."""
    assert is_kept(path, rules) == is_sent


def context(folder: Path) -> set[str]:
    """Return the files below a folder that a build sends along."""
    kept: set[str] = set()
    for place, below, names in os.walk(folder):
        here = Path(place).relative_to(folder)
        # A link to a folder is sent as a link; what it leads to is not.
        below[:] = [name for name in below if (here / name).parts[0] not in {".git", ".venv"}]
        found = {(here / name).as_posix() for name in names}
        kept |= {path for path in found if is_kept(path)}
    return kept


def is_kept(path: str, rules: str = IGNORE) -> bool:
    """Decide by the rules of a .dockerignore whether a file is sent along."""
    parts = path.split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    kept = True
    for line in rules.splitlines():
        rule = line.strip()
        if rule and not rule.startswith("#"):
            fits = _matcher(rule.removeprefix("!"))
            if any(fits(one) for one in above):
                kept = rule.startswith("!")
    return kept


@cache
def _matcher(rule: str) -> Callable[[str], bool]:
    """Return what tells whether a rule fits a path; of a clone's many files most share folders."""
    pattern = _pattern(rule)
    return cache(lambda path: pattern.fullmatch(path) is not None)


def _pattern(rule: str) -> re.Pattern[str]:
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", rule.strip("/"))
    return re.compile("".join(wild.get(piece, re.escape(piece)) for piece in pieces))
