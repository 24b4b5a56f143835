"""The square wave."""

import math

import pytest
from tests.cases import each_case

from rase import Piecewise, Range, SquareWave, amplify
from rase.laws.parts import square_wave_half, window_half
from rase.testing import check_randomizer


@each_case(
    ("epsilon", "share"), [(1e-4, 0.5), (0.5, 0.358), (1.0, 0.256), (2.0, 0.129), (4.0, 0.0304)]
)
def test_the_window_is_that_of_the_paper(epsilon: float, share: float) -> None:
    """Its half-width is Li et al. Eq. (5) of the range, to the nearest grid step."""
    assert square_wave_half(epsilon, 65536) == pytest.approx(65536 * share, rel=4e-3)
    if epsilon >= 0.5:
        whole = math.exp(epsilon)
        exact = (epsilon * whole - whole + 1) / (2 * whole * (whole - 1 - epsilon))
        assert square_wave_half(epsilon, 65536) == round(65536 * exact)


@pytest.mark.uncovered
@each_case("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 30.0])
@each_case("steps", [1, 7, 256])
def test_the_integers_keep_the_budget(epsilon: float, steps: int) -> None:
    """No two readings' weights of one report differ by more than e^epsilon, and rows are whole.

    A window drawn one part in a million more often would break the budget.
    """
    wave = SquareWave(epsilon, Range(0, 1, steps))
    rows = list(wave.table_rows())
    certificate = wave.certificate()
    assert {sum(row.values()) for row in rows} == {certificate.total}
    worst = max(max(row[code] for row in rows) / min(row[code] for row in rows) for code in rows[0])
    assert worst <= math.exp(epsilon) * (1 + 1e-12)
    assert worst == pytest.approx(math.exp(certificate.effective_epsilon), rel=1e-9)
    if epsilon < 10:
        assert worst * (1 + 1e-6) > math.exp(epsilon)
    assert certificate.effective_epsilon <= epsilon
    assert certificate.law == "square-wave"


def test_it_keeps_what_every_randomizer_promises() -> None:
    """Reports follow the law, decode without bias and are private bin by bin.

    False alarms: below 1 / 2^64, that 64 reports without a seed are drawn twice; no place has half
    of the weight.
    """
    check_randomizer(SquareWave(1.0, Range(-20, 42)))


def test_its_window_is_another_than_piecewise_has() -> None:
    """Narrower at every usual budget: made for distributions, not for means."""
    public = Range(0, 1)
    for epsilon in (1.0, 2.0, 4.0):
        assert square_wave_half(epsilon, 4096) < window_half(epsilon, 4096)
        wave, piecewise = SquareWave(epsilon, public), Piecewise(epsilon, public)
        assert wave.variance(0.0) > piecewise.variance(0.0)


def test_shuffling_amplifies_it_by_the_bound_for_any_mechanism() -> None:
    """It claims no sharper bound than its local epsilon gives: that of an unnamed mechanism."""
    wave = SquareWave(1.0, Range(0, 1))
    assert amplify(wave, 1000, delta=1e-6).epsilon == amplify(1.0, 1000, delta=1e-6).epsilon
