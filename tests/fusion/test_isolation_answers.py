"""Everything the fusion centre says over HTTP, before and after one device reported otherwise.

A black box, in addition to the model of `test_isolation`: whatever is said about a report is said
about k_min reports or more, byte for byte, so no combination of answers is about fewer.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from tests.cases import each_case
from tests.fusion.conftest import ROUND, Centre, app_of, envelope, keyset, made_centre, parcel
from tests.fusion.test_parts import POWER, STATES

from rase import SeededRandom
from rase.campaign import Campaign
from rase.errors import WireError
from rase.fusion import parts
from rase.fusion.alarms import Alarms
from rase.fusion.campaigns import next_version
from rase.fusion.mechanism import randomizer_of
from rase.fusion.refusals import Refused
from rase.fusion.settings import AlarmSettings
from rase.fusion.subscribers import add_subscriber
from rase.shuffler.release import merge_labels
from rase.wire.messages import CONTENT_SIZE, LabelCount

K_MIN = 4
NUMBERS = replace(POWER, k_min=K_MIN, estimators=("tracked", "unbiased_mean", "median"))
MODES = replace(STATES, id="power", k_min=K_MIN)
# What later versions have otherwise, and two places that the law sends.
CHANGES: dict[Campaign, dict[str, Any]] = {NUMBERS: {"high": 4000}, MODES: {"grace_s": 900}}
PLACES = {
    NUMBERS: sorted(
        set(randomizer_of(NUMBERS).draw_many([1000.0] * 99, rng=SeededRandom(1)).tolist())
    )[:2],
    MODES: [0, 1],
}
REFUSED = bytes(CONTENT_SIZE)
ALARMS = [
    AlarmSettings(name=name, campaign="power", label=label, **more)
    for name, label, more in (
        ("all", None, {"kind": "change"}),
        ("north", "north", {"kind": "above", "level": 500.0}),
        ("south", "south", {"kind": "below", "level": 500.0, "rounds": 2}),
    )
]


@dataclass(frozen=True)
class Group:
    """Reports of one label that travel together: nobody can say which of them is whose.

    Args:
        round: The batch's round, counted from the first.
        label: The label on the wire.
        size: How many.
        key_id: For which key of the fusion centre they were sealed: each has a batch of its own.
        refused: How many of them turn out to be no report.
        is_late: Whether the batch comes after the round was published.
    """

    round: int
    label: int
    size: int
    key_id: int = 7
    refused: int = 0
    is_late: bool = False


# Labels below k_min, a label that falls below it when one of its reports is refused, a round below
# k_min whose reports came with the next one, a batch that came too late, two keys, and from round 3
# on another version, and a label that was never declared.
HISTORY = (
    Group(0, 0, 5),
    Group(0, 1, 6),
    Group(0, 2, 3),
    Group(1, 1, 4),
    Group(1, 2, 4, refused=1),
    Group(1, 0, 3, is_late=True),
    Group(1, 1, 1, is_late=True),
    Group(2, 1, 3),
    Group(2, 2, 5),
    Group(2, 2, 4, key_id=9),
    Group(2, 1, 1, key_id=9),
    Group(3, 1, 5),
    Group(3, 3, 1),
    Group(3, 2, 6),
    Group(4, 1, 3),
)
ROUNDS = range(5)


def live(centre: Centre, first: Campaign, changed: Group | None, *, is_honest: bool) -> None:
    """Let all rounds pass; one report of a group is another one."""
    centre.publisher.publish_keyset(keyset(7, 9, version=2))
    centre.publisher.publish(first)
    third = next_version(first, not_before=ROUND + 3, **CHANGES[first])
    centre.publisher.publish(third)
    for number in ROUNDS:
        campaign = third if number >= 3 else first
        round = ROUND + number
        centre.clock.jump(max(campaign.closes_s(round) + 60 - centre.clock.now_s(), 0))
        for is_late, key_id in product((False, True), (7, 9)):
            groups = [
                one
                for one in HISTORY
                if (one.round, one.key_id, one.is_late) == (number, key_id, is_late)
            ]
            if groups:
                deliver(centre, campaign, groups, changed, round, is_honest=is_honest)
            if key_id == 9:
                centre.clock.advance(120)
                centre.rounds.tick()


def deliver(
    centre: Centre, campaign: Campaign, groups: Sequence[Group], changed: Group | None, round: int,
    *, is_honest: bool,
) -> None:  # fmt: skip
    """Deliver a batch as a shuffler makes it."""
    found: list[tuple[int, bytes]] = []
    labels = [one.label for one in groups for _ in range(one.size)]
    usual, otherwise = PLACES[MODES if campaign.categories else NUMBERS]
    merged = iter(merge_labels(labels, k_min=campaign.k_min) if is_honest else labels)
    for one in groups:
        for place in range(one.size):
            report = otherwise if one is changed and place == 0 else usual
            content = REFUSED if place >= one.size - one.refused else None
            found.append(
                (
                    next(merged),
                    envelope(
                        report, round=round, key_id=one.key_id, campaign=campaign, content=content
                    ),
                )
            )
    found.sort(key=lambda one: one[0])
    counts = tuple(
        LabelCount(label, sum(one == label for one, _ in found))
        for label in sorted({label for label, _ in found})
    )
    sent = parcel(
        [each for _, each in found], round=round, key_id=groups[0].key_id, campaign=campaign,
        labels=counts,
    )  # fmt: skip
    try:
        sent.deliver(centre.intake)
    except (WireError, Refused):
        assert sum(one.size for one in groups) < K_MIN or groups[0].is_late or not is_honest


def questions(campaign: Campaign) -> Iterator[str]:
    """Yield every question there is."""
    labels = ("north", "south", "west", "other")
    everything = "campaign=power&method=all"
    for form in ("json", "csv", "influx"):
        yield f"/v1/estimates?{everything}&format={form}"
        yield f"/v1/estimates?campaign=power&label=*&format={form}"
    at = [f"{(ROUND + number) * campaign.round_s * 1000}" for number in ROUNDS]
    # Of states one more question each: the share of one, and all of a round with what goes along.
    states = [f"&category={one}" for one in campaign.categories[:2]] or [""]
    for label in ("", *(f"&label={one}" for one in labels)):
        for state in states:
            yield f"/v1/estimates/latest?campaign=power{label}{state}"
            for w in (2, 3, 4):
                yield f"/v1/windows?campaign=power&w={w}&from={at[0]}{label}{state}"
        if campaign.categories:
            yield from (f"/v1/shares?campaign=power&at={one}{label}" for one in at)
    for one, other in product(("", "north", "south", "other"), repeat=2):
        sides = (f"&label={one}" if one else "") + (f"&than_label={other}" if other else "")
        for state in states:
            yield f"/v1/difference?campaign=power&at={at[1]}&than_at={at[2]}{sides}{state}"
            yield f"/v1/difference?campaign=power&at={at[2]}{sides}{state}"
    yield f"/v1/difference?campaign=power&from={at[0]}&to={at[1]}&than_from={at[2]}&than_to={at[3]}"
    yield from ("/v1/alarms", "/v1/campaigns", "/v1/rounds?campaign=power", "/v1/campaigns/power")
    yield "/v1/trace?campaign=power"


def said(changed: Group | None, first: Campaign = NUMBERS, *, is_honest: bool = True) -> str:
    """Return a digest of everything that is said after one report of a group was another one."""
    with TemporaryDirectory() as folder, made_centre(Path(folder) / "fusion.sqlite") as centre:
        live(centre, first, changed, is_honest=is_honest)
        state = first.categories[0] if first.categories else None
        # Between what devices report, of numbers and of states.
        level = {"category": state, "level": 0.5 if state else 500.0}
        watched = [one.model_copy(update=level) for one in ALARMS]
        alarms = Alarms(centre.database, centre.questions, watched)
        alarms.look()
        token = add_subscriber(centre.database, "reader")
        events = [
            (one.sequence, one.answer.as_fields())
            for one in centre.questions.events_after(centre.questions.campaign("power"), 0)
        ]
        answers = asyncio.run(ask_all(app_of(centre, alarms=alarms), token, first))
    assert any('"status": "ok"' in text or '"status":"ok"' in text for text in answers)
    # Ids of batches and of signatures are of random bytes.
    text = re.sub(r"[0-9a-f]{32,}", "", "\n".join(answers) + repr(events))
    return hashlib.sha256(text.encode()).hexdigest()


async def ask_all(app: Any, token: str, campaign: Campaign) -> list[str]:
    """Ask every question."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://fusion", headers=headers
    ) as client:
        found = [await client.get(one) for one in questions(campaign)]
    assert {one.status_code for one in found} <= {200, 400, 404}
    assert sum(one.status_code == 200 for one in found) > 25
    return [one.text for one in found]


