"""Every example in a docstring gives what it says.

Found by the text and imported when the test runs: pytest's own collection of doctests imports all
of the package, and every test a second time, in each worker.
"""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
WITH_EXAMPLES = sorted(
    path.relative_to(SOURCES)
    for path in SOURCES.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)
ROOMS = sorted({path.parts[1].removesuffix(".py") for path in WITH_EXAMPLES})


@pytest.mark.uncovered
@pytest.mark.parametrize("room", ROOMS)
def test_examples(room: str) -> None:
    """All examples of one room run; a failure prints what came instead."""
    tried = 0
    for path in WITH_EXAMPLES:
        if path.parts[1].removesuffix(".py") == room:
            name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            module = importlib.import_module(name)
            done = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
            assert done.failed == 0, f"{done.failed} examples of {path} fail"
            tried += done.attempted
    assert tried


def test_most_rooms_have_examples() -> None:
    """The search finds them: a wrong folder would leave nothing to fail."""
    assert len(ROOMS) > 15
    assert len(WITH_EXAMPLES) > 100
