"""Ten questions of a fleet, answered by real processes: states, labels, bounds, differences."""

import json
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from chaos.wallets import Wallets
from tests.live.agents import Agent
from tests.live.installed import Fleet, Installed
from tests.live.running import rase
from tests.patience import PATIENCE_S, until

from rase.campaign import Campaign
from rase.cli import main
from rase.clock import SystemClock
from rase.fusion.mechanism import campaign_of, randomizer_of, state_randomizer_of
from rase.kernels.words import SeededRandom
from rase.wire import cbor
from rase.wire.frames import frame_of, handle_of
from rase.wire.keys import Role
from rase.wire.messages import Content
from rase.wire.seal import seal_report
from rase.wire.signed import campaign_hash

DEVICES = 60
STATES = ("on", "off", "other")
# The first half of the devices is in the north.
POWER_W = [1000.0] * 30 + [2500.0] * 30
STATE = ["on"] * 24 + ["off"] * 24 + ["on"] * 12
LABELS = [1] * 30 + [2] * 30
CHANGES: dict[str, dict[str, Any]] = {
    "power": {"mechanism": "optimal"},
    "bins": {"bounds": [1000, 2000, 3000]},
    "state": {"categories": list(STATES), "unit": ""},
}


def written(folder: Path, name: str) -> Path:
    """Write a campaign file for one more question, from that of the installation."""
    fields = tomllib.loads((folder / "campaign.toml").read_text())
    fields = dict(fields.get("campaign", fields)) | {"id": name, "labels": ["north", "south"]}
    if name != "power":
        for one in ("low", "high", "steps", "mechanism", "estimators", "beta", "rho"):
            fields.pop(one, None)
    fields |= CHANGES[name]
    lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items() if key != "shuffle"]
    path = folder / f"{name}.toml"
    path.write_text("\n".join(lines))
    return path


def draw(campaign: Campaign, rng: SeededRandom) -> list[int]:
    """Return a place for each device, drawn as devices draw, but seeded."""
    if campaign.states is None:
        numbers: list[int] = randomizer_of(campaign).draw_many(POWER_W, rng=rng).tolist()
        return numbers
    states: Sequence[str] = STATE
    if campaign.bounds:
        bins = {1000.0: campaign.categories[1], 2500.0: campaign.categories[2]}
        states = [bins[power] for power in POWER_W]
    drawn: list[int] = state_randomizer_of(campaign).draw_names(states, rng=rng).tolist()
    return drawn


def send(
    fleet: Fleet,
    campaign: Campaign,
    round: int,
    *,
    rng: SeededRandom,
    tokens: Mapping[str, Wallets],
) -> bool:
    """Report once for each device, as a gateway does; say whether the round was still open."""
    end_s = campaign.round_end_s(round)
    keys = {role: fleet._keyset.active(role, now_s=end_s) for role in (Role.SHUFFLER, Role.FUSION)}
    wallets = tokens[campaign.id]
    wires = [
        seal_report(
            Content(round, place, 0, wallets.take(number, round) or b""),
            campaign_hash=campaign_hash(campaign),
            shuffler=keys[Role.SHUFFLER],
            fusion=keys[Role.FUSION],
            keyset=fleet._keyset.version,
            label=label,
        )
        for number, (place, label) in enumerate(zip(draw(campaign, rng), LABELS, strict=True))
    ]
    pairs = [
        [handle_of(credential), frame_of(wire, credential)]
        for credential, wire in zip(fleet._credentials, wires, strict=True)
    ]
    answer = httpx.post(
        f"{fleet._urls[0]}/v1/reports",
        content=cbor.encode(pairs),
        headers={"Content-Type": "application/cbor"},
        timeout=PATIENCE_S,
    )
    replies = cbor.decode(answer.content, max_size=1 << 24)
    (status,) = {reply["status"] for reply in replies}
    assert status in {201, 410}
    return bool(status == 201)


def run_agent(installed: Installed, capsys: pytest.CaptureFixture[str]) -> Agent:
    """Enrol a device whose meter says states, of the north, and run it."""
    folder = installed.folder / "meter"
    shutil.copytree(installed.folder / "installed/device", folder)
    (folder / "mode.csv").write_text("mode\n" + "HEAT\nSTRANGE\n" * 4000)
    source = 'kind = "csv"\npath = "mode.csv"\ncolumn = "mode"\nevery_s = 0.2\nreads = "states"'
    text = (folder / "device.toml").read_text().replace('kind = "stdin"', source)
    text = re.sub(r"^campaign = .*$", 'campaign = "state"\nlabel = "north"', text, flags=re.M)
    text = re.sub(r"^campaign_hash = .*$", "", text, flags=re.M)
    text = text.replace("[owner]", "[owner]\nshares_label = true")
    (folder / "device.toml").write_text(text + '\n[states]\n"HEAT" = "on"\n')
    installed.enrol(folder)
    return Agent(folder, installed.folder / "meter.log")


