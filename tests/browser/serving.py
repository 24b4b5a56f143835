"""A fusion centre with made-up rounds and its dashboard, as a process that a test can kill.

Started as ``python serving.py FOLDER PORT``. It prints a line when it listens, and obeys lines on
stdin: ``round`` lets the next round become final with an estimate, ``withheld`` without one, and
``silence`` lets an hour pass in which nothing happens.
"""

import io
import math
import os
import socket
import sys
import threading
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import uvicorn
from tests.registering import REGISTRAR_KEY, EveryWindow

from rase.campaign import Campaign
from rase.cli.pages import with_dashboard
from rase.clock import FakeClock
from rase.counts.estimate import Estimate
from rase.dashboard.page import templates_of
from rase.fusion.alarms import Alarms
from rase.fusion.app import fusion_app
from rase.fusion.campaigns import Publisher
from rase.fusion.centre import FusionCentre
from rase.fusion.health import space_of
from rase.fusion.intake import Intake
from rase.fusion.mechanism import campaign_of
from rase.fusion.opening import BatchOpener
from rase.fusion.parts import PartKey, write_parts
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.fusion.settings import AlarmSettings
from rase.fusion.subscribers import ADMIN_CAMPAIGN, READ_ESTIMATES, add_subscriber
from rase.service.telemetry import Telemetry
from rase.storage.interface import Database
from rase.storage.sqlite import open_sqlite
from rase.wire.keys import Keyset, Role, SigningKey
from rase.wire.signed import PinnedKeys, signature_of

__all__ = [
    "CAMPAIGN",
    "LATER_S",
    "LONG_NAME",
    "STATES",
    "Shape",
    "add_rounds",
    "add_shares",
    "make",
    "serve",
    "tokens",
    "warm",
]

FUSION = SigningKey(role=Role.FUSION, secret=bytes([1]) * 32)
SHUFFLER = SigningKey(role=Role.SHUFFLER, secret=bytes([2]) * 32)
LONG_NAME = "a-subscriber-with-a-name-that-is-as-long-as-any-name-may-ever-b"
CAMPAIGN = Campaign(
    id="street-power",
    version=1,
    quantity="mean power of an appliance in a quarter of an hour",
    unit="W",
    low=0,
    high=3000,
    mechanism="budget-aware",
    epsilon=(1,),
    window=96,
    window_budget=48,
    round_s=900,
    upload_s=120,
    grace_s=240,
    k_min=20,
    estimators=("unbiased_mean", "sample_mean"),
    not_before=1_980_000,
    not_after=2_100_000,
)
STATES = campaign_of(
    {
        "id": "heat-pumps",
        "version": 1,
        "quantity": "heat pump",
        "unit": "",
        "categories": ["heating", "idle", "off"],
        "labels": ["north", "south"],
        "epsilon": [3.0],
        "window": 96,
        "window_budget": 144.0,
        "k_min": 20,
        "round_s": 900,
        "upload_s": 120,
        "grace_s": 240,
        "not_before": CAMPAIGN.not_before,
        "not_after": CAMPAIGN.not_after,
    }
)
_ALARMS = (
    AlarmSettings(name="all-idle", campaign=STATES.id, category="idle", kind="above", level=0.5),
    AlarmSettings(name="street-too-high", campaign=CAMPAIGN.id, kind="above", level=250.0),
    AlarmSettings(name="without-a-state", campaign=STATES.id, kind="below", level=0.1),
)
# How long after its newest round was closed a site is visited.
LATER_S = 30
_WORDS = "uniform shuffle by shuffler-1: the order says nothing about the senders"
_WITHHELD = "withheld by shuffler-1: fewer than {} reports"


@dataclass(frozen=True)
class Shape:
    """How the numbers of made-up rounds run: a curve over a day, with an error and a count."""

    middle: float = 120.0
    swing: float = 130.0
    jitter: float = 40.0
    error: float = 60.0
    reports: int = 64

    def mean(self, round: int) -> float:
        """Return the estimate of a round."""
        day = 2 * math.pi * (round % 96) / 96
        return self.middle - self.swing * math.cos(day) + self.jitter * math.sin(7.3 * round)


