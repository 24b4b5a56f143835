"""The benchmark of a million reports, with few of them: nothing is lost, and memory is bounded."""

import os
from pathlib import Path

import pytest
from benchmarks.loading.kept import kept_reports
from benchmarks.million import MEMORY_MB, measure_round

COUNT = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reports of these tests are kept."""
    return tmp_path_factory.mktemp("kept")


def test_a_round_travels_in_parts_and_is_estimated_whole(folder: Path) -> None:
    """Each report that was sealed counts once; the estimate is that of the sealed places."""
    found = measure_round(kept_reports(folder, COUNT, kem="x25519"), part_bytes=1 << 16)
    assert (found.n, found.value) == (COUNT, found.expected)
    assert found.batches == -(-COUNT * 368 // (1 << 16))
    assert 0 < max(found.closer_mb, found.fusion_mb) < MEMORY_MB
    assert min(found.closer_s, found.fusion_s, found.bare_s) > 0


def test_reports_are_sealed_once_and_again_if_they_do_not_open(folder: Path) -> None:
    """Sealing goes on after an interruption; what was sealed for other keys is replaced."""
    kept = kept_reports(folder, COUNT, kem="x25519")
    first = kept.path.read_bytes()
    os.truncate(kept.path, len(first) - 5)
    again = kept_reports(folder, COUNT, kem="x25519")
    assert again.path.stat().st_size == len(first)
    (folder / "x25519.fleet").unlink()
    other = kept_reports(folder, COUNT, kem="x25519")
    assert other.path.read_bytes()[: kept.size] != first[: kept.size]
    assert sum(len(group) for group in other.groups()) == COUNT
