"""A long round comes in parts, in any order: it becomes final when all are here, or after a day."""

from typing import Any

import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, Centre, parcel, reports
from tests.fusion.test_campaigns import published_by

from rase.fusion.campaigns import Publisher
from rase.validation import CampaignInvalid

PLACES = [0, 100, 200, 300, 2048, 2100, 2200, 2300, 3000, 3100, 3200, 4096]


def parts(count: int) -> list[tuple[list[int], dict[str, Any]]]:
    """Return the places of each part, and what its manifest says of it."""
    size = len(PLACES) // count
    return [
        (PLACES[number * size : (number + 1) * size], {"part": number, "parts": count})
        for number in range(count)
    ]


@pytest.mark.any_store
def test_a_round_waits_for_all_of_its_parts(centre: Centre) -> None:
    """Nothing is told of a round that has come in part; then all reports count, each once."""
    sent = [parcel(reports(places), **said) for places, said in reversed(parts(3))]
    for one in sent[:2]:
        receipt = one.deliver(centre.intake)
        assert (receipt.is_new, receipt.is_extra) == (True, False)
        assert centre.rounds.tick() == []
    assert not sent[0].deliver(centre.intake).is_new
    assert not sent[2].deliver(centre.intake).is_extra
    (final,) = centre.rounds.tick()
    assert (final.round, final.is_withheld) == (ROUND, False)
    with centre.database.snapshot() as transaction:
        assert set(transaction.execute("SELECT n FROM answers")) == {(len(PLACES),)}


def test_parts_that_never_come_do_not_hold_a_round_for_ever(centre: Centre) -> None:
    """After a day, as long as the shuffler tries, the round is estimated from what is here."""
    places, said = parts(2)[0]
    parcel(reports(places), **said).deliver(centre.intake)
    closes_s = CAMPAIGN.closes_s(ROUND)
    centre.clock.jump(closes_s + 86_399 - centre.clock.now_s())
    assert centre.rounds.tick() == []
    centre.clock.jump(1)
    (final,) = centre.rounds.tick()
    assert not final.is_withheld


def test_keys_with_parts_are_waited_for_apart(centre: Centre) -> None:
    """Two of three parts of one key and one of three of another are not three of three."""
    for number, key_id in ((0, 7), (1, 7), (0, 9)):
        places, said = parts(3)[number]
        sent = parcel(reports(places, key_id=key_id), key_id=key_id, **said)
        sent.deliver(centre.intake)
    assert centre.rounds.tick() == []


def test_a_campaign_whose_rounds_would_be_refused_is_not_published(centre: Centre) -> None:
    """Before any report is made, let alone erased: a part may be twice k_min reports long."""
    publisher = published_by(centre, centre.shuffler)
    asked = centre.shuffler.asked
    publisher._max_batch_bytes = 1 << 24
    with pytest.raises(CampaignInvalid, match="max_batch_bytes must be at least 16914018 for a"):
        publisher.publish(CAMPAIGN)
    assert centre.shuffler.asked == asked
    assert isinstance(publisher, Publisher)
