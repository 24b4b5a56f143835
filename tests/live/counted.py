"""Whether what the servers tell is what a fleet was told: every acknowledged report, once."""

from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest
from tests.live.installed import Fleet, Installed, Report

from rase.campaign import Campaign
from rase.counts.registry import estimator_named
from rase.fusion.mechanism import counts_of, randomizer_of
from rase.wire.keys import Role

__all__ = ["check_estimates", "check_traces", "is_settled"]

_UNBIASED = "unbiased_mean"


def is_settled(installed: Installed, fleet: Fleet) -> bool:
    """Return whether all of a fleet's rounds are final, and nothing waits at the shuffler."""
    rounds = set(_by_round(fleet))
    done = installed.rows(Role.FUSION, "SELECT round FROM rounds WHERE state <> 'open'")
    waiting = "SELECT round FROM report UNION SELECT round FROM outbox"
    return rounds <= {row[0] for row in done} and not rounds & {
        row[0] for row in installed.rows(Role.SHUFFLER, waiting)
    }


def check_estimates(installed: Installed, fleet: Fleet) -> None:
    """Compare every round with what was acknowledged, and see that none has two batches."""
    by_round = _by_round(fleet)
    # Of tracked there is a second answer, which later rounds revise.
    told = installed.rows(Role.FUSION, "SELECT round, n, value, method FROM answers")
    found = {round: (n, mean) for round, n, mean, method in told if method == _UNBIASED}
    acknowledged = 0
    for round, reports in by_round.items():
        sure = sum(report.fate == "acknowledged" for report in reports)
        acknowledged += sure
        if round in found:
            _check_round(fleet.campaign, reports, *found[round])
        else:
            assert sure < fleet.campaign.k_min
    assert set(found) <= set(by_round)
    assert acknowledged >= fleet.campaign.k_min
    twice = "SELECT round FROM batches GROUP BY round HAVING COUNT(*) > 1"
    assert installed.rows(Role.FUSION, twice) == []
    assert installed.rows(Role.FUSION, "SELECT COUNT(*) FROM opened") == [(0,)]


def check_traces(installed: Installed, fleet: Fleet) -> None:
    """Search the shuffler's files for the bytes of reports, which stood beside their senders."""
    path = installed.database(Role.SHUFFLER)
    kept = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    assert not any(report.wire[14:46] in kept for report in fleet.reports)


def _check_round(campaign: Campaign, reports: list[Report], n: int, mean: float) -> None:
    """Check that an estimate is that of all acknowledged reports, each once.

    A report whose sender was cut off and then came too late may be in it or not; no other may.
    """
    sure = [report.place for report in reports if report.fate == "acknowledged"]
    unsure = [report.place for report in reports if report.fate == "unknown"]
    assert len(sure) <= n <= len(sure) + len(unsure)
    possible = [
        _expected_mean(campaign, [*sure, *more]) for more in combinations(unsure, n - len(sure))
    ]
    assert any(mean == pytest.approx(one, rel=1e-12, abs=1e-9) for one in possible)


def _expected_mean(campaign: Campaign, places: list[int]) -> float:
    """Return the estimate of a round that holds just these grid places."""
    counts = counts_of(campaign, np.array(places), np.zeros(len(places), np.uint8))
    return estimator_named(_UNBIASED)(counts, randomizer=randomizer_of(campaign)).value


def _by_round(fleet: Fleet) -> dict[int, list[Report]]:
    """Return the reports that a round may hold."""
    found = defaultdict(list)
    for report in fleet.reports:
        if report.fate != "refused":
            found[report.round].append(report)
    return found
