"""Probing rounds at the fusion centre: what they told is kept, and a better range comes from it.

Only counts of bins outlive a round. Whether a recommended range is published is the operator's
decision.
"""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from rase.campaign import Campaign
from rase.estimate.estimate import Estimate
from rase.estimate.ranges import QUANTILES, RangeAdvice, RangeProbe, advise_range, latest_ranges
from rase.fusion.campaigns import campaign_of_version
from rase.fusion.mechanism import Classes, Places, randomizer_of, values_of
from rase.kernels.words import Resampling
from rase.randomize.square_wave import SquareWave
from rase.storage.face import Database, Transaction
from rase.stream import ValueRange

__all__ = ["FEWEST_PROBES", "RangeStatus", "probes_of", "range_status", "write_probe"]

# A range is not recommended from fewer rounds; and so many are remembered.
FEWEST_PROBES: Final = 8
_MOST_PROBES = 192
# Rounds that the estimator `auto` averages over, roughly: noise averages out, bias does not.
_AVERAGED = 24


@dataclass(frozen=True, slots=True)
class RangeStatus:
    """Say what probing rounds lead to.

    Args:
        campaign: The campaign's id.
        version: Its newest version.
        low: The lower end of that version's range.
        high: Its upper end.
        probes: How many probing rounds were kept.
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
        values = {**asdict(self), "probes_needed": FEWEST_PROBES}
        if self.advice is not None:
            values["advice"]["clip_bias"] = _fields_of(self.advice.clip_bias)
            values["advice"]["quantiles"] = [
                {"share": share, **_fields_of(one)}
                for share, one in zip(QUANTILES, self.advice.quantiles, strict=True)
            ]
        return values


def _fields_of(estimate: Estimate) -> dict[str, float]:
    low, high = estimate.interval()
    return {
        "value": estimate.value,
        "standard_error": estimate.standard_error,
        "ci_low": low,
        "ci_high": high,
    }


def write_probe(
    transaction: Transaction, campaign: Campaign, round: int, reports: tuple[Places, Classes]
) -> None:
    """Keep what a probing round told, one row for each epsilon of its devices.

    Args:
        transaction: The one that makes the round final.
        campaign: The campaign as devices reported by it.
        round: The round.
        reports: The grid places and epsilon classes of its reports.
    """
    places, classes = reports
    values, _ = values_of(campaign, places, classes)
    for number in np.unique(classes):
        epsilon = campaign.epsilon[int(number)]
        wave = SquareWave(epsilon, campaign.value_range)
        probe = RangeProbe.of(values[classes == number], randomizer=wave)
        counts = np.asarray(probe.counts, dtype="<u4").tobytes()
        transaction.execute(
            "INSERT INTO probes (campaign, round, version, epsilon, counts, mean, square) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                campaign.id,
                round,
                campaign.version,
                epsilon,
                counts,
                probe.mean,
                # No longer read here; programs of 0.1 that share the database still do.
                float(wave.decode_square(values[classes == number]).mean()),
            ),
        )


def probes_of(transaction: Transaction, campaign_id: str) -> list[RangeProbe]:
    """Return what the latest probing rounds told, oldest first, each with its own range."""
    rows = transaction.execute(
        "SELECT round, version, epsilon, counts, mean FROM probes WHERE campaign = ? "
        "ORDER BY round DESC, epsilon DESC LIMIT ?",
        (campaign_id, _MOST_PROBES),
    )
    ranges: dict[int, tuple[ValueRange, int]] = {}
    found = []
    for _, version, epsilon, counts, mean in reversed(rows):
        if version not in ranges:
            campaign = campaign_of_version(transaction, campaign_id, version)
            ranges[version] = campaign.value_range, campaign.probe_every
        reach, every = ranges[version]
        told = tuple(np.frombuffer(bytes(counts), "<u4").tolist())
        found.append(RangeProbe(SquareWave(epsilon, reach), told, mean, every))
    return latest_ranges(found)


def range_status(
    database: Database, campaign: Campaign, *, n: int, limits: ValueRange | None = None
) -> RangeStatus:
    """Return what a campaign's probing rounds lead to.

    Args:
        database: The fusion centre's; it is only read.
        campaign: Its newest version.
        n: How many reports a round has.
        limits: The widest range to recommend; the widest that was probed unless given.
    """
    with database.snapshot() as transaction:
        probes = probes_of(transaction, campaign.id)
    advice = None
    if len(probes) >= FEWEST_PROBES:
        reaches = [probe.randomizer.value_range for probe in probes]
        widest = ValueRange(min(one.low for one in reaches), max(one.high for one in reaches))
        advice = advise_range(
            probes,
            limits=widest if limits is None else limits,
            n=n,
            noise=_noise(campaign),
            averaged=_AVERAGED if "auto" in campaign.estimators else 1,
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
        len(probes),
        advice,
        advice is not None and advice.present_error > 1.1 * advice.error,
    )


def _noise(campaign: Campaign) -> float:
    """Return the worst variance of a decoded report of the mechanism for means, in widths^2."""
    reach = campaign.value_range
    tried = np.linspace(reach.low, reach.high, 65)
    randomizer = randomizer_of(campaign)
    # With several budgets, that of the largest: most devices take it.
    budgets = None if len(campaign.epsilon) == 1 else np.full(65, campaign.epsilon[-1])
    return float(randomizer.variance(tried, epsilon=budgets).max()) / reach.width**2
