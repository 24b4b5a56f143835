"""The release log: results of buckets that were drawn, kept until the whole job is done.

A bucket is in the log or it is not: its file is written beside its place, flushed to disk and then
renamed. A job that goes on after an interruption takes what is there and never draws those readings
again; the run key was lost with the process, and the new one serves the other buckets alone.
"""

import fcntl
import io
import json
import os
import shutil
import zipfile
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from rase.engine.tally import Tally
from rase.errors import DataError, StorageUnusable
from rase.estimate.estimate import Estimate
from rase.pipeline import RoundResult
from rase.shuffle.shufflers import Manifest

__all__ = ["ReleaseLog", "bucket_bytes", "bucket_of"]

_ARRAYS = ("device", "reports_of", "round", "quanta", "readings")
_COUNTS = ("rows", "nulls", "duplicates", "reports", "clipped")


class ReleaseLog:
    """Keep the results of buckets in a folder; use it as a context manager, which locks it.

    Args:
        folder: The folder; None to keep nothing.
        fingerprint: What decides on the results; a folder of another job is refused.

    Attributes:
        buckets: The buckets in the log.
    """

    def __init__(self, folder: Path | None, fingerprint: str) -> None:
        self.buckets: frozenset[int] = frozenset()
        self._folder = folder
        self._fingerprint = fingerprint
        self._lock: io.TextIOWrapper | None = None

    def __enter__(self) -> Self:
        """Open the folder, or make it.

        Raises:
            DataError: If it belongs to another job, or another process works in it.
        """
        if self._folder is not None:
            try:
                self._open(self._folder)
            except BaseException:
                self._unlock()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What was wrong with the table is wrong with all of it: none of it was shown to anybody.
        if isinstance(error, DataError):
            self.remove()
        self._unlock()

    def add(self, bucket: int, results: list[RoundResult], tally: Tally) -> None:
        """Write a bucket; when this returns, it is on disk."""
        if self._folder is None:
            return
        _write_whole(self._folder / f"bucket{bucket}.npz", bucket_bytes(results, tally))
        self.buckets |= {bucket}

    def read(self, bucket: int) -> tuple[list[RoundResult], Tally]:
        """Return a bucket of the log.

        Raises:
            StorageUnusable: If its file is damaged.
        """
        if self._folder is None:
            raise ValueError("a log without a folder must not be read.")
        path = self._folder / f"bucket{bucket}.npz"
        try:
            return bucket_of(path.read_bytes())
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise StorageUnusable(
                f"{path} is damaged; remove the folder {self._folder} to begin anew, with new "
                "noise for all readings."
            ) from error

    def remove(self) -> None:
        """Take the folder away: the job is done."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self.buckets = frozenset()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _open(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"another process works in {folder}; wait for its end.") from None
        head = folder / "job.json"
        if head.exists():
            if json.loads(head.read_text(encoding="utf-8")) != {"job": self._fingerprint}:
                raise StorageUnusable(
                    f"{folder} holds an interrupted run of another job, table or version; give the "
                    "same command to finish it, another --out, or remove the folder."
                )
        else:
            _write_whole(head, json.dumps({"job": self._fingerprint}).encode())
        for left in folder.glob("*.part"):
            left.unlink()
        names = (path.name for path in folder.glob("bucket*.npz"))
        self.buckets = frozenset(
            int(name.removeprefix("bucket").removesuffix(".npz")) for name in names
        )


def bucket_bytes(results: list[RoundResult], tally: Tally) -> bytes:
    """Return a bucket as bytes, from which `bucket_of` gives the same bits back."""
    told = {
        "rounds": [asdict(result) for result in results],
        "counts": {name: getattr(tally, name) for name in _COUNTS},
    }
    arrays = {name: getattr(tally, name) for name in _ARRAYS}
    file = io.BytesIO()
    np.savez(file, told=np.frombuffer(json.dumps(told).encode(), dtype=np.uint8), **arrays)
    return file.getvalue()


def bucket_of(content: bytes) -> tuple[list[RoundResult], Tally]:
    """Return the results and counts behind `bucket_bytes`.

    Raises:
        ValueError, KeyError, zipfile.BadZipFile: If the bytes are damaged.
    """
    with np.load(io.BytesIO(content)) as kept:
        told = json.loads(kept["told"].tobytes())
        arrays = {name: kept[name] for name in _ARRAYS}
    return [_result(one) for one in told["rounds"]], Tally(**told["counts"], **arrays)


def _write_whole(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.part")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    # The name itself must be on disk, too.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _result(told: dict[str, Any]) -> RoundResult:
    alone = told.pop("alone")
    return RoundResult(
        estimates={name: Estimate(**one) for name, one in told.pop("estimates").items()},
        manifest=Manifest(**told.pop("manifest")),
        alone=None if alone is None else Estimate(**alone),
        **told,
    )