@pytest.fixture
def installed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Installed]:
    """Both servers with a campaign of numbers, and three more for other questions."""
    made = Installed(tmp_path, capsys, grace_s=6, token_rounds=3)
    try:
        registrar = made.servers["registrar"]
        # Before that it may read its settings while they are written.
        until(lambda: registrar.is_working, logs=tmp_path)
        text = made.registrar_config.read_text()
        names = json.dumps(["fleet", *CHANGES])
        made.registrar_config.write_text(
            text.replace('campaigns = ["fleet"]', f"campaigns = {names}")
        )
        registrar.stop()
        registrar.start()
        made.publish()
        yield made
    finally:
        made.kill()


def test_ten_questions_are_answered(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its interval, which holds what was put in; wrong questions are refused by name."""
    at_fusion = ("--config", installed.configs[Role.FUSION])
    folder = installed.folder / "installed/fusion"
    fleet = Fleet(installed, DEVICES, starts=False)
    campaigns = []
    for name in CHANGES:
        path = written(folder, name)
        rase(capsys, "campaign", "publish", path, *at_fusion)
        campaigns.append(campaign_of(tomllib.loads(path.read_text())))
    assert "categories" in rase(capsys, "campaign", "show", "state", *at_fusion)
    tokens = {name: fleet.wallets_for(name) for name in CHANGES}
    agent = run_agent(installed, capsys)
    rng = SeededRandom(2026)
    for campaign in campaigns:
        # The tables of its law are made before a round is waited for.
        draw(campaign, rng)
    try:
        tried: set[int] = set()
        done: list[int] = []
        # Rounds that ended before the shuffler knew their campaign take no reports.
        first = int(SystemClock().now_s()) // campaigns[0].round_s

        def two_rounds_are_sent() -> bool:
            ended = int(SystemClock().now_s()) // campaigns[0].round_s - 1
            for wallets in tokens.values():
                wallets.fetch()
            has_tokens = all(wallets.holds(ended) for wallets in tokens.values())
            if ended >= first and ended not in tried and has_tokens:
                tried.add(ended)
                # A busy machine may be too late for a round: then it is one of the next.
                sent = [send(fleet, one, ended, rng=rng, tokens=tokens) for one in campaigns]
                if all(sent):
                    done.append(ended)
            # A window of two rounds is asked about: none may be missing between them.
            return len(done) >= 2 and done[-1] == done[-2] + 1

        until(two_rounds_are_sent, logs=installed.folder)
        pair = done[-2:]
        for campaign in campaigns:
            until(lambda: len(final_rounds(installed, campaign.id, pair)) == 2)  # noqa: B023
        until(lambda: bool(agent.sent()), logs=installed.folder)
        assert "states-unknown" in agent.log()
        assert "STRANGE" not in agent.log()
    finally:
        agent.kill()
    token = rase(capsys, "fusion", "subscribers", "add", "me", *at_fusion)
    (installed.folder / "subscriber").write_text(token)
    where = ("--url", installed.fusion_url, "--token-file", installed.folder / "subscriber")
    times = [f"at={round * campaigns[0].round_s * 1000}" for round in pair]
    at = ("--at", times[1][3:])

    def ask(*words: object) -> Any:
        return json.loads(rase(capsys, "query", *words, *where, "--json"))

    answers: list[tuple[Any, float]] = [
        (ask("avg", *at, "--campaign", "power"), 1750.0),
        (ask("avg", *at, "--campaign", "power", "--label", "north"), 1000.0),
        (ask("avg", *at, "--campaign", "state", "--category", "on"), 0.6),
        (ask("avg", *at, "--campaign", "state", "--category", "on", "--label", "south"), 0.4),
        (ask("avg", *at, "--campaign", "bins", "--category", "2000"), 0.5),
        (
            ask("win", "2", *at, "--campaign", "state", "--category", "off", "--label", "north"),
            0.2,
        ),
        (
            ask(
                *("difference", f"{times[1]},label=south", "label=north"),
                *("--campaign", "power"),
            ),
            1500.0,
        ),
        (ask("difference", times[1], times[0], "--campaign", "power"), 0.0),
        (
            ask(
                *("difference", f"{times[1]},campaign=state,category=on"),
                "campaign=bins,category=2000",
            ),
            0.1,
        ),
    ]
    for answer, truth in answers:
        assert answer["low"] < answer["high"], answer
        # A meter of its own is one more device of the north, and its noise alone is not seeded.
        assert abs(answer["value"] - truth) < 6 * answer["standard_error"] + 0.02, answer
    tenth = ask("shares", *at, "--campaign", "bins", "--quantile", "0.5")
    assert len(tenth["shares"]) == 4
    assert tenth["quantiles"][0]["share"] == 0.5
    for wrong, words in (
        (("avg", "--campaign", "state", "--category", "up"), "category must be one of on, off"),
        (("avg", "--campaign", "power", "--label", "west"), "label must be one of north, south"),
    ):
        capsys.readouterr()
        assert main(["query", *wrong, *map(str, where)]) == 4
        assert words in capsys.readouterr().err


def final_rounds(installed: Installed, campaign: str, rounds: Sequence[int]) -> list[int]:
    """Return which of some rounds are final."""
    found = installed.rows(
        Role.FUSION,
        f"SELECT round FROM rounds WHERE campaign = '{campaign}' AND state = 'final'",  # noqa: S608
    )
    return [round for (round,) in found if round in rounds]
