"""Several quantities of one device: one folder, one ledger, one schedule, one page."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.device.conftest import CAMPAIGN, Notes, Shuffler
from tests.device.owning import Owned, owned
from tests.registering import keep_tokens

from rase.accounting.ledger import CampaignLimits, Ledger, OwnerLimits, create_ledger
from rase.cli import main
from rase.clock import FakeClock
from rase.device.__main__ import main as one_file
from rase.device.folder import DeviceFolder
from rase.device.page.server import OwnerPage
from rase.device.program import run_device
from rase.device.quantities import add_quantity, quantities_of
from rase.errors import ConfigurationError
from rase.transport.interface import Answer
from rase.transport.memory import MemoryTransport, Message
from rase.wire.messages import Header
from rase.wire.signed import campaign_hash

HEAT = replace(CAMPAIGN, id="heat", quantity="heat", round_s=2 * CAMPAIGN.round_s)
SOURCE = '[source]\nkind = "csv"\npath = "{name}.csv"\ncolumn = "value"\nevery_s = 600\n'


@dataclass
class Two:
    """A device that is enrolled, with two quantities, at a shuffler that knows both campaigns."""

    folder: DeviceFolder
    power: Shuffler
    heat: Shuffler

    def handle(self, message: Message) -> Answer:
        """Answer a message about either campaign."""
        if message.method == "GET":
            return (self.heat if "/heat/" in message.path else self.power).handle(message)
        tag = Header.from_report(message.body).campaign_tag
        is_heat = campaign_hash(self.heat.campaign).startswith(tag)
        return (self.heat if is_heat else self.power).handle(message)


@pytest.fixture
def two(tmp_path: Path) -> Two:
    """Power by the hour, heat every two hours."""
    with owned(tmp_path / "device") as device:
        folder, power, heat = device.folder, device.shuffler, Shuffler(device.clock, HEAT)
    folder.switch(is_on=True)
    heat.signers, heat.keys, heat.keyset = power.signers, power.keys, power.keyset
    text = folder.settings_file.read_text()
    start = text.index("[source]")
    first = text[:start].replace("# schedule =", "#") + SOURCE.format(name="power")
    folder.settings_file.write_text(first.replace("[owner]", "schedule = 'turns'\n[owner]", 1))
    further = add_quantity(folder, "heat", value_range=(0.0, 3000.0), turns=2)
    text = further.read_text()
    further.write_text(text[: text.index("[source]")] + SOURCE.format(name="heat"))
    for name, value in (("power", 500), ("heat", 900)):
        (folder.path / f"{name}.csv").write_text("value\n" + f"{value}\n" * 5000)
    with folder.ledger(folder.settings({})) as ledger:
        keep_tokens(ledger, "heat")
    return Two(folder, power, heat)


def test_both_are_reported_in_turns_from_one_ledger(two: Two) -> None:
    """Each turn is of one of them; whose turn it is not sends cover; one ledger counts both."""
    clock = two.power.clock
    assert isinstance(clock, FakeClock)
    two.heat.clock, start_s, lock = clock, clock.now_s(), threading.Lock()
    waits: dict[int, float] = {}

    def wait(seconds: float) -> bool:
        # Time goes on when both wait, by more than was asked for: minutes are enough here.
        with lock:
            waits[threading.get_ident()] = seconds
            if len(waits) == 2:
                clock.advance(120.0)
                waits.clear()
        return clock.now_s() > start_s + 24 * 3600

    notes = NamedNotes()
    run_device(
        two.folder, {}, wait=wait, clock=clock, journal=notes,
        transport=MemoryTransport(two.handle),
    )  # fmt: skip
    seen = [(one.content(body)) for one in (two.power, two.heat) for body in one.received]
    assert seen
    with two.folder.ledger(two.folder.settings({})) as ledger:
        status, entries = ledger.status(int(clock.now_s())), ledger.history(-1)
    by_name = {name: [one.round for one in entries if one.campaign == name] for name in names()}
    assert min(len(rounds) for rounds in by_name.values()) >= 3
    assert status.total_spent == pytest.approx(sum(one.epsilon for one in entries))
    # Turns are hours; a report counts for the hour in which its round begins.
    hours = by_name[CAMPAIGN.id] + [2 * round for round in by_name["heat"]]
    assert len(hours) == len(set(hours))
    for shuffler, name in ((two.power, CAMPAIGN.id), (two.heat, "heat")):
        real = {one.round for one in map(shuffler.content, shuffler.received) if not one.is_cover}
        assert real <= set(by_name[name])
        assert any(shuffler.content(one).is_cover for one in shuffler.received)
    assert {fields["campaign"] for _, fields in notes.events if _ != "stopped"} == set(names())


def names() -> tuple[str, str]:
    """Return the ids of both campaigns."""
    return CAMPAIGN.id, HEAT.id


class NamedNotes(Notes):
    """A journal in which every event may name a campaign."""

    def note(self, event: str, **fields: object) -> None:
        """Keep the event."""
        self.events.append((event, fields))


def test_one_that_fails_ends_all(two: Two) -> None:
    """No quantity goes on by itself while another one's state is damaged."""
    two.folder.quantities()[0].state_file.write_text("{}")
    with pytest.raises(Exception, match="is damaged"):
        run_device(
            two.folder, {}, wait=lambda seconds: False, clock=two.power.clock,
            journal=NamedNotes(), transport=MemoryTransport(two.handle),
        )  # fmt: skip


