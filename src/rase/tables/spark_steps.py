"""What Spark's executors do: read parts, draw, count, estimate; Arrow in, Arrow out.

Rows between the steps and back have a kind, a number in it and bytes. Nothing here knows Spark.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import rase
from rase.errors import RaseError
from rase.kernels.keyed import RunKey
from rase.tables.columns import ColumnReader
from rase.tables.files import Files
from rase.tables.parquet import read_groups
from rase.tables.parts import Part
from rase.tables.readings import KeyedRows
from rase.tables.release_log import PartResult
from rase.tables.rounds import Collected, Drawn, draw, estimate_rounds
from rase.tables.summary import DeviceCounts
from rase.tables.times import TimeColumn

if TYPE_CHECKING:
    from rase.arrays import Words
    from rase.domain import Categories
    from rase.laws.randomizer import RangeRandomizer
    from rase.tables.plan import RunPlan

__all__ = ["Answer", "Kind", "Steps", "Want", "code_hash", "part_table"]

_SENT = pa.schema([("kind", pa.int32()), ("number", pa.int64()), ("content", pa.binary())])
# What decides on readings, reports and results.
_FILES = ("domain.py",)
_ROOMS = ("counts", "kernels", "laws", "series", "shuffle", "tables")


class Want(IntEnum):
    """What is asked of the executors."""

    RESULTS = 0
    """Results of whole rounds."""

    COUNTS = 1
    """Counts of noisy reports, of rounds whose randomizer was chosen by the driver."""

    ROUNDS = 2
    """Which rounds have a reading."""

    NAMES = 3
    """The names of the devices."""


class Kind(IntEnum):
    """What a row is about."""

    PART = 0
    """What came of a part; the number is the part's."""

    DEVICES = 1
    """How many reports devices drew; the number is a prefix of their public numbers."""

    READING = 2
    """How a part was read, or why it could not be; the number is the part's."""