class Signs:
    """A shuffler that signs whatever it is asked to."""

    def campaign(self, campaign: Campaign, fusion_signature: bytes) -> bytes:
        """Sign a campaign."""
        return signature_of(campaign, SHUFFLER)

    def keyset(self, keyset: Keyset, fusion_signature: bytes) -> bytes:
        """Sign a keyset."""
        return signature_of(keyset, SHUFFLER)


def make(path: Path, *, campaign: Campaign | None = CAMPAIGN) -> tuple[FusionCentre, FakeClock]:
    """Open a fusion centre; a campaign is published if it is not yet."""
    database = open_sqlite(path, migrations="fusion")
    clock = FakeClock(CAMPAIGN.not_before * CAMPAIGN.round_s)
    pinned = PinnedKeys(FUSION.public_bytes(), SHUFFLER.public_bytes(), REGISTRAR_KEY)
    publisher = Publisher(database, clock, key=FUSION, pinned=pinned, countersigner=Signs())
    if campaign is not None:
        publisher.publish(campaign)
    centre = FusionCentre(
        database=database,
        clock=clock,
        intake=Intake(
            database,
            clock,
            pinned=pinned,
            opener=BatchOpener([], processes=0),
            token_keys=EveryWindow(),
        ),
        rounds=Rounds(database, clock),
        questions=Questions(database),
        publisher=publisher,
        alarms=Alarms(database, Questions(database), _ALARMS),
        telemetry=Telemetry("fusion", stream=io.StringIO()),
        space=lambda: space_of(path),
    )
    return centre, clock


def add_rounds(
    database: Database,
    count: int,
    *,
    withheld: frozenset[int] = frozenset(),
    campaign: Campaign = CAMPAIGN,
    shape: Shape | None = None,
) -> None:
    """Write rounds that are final, after those that are there; their numbers follow a curve."""
    shape = shape or Shape()
    with database.transaction() as transaction:
        ((sequence,),) = transaction.execute("SELECT COALESCE(MAX(sequence), 0) FROM rounds")
        ((last,),) = transaction.execute(
            "SELECT MAX(round) FROM rounds WHERE campaign = ?", [campaign.id]
        )
        first = campaign.not_before if last is None else last + 1
        rounds: list[list[Any]] = []
        estimates: list[list[Any]] = []
        for place in range(count):
            round = first + place
            state = "withheld" if place in withheld else "final"
            words = _WITHHELD.format(campaign.k_min) if place in withheld else _WORDS
            rounds.append(
                [campaign.id, round, 1, state, 1, 0, sequence + 1 + place, words],
            )
            if state == "final":
                n = max(shape.reports - round % 5, 2)
                estimates += [
                    [
                        *(campaign.id, round, method, "reporters"),
                        *(shape.mean(round), shape.error, None, n),
                    ]
                    for method in campaign.estimators
                ]
        transaction.execute_many(
            "INSERT INTO rounds (campaign, round, version, state, batches, settles_s, sequence, "
            "shuffle) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rounds,
        )
        transaction.execute_many(
            "INSERT INTO answers (campaign, round, method, target, value, standard_error, "
            "degrees_of_freedom, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            estimates,
        )


