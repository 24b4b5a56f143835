"""The choice between compiled kernels and NumPy."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.cases import each_case

from rase.kernels import backend


def test_the_environment_chooses_numpy(native: backend.Compiled) -> None:
    """RASE_KERNELS=numpy forces the twins, and the choice is told."""
    code = "from rase.kernels import backend; print(backend.native, backend.kernels_in_use())"
    environment = {**os.environ, "RASE_KERNELS": "numpy"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "None NumPy (RASE_KERNELS=numpy)"


def test_the_kernels_in_use_are_told(
    native: backend.Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled with which instructions, or NumPy and why."""
    monkeypatch.setattr(backend, "native", native)
    assert backend.kernels_in_use() in ("compiled (avx2 and bmi2)", "compiled (portable)")
    monkeypatch.setattr(backend, "native", None)
    monkeypatch.setattr(backend, "compiled", None)
    assert backend.kernels_in_use() == "NumPy (not compiled here)"


def test_an_absent_module_is_no_error() -> None:
    """Where nothing was compiled the import gives nothing."""
    assert backend._import("rase.kernels._absent") is None


def test_kernels_of_other_sources_are_not_used(
    native: backend.Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed source, or a build from before there were stamps, is known and told."""
    here = Path(backend.__file__).parent
    assert backend._is_of(native, here)
    assert backend._is_of(native, tmp_path)  # installed without sources
    for name in ("native.h", "native_bank.c"):
        (tmp_path / name).write_bytes((here / name).read_bytes())
    assert not backend._is_of(native, tmp_path)
    assert not backend._is_of(cast(backend.Compiled, SimpleNamespace()), here)
    monkeypatch.setattr(backend, "native", None)
    monkeypatch.setattr(backend, "is_old", True)
    assert "bootstrap.py" in backend.kernels_in_use()


def test_a_checkout_with_an_old_build_works(native: backend.Compiled, tmp_path: Path) -> None:
    """With sources changed after compiling NumPy serves, and `rase --version` says why."""
    copy = tmp_path / "rase"
    copytree(Path(backend.__file__).parent.parent, copy, ignore=ignore_patterns("__pycache__"))
    with (copy / "kernels" / "native_bank.c").open("a") as file:
        file.write("/* changed */")
    # The copy is no source whose coverage is asked for.
    environment = {name: os.environ[name] for name in os.environ if "COVERAGE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", "from rase.cli import main; main(['--version'])"],
        env={**environment, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "NumPy (the compiled kernels are of other sources" in done.stdout


def test_the_compiled_module_offers_what_is_declared(native: backend.Compiled) -> None:
    """Each function of the declaration exists, and no other."""
    declared = {name for name in vars(backend.Compiled) if not name.startswith("_")}
    assert {name for name in vars(native) if not name.startswith("_")} == declared


WORDS = np.zeros(4, np.uint64)
TABLE = (np.array([0, 5, 2**64 - 1, 2**64 - 1], np.uint64), np.zeros(4, np.uint32), 1)
# Two inputs, the second once more, of three weights; the guide has 4 x 512 cells an input.
ROWS = (np.arange(9, dtype=np.uint64), np.zeros(2 * 2048, np.uint16), np.arange(3))
PARTS = (0, 1, 1, 1, 1, 1, 0, 0)
GRID = (0.0, 1.0, 10)


@each_case(
    ("function", "arguments"),
    [
        ("integers_below", (WORDS, np.ones(3, np.int64), np.ones(4, np.int64))),
        ("draw_indices", (TABLE, WORDS, np.ones(3, np.int64))),
        ("draw_indices", ((TABLE[0], np.zeros(3, np.uint32), 1), WORDS, np.ones(4, np.int64))),
        ("draw_indices", ((TABLE[0][:0], TABLE[1], 0), WORDS, np.ones(4, np.int64))),
        ("draw_indices", ((TABLE[0][:3], TABLE[1], 1), WORDS, np.ones(4, np.int64))),
        ("draw_indices", ((TABLE[0], TABLE[1], 2), WORDS, np.ones(4, np.int64))),
        ("draw_indices", ((TABLE[0], TABLE[1], -1), WORDS, np.ones(4, np.int64))),
        ("add_settled", (TABLE, WORDS, 1, np.ones(5, np.uint64), False)),
        ("window_or_bit_places", (PARTS, GRID, np.ones(4), WORDS, np.ones(3))),
        ("window_or_bit_places", (PARTS, (0.0, 1.0, 0), np.ones(4), WORDS, np.ones(4))),
        ("window_or_bit_places", ((0, 0, *PARTS[2:]), GRID, np.ones(4), WORDS, np.ones(4))),
        ("window_or_bit_places", ((0, 1, 0, *PARTS[3:]), GRID, np.ones(4), WORDS, np.ones(4))),
        ("window_or_bit_places", ((*PARTS[:6], -1, 0), GRID, np.ones(4), WORDS, np.ones(4))),
        ("row_places", (ROWS, GRID, np.ones(4), WORDS, np.ones(3))),
        ("row_places", ((ROWS[0][:8], *ROWS[1:]), GRID, np.ones(4), WORDS, np.ones(4))),
        ("row_places", ((ROWS[0][:6], *ROWS[1:]), GRID, np.ones(4), WORDS, np.ones(4))),
        ("row_places", ((ROWS[0], ROWS[1][1:], ROWS[2]), GRID, np.ones(4), WORDS, np.ones(4))),
        ("row_places", ((ROWS[0], ROWS[1][:2], ROWS[2]), GRID, np.ones(4), WORDS, np.ones(4))),
        ("row_places", ((*ROWS[:2], ROWS[2][:0]), GRID, np.ones(4), WORDS, np.ones(4))),
        ("row_places", ((*ROWS[:2], ROWS[2][:1]), GRID, np.ones(4), WORDS, np.ones(4))),
        ("row_places", (ROWS, (0.0, 1.0, 0), np.ones(4), WORDS, np.ones(4))),
        ("clamped_places", (TABLE, GRID, np.ones(4), WORDS[:3], np.ones(4))),
        ("clamped_places", (TABLE, (0.0, 1.0, 0), np.ones(2), WORDS, np.ones(2))),
        ("swap_rows", (WORDS, np.ones(4), 3)),
        ("swap_rows", (WORDS, np.ones(4), 0)),
        ("partners_of", (WORDS, 2, 5, np.ones(4, np.int64))),
        ("partners_of", (WORDS, -1, 5, np.ones(4, np.int64))),
        ("interchange", (WORDS, np.ones(5, np.uint32), 4, 2)),
        ("interchange", (WORDS, np.ones(5, np.uint64), 8, -1)),
        ("interchange", (WORDS, np.ones(5, np.uint32), 8, 0)),
        ("interchange", (WORDS, np.ones(4, np.uint16), 2, 0)),
        ("interchange", (WORDS, np.ones(24, np.uint8)[1:17], 4, 0)),
        ("replace_items", (WORDS, np.ones(3))),
        ("order_from_swaps", (WORDS, np.ones(3, np.int64))),
        ("orders_from_codes", (WORDS, np.ones(4, np.int64), 3, True)),
        ("count_inversions", (np.ones(9, np.uint8),)),
        ("count_inversions", (np.ones(24, np.uint8)[1:17],)),
        ("count_disagreements", (WORDS, WORDS[:3])),
        ("is_permutation", (np.ones(9, np.uint8),)),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    native: backend.Compiled, function: str, arguments: tuple[Any, ...]
) -> None:
    """The compiled functions check sizes and alignment before they touch an array."""
    with pytest.raises(ValueError, match="arrays must be aligned and of sizes that fit together"):
        getattr(native, function)(*arguments)


@each_case(
    "function",
    [
        name
        for name in vars(backend.Compiled)
        if not name.startswith("_") and name != "instructions"
    ],
)
def test_wrong_arguments_are_refused(native: backend.Compiled, function: str) -> None:
    """What is no array is a TypeError, as everywhere in Python."""
    with pytest.raises(TypeError):
        getattr(native, function)(None)


def test_read_only_output_is_refused(native: backend.Compiled) -> None:
    """A result is never written into an array that must not change."""
    out = np.ones(4, np.int64)
    out.flags.writeable = False
    with pytest.raises((TypeError, BufferError)):
        native.order_from_swaps(WORDS, out)


def test_false_guides_and_partners_stay_inside(native: backend.Compiled) -> None:
    """A guide or a partner that leads nowhere gives wrong numbers or a refusal, never a crash."""
    guide = np.full(4, 2**31 - 1, np.uint32)
    drawn = np.empty(4, np.int64)
    native.draw_indices((TABLE[0], guide, 1), WORDS, drawn)
    assert (drawn <= 1).all()
    readings, places = np.linspace(0, 10, 4), np.empty(4, np.int64)
    for false in (2**15 - 1, 2**16 - 1, 2**15):
        guide_of_rows = np.full(ROWS[1].size, false, np.uint16)
        for words in (WORDS, ~WORDS):
            native.row_places((ROWS[0], guide_of_rows, ROWS[2]), GRID, readings, words, places)
            assert np.isin(places, ROWS[2]).all()
    # Weights that do not add up lead to places that no law has, and nowhere else.
    strange = (2**63, 2**64 - 1, 1, 2**64 - 1, 2**64 - 1, 2**64 - 1, 2**28, 2**28)
    native.window_or_bit_places(strange, GRID, readings, ~WORDS, places)
    native.window_or_bit_places((*strange[:5], 0, 0, 0), GRID, readings, ~WORDS, places)
    far = np.array([0, 9, 1], np.int64)
    assert not native.order_from_swaps(far, np.empty(3, np.int64))
    assert not native.interchange(far, np.arange(3, dtype=np.uint32), 4, 0)
    assert not native.interchange(far, np.arange(3.0), 8, 0)
    assert not native.replace_items(far, np.arange(3.0))
    assert not native.integers_below(WORDS, np.zeros(4, np.int64), drawn)
