"""Build everything a release consists of into a folder, the same bytes each time.

    python scripts/release.py [FOLDER] [--wheels] [--twice] [--sign-with KEY]

From the commit that is checked out, never from files that are not committed: the source
distribution, the wheel for this system, the device in one file and as a Debian package (where
there is dpkg-deb), the bill of materials, where all of it came from (an in-toto statement), and the
digests of all, which a local key can sign. Nothing is uploaded.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["build_release", "main"]

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE = "rase-release"
SUMS = "SHA256SUMS"


def main(arguments: list[str] | None = None) -> int:
    """Build into the folder that is named, print the digests, and return the exit code."""
    parser = argparse.ArgumentParser(description="Build a release; upload nothing.")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist")
    parser.add_argument("--wheels", action="store_true", help="source distribution and wheel alone")
    parser.add_argument("--twice", action="store_true", help="build again, and compare")
    parser.add_argument("--sign-with", type=Path, metavar="KEY", help="a private key of ssh-keygen")
    options = parser.parse_args(arguments)
    if _git("status", "--porcelain", "--untracked-files=no"):
        print("note: changes that are not committed are not part of it.", file=sys.stderr)
    build_release(options.folder, only_wheels=options.wheels)
    if options.twice:
        with tempfile.TemporaryDirectory() as again:
            build_release(Path(again), only_wheels=options.wheels)
            check_same(options.folder / SUMS, Path(again) / SUMS)
    if options.sign_with is not None:
        sign(options.folder / SUMS, options.sign_with)
    print((options.folder / SUMS).read_text("ascii"), end="")
    return 0


def build_release(folder: Path, *, only_wheels: bool = False) -> None:
    """Write all files of a release, with their digests in SHA256SUMS.

    Args:
        folder: Where to; files of an earlier release in it are removed.
        only_wheels: Leave out everything but the source distribution and the wheel.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        _check_out(source)
        _build_wheels(source, folder)
        if not only_wheels:
            script = source / "scripts"
            _run([sys.executable, script / "pack_device.py", folder / "rase-device.pyz"], source)
            if shutil.which("dpkg-deb"):
                _run([sys.executable, "-m", "scripts.pack_debian", folder.resolve()], source)
            else:
                print("note: dpkg-deb is absent, so there is no Debian package.", file=sys.stderr)
            _run([sys.executable, script / "sbom.py", folder / "sbom.cdx.json"], source)
            statement = provenance(sorted(folder.iterdir()), source)
            text = json.dumps(statement, indent=1, sort_keys=True) + "\n"
            (folder / "provenance.intoto.json").write_text(text, "utf-8")
    lines = [f"{_digest(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / SUMS).write_text("".join(lines), "ascii")


def check_same(one: Path, other: Path) -> None:
    """Refuse two lists of digests that differ, naming the files."""
    differing = set(one.read_text("ascii").splitlines()) ^ set(
        other.read_text("ascii").splitlines()
    )
    names = sorted({line.split()[1] for line in differing})
    if names:
        raise SystemExit(f"release: error: two builds must be the same, got other {names}.")
    print("Built twice, with the same digests.", file=sys.stderr)


def provenance(files: list[Path], source: Path) -> dict[str, Any]:
    """Return where files came from, as an in-toto statement with SLSA provenance.

    It names neither time nor machine, so it is the same wherever the same bytes are built.
    Addresses are those of whoever publishes (RASE_REPOSITORY_URL, RASE_BUILDER_ID), else names.

    Args:
        files: What was built.
        source: The files it was built from.
    """
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
    locks = sorted((source / "requirements").glob("*.txt"))
    repository = os.environ.get("RASE_REPOSITORY_URL")
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": _digest(path)}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:rase-iot:make-release:1",
                "externalParameters": {"name": project["name"], "version": project["version"]},
                "resolvedDependencies": [
                    {
                        "uri": f"git+{repository}" if repository else "urn:rase-iot:source",
                        "digest": {"gitCommit": _git("rev-parse", "HEAD")},
                    },
                    *(
                        {"name": f"requirements/{path.name}", "digest": {"sha256": _digest(path)}}
                        for path in locks
                    ),
                ],
            },
            "runDetails": {
                "builder": {"id": os.environ.get("RASE_BUILDER_ID", "urn:rase-iot:local")}
            },
        },
    }


def sign(path: Path, key: Path) -> None:
    """Write a signature next to a file; `ssh-keygen -Y verify -n rase-release` checks it."""
    path.with_name(f"{path.name}.sig").unlink(missing_ok=True)
    _run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", NAMESPACE, path], path.parent)


def _check_out(source: Path) -> None:
    """Write the committed files, all with the time of the commit."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"],  # noqa: S607 - the git of whoever releases
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(source, filter="data")


def _build_wheels(source: Path, folder: Path) -> None:
    made = source / "made"
    tool = [sys.executable, "-m"]
    _run([*tool, "build", "--no-isolation", "--outdir", made, source], source)
    [archive] = made.glob("*.tar.gz")
    (folder / archive.name).write_bytes(_without_times(archive))
    [wheel] = made.glob("*.whl")
    if sys.platform == "linux" and "linux" in wheel.name:
        # Named by the oldest system that it runs on, instead of by this one.
        _run([*tool, "auditwheel", "repair", "--wheel-dir", folder, wheel], source)
    else:
        (folder / wheel.name).write_bytes(wheel.read_bytes())


def _without_times(archive: Path) -> bytes:
    """Return a source distribution packed again: sorted, of one time, and of nobody."""
    memory = io.BytesIO()
    with (
        tarfile.open(archive) as old,
        gzip.GzipFile(fileobj=memory, mode="wb", mtime=int(_epoch()), filename="") as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid = int(_epoch()), 0, 0
            member.uname = member.gname = ""
            member.pax_headers = {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return memory.getvalue()


def _run(command: list[Any], place: Path) -> None:
    variables = {
        **os.environ,
        "SOURCE_DATE_EPOCH": _epoch(),
        "PYTHONPATH": str(place / "src"),
        "PYTHONHASHSEED": "0",
        # Debugging information would hold the folder in which it was built.
        "CFLAGS": "-g0",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    done = subprocess.run(
        list(map(str, command)),
        cwd=place,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nrelease: error: {command[1]} failed, see above.")


def _epoch() -> str:
    return _git("log", "-1", "--format=%ct")


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words],  # noqa: S607 - the git of whoever releases
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
