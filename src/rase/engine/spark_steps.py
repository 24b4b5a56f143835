"""What Spark's executors do to a job: draw pieces, and estimate buckets of packed reports.

Rows between the steps have a kind, a number in it, a shard, packed reports and what was counted.
Only these rows go through Spark's shuffle. A bucket with a round too large for one executor is cut
into shards, which are gathered first. Nothing here knows Spark: steps turn Arrow into Arrow.
"""

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rase
from rase.engine.files import Files
from rase.engine.groups import GraphGroups
from rase.engine.kernel import Kernel
from rase.engine.packed import pack, unpack
from rase.engine.pieces import Piece
from rase.engine.reading import PieceRows, read_piece
from rase.engine.released import bucket_bytes, bucket_of
from rase.engine.tally import Tally
from rase.errors import RaseError
from rase.kernels.keyed import RunKey
from rase.kernels.words import Words
from rase.pipeline import RoundResult
from rase.pipeline.keyed import Reports

__all__ = ["SENT", "TOLD", "Kind", "Steps", "Told", "code_hash", "piece_table"]

SENT = pa.schema(
    [
        ("kind", pa.int32()),
        ("number", pa.int64()),
        ("shard", pa.int32()),
        ("reports", pa.binary()),
        ("tally", pa.binary()),
    ]
)
"""The columns between the steps, as Spark shuffles them."""

TOLD = pa.schema([("kind", pa.int32()), ("number", pa.int64()), ("told", pa.binary())])
"""The columns that come back to the driver."""

# About 3 MB: large enough to be cheap, small enough for Spark's pages and Arrow's batches.
_BLOB_REPORTS = 1 << 17
# What decides on readings, reports and results.
_FILES = ("collect.py", "stream.py")
_ROOMS = ("engine", "estimate", "kernels", "pipeline", "randomize", "shuffle")


class Kind(IntEnum):
    """What a row between the steps is about."""

    BUCKET = 0
    """The reports of some rounds; the number is the bucket."""

    DEVICES = 1
    """How many reports devices drew; the number is a prefix of their public numbers."""

    READING = 2
    """How pieces were read, or why they could not be."""


