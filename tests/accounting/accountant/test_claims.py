"""The table of claims by number of reports."""

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.cases import each_case

from rase import Optimal, PrivacyRefused, Range
from rase.accounting.accountant.claims import check_claims, claims
from rase.accounting.accountant.rounds import shuffled_pair
from rase.promise import Claim

LAW = Optimal(1.0, Range(0, 1))


@pytest.fixture(scope="module")
def table() -> tuple[Claim, ...]:
    """Return a table of up to 60 reports."""
    return claims(LAW, 1000, delta=1e-6, reports=60)


def test_rows_are_what_the_pair_answers(table: tuple[Claim, ...]) -> None:
    """Each row holds the numbers of the composed pair, and all of them ascend."""
    assert [claim.reports for claim in table] == [*range(1, 33), 35, 38, 41, 45, 49, 53, 58, 60]
    day = shuffled_pair(LAW, 1000).compose(24)
    row = table[23]
    assert (row.epsilon, row.guess) == (day.epsilon(1e-6), day.best_guess())
    assert (row.loss_in_100, row.loss_in_1000) == (day.loss(0.01), day.loss(0.001))
    assert row.local_epsilon == 24.0
    for less, more in pairwise(table):
        assert less.epsilon < more.epsilon
        assert less.guess < more.guess
        assert less.loss_in_1000 < more.loss_in_1000


def test_a_table_is_accepted_as_computed_and_refused_if_it_promises_more(
    table: tuple[Claim, ...],
) -> None:
    """A row that states a percent less in any number is noticed; one that states more is not."""
    some = table[:4]
    check_claims(some, LAW, 1000, delta=1e-6)
    check_claims([replace(some[0], epsilon=0.5)], LAW, 1000, delta=1e-6)
    for name in ("epsilon", "guess", "loss_in_100", "loss_in_1000", "local_epsilon", "delta"):
        less = replace(some[2], **{name: 0.99 * getattr(some[2], name)})
        with pytest.raises(PrivacyRefused, match=f"{name} of 3 reports must be at least"):
            check_claims([*some[:2], less], LAW, 1000, delta=1e-6)


@each_case("order", [(), (1, 0), (0, 0)])
def test_a_table_without_order_is_refused(order: tuple[int, ...], table: tuple[Claim, ...]) -> None:
    """Rows must ascend, and there must be one."""
    with pytest.raises(PrivacyRefused, match="claims must"):
        check_claims([table[place] for place in order], LAW, 1000, delta=1e-6)
