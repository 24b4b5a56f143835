"""Spend a ledger's budget on reports that tests make up."""

from collections.abc import Callable

from rase.accounting.ledger import Ledger, Spending
from rase.promise import Claim

__all__ = ["spend"]


def spend(
    ledger: Ledger,
    campaign: str,
    round: int,
    *,
    epsilon: float,
    draw: bytes | Callable[[], bytes] = b"noisy",
    seal: Callable[[bytes], bytes] = lambda report: report,
    claims: tuple[Claim, ...] = (),
) -> Spending:
    """Report a round as a device does, or find the report that it has.

    Args:
        ledger: Where.
        campaign: For which campaign.
        round: Which round.
        epsilon: What it costs.
        draw: The noisy report, or what makes it.
        seal: Makes its envelope.
        claims: What it is promised to give away.
    """
    with ledger.report(campaign, round, epsilon=epsilon, claims=claims) as spending:
        if spending.found is None:
            report = draw if isinstance(draw, bytes) else draw()
            spending.keep(report, envelope=seal(report))
    return spending
