"""Probing rounds at the fusion centre: kept as counts, and what they recommend."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, Centre, keyset, parcel, reports

from rase.campaign import Campaign
from rase.clock import FakeClock
from rase.counts.mean import unbiased_mean
from rase.domain import Range
from rase.fusion.mechanism import counts_of, randomizer_of
from rase.fusion.probes import probes_of, range_status, write_probes
from rase.kernels.words import SeededRandom
from rase.laws.windows import SquareWave
from rase.storage.interface import Database
from rase.storage.migrate import migrate
from rase.storage.sqlite import SqliteDatabase, open_sqlite

PROBING = replace(
    CAMPAIGN, estimators=("unbiased_mean",), epsilon=(4.0,), window_budget=96.0, probe_every=2
)
NARROW = replace(PROBING, version=2, not_before=ROUND + 21, high=400)
HOUR_S = 3600


@pytest.fixture
def probing(tmp_path: Path) -> Iterator[Centre]:
    """A centre whose campaign probes every second round, and has another range later."""
    database = open_sqlite(tmp_path / "probes.db", migrations="fusion")
    publish(database, PROBING, NARROW)
    yield Centre(database, FakeClock((ROUND + 200) * HOUR_S))
    database.close()


def publish(database: Database, *campaigns: Campaign) -> None:
    """Publish campaigns before their first rounds."""
    early = Centre(database, FakeClock((ROUND - 3) * HOUR_S))
    early.publisher.publish_keyset(keyset(7))
    for campaign in campaigns:
        early.publisher.publish(campaign)


def sent(centre: Centre, campaign: Campaign, round: int, n: int = 40) -> list[float]:
    """Take in a round of readings around 120 as devices report them; return the noisy values."""
    readings = np.random.default_rng(round).normal(120, 20, n)
    noisy = randomizer_of(campaign.reported_in(round)).randomize(readings, rng=SeededRandom(round))
    places = np.rint((noisy - campaign.low) / campaign.domain.step).astype(int).tolist()
    one = parcel(reports(places, round=round, campaign=campaign), round=round, campaign=campaign)
    one.deliver(centre.intake)
    centre.rounds.tick()
    return sorted(noisy.tolist())


def test_a_probing_round_has_an_unbiased_mean_and_is_kept_as_counts(probing: Centre) -> None:
    """Its reports are decoded by the square wave; counts stay, the reports go."""
    even = ROUND + ROUND % 2
    noisy = sent(probing, PROBING, even)
    expected = unbiased_mean(noisy, randomizer=SquareWave(4.0, PROBING.domain))
    assert probing.questions.at(PROBING, even).value == pytest.approx(expected.value)
    with probing.database.snapshot() as transaction:
        (probe,) = probes_of(transaction, PROBING.id)
        assert transaction.execute("SELECT COUNT(*) FROM opened") == [(0,)]
    assert probe.n == 40
    assert probe.mean == pytest.approx(expected.value)


@pytest.mark.parametrize(
    "mechanism", ["budget-aware", "laplace", "duchi", "piecewise", "hybrid", "optimal"]
)
def test_other_rounds_are_told_by_their_own_mechanism(tmp_path: Path, mechanism: str) -> None:
    """Between probing rounds reports are read as they were made, and are no probes."""
    database = open_sqlite(tmp_path / "plain.db", migrations="fusion")
    campaign = replace(PROBING, mechanism=mechanism)
    odd = ROUND + 1 - ROUND % 2
    own = randomizer_of(campaign)
    noisy = own.randomize(np.full(20, 1200.0), rng=SeededRandom(5))
    places = np.rint((noisy - campaign.low) / campaign.domain.step).astype(np.int64)
    publish(database, campaign)
    with database.transaction() as transaction:
        counts = counts_of(campaign, places, np.zeros(20, dtype=np.uint8))
        write_probes(transaction, campaign, odd, counts)
    with database.snapshot() as transaction:
        (told,) = probes_of(transaction, campaign.id)
    assert told.randomizer == own
    assert told.n == 20
    assert told.mean == pytest.approx(float(own.decode(noisy).mean()))
    assert range_status(database, campaign, n=40).probes == 0
    database.close()


@pytest.mark.uncovered
def test_rounds_between_probes_make_the_advice_surer(probing: Centre) -> None:
    """Eight probing rounds are needed; the rounds between them are learnt from as well."""
    first = ROUND + ROUND % 2
    for step in range(0, 16, 2):
        sent(probing, PROBING, first + step)
    alone = range_status(probing.database, PROBING, n=40)
    for step in range(1, 16, 2):
        sent(probing, PROBING, first + step)
    both = range_status(probing.database, PROBING, n=40)
    assert (alone.probes, both.probes) == (8, 8)
    assert alone.advice is not None
    assert both.advice is not None
    assert (alone.advice.rounds, both.advice.rounds) == (8, 16)
    errors = [one.quantiles[1].standard_error for one in (alone.advice, both.advice)]
    assert errors[1] < errors[0]


def test_a_campaign_that_never_probes_keeps_nothing(tmp_path: Path) -> None:
    """Without probing rounds nothing of the readings' distribution outlives a round."""
    plain = replace(PROBING, probe_every=0)
    database = open_sqlite(tmp_path / "never.db", migrations="fusion")
    publish(database, plain)
    sent(Centre(database, FakeClock((ROUND + 200) * HOUR_S)), plain, ROUND)
    with database.snapshot() as transaction:
        assert transaction.execute("SELECT COUNT(*) FROM told") == [(0,)]
    database.close()


