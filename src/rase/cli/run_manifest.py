"""The manifest beside the results of ``rase run``: what was done to which files, and by what."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rase import __version__
from rase.cli.output import as_json, replacing
from rase.cli.report import RunReport
from rase.cli.run_engine import EngineOptions
from rase.engine.tally import RunSummary

if TYPE_CHECKING:
    from rase.engine.job import Job

__all__ = ["manifest_path", "write_manifest"]


def write_manifest(
    out: Path, job: "Job", *, report: RunReport, summary: RunSummary, engine: EngineOptions
) -> Path:
    """Write the manifest of results that are in their place.

    Args:
        out: The file or folder of results.
        job: What was done.
        report: Its parameters and guarantees.
        summary: What was read, clipped, null and duplicate.
        engine: Where it was done.

    Returns:
        Where the manifest is.
    """
    path = manifest_path(out)
    head = report.head
    told: dict[str, Any] = {
        "schema": "rase.run.manifest/1",
        "version": __version__,
        "noise": "secure" if head["parameters"]["seed"] is None else "seeded, for study only",
        "engine": engine.engine,
        "parameters": head["parameters"],
        **job.described(),
        **report.tail(summary),
        "results": [
            {"file": str(file.relative_to(out.parent)), "sha256": _sha256(file)}
            for file in _files(out)
        ],
    }
    with replacing(path) as file:
        file.write(f"{json.dumps(json.loads(as_json(told)), indent=1)}\n".encode())
    return path


def manifest_path(out: Path) -> Path:
    """Return where the manifest of some results is."""
    return out / "manifest.json" if out.is_dir() else out.with_name(f"{out.name}.manifest.json")


def _files(out: Path) -> list[Path]:
    return sorted(out.rglob("*.parquet")) if out.is_dir() else [out]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
