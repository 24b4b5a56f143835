"""What a new campaign may ask of its devices, and what the owners of devices allow unasked."""

import math
from dataclasses import dataclass

from rase.accounting.ledger.limits import (
    UNASKED_DAY_EPSILON,
    UNASKED_REPORT_EPSILON,
    OwnerLimits,
)
from rase.campaign import Campaign
from rase.errors import ConfigurationError, PrivacyRefused
from rase.privacy import LocalDP
from rase.promise import Claim

__all__ = ["DAY_S", "Allowance", "epsilon_of_rounds"]

DAY_S = 86_400
# What an owner who says nothing allows ever is this many days.
_OWNER_DAYS = 30
_MOST_EPSILON = 900_000.0  # more than a ledger can count


def epsilon_of_rounds(campaign: Campaign, rounds: int) -> float:
    """Return the most a device spends in some rounds: reports add up, its ledger sets a limit.

    Args:
        campaign: What the fleet agrees to.
        rounds: How many consecutive rounds.
    """
    windows = math.ceil(rounds / campaign.window)
    return min(rounds * campaign.epsilon[-1], windows * campaign.window_budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What owners were said to allow; None where nobody said anything.

    An owner who says nothing allows what the campaign asks for, but never more than 4.5 a report
    and 8 a day, and all of it for 30 days. More takes two words: the owner's, as a number here, and
    the operator's, as ``accepts_weak``.

    Args:
        report: The most one report may spend.
        day: The most all reports of a day may spend.
        ever: The most all reports may spend ever.
        accepts_weak: Whether the operator accepts what hardly protects.
    """

    report: float | None = None
    day: float | None = None
    ever: float | None = None
    accepts_weak: bool = False

    def limits(self, campaign: Campaign) -> OwnerLimits:
        """Return the limits that stand in the settings of each device.

        Raises:
            PrivacyRefused: If campaign or limits hardly protect, and that was not accepted.
            ConfigurationError: If a device with these limits could never report.
        """
        asked_a_day = epsilon_of_rounds(campaign, math.ceil(DAY_S / campaign.round_s))
        report = self.report or min(campaign.epsilon[-1], UNASKED_REPORT_EPSILON)
        day = self.day or min(asked_a_day, UNASKED_DAY_EPSILON)
        if not self.accepts_weak:
            self._check_strong(
                max(report, campaign.epsilon[-1]), max(day, asked_a_day), campaign.claim_over(1)
            )
        least = campaign.epsilon[0]
        for name, limit in (("report", report), ("day", day), ("ever", self.ever)):
            if limit is not None and limit < least:
                mistake = (
                    f"--owner-{name} must be at least {least:g}, the smallest epsilon of a "
                    f"report, or no device reports; got {limit:g}."
                )
                raise ConfigurationError([mistake])
        ever = self.ever or min(_OWNER_DAYS * day, _MOST_EPSILON)
        try:
            return OwnerLimits(
                report_epsilon=report,
                span_epsilon=day,
                total_epsilon=ever,
                shuffled_epsilon=campaign.shuffled_epsilon,
                span_shuffled_epsilon=_shuffled_a_day(campaign),
            )
        except ValueError as error:
            raise ConfigurationError([str(error)]) from None

    @staticmethod
    def _check_strong(report: float, day: float, claim: Claim | None) -> None:
        fewer = (
            "--schedule rotate (one report in a window), a longer --round, or a smaller --epsilon, "
            "--window-budget or --owner-day"
        )
        for spent, most, what, instead in (
            (report, UNASKED_REPORT_EPSILON, "One report", "a smaller --epsilon"),
            (day, UNASKED_DAY_EPSILON, "A day of reports", fewer),
        ):
            if spent > most:
                towards = "" if claim is None else f" {claim.sentence()}"
                raise PrivacyRefused(
                    f"{what} may spend epsilon {spent:g}, and at most {most:g} protects from "
                    f"whoever can link a device's reports: {LocalDP(spent).odds}.{towards} Take "
                    f"{instead}; or add --accept-weak."
                )


def _shuffled_a_day(campaign: Campaign) -> float | None:
    """Return what a day's reports give away to the fusion centre; None if nothing is promised."""
    claim = campaign.claim_over(math.ceil(DAY_S / campaign.round_s))
    return None if claim is None else claim.epsilon