def test_probes_of_the_former_release_are_kept(tmp_path: Path) -> None:
    """What was written before all rounds were kept is learnt from after the migration."""
    database = SqliteDatabase(tmp_path / "former.db")
    migrate(database, "fusion", target=6)
    with database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO probes (campaign, round, version, epsilon, counts, mean, square) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (PROBING.id, ROUND + ROUND % 2, 1, 4.0, bytes(4 * 47) + b"\x28\0\0\0", 120.0, 9.0),
        )
    migrate(database, "fusion")
    publish(database, PROBING)
    with database.snapshot() as transaction:
        (probe,) = probes_of(transaction, PROBING.id)
    assert (probe.n, probe.mean) == (40, 120.0)
    assert probe.randomizer == SquareWave(4.0, PROBING.domain)
    database.close()


@pytest.mark.uncovered
def test_probes_recommend_a_range_across_versions(probing: Centre) -> None:
    """From eight probes on a range around the readings is recommended; each has its own range."""
    first = ROUND + ROUND % 2
    for step in range(0, 20, 2):
        sent(probing, PROBING, first + step)
    wide = range_status(probing.database, PROBING, n=40)
    assert wide.advice is not None
    assert wide.is_worthwhile
    assert wide.advice.recommended.low < 120 < wide.advice.recommended.high < 900
    assert wide == range_status(probing.database, PROBING, n=40)
    sent(probing, NARROW, first + 22)
    with probing.database.snapshot() as transaction:
        reaches = [one.randomizer.domain for one in probes_of(transaction, PROBING.id)]
    assert [reach.high for reach in reaches] == [3000.0] * 10 + [400.0]
    status = range_status(probing.database, NARROW, n=40, limits=Range(0, 600))
    assert status.advice is not None
    assert status.advice.recommended.high <= 600
    fields = json.loads(json.dumps(status.as_fields()))
    assert fields["probes"] == 11
    outlook = {"low", "high", "clip_bias", "clip_error", "noise", "error"}
    assert set(fields["advice"]["present"]) == outlook < set(fields["advice"])
    assert set(fields["advice"]["clip_bias"]) == {"value", "standard_error", "low", "high"}
    assert [one["share"] for one in fields["advice"]["quantiles"]] == [0.05, 0.5, 0.95]
    low, middle, high = (one["value"] for one in fields["advice"]["quantiles"])
    assert low < middle < high
    assert middle == pytest.approx(120, abs=40)


@pytest.mark.uncovered
def test_tracked_means_go_on_across_a_range(tmp_path: Path) -> None:
    """With `tracked`, a new version's rounds borrow from those of another range."""
    before = replace(PROBING, estimators=("tracked",), probe_every=1)
    after = replace(NARROW, estimators=("tracked",), probe_every=1)
    database = open_sqlite(tmp_path / "tracked.db", migrations="fusion")
    publish(database, before, after)
    centre = Centre(database, FakeClock((ROUND + 200) * HOUR_S))
    for step in range(12, 24):
        sent(centre, before if step < 20 + 1 else after, ROUND + step)
    answer = centre.questions.at(after, ROUND + 23)
    alone = centre.questions.at(after, ROUND + 23, method="unbiased_mean")
    assert answer.method == "tracked"
    assert answer.value == pytest.approx(120, abs=60)
    assert answer.standard_error is not None
    assert alone.standard_error is not None
    assert answer.standard_error < 1.05 * alone.standard_error
    status = range_status(database, after, n=40)
    assert status.advice is not None
    assert status.advice.recommended.noise < 1.0 * (
        status.advice.recommended.high - status.advice.recommended.low
    )
    database.close()


def test_classes_of_epsilon_are_probed_apart(tmp_path: Path) -> None:
    """Devices of two budgets give two probes of a round, and the larger decides the noise."""
    mixed = replace(PROBING, epsilon=(1.0, 4.0), probe_every=1)
    database = open_sqlite(tmp_path / "mixed.db", migrations="fusion")
    publish(database, mixed)
    centre = Centre(database, FakeClock((ROUND + 200) * HOUR_S))
    for step in range(4):
        sealed = [
            *reports([900] * 4, round=ROUND + step, campaign=mixed, epsilon_class=0),
            *reports([160] * 4, round=ROUND + step, campaign=mixed, epsilon_class=1),
        ]
        one = parcel(sealed, round=ROUND + step, campaign=mixed)
        one.deliver(centre.intake)
        centre.rounds.tick()
    status = range_status(database, mixed, n=8)
    assert status.probes == 8
    assert status.advice is not None
    database.close()