def smallest_crowd(
    groups: Sequence[Group], first: Campaign = NUMBERS, *, is_honest: bool = True
) -> int:
    """Return how many reports share what is said about them, at least, where anything is."""
    usual = said(None, first, is_honest=is_honest)
    crowds: dict[str, int] = {}
    for one in groups:
        about = said(one, first, is_honest=is_honest)
        if about != usual:
            crowds[about] = crowds.get(about, 0) + one.size - one.refused
    assert crowds
    return min(crowds.values())


@pytest.mark.uncovered
@each_case("first", [NUMBERS, MODES])
def test_nothing_is_said_about_fewer_than_k_min(first: Campaign) -> None:
    """Estimates, shares, windows, differences, alarms, revisions and exports, of two versions."""
    # What is said is the same each time, or every report would be a crowd of its own.
    assert smallest_crowd(HISTORY, first) >= K_MIN


@pytest.mark.parametrize(
    ("broken", "number", "first"),
    [("labels", 0, NUMBERS), ("refused", 1, NUMBERS), ("labels", 0, MODES)],
    ids=["labels", "refused", "labels of states"],
)
def test_a_broken_rule_is_found(
    broken: str, number: int, first: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels that are not merged, or that a refused report leaves below k_min."""

    def unmerged(counts: dict[int, int], *, k_min: int, other: int) -> dict[int, int]:
        return {label: label for label in counts}

    monkeypatch.setattr(parts, "merge_small", unmerged)
    if broken == "labels":
        monkeypatch.setattr("rase.fusion.intake._check_counts", lambda batch, k_min: None)
    groups = [one for one in HISTORY if one.round == number]
    assert smallest_crowd(groups, first, is_honest=broken != "labels") < K_MIN
