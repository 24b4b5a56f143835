"""Lint what no test of Python reads: workflows, images, manifests, the add-on, the citation.

    python scripts/lint.py

Runs in .venv-release. Each linter works on files alone: nothing is asked of the network.
"""

import subprocess
import sys
from pathlib import Path

__all__ = ["checks", "main"]

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def main() -> int:
    """Run every linter, and return 1 if one found something."""
    failed = []
    for name, command in checks().items():
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(f"{'ok    ' if done.returncode == 0 else 'FAILED'}  {name}", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stdout)
    return 1 if failed else 0


def checks() -> dict[str, list[str]]:
    """Return the commands by what they check; no list of files may be empty."""
    schema = str(BIN / "check-jsonschema")
    return {
        "workflows, by their schema": [
            schema,
            "--builtin-schema",
            "vendor.github-workflows",
            *_files(".github/workflows/*.yml"),
        ],
        "workflows, for weaknesses": [
            str(BIN / "zizmor"),
            "--offline",
            "--persona=pedantic",
            "--config=.github/zizmor.yml",
            ".github",
        ],
        "dependency updates": [
            schema,
            "--builtin-schema",
            "vendor.dependabot",
            *_files(".github/dependabot.yml"),
        ],
        "images": [
            str(BIN / "hadolint"),
            "--config",
            "deploy/hadolint.yaml",
            *_files("deploy/**/Dockerfile"),
        ],
        "manifests": [
            str(BIN / "kubernetes-validate"),
            "--strict",
            "--no-warn",
            *_files("deploy/kubernetes/*.yaml"),
        ],
        "composition": [
            schema,
            "--builtin-schema",
            "vendor.compose-spec",
            *_files("deploy/**/compose.yaml"),
        ],
        "app for Home Assistant": [
            schema,
            "--schemafile=scripts/schemas/homeassistant-app.json",
            *_files("deploy/homeassistant/*/config.yaml"),
        ],
        "app for Home Assistant, its bases": [
            schema,
            "--schemafile=scripts/schemas/homeassistant-build.json",
            *_files("deploy/homeassistant/*/build.yaml"),
        ],
        "citation": [
            schema,
            "--builtin-schema",
            "vendor.citation-file-format",
            *_files("CITATION.cff"),
        ],
        "forms of issues": [
            schema,
            "--builtin-schema",
            "vendor.github-issue-forms",
            *_files(".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ],
    }


def _files(pattern: str) -> list[str]:
    found = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob(pattern))]
    if not found:
        raise SystemExit(f"lint: error: {pattern} must match a file, got none.")
    return found


if __name__ == "__main__":
    sys.exit(main())