def add_shares(centre: FusionCentre, count: int) -> None:
    """Publish the campaign of states, and write rounds of it in which heating goes up and down."""
    assert centre.publisher is not None
    centre.publisher.publish(STATES)
    with centre.database.transaction() as transaction:
        ((sequence,),) = transaction.execute("SELECT COALESCE(MAX(sequence), 0) FROM rounds")
        for place in range(count):
            round = STATES.not_before + place
            state = "withheld" if place % 41 == 20 else "final"
            transaction.execute(
                "INSERT INTO rounds (campaign, round, version, state, batches, settles_s, sequence,"
                " shuffle) VALUES (?, ?, 1, ?, 1, 0, ?, ?)",
                [STATES.id, round, state, sequence + 1 + place, _WORDS],
            )
            if state == "final":
                heating = 0.4 - 0.2 * math.cos(2 * math.pi * place / 96)
                parts = {
                    PartKey(label, name, "shares"): Estimate(
                        value + move,
                        0.03,
                        n=reports,
                        method="shares",
                        target="share of the readings",
                        lowest=0.0,
                        highest=1.0,
                    )
                    for label, reports, move in (("", 900, 0.0), ("north", 500, 0.08))
                    for name, value in (
                        ("heating", heating),
                        ("idle", 0.9 - heating),
                        ("off", 0.1 - move),
                    )
                }
                south = {
                    PartKey("south", key.category, key.method): replace(
                        one, value=one.value - (0.18 if key.category == "heating" else -0.09)
                    )
                    for key, one in parts.items()
                    if key.label == "north"
                }
                write_parts(transaction, STATES, round, parts | south, described={})
        raised = [
            ("all-idle", STATES, 600, "raised", 0.71),
            ("all-idle", STATES, 640, "quiet", 0.5),
        ]
        transaction.execute_many(
            "INSERT INTO alarm_history (alarm, campaign, round, state, value, standard_error, "
            "delivered) VALUES (?, ?, ?, ?, ?, 0.03, 1)",
            [
                (name, one.id, one.not_before + place, state, value)
                for name, one, place, state, value in raised
            ],
        )
        transaction.execute(
            "INSERT INTO alarm_states (alarm, round, state) VALUES ('all-idle', ?, 'quiet')",
            [STATES.not_before + count - 1],
        )


def set_clock(database: Database, clock: FakeClock) -> None:
    """Set a clock some seconds after the newest round became final."""
    with database.snapshot() as transaction:
        ((last,),) = transaction.execute("SELECT MAX(round) FROM rounds")
    round = CAMPAIGN.not_before if last is None else last
    clock.jump(CAMPAIGN.closes_s(round) + LATER_S - clock.now_s())


def _obey(centre: FusionCentre, clock: FakeClock, *, orders: TextIO, answers: TextIO) -> None:
    for line in orders:
        if line.strip() == "silence":
            clock.jump(3600)
        else:
            withheld = frozenset({0} if line.strip() == "withheld" else ())
            add_rounds(centre.database, 1, withheld=withheld)
            set_clock(centre.database, clock)
            for wake in tuple(centre.on_final):
                wake()
        print("done", file=answers, flush=True)
    # Nobody is there any more.
    os._exit(0)


def warm() -> None:
    """Compile the pages, for processes that are forked off this one."""
    pages = templates_of(("rase.dashboard",))
    for name in pages.list_templates():
        pages.get_template(name)


def serve(folder: Path, port: int, *, orders: TextIO, answers: TextIO) -> None:
    """Serve until killed, or nobody gives orders any more."""
    centre, clock = make(folder / "fusion.sqlite")
    set_clock(centre.database, clock)
    app, _ = with_dashboard(fusion_app(centre, tick_s=0.2), clock, database=centre.database)
    config = uvicorn.Config(app, log_config=None, log_level="error", access_log=False)
    obeying = partial(_obey, centre, clock, orders=orders, answers=answers)
    with socket.create_server(("127.0.0.1", port)) as listener:
        # From here on requests wait until they are answered.
        print("listening", file=answers, flush=True)
        threading.Thread(target=obeying, daemon=True).start()
        uvicorn.Server(config).run(sockets=[listener])


def tokens(database: Database) -> tuple[str, str]:
    """Make a reader with a long name and an operator; return their tokens."""
    reader = add_subscriber(database, LONG_NAME)
    scopes = (READ_ESTIMATES, ADMIN_CAMPAIGN)
    return reader, add_subscriber(database, "operator", scopes=scopes)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), orders=sys.stdin, answers=sys.stdout)
