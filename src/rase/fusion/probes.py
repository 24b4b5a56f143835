"""What rounds showed of where readings lie, kept at the fusion centre to find a better range.

Only counts of bins outlive a round, and only in campaigns that probe. Whether a recommended range
is published is the operator's decision.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from rase.campaign import Campaign
from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.counts.ranges import (
    QUANTILES,
    TRACKED_ROUNDS,
    RangeAdvice,
    RangeOutlook,
    RangeProbe,
    advise_range,
    latest_ranges,
)
from rase.counts.registry import TRACKED
from rase.domain import Range
from rase.fusion.campaigns import campaign_of_version
from rase.fusion.mechanism import randomizer_of
from rase.kernels.words import Resampling
from rase.laws.randomizer import RangeRandomizer
from rase.laws.windows import SquareWave
from rase.storage.interface import Database, Row, Transaction

__all__ = [
    "FEWEST_PROBES",
    "RangeStatus",
    "outlook_fields",
    "probes_of",
    "range_status",
    "write_probes",
]

# A range is not recommended from fewer probing rounds.
FEWEST_PROBES: Final = 8
# Rounds that are looked at: the first, which mostly had the widest range, and the latest.
_FIRST, _LATEST = 48, 960
_OLDEST: Final = (
    "SELECT round, epsilon, version, counts, mean FROM told WHERE campaign = ? "
    "ORDER BY round, epsilon LIMIT ?"
)
_NEWEST: Final = (
    "SELECT round, epsilon, version, counts, mean FROM told WHERE campaign = ? "
    "ORDER BY round DESC, epsilon DESC LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class RangeStatus:
    """Say what the rounds of a campaign lead to.

    Args:
        campaign: The campaign's id.
        version: Its newest version.
        low: The lower end of that version's range.
        high: Its upper end.
        probes: How many probing rounds are remembered; other rounds are learnt from, too.
        advice: The recommended range; None before there are enough probes.
        is_worthwhile: Whether the recommended range lessens the expected error by a tenth or more.
    """

    campaign: str
    version: int
    low: float
    high: float
    probes: int
    advice: RangeAdvice | None
    is_worthwhile: bool

    def as_fields(self) -> dict[str, Any]:
        """Return plain values; clip bias and quantiles with the intervals that hold them."""
        values = {**asdict(replace(self, advice=None)), "probes_needed": FEWEST_PROBES}
        if self.advice is not None:
            # The recommended range is what the advice is: its values stand with the rest.
            values["advice"] = {
                **outlook_fields(self.advice.recommended),
                "present": outlook_fields(self.advice.present),
                "present_error": self.advice.present.error,
                "limits": list(self.advice.limits),
                "quantiles": [
                    {"share": share, **_fields_of(one)}
                    for share, one in zip(QUANTILES, self.advice.quantiles, strict=True)
                ],
                "n": self.advice.n,
                "averaged": self.advice.averaged,
                "rounds": self.advice.rounds,
            }
        return values


def outlook_fields(outlook: RangeOutlook) -> dict[str, Any]:
    """Return what a range leads to as plain values, with the interval of what clipping adds."""
    return {
        "low": outlook.low,
        "high": outlook.high,
        "clip_bias": _fields_of(outlook.clip_bias),
        "clip_error": outlook.clip_error,
        "noise": outlook.noise,
        "error": outlook.error,
    }


def _fields_of(estimate: Estimate) -> dict[str, float]:
    low, high = estimate.interval()
    return {
        "value": estimate.value,
        "standard_error": estimate.standard_error,
        "low": low,
        "high": high,
    }


def write_probes(transaction: Transaction, campaign: Campaign, round: int, counts: Counts) -> None:
    """Keep what a round showed, one row for each epsilon of its devices.

    Args:
        transaction: The one that makes the round final.
        campaign: The campaign as devices reported by it.
        round: The round.
        counts: Its reports.
    """
    for budget, part in counts.classes():
        epsilon = campaign.epsilon[0] if budget is None else budget
        of_class = Counts(part.places, part.counts)
        probe = RangeProbe.of(of_class, randomizer=_randomizer(campaign, round, epsilon))
        bins = np.asarray(probe.counts, dtype="<u4").tobytes()
        transaction.execute(
            "INSERT INTO told (campaign, round, version, epsilon, counts, mean) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (campaign.id, round, campaign.version, epsilon, bins, probe.mean),
        )


def probes_of(transaction: Transaction, campaign_id: str) -> list[RangeProbe]:
    """Return what the first and the latest rounds showed, oldest first, each with its own range."""
    kept: dict[tuple[int, float], Row] = {}
    for question, most in ((_OLDEST, _FIRST), (_NEWEST, _LATEST)):
        for row in transaction.execute(question, (campaign_id, most)):
            kept[row[0], row[1]] = row
    campaigns: dict[int, Campaign] = {}
    probes = []
    for _, (round, epsilon, version, counts, mean) in sorted(kept.items()):
        if version not in campaigns:
            campaigns[version] = campaign_of_version(transaction, campaign_id, version)
        shown = tuple(np.frombuffer(bytes(counts), "<u4").tolist())
        probes.append(RangeProbe(_randomizer(campaigns[version], round, epsilon), shown, mean))
    return latest_ranges(probes)


def _randomizer(campaign: Campaign, round: int, epsilon: float) -> RangeRandomizer:
    """Return the mechanism of a round's reports that have one of the campaign's budgets."""
    return randomizer_of(replace(campaign.reported_in(round), epsilon=(epsilon,)))


def range_status(
    database: Database, campaign: Campaign, *, n: int, limits: Range | None = None
) -> RangeStatus:
    """Return what a campaign's rounds lead to.

    Args:
        database: The fusion centre's; it is only read.
        campaign: Its newest version.
        n: How many reports a round has.
        limits: The widest range to recommend; the widest that was probed unless given.
    """
    with database.snapshot() as transaction:
        probes = probes_of(transaction, campaign.id)
    probing = sum(isinstance(probe.randomizer, SquareWave) for probe in probes)
    advice = None
    if probing >= FEWEST_PROBES:
        reaches = [probe.randomizer.domain for probe in probes]
        widest = Range(min(one.low for one in reaches), max(one.high for one in reaches))
        advice = advise_range(
            probes,
            limits=widest if limits is None else limits,
            n=n,
            noise=_noise(campaign),
            present=campaign.domain,
            averaged=TRACKED_ROUNDS if TRACKED in campaign.estimators else 1,
            # Chance, not secrecy: asked twice, the same rounds give the same advice.
            rng=Resampling(
                f"{campaign.id} {len(probes)} {sum(probe.n for probe in probes)}".encode()
            ),
        )
    return RangeStatus(
        campaign.id,
        campaign.version,
        campaign.low,
        campaign.high,
        probing,
        advice,
        advice is not None and advice.present.error > 1.1 * advice.recommended.error,
    )


def _noise(campaign: Campaign) -> float:
    """Return the worst variance of a decoded report of the mechanism for means, in widths^2."""
    reach = campaign.domain
    tried = np.linspace(reach.low, reach.high, 65)
    randomizer = randomizer_of(campaign)
    # With several budgets, that of the largest: most devices take it.
    budgets = None if len(campaign.epsilon) == 1 else np.full(65, campaign.epsilon[-1])
    return float(randomizer.variance(tried, epsilon=budgets).max()) / reach.width**2