@lru_cache(maxsize=1)
def code_hash() -> str:
    """Return a hash of the sources that draw, shuffle and estimate here."""
    root = Path(rase.__file__).parent
    found = hashlib.sha256()
    for pattern in (*_FILES, *(f"{room}/**/*.py" for room in _ROOMS)):
        for path in sorted(root.glob(pattern)):
            found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What executors need; it is sent to them with each task, and never stored.

    Args:
        want: What is asked for.
        plan: What is done; None where only names are asked for.
        key: The key of the run; None likewise.
        device_bits: Devices are counted in this many powers of two of parts; 0 to count them at
            the driver.
        sends_devices: Whether the driver is sent these counts, and not only how many there are:
            where it keeps results on the way.
        randomizers: The randomizer of each round that is drawn, where the driver chose it.
        categories: What readings may be, where they are names.
        code: A hash of the driver's code, which the executors must have, too: with other code the
            same reading could get other noise when a task is repeated.
    """

    want: Want
    plan: RunPlan | None
    key: RunKey | None
    device_bits: int = 0
    sends_devices: bool = False
    randomizers: Mapping[int, RangeRandomizer] | None = None
    categories: Categories | None = None
    code: str = field(default_factory=code_hash)

    def work(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Work off parts; a refusal becomes a row of its own.

        Guarantee: only results, counts of noisy reports and names of devices leave; a part that is
        worked off again by another executor gives the same rows
        (tests/tables/test_spark_steps.py).

        Args:
            batches: Rows of `part_table`.
        """
        self._check_code()
        for batch in batches:
            for spec in batch.column("part"):
                # Written by the driver, as the code that is running here.
                task: _Task = pickle.loads(spec.as_py())  # noqa: S301
                reading = _Reading(task, self.categories)
                try:
                    yield from self._worked(task, reading)
                except RaseError as error:
                    # Not raised: Spark would try again, and quote a traceback in its logs.
                    reading.refusal = str(error)
                yield _row(Kind.READING, task.number, reading.to_bytes())

    def reduce(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Add up the counts of devices that share a prefix; pass everything else on."""
        self._check_code()
        counts: dict[int, DeviceCounts] = {}
        for batch in batches:
            for row in batch.to_pylist():
                if row["kind"] != Kind.DEVICES:
                    yield _row(Kind(row["kind"]), row["number"], row["content"])
                    continue
                total = counts.setdefault(row["number"], DeviceCounts())
                total.add(PartResult.from_bytes(row["content"]).devices)
        for number, total in counts.items():
            if self.sends_devices:
                yield _row(Kind.DEVICES, number, pickle.dumps(total))
                continue
            spent = 0.0 if total.spent is None else float(total.spent.max(initial=0.0))
            found = [len(total.device), int(total.reports.max(initial=0)), spent]
            yield _row(Kind.DEVICES, number, json.dumps(found).encode())

    def _check_code(self) -> None:
        if code_hash() != self.code:
            raise RuntimeError("executors must run the code of the driver, got other code of rase.")

    def _worked(self, task: _Task, reading: _Reading) -> Iterator[Any]:
        if self.want is Want.NAMES:
            names = {name for chunk in reading.chunks() for name in chunk.names.to_pylist()}
            yield _row(Kind.PART, task.number, pickle.dumps({"names": sorted(names)}))
            return
        plan, key = self.plan, self.key
        if plan is None or key is None:
            raise ValueError("a plan and a key must be given to draw.")
        drawn = []
        for number in range(task.part.slices):
            rows = KeyedRows.joined(
                [
                    chunk.keyed(key, plan, rounds=task.part.rounds).sliced(number, task.part.slices)
                    for chunk in reading.chunks()
                ]
            )
            collected = Collected.of(plan, rows)
            if self.want is Want.ROUNDS:
                rounds = np.unique(collected.some.round).tolist()
                found = {"rounds": rounds, "tally": collected.tally}
                yield _row(Kind.PART, task.number, pickle.dumps(found))
                continue
            drawn.append(self._drawn(plan, collected, key))
        if drawn:
            yield from self._answered(plan, key, task.number, Drawn.joined(drawn))

    def _drawn(self, plan: RunPlan, collected: Collected, key: RunKey) -> Drawn:
        made = self.randomizers
        if made is None:
            return draw(plan, collected, key=key)
        some = collected.in_order().between(min(made), max(made))
        return draw(plan, some, key=key, randomizer_of=made.__getitem__)

    def _answered(self, plan: RunPlan, key: RunKey, number: int, drawn: Drawn) -> Iterator[Any]:
        if self.want is Want.COUNTS:
            yield _row(Kind.PART, number, pickle.dumps({"drawn": drawn}))
            return
        results = estimate_rounds(plan, drawn, key=key)
        devices = drawn.devices
        part = PartResult(results, drawn.tally, DeviceCounts() if self.device_bits else devices)
        reporting = {}
        if drawn.reporting is not None:
            reporting = dict(zip(drawn.rounds.tolist(), drawn.reporting, strict=True))
        found = {"part": part.to_bytes(), "reporting": reporting}
        yield _row(Kind.PART, number, pickle.dumps(found))
        if self.device_bits:
            for prefix, some in _by_prefix(devices, self.device_bits):
                yield _row(Kind.DEVICES, prefix, PartResult(devices=some).to_bytes())


@dataclass(slots=True)
class Answer:
    """What came back from the executors.

    Args:
        part: Results, and what was read and changed.
        devices: How many devices reported, where executors counted them.
        most_reports: The most reports of one of them.
        most_epsilon: The most that one of them spent, where they differ in epsilon.
        reporting: For each round those who report in it, where the shuffler depends on them.
        drawn: Counts of noisy reports, where these were asked for.
        rounds: The rounds that have a reading, where these were asked for.
        names: The names of devices, where these were asked for.
        notes: How the columns were understood.
        zones: Whether written times have a zone.
        skipped: Row groups that could not be read: file and number.
        refusal: Why the first part that was refused could not be used.
    """

    part: PartResult = field(default_factory=PartResult)
    devices: int = 0
    most_reports: int = 0
    most_epsilon: float = 0.0
    reporting: dict[int, Words] = field(default_factory=dict)
    drawn: list[Drawn] = field(default_factory=list)
    rounds: set[int] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    zones: set[bool] = field(default_factory=set)
    skipped: set[tuple[int, int]] = field(default_factory=set)
    refusal: str | None = None

    @classmethod
    def of(cls, table: Any, *, parts: int) -> Answer:
        """Return what rows of the executors say.

        Args:
            table: The rows.
            parts: How many parts there were.

        Raises:
            RuntimeError: If a part was answered twice or not at all, or counts of devices that
                belong together were not added up.
        """
        answer = cls()
        answers = Counter(zip(table["kind"].to_pylist(), table["number"].to_pylist(), strict=True))
        if {number for kind, number in answers if kind == Kind.READING} != set(range(parts)):
            raise RuntimeError("every part must be answered, got some without an answer.")
        if any(count > 1 for (kind, _), count in answers.items() if kind != Kind.PART):
            raise RuntimeError("rows of one number must lie in one partition, got two answers.")
        # By part, whatever came first: the first refusal is the same each time.
        for row in sorted(table.to_pylist(), key=lambda row: (row["kind"], row["number"])):
            match Kind(row["kind"]):
                case Kind.PART:
                    # Written by an executor, as the code that is running here.
                    answer._take(pickle.loads(row["content"]))  # noqa: S301
                case Kind.DEVICES:
                    if not row["content"].startswith(b"["):
                        answer.part.devices.add(pickle.loads(row["content"]))  # noqa: S301
                        continue
                    devices, most, spent = json.loads(row["content"])
                    answer.devices += devices
                    answer.most_reports = max(answer.most_reports, most)
                    answer.most_epsilon = max(answer.most_epsilon, spent)
                case Kind.READING:
                    answer._note(json.loads(row["content"]))
        return answer

    def add(self, other: Answer) -> None:
        """Take in what came back of other parts."""
        self.part.add(other.part)
        self.devices += other.devices
        self.most_reports = max(self.most_reports, other.most_reports)
        self.most_epsilon = max(self.most_epsilon, other.most_epsilon)
        self.reporting |= other.reporting

    def _take(self, content: Any) -> None:
        match content:
            case {"names": names}:
                self.names.update(names)
            case {"rounds": rounds, "tally": tally}:
                self.rounds.update(rounds)
                self.part.tally += tally
            case {"drawn": drawn}:
                self.drawn.append(drawn)
            case {"part": part, "reporting": reporting}:
                self.part.add(PartResult.from_bytes(part))
                self.reporting |= reporting

    def _note(self, reading: dict[str, Any]) -> None:
        self.notes += [note for note in reading["notes"] if note not in self.notes]
        self.zones.update(reading["zones"])
        self.skipped.update((file, group) for file, group in reading["skipped"])
        self.refusal = self.refusal or reading["refusal"]


def part_table(files: Files, parts: Sequence[Part]) -> Any:
    """Return parts of a table as rows of one column, each with the files it needs."""
    specs = [pickle.dumps(_Task.of(number, files, part)) for number, part in enumerate(parts)]
    return pa.table({"part": pa.array(specs, pa.binary())})


@dataclass(frozen=True, slots=True)
class _Task:
    """A part with its files alone: a table may have more than a task should know of.

    Args:
        number: The part's number.
        files: The files of the part.
        numbers: Their numbers in the whole table.
        part: The part; its row groups count files as they are here.
    """

    number: int
    files: Files
    numbers: tuple[int, ...]
    part: Part

    @classmethod
    def of(cls, number: int, files: Files, part: Part) -> _Task:
        numbers = tuple(dict.fromkeys(group.file for group in part.groups))
        some = replace(files, files=tuple(files.files[place] for place in numbers), bad=())
        groups = tuple(replace(group, file=numbers.index(group.file)) for group in part.groups)
        return cls(number, some, numbers, replace(part, groups=groups))


class _Reading:
    """How a part is read."""

    def __init__(self, task: _Task, categories: Categories | None) -> None:
        self._task = task
        columns = task.files.columns
        self._reader = ColumnReader(TimeColumn(columns.time), columns.device, columns.value)
        self._reader.categories = categories
        self._skipped: set[tuple[int, int]] = set()
        self.refusal: str | None = None

    def chunks(self) -> Iterator[Any]:
        """Yield the rows of the part's row groups."""
        task = self._task
        return read_groups(task.files, task.part.groups, reader=self._reader, skipped=self._skipped)

    def to_bytes(self) -> bytes:
        """Return what is to be known of the reading."""
        times, numbers = self._reader.times, self._task.numbers
        return json.dumps(
            {
                "notes": times.notes,
                "zones": [] if times.has_zone is None else [times.has_zone],
                "skipped": sorted([numbers[file], group] for file, group in self._skipped),
                "refusal": self.refusal,
            }
        ).encode()


def _by_prefix(counts: DeviceCounts, bits: int) -> Iterator[tuple[int, DeviceCounts]]:
    """Cut counts of devices, which are in ascending order, by the leading bits of their numbers."""
    prefixes = counts.device >> np.uint64(64 - bits)
    edges = np.searchsorted(prefixes, np.arange((1 << bits) + 1, dtype=np.uint64))
    for prefix in range(1 << bits):
        part = slice(edges[prefix], edges[prefix + 1])
        if part.stop > part.start:
            spent = None if counts.spent is None else counts.spent[part]
            yield prefix, DeviceCounts(counts.device[part], counts.reports[part], spent)


def _row(kind: Kind, number: int, content: bytes) -> Any:
    columns = [[int(kind)], [number], [content]]
    arrays = [pa.array(column, one.type) for column, one in zip(columns, _SENT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SENT)