@lru_cache(maxsize=1)
def code_hash() -> str:
    """Return a hash of the sources that draw, shuffle and estimate here."""
    root = Path(rase.__file__).parent
    found = hashlib.sha256()
    for pattern in (*_FILES, *(f"{room}/**/*.py" for room in _ROOMS)):
        for path in sorted(root.glob(pattern)):
            found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Steps:
    """Hold what both steps need; it is sent to executors with each task, and never stored.

    Args:
        kernel: What is done.
        key: The key of the run.
        device_bits: Devices are counted in this many powers of two of parts.
        groups: The real groups, once all devices are known.
        lists_devices: Whether to return the numbers of all devices; they make up the groups.
        code: A hash of the driver's code, which that of the executors must have, too: with other
            code the same reading could get other noise when a task is repeated.
    """

    kernel: Kernel
    key: RunKey
    device_bits: int
    groups: GraphGroups | None = None
    lists_devices: bool = False
    code: str = field(default_factory=code_hash)

    def draw(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Draw the reports of pieces; a refusal becomes a row of its own.

        Guarantee: only randomized reports and counts leave; a piece that is drawn again by another
        executor gives the same rows (tests/engine/test_spark_steps.py).

        Args:
            batches: Rows of `piece_table`.

        Yields:
            Rows of `SENT`.
        """
        self._check_code()
        for batch in batches:
            for spec in batch.column("piece"):
                # Written by the driver, as the code that is running here.
                part: _Part = pickle.loads(spec.as_py())  # noqa: S301
                try:
                    yield from self._drawn(part)
                except RaseError as error:
                    # Not raised: Spark would try again, and quote a traceback in its logs.
                    refused = {"piece": part.piece.number, "says": str(error)}
                    yield _sent(Kind.READING, 0, tally={"refused": [refused]})

    def each(
        self, step: Callable[[Any], Any], batches: Iterator[Any], *, by: tuple[str, ...]
    ) -> Iterator[Any]:
        """Apply a step to each group of rows of a partition.

        Spark would sort the rows to group them, and copy every report for it. Groups must lie
        wholly in one partition; `Told` refuses two answers about one.

        Args:
            step: `gather` or `estimate`.
            batches: All rows of `SENT` in the partition, in any order.
            by: The columns that make a group.

        Yields:
            The rows that the step returned.
        """
        groups: dict[tuple[int, ...], list[Any]] = {}
        for batch in batches:
            names = zip(*(batch.column(name).to_pylist() for name in by), strict=True)
            for place, name in enumerate(names):
                groups.setdefault(name, []).append(batch.slice(place, 1))
        for name in list(groups):
            # Taken out, so that its reports are gone before the next group's are joined.
            yield from step(pa.Table.from_batches(groups.pop(name))).to_batches()

    def gather(self, rows: Any) -> Any:
        """Put one shard of a bucket in order, or leave counts as they are.

        Args:
            rows: All rows of `SENT` with one kind, number and shard, in any order.

        Returns:
            Rows of `SENT`, whose reports are what `Kernel.gather` made of them.
        """
        self._check_code()
        if rows["kind"][0].as_py() != Kind.BUCKET:
            return rows
        parts = pickle.dumps(self.kernel.gather(_reports(rows)))
        number, shard = (rows[name][0].as_py() for name in ("number", "shard"))
        tally = _total(_tallies(rows))
        return pa.Table.from_batches([_sent(Kind.BUCKET, number, parts, shard=shard, tally=tally)])

    def estimate(self, rows: Any) -> Any:
        """Estimate the rounds of a bucket, or add up counts.

        Args:
            rows: All rows of `SENT` with one kind and number, in any order; where buckets have
                shards, as `gather` returned them.

        Returns:
            One row of `TOLD`.
        """
        self._check_code()
        kind, number = Kind(rows["kind"][0].as_py()), rows["number"][0].as_py()
        match kind:
            case Kind.BUCKET:
                told = self._estimated(rows, _total(_tallies(rows)))
            case Kind.DEVICES:
                told = self._counted(_total(_tallies(rows)))
            case Kind.READING:
                told = json.dumps(_joined(_tallies(rows))).encode()
        columns = [[int(kind)], [number], [told]]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, TOLD, strict=True)]
        return pa.Table.from_arrays(arrays, schema=TOLD)

    def _check_code(self) -> None:
        if code_hash() != self.code:
            raise RuntimeError("executors must run the code of the driver, got other code of rase.")

    def _drawn(self, part: "_Part") -> Iterator[Any]:
        rows = read_piece(part.files, part.piece, interval_ms=self.kernel.interval_ms)
        drawn = self.kernel.randomize(rows, self.key)
        total = Tally()
        for bucket, tally in drawn.tallies.items():
            total += Tally(device=tally.device, reports_of=tally.reports_of)
            alone = replace(tally, device=_NOBODY.device, reports_of=_NOBODY.reports_of)
            yield _sent(Kind.BUCKET, bucket, tally=alone)
        for (bucket, shard), reports in drawn.reports.items():
            for start in range(0, len(reports), _BLOB_REPORTS):
                some = reports.chosen(slice(start, start + _BLOB_REPORTS))
                yield _sent(Kind.BUCKET, bucket, pack(some), shard=shard)
        for prefix, counts in _by_prefix(total, self.device_bits):
            yield _sent(Kind.DEVICES, prefix, tally=counts)
        yield _sent(Kind.READING, 0, tally=_reading(rows, part))

    def _estimated(self, rows: Any, tally: Tally) -> bytes:
        truths = None
        if self.kernel.truth:
            truths = tally.truths(self.kernel.pipeline.randomizer.value_range)
        if self.kernel.shards == 1:
            parts = _reports(rows)
            results = self.kernel.estimate(parts, self.key, truths=truths, groups=self.groups)
        else:
            # Written by `gather`, on an executor.
            found = {
                shard: pickle.loads(parts.as_py())  # noqa: S301
                for shard, parts in zip(rows["shard"].to_pylist(), rows["reports"], strict=True)
            }
            shards = [found[shard] for shard in sorted(found)]
            results = self.kernel.conclude(shards, self.key, truths=truths)
        return bucket_bytes(results, tally)

    def _counted(self, tally: Tally) -> bytes:
        if self.lists_devices:
            return tally.device.astype("<u8").tobytes()
        most = int(tally.reports_of.max(initial=0))
        return json.dumps([len(tally.device), most]).encode()


@dataclass(slots=True)
class Told:
    """Collect what came back from the executors.

    Args:
        results: The rounds, in no order.
        tally: What was read and changed, without devices.
        devices: How many devices reported.
        most_reports: The most reports of one of them.
        listed: The public numbers of all devices, where they were asked for.
        reading: How pieces were read.
    """

    results: list[RoundResult] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    devices: int = 0
    most_reports: int = 0
    listed: list[Words] = field(default_factory=list)
    reading: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Any, *, lists_devices: bool = False) -> "Told":
        """Return what rows of `TOLD` say."""
        told = cls()
        names = list(zip(table["kind"].to_pylist(), table["number"].to_pylist(), strict=True))
        if len(set(names)) < len(names):
            raise RuntimeError("rows of a group must lie in one partition, got two answers.")
        for kind, content in zip(table["kind"].to_pylist(), table["told"], strict=True):
            match Kind(kind):
                case Kind.BUCKET:
                    results, tally = bucket_of(content.as_py())
                    told.results += results
                    told.tally += replace(
                        tally, round=_NOBODY.round, quanta=_NOBODY.quanta, readings=_NOBODY.readings
                    )
                case Kind.DEVICES if lists_devices:
                    told.listed.append(np.frombuffer(content.as_py(), "<u8").astype(np.uint64))
                case Kind.DEVICES:
                    devices, most = json.loads(content.as_py())
                    told.devices += devices
                    told.most_reports = max(told.most_reports, most)
                case Kind.READING:
                    told.reading = json.loads(content.as_py())
        return told

    @property
    def all_devices(self) -> Words:
        """The public numbers of all devices, ascending."""
        return np.sort(np.concatenate([np.zeros(0, np.uint64), *self.listed]))

    @property
    def refusal(self) -> str | None:
        """Why the first piece that was refused could not be used."""
        refused = sorted(self.reading.get("refused", []), key=lambda one: int(one["piece"]))
        return refused[0]["says"] if refused else None


def piece_table(source: Files, pieces: tuple[Piece, ...]) -> Any:
    """Return pieces of a table as rows of one column, each with the files it needs."""
    parts = [pickle.dumps(_Part.of(source, piece)) for piece in pieces if piece.groups]
    return pa.table({"piece": pa.array(parts, pa.binary())})


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece with its files alone: a table may have more than a task should be told of.

    Args:
        files: The files of the piece.
        numbers: Their numbers in the whole table.
        piece: The piece; its row groups count files as they are here.
    """

    files: Files
    numbers: tuple[int, ...]
    piece: Piece

    @classmethod
    def of(cls, source: Files, piece: Piece) -> "_Part":
        numbers = tuple(dict.fromkeys(group.file for group in piece.groups))
        files = replace(source, files=tuple(source.files[number] for number in numbers), bad=())
        groups = tuple(replace(group, file=numbers.index(group.file)) for group in piece.groups)
        return cls(files, numbers, replace(piece, groups=groups))


_NOBODY = Tally()


def _by_prefix(tally: Tally, bits: int) -> Iterator[tuple[int, Tally]]:
    """Cut counts of devices, which are in ascending order, by the leading bits of their numbers."""
    prefixes = tally.device >> np.uint64(63 - bits) >> np.uint64(1)
    edges = np.searchsorted(prefixes, np.arange((1 << bits) + 1, dtype=np.uint64))
    for prefix in range(1 << bits):
        part = slice(edges[prefix], edges[prefix + 1])
        if part.stop > part.start:
            yield prefix, Tally(device=tally.device[part], reports_of=tally.reports_of[part])


def _reading(rows: PieceRows, part: _Part) -> dict[str, list[Any]]:
    return {
        "notes": list(rows.notes),
        "zones": [] if rows.has_zone is None else [rows.has_zone],
        "skipped": [[part.numbers[file], group] for file, group in rows.skipped],
    }


def _joined(readings: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    """Return all that was noted, without repetition and in one order."""
    return {
        name: [
            json.loads(one)
            for one in sorted({json.dumps(one) for part in readings for one in part.get(name, [])})
        ]
        for name in ("notes", "zones", "skipped", "refused")
    }


def _reports(rows: Any) -> list[Reports]:
    """Return packed reports without copying them."""
    blobs = (memoryview(blob.as_buffer()) for blob in rows["reports"])
    return [unpack(blob) for blob in blobs if len(blob)]


def _tallies(rows: Any) -> list[Any]:
    """Return what other tasks of this run counted."""
    return [pickle.loads(one.as_py()) for one in rows["tally"] if one.is_valid]  # noqa: S301


def _total(tallies: list[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total += tally
    return total


def _sent(
    kind: Kind,
    number: int,
    reports: bytes | memoryview = b"",
    *,
    shard: int = 0,
    tally: object = None,
) -> Any:
    told = None if tally is None else pickle.dumps(tally)
    columns = {"kind": int(kind), "number": number, "shard": shard, "tally": told}
    # Reports are many bytes: given to Arrow where they are.
    edges = pa.py_buffer(np.array([0, len(reports)], dtype=np.int32))
    blob = pa.Array.from_buffers(pa.binary(), 1, [None, edges, pa.py_buffer(reports)])
    arrays = [
        blob if field.name == "reports" else pa.array([columns[field.name]], field.type)
        for field in SENT
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SENT)
