"""The release log: results of parts that were drawn, kept until the whole run is done.

A part is in the log or it is not: its file is written next to its place, flushed to disk and then
renamed. A run that goes on after an interruption takes what is there and never draws those readings
again; the run key was lost with the process, and the new one serves the other rounds alone.
"""

import fcntl
import io
import json
import shutil
import zipfile
from dataclasses import asdict, dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

import numpy as np

from rase.atomic_files import write_atomic
from rase.counts.estimate import Estimate
from rase.errors import DataError, StorageUnusable
from rase.series.rounds import RoundResult
from rase.shuffle.release import Manifest
from rase.tables.summary import DeviceCounts, Tally

__all__ = ["PartResult", "ReleaseLog"]

T = TypeVar("T")
# The fields of a round that are plain numbers.
_PLAIN = ("n", "round", "start_ms", "truth", "spread")
_plain_of = attrgetter(*_PLAIN)


@dataclass(slots=True)
class PartResult:
    """What came of some whole rounds.

    Args:
        results: The rounds.
        tally: What was read and changed.
        devices: How many reports each device drew.
        silent: Rounds of which rows were read, but none with a reading.
    """

    results: list[RoundResult] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    devices: DeviceCounts = field(default_factory=DeviceCounts)
    silent: set[int] = field(default_factory=set)

    @property
    def rounds(self) -> set[int]:
        """All rounds whose rows were read."""
        return self.silent.union(result.round or 0 for result in self.results)

    def add(self, other: "PartResult") -> "PartResult":
        """Take in what came of another part, and return this one."""
        self.results += other.results
        self.tally += other.tally
        self.devices.add(other.devices)
        self.silent |= other.silent
        return self

    def to_bytes(self) -> bytes:
        """Return the part as bytes, from which `from_bytes` gives the same bits back."""
        # Estimates and manifests that several results share are written, and read back, as one.
        estimates, manifests = _Shared[Estimate](Estimate), _Shared[Manifest](Manifest)
        head = {
            "rounds": [
                {
                    "estimates": {
                        name: estimates.number_of(one) for name, one in result.estimates.items()
                    },
                    "manifest": manifests.number_of(result.manifest),
                    "alone": None if result.alone is None else estimates.number_of(result.alone),
                    **dict(zip(_PLAIN, _plain_of(result), strict=True)),
                }
                for result in self.results
            ],
            "estimates": estimates.rows,
            "manifests": manifests.rows,
            "tally": asdict(self.tally),
            "silent": sorted(self.silent),
        }
        spent = self.devices.spent
        file = io.BytesIO()
        np.savez(
            file,
            head=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8),
            device=self.devices.device,
            reports=self.devices.reports,
            spent=np.zeros(0) if spent is None else spent,
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "PartResult":
        """Return the part behind `to_bytes`.

        Raises:
            ValueError, LookupError, TypeError, zipfile.BadZipFile: If the bytes are damaged.
        """
        with np.load(io.BytesIO(content)) as kept:
            head = json.loads(kept["head"].tobytes())
            device, reports, spent = (kept[name] for name in ("device", "reports", "spent"))
        counts = DeviceCounts(device, reports, spent if len(spent) else None)
        estimates = [Estimate(*one) for one in head["estimates"]]
        manifests = [Manifest(*one) for one in head["manifests"]]
        results = [_result(one, estimates, manifests) for one in head["rounds"]]
        return cls(results, Tally(**head["tally"]), counts, set(head["silent"]))


class ReleaseLog:
    """Keep the results of parts in a folder; use it as a context manager, which locks it.

    Args:
        folder: The folder.
        fingerprint: What decides on the results; a folder of another run is refused.

    Attributes:
        released: What the log held when it was opened.
        parts: How many parts that were.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.released = PartResult()
        self.parts = 0
        self._count = 0
        self._writing = Lock()
        self.folder = folder
        self._fingerprint = fingerprint
        self._lock: io.TextIOWrapper | None = None

    def __enter__(self) -> Self:
        """Open the folder, or make it.

        Raises:
            DataError: If it belongs to another job, or another process works in it.
        """
        try:
            self._open(self.folder)
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

    def write(self, part: PartResult) -> None:
        """Write a part; when this returns, it is on disk."""
        with self._writing:
            number, self._count = self._count, self._count + 1
        write_atomic(self.folder / f"part{number}.npz", part.to_bytes())

    def _read(self, path: Path) -> PartResult:
        try:
            return PartResult.from_bytes(path.read_bytes())
        except (OSError, ValueError, LookupError, TypeError, zipfile.BadZipFile) as error:
            raise StorageUnusable(
                f"{path} is damaged; remove the folder {self.folder} to begin again, with new "
                "noise for all readings."
            ) from error

    def remove(self) -> None:
        """Take the folder away: the run is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

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
        head = folder / "run.json"
        if head.exists():
            if json.loads(head.read_text(encoding="utf-8")) != {"run": self._fingerprint}:
                raise StorageUnusable(
                    f"{folder} holds an interrupted run of another plan, table or version; give "
                    "the same command to finish it, another --out, or remove the folder."
                )
        else:
            write_atomic(head, json.dumps({"run": self._fingerprint}).encode())
        for left in folder.glob("*.part"):
            left.unlink()
        kept = sorted(folder.glob("part*.npz"))
        for path in kept:
            self.released.add(self._read(path))
        self.parts = len(kept)
        numbers = (int(path.stem.removeprefix("part")) for path in kept)
        self._count = 1 + max(numbers, default=-1)


class _Shared(Generic[T]):
    """Number different values, each written once as the list of its fields."""

    def __init__(self, kind: type[T]) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self._fields = attrgetter(*(one.name for one in fields(cast("Any", kind))))
        self._numbers: dict[int, int] = {}

    def number_of(self, value: T) -> int:
        """Return the number of a value, which the caller keeps alive."""
        number = self._numbers.setdefault(id(value), len(self.rows))
        if number == len(self.rows):
            self.rows.append(self._fields(value))
        return number


def _result(
    kept: dict[str, Any], estimates: list[Estimate], manifests: list[Manifest]
) -> RoundResult:
    alone = kept["alone"]
    return RoundResult(
        estimates={name: estimates[number] for name, number in kept["estimates"].items()},
        manifest=manifests[kept["manifest"]],
        alone=None if alone is None else estimates[alone],
        **{name: kept[name] for name in _PLAIN},
    )
