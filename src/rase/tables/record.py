"""Remember what was drawn of a table that grows, so that later runs draw only what is new.

A record is a release log that stays when its run is done: results of rounds and counts of reports,
never a reading. What lies in rounds that it holds is left out of every later run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rase.atomic_files import write_atomic
from rase.counts.estimate import Estimate
from rase.kernels.words import Random, SeededRandom
from rase.series.rounds import RoundResult
from rase.shuffle.release import Manifest
from rase.tables.files import Files
from rase.tables.release_log import PartResult, ReleaseLog, number_of
from rase.tables.summary import Tally
from rase.version import __version__

if TYPE_CHECKING:
    from rase.tables.plan import RunPlan
    from rase.tables.source import TableSource

__all__ = ["DrawnRecord", "fingerprint", "new_files", "record_of"]

# The files whose rows were all drawn.
_FILES = "files.json"
_WHOLE = "whole"


class DrawnRecord(ReleaseLog):
    """Remember what was drawn of a table that grows; nothing in it is drawn again.

    Guarantee: a round that a record holds is never drawn again, whatever becomes of the table and
    whenever a run is killed (tests/tables/test_drawn_record.py).

    Args:
        folder: The folder.
        about: What must be the same in every run, by name.
        k_min: The fewest reports of a round whose result may be kept; smaller ones are remembered
            as drawn, without what came of them.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any], *, k_min: int = 1) -> None:
        self._about = json.loads(json.dumps(about, default=repr))
        self._k_min = k_min
        kinds = [
            [one.name for one in fields(kind)] for kind in (Estimate, Manifest, RoundResult, Tally)
        ]
        content = json.dumps([self._about, kinds], sort_keys=True)
        super().__init__(folder, hashlib.sha256(content.encode()).hexdigest())

    def write(self, part: PartResult) -> None:
        """Write a part without the rounds that are withheld."""
        small = {one.round or 0 for one in part.results if one.n < self._k_min}
        if small:
            large = [one for one in part.results if one.n >= self._k_min]
            tally = replace(part.tally, withheld=part.tally.withheld + len(small))
            part = PartResult(large, tally, part.devices, part.silent | small)
        super().write(part)

    def keep(self, files: Files | None) -> None:
        """Join what was drawn in one file; the results are in their place.

        Args:
            files: The files whose rows were all drawn; None if the table is none of files.
        """
        whole = self.folder / f"{_WHOLE}{self._count}.npz"
        write_atomic(whole, self.released.to_bytes())
        for path in self.folder.glob("*.npz"):
            if path != whole:
                path.unlink()
        if files is not None:
            known = _files_of(self.folder)
            listing = known + [one for one in files.absolute().listing if one not in known]
            write_atomic(self.folder / _FILES, json.dumps(listing))

    def _forget(self) -> None:
        if not self.parts:
            self.remove()
        for path in self.folder.glob("part*.npz"):
            if number_of(path) >= self._first:
                path.unlink()

    def _head(self) -> dict[str, Any]:
        return {"run": self._fingerprint, "about": self._about}

    def _other(self, found: Mapping[str, Any]) -> str:
        was, now = found.get("about", {}), self._about
        names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        differs = f"with another {' and '.join(names)}" if names else "by another version of rase"
        return (
            f"{self.folder} remembers readings that were drawn {differs}; give the same options "
            "to go on, or another --out for a table that was not drawn before."
        )

    def _part_files(self) -> list[Path]:
        wholes = sorted(self.folder.glob(f"{_WHOLE}*.npz"), key=number_of)
        if not wholes:
            return super()._part_files()
        # A process that died while it joined parts left both.
        behind = number_of(wholes[-1])
        later = [path for path in super()._part_files() if number_of(path) >= behind]
        return [wholes[-1], *later]


def new_files(files: Files, record: Path) -> Files:
    """Return the files of a table that a record does not know; all if it knows all of them."""
    known = {tuple(one.values()) for one in _files_of(record)}
    places = [tuple(one.values()) not in known for one in files.absolute().listing]
    new = tuple(one for one, is_new in zip(files.files, places, strict=True) if is_new)
    return replace(files, files=new) if new else files


def _files_of(folder: Path) -> list[dict[str, Any]]:
    place = folder / _FILES
    if not place.exists():
        return []
    listing: list[dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))
    return listing


def record_of(
    folder: Path, plan: RunPlan, source: TableSource, *, rng: Random | None
) -> DrawnRecord:
    """Return the record of what was drawn of a table that grows.

    Raises:
        ValueError: If the plan is one that cannot be gone on with.
    """
    if (plan.graph, plan.feedback, plan.labels) != (None, None, None):
        raise ValueError(
            "a record must not be combined with graph, feedback or labels: what they release of a "
            "round follows from other rounds, too."
        )
    # Windows are made of what is released, and the guarantee follows from the randomizer.
    about = {
        name: value
        for name, value in plan.described().items()
        if name not in ("window", "guarantee")
    }
    files = getattr(source, "files", None)
    about |= {
        # Hashed: what an owner allows is nothing to lie about.
        "budgets": hashlib.sha256(repr(plan.budgets).encode()).hexdigest(),
        "truth": plan.truth,
        "columns": None if files is None else files.columns,
        "hints": None if files is None else repr(files.hints),
        "seed": repr(rng) if isinstance(rng, SeededRandom) else None,
    }
    return DrawnRecord(folder, about, k_min=plan.k_min)


def fingerprint(plan: RunPlan, source: TableSource, *, rng: Random | None) -> str:
    """Return a hash of all that decides on the results, but for secure randomness."""
    files = getattr(source, "files", None)
    parts = [
        plan.described(),
        repr(plan.budgets),
        plan.truth,
        None
        if files is None
        else [files.fingerprint, files.columns, files.skips_bad, repr(files.hints)],
        repr(rng) if isinstance(rng, SeededRandom) else None,
        __version__,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
