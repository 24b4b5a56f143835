"""Tests that nothing which runs in production takes randomness that can be repeated."""

import ast
from pathlib import Path

import pytest
from tests.cases import each_case

import rase
from rase import BudgetAware, Mallows, Precision, Range, SeededRandom, Uniform
from rase.kernels.entropy import SecureEntropy, SeededEntropy, checked_entropy
from rase.kernels.words import (
    Resampling,
    SecureRandom,
    checked_secure,
    resampling_source_of,
    source_of,
)

ROOT = Path(rase.__file__).parent
# What runs in production: whoever opens one of these with a seed must have asked for a study.
PRODUCTION = (
    "dashboard",
    "device",
    "fusion",
    "service",
    "shuffler",
    "storage",
    "subscriber",
    "wire",
)
SEEDED = {"SeededEntropy", "SeededRandom"}


@pytest.mark.uncovered
@each_case("package", PRODUCTION)
def test_production_names_no_seeded_source(package: str) -> None:
    """No module of a production package so much as names a source that can be repeated."""
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = {getattr(node, "id", None), getattr(node, "attr", None)}
            if isinstance(node, ast.ImportFrom):
                names |= {alias.name for alias in node.names}
            assert not names & SEEDED, module


def test_only_the_secure_entropy_passes() -> None:
    """A device's parts take the operating system's words, and others only for study."""
    entropy = SecureEntropy()
    assert checked_entropy(entropy, study=False) is entropy
    with pytest.raises(TypeError, match=r"entropy must be a SecureEntropy, got SeededEntropy"):
        checked_entropy(SeededEntropy(1), study=False)
    assert repr(checked_entropy(SeededEntropy(1), study=True)) == "SeededEntropy(1)"


def test_only_the_secure_source_passes() -> None:
    """A server's parts take the secure source, and nothing else."""
    source = SecureRandom()
    assert checked_secure(source) is source
    assert isinstance(checked_secure(None), SecureRandom)
    for other in (SeededRandom(1), Resampling(b"release")):
        with pytest.raises(TypeError, match="rng must be a SecureRandom here, got"):
            checked_secure(other)  # type: ignore[arg-type]


def test_resampling_draws_no_noise_and_no_order() -> None:
    """What repeats the resampling of a release is refused by randomizers and shufflers."""
    source = Resampling(b"release")
    br = BudgetAware(1.0, Range(0, 10), Precision(0.5, 0.9))
    for draw in (
        lambda: br.randomize([1.0], rng=source),  # type: ignore[arg-type]
        lambda: Uniform().shuffle([1.0, 2.0], rng=source),  # type: ignore[arg-type]
        lambda: Mallows(3, 1.0).sample(rng=source),  # type: ignore[arg-type]
        lambda: source_of(source),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="got Resampling"):
            draw()


def test_resampling_repeats_itself() -> None:
    """The same release gives the same words, another one others; the secure source passes too."""
    first, again, other = (Resampling(name).words(4) for name in (b"a", b"a", b"b"))
    assert first.tolist() == again.tolist() != other.tolist()
    assert isinstance(resampling_source_of(None), SecureRandom)
    source = Resampling(b"a")
    assert resampling_source_of(source) is source
