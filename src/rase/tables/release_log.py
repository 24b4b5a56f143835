"""The release log: results of parts that were drawn, kept until the whole run is done.

A part is in the log or it is not: its file is written next to its place, flushed to disk and then
renamed. A run that goes on after an interruption takes what is there and never draws those readings
again; the run key was lost with the process, and the new one serves the other rounds alone.
"""

import fcntl
import io
import json
import math
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from string import ascii_lowercase
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from rase.atomic_files import write_atomic
from rase.counts.estimate import Estimate
from rase.errors import DataError, StorageUnusable
from rase.series.rounds import RoundResult
from rase.shuffle.release import Manifest
from rase.tables.summary import DeviceCounts, NumberedCounts, Tally

__all__ = ["PartResult", "ReleaseLog", "number_of"]

T = TypeVar("T")
# The fields of a round that are plain numbers.
_PLAIN = ("n", "round", "start_ms", "truth", "spread")
_FIELDS = tuple(one.name for one in fields(Estimate))
_fields_of = attrgetter(*_FIELDS)
_HEAD = "run.json"


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
        names = list(self.results[0].estimates) if self.results else []
        columns, manifests = _columns_of(self.results, names)
        head = {
            "estimators": names,
            "manifests": [astuple(one) for one in manifests],
            "absent": [name for name in _PLAIN if None in columns[name]],
            "tally": asdict(self.tally),
            "silent": sorted(self.silent),
        }
        spent, numbered = self.devices.spent, self.devices.numbered
        file = io.BytesIO()
        np.savez(
            file,
            **_arrays_of(columns),
            head=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8),
            device=self.devices.device,
            reports=self.devices.reports,
            spent=np.zeros(0) if spent is None else spent,
            first=np.array([] if numbered is None else [numbered.first], dtype=np.int64),
            numbered=np.zeros(0, np.int32) if numbered is None else numbered.reports,
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
            first, numbered = kept["first"].tolist(), kept["numbered"]
            columns = {
                name.removeprefix("column."): kept[name].tolist()
                for name in kept.files
                if name.startswith("column.")
            }
        results = _results(head, columns)
        counts = DeviceCounts(device, reports, spent if len(spent) else None)
        if first:
            counts.numbered = NumberedCounts(first[0], numbered)
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
        self._count = self._first = 0
        self._writing = Lock()
        self.folder = folder
        self._fingerprint = fingerprint
        self._lock: io.TextIOWrapper | None = None

    def __enter__(self) -> Self:
        """Open the folder, or make it.

        Raises:
            DataError: If the folder belongs to another job, or another process is using it.
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
            self._forget()
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

    def _forget(self) -> None:
        """Take away what was drawn since the log was opened: it was shown to nobody."""
        self.remove()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _open(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"another process works in {folder}; wait for its end.") from None
        head, kept = folder / _HEAD, self._part_files()
        # Nothing is bound by a run that drew nothing.
        if kept:
            found = json.loads(head.read_text(encoding="utf-8"))
            if found["run"] != self._fingerprint:
                raise StorageUnusable(self._other(found))
        else:
            write_atomic(head, json.dumps(self._head()).encode())
        for left in folder.glob("*.part"):
            left.unlink()
        for path in kept:
            self.released.add(self._read(path))
        self.parts = len(kept)
        self._count = self._first = 1 + max(map(number_of, kept), default=-1)

    def _head(self) -> dict[str, Any]:
        return {"run": self._fingerprint}

    def _other(self, _found: Mapping[str, Any]) -> str:
        """Return why the folder of another run is refused."""
        return (
            f"{self.folder} holds an interrupted run of another plan, table or version; give "
            "the same command to finish it, another --out, or remove the folder."
        )

    def _part_files(self) -> list[Path]:
        """Return the files of all parts, each part in one of them."""
        return sorted(self.folder.glob("part*.npz"))


def number_of(path: Path) -> int:
    """Return the number in the name of a part's file."""
    return int(path.stem.lstrip(ascii_lowercase))


def _distinct(values: Iterable[T]) -> dict[int, tuple[int, T]]:
    """Number different objects: by identity, for it is they that are shared."""
    found: dict[int, tuple[int, T]] = {}
    for value in values:
        if value is not None and id(value) not in found:
            found[id(value)] = len(found), value
    return found


def _arrays_of(columns: dict[str, list[Any]]) -> dict[str, Any]:
    arrays = {f"column.{name}": np.array(column) for name, column in columns.items()}
    # What is not known is None, and NaN in an array.
    return {
        name: one.astype(np.float64) if one.dtype == np.object_ else one
        for name, one in arrays.items()
    }


def _columns_of(
    results: list[RoundResult], names: list[str]
) -> tuple[dict[str, list[Any]], list[Manifest]]:
    """Return the fields of results as columns, and the manifests that these number."""
    # Results share many of their estimates and manifests: each is written once.
    estimates = _distinct(
        one for result in results for one in (*result.estimates.values(), result.alone)
    )
    manifests = _distinct(result.manifest for result in results)
    columns: dict[str, list[Any]] = {
        f"of.{name}": [estimates[id(one.estimates[name])][0] for one in results] for name in names
    }
    columns["alone"] = [-1 if one.alone is None else estimates[id(one.alone)][0] for one in results]
    columns["label"] = [one.label or "" for one in results]
    columns["manifest"] = [manifests[id(one.manifest)][0] for one in results]
    for name in _PLAIN:
        columns[name] = [getattr(one, name) for one in results]
    own = list(zip(*(_fields_of(one) for _, one in estimates.values()), strict=True))
    for place, name in enumerate(_FIELDS):
        columns[f"estimate.{name}"] = list(own[place]) if own else []
    return columns, [one for _, one in manifests.values()]


def _results(head: dict[str, Any], columns: dict[str, list[Any]]) -> list[RoundResult]:
    own = (columns[f"estimate.{name}"] for name in _FIELDS)
    estimates = [Estimate(*one) for one in zip(*own, strict=True)]
    manifests = [Manifest(*one) for one in head["manifests"]]
    names, count = head["estimators"], len(columns["n"])
    for name in head["absent"]:
        columns[name] = [None if math.isnan(one) else one for one in columns[name]]
    of_round = zip(*(columns[f"of.{name}"] for name in names), strict=True)
    plain = zip(*(columns[name] for name in _PLAIN), strict=True)
    return [
        RoundResult(
            estimates=dict(zip(names, (estimates[one] for one in numbers), strict=True)),
            manifest=manifests[manifest],
            alone=None if alone < 0 else estimates[alone],
            label=label or None,
            **dict(zip(_PLAIN, numbers_of, strict=True)),
        )
        for numbers, manifest, alone, label, numbers_of in zip(
            of_round if names else [()] * count,
            columns["manifest"],
            columns["alone"],
            columns["label"],
            plain,
            strict=True,
        )
    ]
