"""Sealed reports of one round, kept on the disk: sealing a million takes longer than all else.

They are sealed by the real code and never shown to anybody; the keys beside them are of no use
elsewhere. What was sealed for an earlier protocol or campaign is sealed again.
"""

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.loading.setting import CAMPAIGN, FIRST, Fleet
from rase.errors import WireError
from rase.wire.inner import InnerOpener
from rase.wire.keys import OpeningKey, Role
from rase.wire.messages import REPORT_SIZES
from rase.wire.outer import OuterOpener
from rase.wire.private_files import write_private
from rase.wire.suites import KEM_NUMBERS

__all__ = ["KeptReports", "default_folder", "kept_reports"]

_GROUP: Final = 1000


def default_folder() -> Path:
    """Return where reports are kept: RASE_BENCH_CACHE, or a folder of the user's cache."""
    named = os.environ.get("RASE_BENCH_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "rase" / "benchmarks"


@dataclass(frozen=True, slots=True)
class KeptReports:
    """Reports of round FIRST by as many devices, one after the other in a file.

    Args:
        fleet: The keys that they were sealed for, and the campaign.
        path: The file.
        count: How many.
    """

    fleet: Fleet
    path: Path
    count: int

    @property
    def size(self) -> int:
        """The bytes of one report."""
        return REPORT_SIZES[KEM_NUMBERS[self.fleet.campaign.kem]]

    def groups(self, most: int | None = None) -> Iterator[list[bytes]]:
        """Go through the reports, some thousand at a time."""
        left = self.count if most is None else min(most, self.count)
        with self.path.open("rb") as file:
            while left > 0:
                data = file.read(min(left, _GROUP) * self.size)
                yield [data[at : at + self.size] for at in range(0, len(data), self.size)]
                left -= _GROUP


def place_of(number: int, fleet: Fleet) -> int:
    """Return the place that the device of a number reports."""
    return number % fleet.campaign.steps


def kept_reports(
    folder: Path, count: int, *, kem: str, by: ProcessPoolExecutor | None = None
) -> KeptReports:
    """Return reports that are kept, sealing those that are missing.

    Sealing may be interrupted: it goes on where it was.

    Args:
        folder: Where they are kept.
        count: How many there must be.
        kem: Of the inner envelope.
        by: Processes that seal; None for this one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = KeptReports(_fleet(folder / f"{kem}.fleet", kem), folder / f"{kem}.reports", count)
    kept.path.touch(mode=0o600)
    if not _fits(kept):
        kept.path.write_bytes(b"")
    begun = kept.path.stat().st_size // kept.size // _GROUP * _GROUP
    if begun < count:
        os.truncate(kept.path, begun * kept.size)
        starts = range(begun, count, _GROUP)
        work = partial(_seal, kept.fleet)
        with kept.path.open("ab") as file:
            for group in map(work, starts) if by is None else by.map(work, starts):
                file.write(group)
                file.flush()
    return kept


def _fleet(path: Path, kem: str) -> Fleet:
    campaign = replace(CAMPAIGN, kem=kem, estimators=("unbiased_mean",))
    with suppress(FileNotFoundError, ValueError, pickle.UnpicklingError, AttributeError, TypeError):
        # Written by this module, for its user alone.
        found: Fleet = pickle.loads(bytes.fromhex(path.read_text(encoding="ascii")))  # noqa: S301
        if found.campaign == campaign:
            return found
    openers = {
        Role.SHUFFLER: OpeningKey.generate(Role.SHUFFLER, 1),
        Role.FUSION: OpeningKey.generate(Role.FUSION, 1, kem=KEM_NUMBERS[kem]),
    }
    path.unlink(missing_ok=True)
    fleet = Fleet(campaign=campaign, openers=openers)
    write_private(path, pickle.dumps(fleet).hex())
    return fleet


def _fits(kept: KeptReports) -> bool:
    """Return whether what is kept opens with these keys and this protocol."""
    if kept.path.stat().st_size < kept.size:
        return False
    fleet, (wire,) = kept.fleet, next(kept.groups(1))
    keys = fleet.openers
    kem = KEM_NUMBERS[fleet.campaign.kem]
    try:
        outer = OuterOpener(fleet.hash, [keys[Role.SHUFFLER]], inner_kem=kem).open(wire)
        found = InnerOpener(fleet.hash, [keys[Role.FUSION]], class_count=1).open(
            outer.inner, key_id=keys[Role.FUSION].id, round=FIRST
        )
    except WireError:
        return False
    return found.place == place_of(0, fleet)


def _seal(fleet: Fleet, start: int) -> bytes:
    places = [place_of(number, fleet) for number in range(start, start + _GROUP)]
    return b"".join(fleet.seal(places, FIRST))
