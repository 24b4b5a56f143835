"""Which kernels a test runs on."""

import pytest

from rase.kernels import backend


@pytest.fixture
def native() -> backend.Compiled:
    """Return the compiled kernels; where none were built the test has nothing to say."""
    if backend.compiled is None:
        pytest.skip("the kernels are not compiled: apt-get install gcc python3-dev, then make test")
    return backend.compiled


@pytest.fixture(params=["compiled", "numpy"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once on the compiled kernels and once on their NumPy twins."""
    chosen = request.getfixturevalue("native") if request.param == "compiled" else None
    monkeypatch.setattr(backend, "native", chosen)
    return str(request.param)
