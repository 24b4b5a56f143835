"""Certificates, recomputed with fractions over the whole channel."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import pytest
from tests.cases import each_case

from rase import (
    BudgetAware,
    Certificate,
    Duchi,
    Hybrid,
    Laplace,
    Optimal,
    Piecewise,
    Precision,
    Range,
    SquareWave,
)
from rase.kernels.fixed import log_ratio
from rase.laws.randomizer import RangeRandomizer

Maker = Callable[[float, Range], RangeRandomizer]


def clamped(epsilon: float, public: Range) -> RangeRandomizer:
    """Make a BR that always clamps."""
    return BudgetAware(epsilon, public, Precision(beta=0, rho=0.9))


def unclamped(epsilon: float, public: Range) -> RangeRandomizer:
    """Make a BR that never clamps."""
    return BudgetAware(epsilon, public, Precision(beta=1, rho=0))


BOUNDED: list[Maker] = [clamped, Duchi, Piecewise, Hybrid, Optimal, SquareWave]
each_bounded = each_case("make", BOUNDED)


def largest_ratio(rows: list[Mapping[int, int]]) -> Fraction:
    """Return the largest ratio of two rows' weights for one report, by looking at all."""
    reports = set().union(*rows)
    return max(
        Fraction(max(row[report] for row in rows), min(row[report] for row in rows))
        for report in reports
    )


@each_bounded
@each_case("epsilon", [0.1, 0.6, 1.0, 3.0, 8.0])
@each_case("steps", [1, 2, 7, 64])
def test_the_certificate_is_that_of_the_whole_channel(
    make: Maker, epsilon: float, steps: int
) -> None:
    """All rows have one total, and no pair of readings differs by more than is certified."""
    randomizer = make(epsilon, Range(0, steps, steps))
    certificate = randomizer.certificate()
    rows = list(randomizer.table_rows())
    assert {sum(row.values()) for row in rows} == {certificate.total}
    worst = largest_ratio(rows)
    assert certificate.ratio is not None
    stated = Fraction(*certificate.ratio)
    # Inputs of the optimal channel that are no grid points are mixed; their ratio is smaller.
    assert worst == stated if make is not Optimal or steps == 64 else worst <= stated
    assert certificate.effective_epsilon == log_ratio(stated.numerator, stated.denominator)
    assert certificate.effective_epsilon <= certificate.epsilon == epsilon


@each_bounded
def test_the_certificate_names_two_readings_and_a_report(make: Maker) -> None:
    """The ratio is that of the two rows it names, at the report it names."""
    randomizer = make(1.0, Range(0, 64, 64))
    certificate = randomizer.certificate()
    rows = list(randomizer.table_rows())
    first, second = (rows[round(reading)] for reading in certificate.readings)
    report = round(certificate.report)
    assert certificate.ratio == (first[report], second[report])


@each_bounded
@each_case("steps", [1, 5, 64])
def test_tables_are_unbiased_in_fractions(make: Maker, steps: int) -> None:
    """The exact mean of the decoded reports of every grid point is that point, within 1e-12."""
    randomizer = make(1.0, Range(0, steps, steps))
    for index, row in enumerate(randomizer.table_rows()):
        places = sorted(row)
        values = [Fraction(value) for value in randomizer.decode(places).tolist()]
        mean = sum(
            (row[place] * value for place, value in zip(places, values, strict=True)), Fraction(0)
        )
        assert abs(mean / sum(row.values()) - index) <= Fraction(1, 10**12) * steps


@each_case("make", [Laplace, unclamped])
@each_case("steps", [1, 165, 4096])
def test_noise_without_end_is_certified_by_formula(make: Maker, steps: int) -> None:
    """The loss of all steps is an exact fraction, at most the budget; there is no table."""
    randomizer = make(0.7, Range(0, 1, steps))
    certificate = randomizer.certificate()
    assert certificate.exponent is not None
    assert Fraction(*certificate.exponent) <= Fraction(0.7)
    assert certificate.effective_epsilon == pytest.approx(0.7, rel=1e-15)
    assert certificate.total is None
    assert certificate.ratio is None
    assert str(certificate) == "epsilon 0.7 per report, verified exactly from the noise formula"
    with pytest.raises(ValueError, match="reports never end"):
        list(randomizer.table_rows())


def test_contributors_have_certificates_of_their_own() -> None:
    """Each budget can be asked for; unknown ones are refused."""
    mixed = Duchi((0.5, 2.0), Range(0, 1))
    assert mixed.certificate().epsilon == 2.0
    assert mixed.certificate(epsilon=0.5).effective_epsilon <= 0.5
    with pytest.raises(ValueError, match="epsilon must be one of"):
        mixed.certificate(epsilon=1.0)


def test_a_budget_that_is_not_used_up_is_said() -> None:
    """Above the highest rung less is drawn than was asked for."""
    assert str(Optimal(9.0, Range(0, 1)).certificate()) == (
        "epsilon 8.5 per report, less than the 9 asked for, verified exactly from the noise table"
    )


def test_a_certificate_is_plain_values() -> None:
    """JSON keeps every digit: large whole numbers travel as text."""
    certificate = clamped(1.0, Range(0, 3000)).certificate()
    values = json.loads(json.dumps(certificate.to_json()))
    assert tuple(int(part) for part in values["ratio"]) == certificate.ratio
    assert int(values["total"]) == 1 << 64
    assert values["sentence"] == str(certificate)
    assert "at random" in values["rounding"]
    formula = Laplace(1.0, Range(0, 1)).certificate().to_json()
    assert formula["total"] is None
    assert [int(part) for part in formula["exponent"]][1] > 0


def test_a_certificate_refuses_what_is_not_so() -> None:
    """More than was asked for, or another number than the ratio's, cannot be certified."""
    certificate = clamped(1.0, Range(0, 1)).certificate()
    with pytest.raises(ValueError, match="at most epsilon"):
        replace(certificate, epsilon=0.9)
    with pytest.raises(ValueError, match="logarithm of ratio"):
        replace(certificate, effective_epsilon=math.nextafter(0.5, 1))
    assert isinstance(certificate, Certificate)


def test_a_table_thirty_percent_off_would_be_noticed() -> None:
    """A row whose weight is 30 % too large breaks the certified ratio."""
    randomizer = clamped(1.0, Range(0, 8, 8))
    rows = [dict(row) for row in randomizer.table_rows()]
    rows[0][0] = rows[0][0] * 13 // 10
    certificate = randomizer.certificate()
    assert certificate.ratio is not None
    assert largest_ratio(list(rows)) > Fraction(*certificate.ratio)
