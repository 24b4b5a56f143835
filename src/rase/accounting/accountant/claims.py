"""What the reports of one device claim, all together, by how many they are: the table to sign."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from rase.accounting.accountant.pair import Pair
from rase.accounting.accountant.rounds import shuffled_pair
from rase.errors import PrivacyRefused
from rase.laws.randomizer import Randomizer
from rase.promise import Claim

__all__ = ["check_claims", "claim_of", "claims"]

# Rows up to this number of reports; beyond, each is about a tenth more than the one before.
_EACH = 32
_FARTHER = 1.1
# What two computations of a claim may differ by, as a share.
_CLOSE = 1e-6


def claims(
    source: Randomizer | float, n: int, *, delta: float, reports: int | Iterable[int]
) -> tuple[Claim, ...]:
    """Return what 1, 2, … reports of one device give away, each row for all of them together.

    Guarantee: as for `shuffled_pair`, and for rounds of any number of reports from n on. A number
    of reports between two rows is covered by the larger one (`rase.promise.claim_for`). Rows are
    held to the pair's own answers in tests/accounting/accountant/test_claims.py.

    Args:
        source: As for `shuffled_pair`.
        n: The fewest honest reports of a round: ``k_min - colluding``.
        delta: The delta of each row, for all its reports together.
        reports: The numbers of reports; or the largest, and the table has a row for each number up
            to 32 and about every tenth beyond.

    Example:
        >>> from rase import Optimal, Range
        >>> table = claims(Optimal(1.0, Range(0, 1)), 1000, delta=1e-6, reports=24)
        >>> len(table), round(table[0].epsilon, 3), round(table[-1].epsilon, 2)
        (24, 0.147, 0.8)
    """
    numbers = _rows(reports) if isinstance(reports, int) else sorted(set(reports))
    return _table(source, n, delta=delta, numbers=tuple(numbers))


# Whoever publishes or countersigns asks for the same table again, after an error or a retry.
@lru_cache(maxsize=16)
def _table(
    source: Randomizer | float, n: int, *, delta: float, numbers: tuple[int, ...]
) -> tuple[Claim, ...]:
    pair = shuffled_pair(source, n, delta=delta)
    return tuple(claim_of(pair.compose(number), delta) for number in numbers)


def claim_of(pair: Pair, delta: float) -> Claim:
    """Return the claim of a pair at a delta.

    Args:
        pair: The pair of all reports together.
        delta: The delta.
    """
    in_100, in_1000 = pair.loss(1 / 100), pair.loss(1 / 1000)
    return Claim(
        reports=pair.reports,
        epsilon=pair.epsilon(delta),
        delta=delta,
        guess=pair.best_guess(),
        loss_in_100=min(in_100, in_1000),
        loss_in_1000=in_1000,
        local_epsilon=pair.local_epsilon,
    )


def check_claims(
    stated: Sequence[Claim], source: Randomizer | float, n: int, *, delta: float
) -> None:
    """Compute every row of a table again, and refuse one that promises more than holds.

    Args:
        stated: The table.
        source: As for `claims`.
        n: As for `claims`.
        delta: As for `claims`.

    Raises:
        PrivacyRefused: If there is no row, rows do not ascend, or one states less than what the
            accountant proves.
    """
    if not stated:
        raise PrivacyRefused("claims must hold at least one row, got none.")
    numbers = [claim.reports for claim in stated]
    if numbers != sorted(set(numbers)):
        raise PrivacyRefused(f"claims must ascend in their reports, got {numbers}.")
    table = claims(source, n, delta=delta, reports=numbers)
    for claim, proven in zip(stated, table, strict=True):
        _check_row(claim, proven)


def _check_row(claim: Claim, proven: Claim) -> None:
    for name in ("epsilon", "delta", "guess", "loss_in_100", "loss_in_1000", "local_epsilon"):
        least, given = getattr(proven, name), getattr(claim, name)
        if given < least * (1 - _CLOSE):
            raise PrivacyRefused(
                f"{name} of {claim.reports} reports must be at least {least:.6g}, "
                f"got {given:.6g}: the claim promises more than the shuffle gives."
            )


def _rows(most: int) -> list[int]:
    numbers = list(range(1, min(most, _EACH) + 1))
    while numbers[-1] < most:
        numbers.append(min(most, int(numbers[-1] * _FARTHER)))
    return numbers