@pytest.mark.parametrize(
    "program",
    [lambda *words: main(["device", *words]), lambda *words: one_file(words)],
    ids=["rase", "one file"],
)
def test_commands_add_list_and_pause_quantities(
    two: Two, program: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same with the package and with the device in one file."""
    folder = f"--folder={two.folder.path}"

    def run(*words: str) -> str:
        capsys.readouterr()
        assert program(*words, folder) == 0
        return capsys.readouterr().out

    def states() -> list[str]:
        return [line.split()[-1] for line in run("list").splitlines()]

    assert [line.split() for line in run("list").splitlines()] == [
        [CAMPAIGN.id, "csv", "sharing"],
        ["heat", "csv", "sharing"],
    ]
    run("pause", "--campaign=heat")
    assert states() == ["sharing", "paused"]
    run("pause")
    assert states() == ["paused", "paused"]
    # The first alone shares again; then all.
    run("resume", f"--campaign={CAMPAIGN.id}")
    assert states() == ["sharing", "paused"]
    run("pause", f"--campaign={CAMPAIGN.id}")
    run("resume", "--campaign=heat")
    assert states() == ["paused", "sharing"]
    run("resume")
    assert states() == ["sharing", "sharing"]
    shown = run("status")
    assert shown.count("turn from") == 2
    assert "spent ever" in shown
    document = json.loads(run("status", "--json"))
    assert document["schema"] == "rase/device-status/1"
    assert [one["turns"] for one in document["quantities"]] == [1, 2]
    assert document["budget"]["total"]["limit"] == 1000.0
    run("add", "gas", "--turns=3", "--range", "0", "5", f"--campaign-hash={'ab' * 32}")
    assert [line.split()[0] for line in run("list").splitlines()] == [CAMPAIGN.id, "gas", "heat"]
    for words, problem in (
        (("add", "gas"), "does not have yet"),
        (("add", CAMPAIGN.id), "does not have yet"),
        (("add", "Bad/../name"), "small letters"),
        (("add", "oil", "--campaign-hash=zz"), "campaign_hash"),
        (("pause", "--campaign=oil"), "campaign must be one of"),
    ):
        capsys.readouterr()
        assert program(*words, folder) != 0
        assert problem in capsys.readouterr().err
    assert not (two.folder.path / "quantities/oil/quantity.toml").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('campaign = "heat"', 'campaign = "gas"', "must be 'heat' as its folder"),
        ("[owner]", "[owner]\ntotal_epsilon = 9", "owner.total_epsilon must stand in device.toml"),
        ("[owner]", "[page]\nport = 1\n[owner]", r"\[page\] must stand in device.toml"),
        ('kind = "csv"', 'kind = "odd"', "source.kind must be one of"),
        ("turns = 2", "turns = 99", "device.turns must be from 1 to 64"),
        ("[owner]", "label = 'north'\n[owner]", "owner.shares_label must be true"),
    ],
)
def test_wrong_settings_of_a_quantity_are_named(two: Two, old: str, new: str, words: str) -> None:
    """With the file in which they stand; nothing starts, and nothing is lost."""
    file = two.folder.quantities()[0].settings_file
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=words) as raised:
        quantities_of(two.folder, {})
    assert "quantity.toml" in str(raised.value)


def test_quantities_must_not_share_what_there_is_once(two: Two) -> None:
    """Two campaigns of one id, and two readers of one standard input."""
    further = two.folder.quantities()[0].settings_file
    first = two.folder.settings_file
    text = first.read_text()
    first.write_text(text.replace(f'campaign = "{CAMPAIGN.id}"', 'campaign = "heat"'))
    with pytest.raises(ConfigurationError, match="'heat' twice"):
        quantities_of(two.folder, {})
    first.write_text(text.replace('kind = "csv"', 'kind = "stdin"'))
    further.write_text(further.read_text().replace('kind = "csv"', 'kind = "stdin"'))
    with pytest.raises(ConfigurationError, match="there is one stdin"):
        quantities_of(two.folder, {})


def test_a_quantity_has_its_own_source_and_the_devices_limits(two: Two) -> None:
    """What the environment says of source and campaign is about the first."""
    found = quantities_of(
        two.folder, {"RASE_SOURCE__COLUMN": "other", "RASE_OWNER__TOTAL_EPSILON": "7"}
    )
    assert [one.source.column for _, one in found] == ["other", "value"]
    assert [one.limits.total_epsilon for _, one in found] == [7.0, 7.0]
    assert {place.ledger_path(one) for place, one in found} == {two.folder.ledger_file}
    assert {place.credential() for place, _ in found} == {"credential"}


def test_forgetting_leaves_nothing_to_send_of_any(two: Two) -> None:
    """State and pause of each are erased; enrolling again makes states, the ledger stays."""
    further = two.folder.quantities()[0]
    further.pause()
    two.folder.forget(two.folder.settings({}))
    assert not further.state_file.exists()
    assert not further.is_paused_alone
    two.folder.keep_enrolment("again")
    assert further.state_file.exists()
    assert further.is_enrolled


def test_the_page_shows_all_quantities(two: Two, tmp_path: Path) -> None:
    """The first page has a table of them, one budget and one switch; each has a page of its own."""
    device = Owned(tmp_path / "page")
    try:
        device.run(2)
        other = replace(device.owner, settings=replace(device.owner.settings, campaign="heat"))
        # As `run_device` does for each of them.
        other = replace(other, folder=DeviceFolder(device.folder.path, "heat"))
        add_quantity(device.folder, "heat")
        assert device.get().text.count("You") >= 0
        device.page.show(other)
        overview = device.get().text
        assert "2 quantities, one budget." in overview
        assert 'href="heat/"' in overview
        assert "See what would be sent of heat" in overview
        for name in (CAMPAIGN.id, "heat"):
            assert "Your budget" in device.get(f"{name}/").text
            assert device.get(f"{name}/payload").status == 200
            assert device.get(f"{name}/owner.css").status == 200
        assert device.get("nothing/").status == 404
        assert device.get("payload").status == 404
        assert device.get("ledger.csv").text.startswith("time,campaign")
        assert device.post("heat/share").headers["Location"].endswith(f"/{device.page.token}/heat/")
        device.post("heat/pause")
        assert not device.folder.is_paused
        assert other.folder.is_paused
        assert "Resume heat" in device.get().text
        device.post("heat/resume")
        assert not other.folder.is_paused
        device.post("pause")
        assert device.folder.is_paused
        assert other.folder.is_paused
        assert "Resume all" in device.get().text
        device.post("resume")
        assert "Pause all" in device.get().text
    finally:
        device.close()
    page = OwnerPage(device.folder, 0)
    try:
        device.page = page
        assert device.get().status == 503
    finally:
        page.close()


ALLOWED = {"report_epsilon": 1.0, "span_epsilon": 2.0, "total_epsilon": 12.0, "span_s": 36_000}
OWNER = OwnerLimits(**ALLOWED)  # type: ignore[arg-type]
LIMITS = (
    CampaignLimits("power", 3600, window=4, window_epsilon=1.5),
    CampaignLimits("heat", 5400, window=3, window_epsilon=1.2),
)
# Light on imports: it is started once for each kill. It reports for ever, by a random schedule.
CHILD = """
import random, sys, threading
from pathlib import Path
from rase.accounting.ledger import Ledger, OwnerLimits
from rase.errors import BudgetSpent

path, seed, owner = Path(sys.argv[1]), sys.argv[2], OwnerLimits(**eval(sys.argv[3]))

both_reported = threading.Barrier(2, timeout=60)

def work(name):
    rng = random.Random(seed + name)
    with Ledger(path, owner) as ledger:
        for number in range(sys.maxsize):
            # Neither spends the second time before the other did once, however slow it starts.
            if number == 1:
                both_reported.wait()
            round, epsilon = rng.randrange(80), rng.choice([0.3, 0.5, 0.9])
            try:
                with ledger.report(name, round, epsilon=epsilon) as spending:
                    if spending.found is None:
                        spending.keep(b"noisy", envelope=b"sealed")
            except BudgetSpent:
                sys.stdout.write("refused\\n")
            else:
                sys.stdout.write(f"{name} {round}\\n")
            sys.stdout.flush()

for name in ("power", "heat"):
    threading.Thread(target=work, args=(name,)).start()
"""


def excess(entries: list[tuple[str, int, float]]) -> str | None:
    """Return which limit some reports exceed, of (campaign, round, epsilon); None if none."""
    close = 1e-6
    if sum(epsilon for _, _, epsilon in entries) > OWNER.total_epsilon + close:
        return "total"
    starts = {one.campaign: one.round_s for one in LIMITS}
    spans = sorted((round * starts[name], epsilon) for name, round, epsilon in entries)
    for begin, _ in spans:
        if sum(e for at, e in spans if begin <= at < begin + OWNER.span_s) > 2.0 + close:
            return "span"
    for limits in LIMITS:
        own = [(round, e) for name, round, e in entries if name == limits.campaign]
        for first, _ in own:
            inside = sum(e for at, e in own if first <= at < first + limits.window)
            if inside > limits.window_epsilon + close:
                return limits.campaign
    return None


def test_two_quantities_never_pass_the_owners_totals_whatever_kills_them(tmp_path: Path) -> None:
    """Eight kills -9 at random moments: every report that left is paid for, all limits hold.

    The first comes when both quantities have reported, the last when a report was refused; neither
    depends on how fast the processes are.
    """
    path, rng = tmp_path / "ledger.db", np.random.default_rng(26)
    create_ledger(path)
    with Ledger(path, OWNER) as ledger:
        for limits in LIMITS:
            ledger.join(limits)
    said: list[str] = []
    environment = {name: text for name, text in os.environ.items() if not name.startswith("COV")}
    for seed in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(seed), repr(ALLOWED)],
            stdout=subprocess.PIPE, text=True, env=environment,
            cwd=Path(__file__).parents[2],
        ) as child:  # fmt: skip
            assert child.stdout is not None
            lines = int(rng.integers(1, 25))
            while lines > 0 or not {"power", "heat"} <= {line.split()[0] for line in said}:
                said.append(next(child.stdout).strip())
                lines -= 1
            while seed == 7 and "refused" not in said:
                said.append(next(child.stdout).strip())
            child.kill()
    with Ledger(path, OWNER) as ledger:
        entries = [(one.campaign, one.round, one.epsilon) for one in ledger.history(-1)]
        spent = ledger.status(0).total_spent
    assert spent == pytest.approx(sum(epsilon for _, _, epsilon in entries))
    assert {name for name, _, _ in entries} == {"power", "heat"}
    sent = {(name, int(round)) for name, round in (line.split() for line in said if " " in line)}
    assert sent <= {(name, round) for name, round, _ in entries}
    assert "refused" in said
    assert excess(entries) is None


def test_two_ledgers_would_pass_the_owners_totals() -> None:
    """What is checked above fails where each quantity counts by itself."""
    both = [("power", 5 * place, 0.9) for place in range(6)]
    both += [("heat", 4 * place, 0.9) for place in range(6)]
    assert excess(both[:4]) is None
    assert excess(both[6:10]) is None
    assert excess([*both[:4], *both[6:10]]) == "span"
    assert excess([("power", 40 * place, 0.9) for place in range(14)]) == "total"
    assert excess([("heat", place, 0.7) for place, _ in pairwise(range(3))]) == "heat"
