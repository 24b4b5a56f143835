"""The guide to MicroPython is followed: its constants are printed, its chip draws and seals."""

import base64
import json
import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.registering import REGISTRAR_KEY
from tests.wire.test_micropython import micropython

from rase.campaign import Campaign
from rase.clock import SystemClock
from rase.device.enrolment import settings_text
from rase.device.folder import DeviceFolder
from rase.device.state import DeviceState, StateFile
from rase.domain import Categories
from rase.kernels.entropy import SeededEntropy
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import randomizer_named
from rase.wire.frames import authorization_of
from rase.wire.inner import InnerOpener
from rase.wire.keys import OpeningKey, Role, SigningKey
from rase.wire.messages import Content
from rase.wire.outer import OuterOpener
from rase.wire.signed import SignedCampaign, SignedKeyset, campaign_hash, signature_of

GUIDE = Path(__file__).parents[2] / "docs/guides/micropython.md"
DESKTOP, CHIP, DESKTOP_STATES, CHIP_STATES = re.findall(
    r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S
)
ROUND = 495_123


@pytest.fixture
def duchi(campaign: Campaign) -> Campaign:
    """A campaign such as the guide asks for."""
    return replace(campaign, mechanism="duchi", low=-40, epsilon=(0.5, 1.0), k_min=3)


@pytest.fixture
def chip(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    signers: dict[Role, SigningKey],
    vectors: ModuleType,
) -> Path:
    """An enrolled device's folder whose agent has the keys, and no campaign yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SystemClock, "now_s", lambda self: 1_790_000_000.0)
    folder = DeviceFolder(tmp_path / "chip")
    folder.make()
    text = settings_text(
        shuffler="https://shuffler.example",
        campaign="street-power",
        fusion_key=key_text(signers[Role.FUSION]),
        shuffler_key=key_text(signers[Role.SHUFFLER]),
        registrar="https://registrar.example",
        registrar_key=base64.b64encode(REGISTRAR_KEY).decode(),
        report_epsilon=1.0,
        span_epsilon=25.0,
        total_epsilon=1000.0,
        value_range=None,
        least_k=2,
    )
    folder.settings_file.write_text(text, encoding="utf-8")
    folder.keep_enrolment("3f2a90c1d45b6e78.secret")
    keyset = vectors.KEYSET
    signed = SignedKeyset(keyset, *(signature_of(keyset, signers[role]) for role in both()))
    StateFile(folder.state_file).save(DeviceState((), signed.to_bytes()))
    return folder.path


def key_text(key: SigningKey) -> str:
    """Return a public key as settings have it."""
    return base64.b64encode(key.public_bytes()).decode()


def both() -> tuple[Role, Role]:
    """Return the two who sign, in the order in which they do."""
    return Role.FUSION, Role.SHUFFLER


def accept(chip: Path, campaign: Campaign, signers: dict[Role, SigningKey]) -> None:
    """Let the agent's state hold a campaign."""
    file = StateFile(DeviceFolder(chip).state_file)
    signed = SignedCampaign(campaign, *(signature_of(campaign, signers[r]) for r in both()))
    file.save(replace(file.load(), campaigns=(signed.to_bytes(),)))


def constants(capsys: pytest.CaptureFixture[str]) -> str:
    """Run the guide's first block and return what it prints."""
    exec(compile(DESKTOP, "constants.py", "exec"), {})  # noqa: S102 - the block of our own page
    return capsys.readouterr().out


def on_chip(config: str, memory: str, calls: str, words: list[int]) -> Any:
    """Run the guide's second block under MicroPython, then some calls; return what they print.

    Words and entropy come from here, and requests from a stand-in that keeps what is posted.
    """
    prelude = f"""
import sys
words = {words!r}
def random_bytes(count):
    if count == 64:
        return bytes({list(os.urandom(64))!r})
    return words.pop(0).to_bytes(count, "big")
import pure
pure.random_bytes = random_bytes
with open("/config.py", "w") as file:
    file.write({config!r})
with open("/spent.txt", "w") as file:
    file.write({memory!r})
class Requests:
    answers, posted = [], []
    def post(self, url, data, headers):
        self.posted.append((url, data.hex(), headers))
        answer = self.answers.pop(0)
        if answer is None:
            raise OSError(113)
        self.status_code = answer
        return self
    def close(self):
        pass
sys.modules["requests"] = requests = Requests()
"""
    chip = CHIP.replace('"spent.txt"', '"/spent.txt"')
    return json.loads(micropython(f"{prelude}\nimport json\n{chip}\n{calls}"))


@pytest.mark.usefixtures("chip")
def test_the_constants_need_a_campaign_that_a_chip_can_serve(
    chip: Path,
    duchi: Campaign,
    signers: dict[Role, SigningKey],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No campaign, another mechanism, carried rounds, and budgets that end earlier are refused."""
    with pytest.raises(SystemExit, match="no campaign yet"):
        constants(capsys)
    for wrong in (
        replace(duchi, mechanism="laplace"),
        replace(duchi, carry_rounds=3),
        replace(duchi, kem="x-wing"),
    ):
        accept(chip, wrong, signers)
        with pytest.raises(SystemExit, match="must have the mechanism duchi"):
            constants(capsys)
    accept(chip, replace(duchi, window_budget=23), signers)
    with pytest.raises(SystemExit, match="more than the campaign's window or your span"):
        constants(capsys)


@pytest.mark.needs("node", "micropython")
def test_the_chip_draws_the_places_of_the_agent(
    chip: Path,
    duchi: Campaign,
    signers: dict[Role, SigningKey],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Word for word, for readings within, at and beyond the ends of the range."""
    accept(chip, duchi, signers)
    config = constants(capsys)
    readings_m = [-90_000, -40_000, -1, 0, 412_337, 1_480_000, 2_999_999, 3_000_000, 5_000_000]
    source = SeededEntropy(2026)
    # Half of the words lie near the edge between the places, where a wrong bit would show.
    agent = randomizer_named("duchi", 1.0, domain=duchi.domain, precision=duchi.precision)
    asked = [(m, source.word()) for m in readings_m for _ in range(20)]
    for m in readings_m:
        edge = edge_of(agent, m / 1000)
        asked += [(m, edge + away) for away in (-(1 << 24), 1 << 24)]
    drawn = on_chip(config, "0 1", f"print(json.dumps([place_of(m, w) for m, w in {asked!r}]))", [])
    assert drawn == [agent.draw_one(m / 1000, Fixed(word)) for m, word in asked]
    assert {0, duchi.steps} == set(drawn)


@pytest.mark.needs("node", "micropython")
@pytest.mark.parametrize("mechanism", ["randomized-response", "block-design"])
def test_the_chip_draws_states_by_the_law_of_the_agent(duchi: Campaign, mechanism: str) -> None:
    """As many of the 2^64 words for each place; those of a block design word for word."""
    states = ["on", "off", "standby", "other"]
    agent = randomizer_named(mechanism, 1.0, domain=Categories(tuple(states)))
    space: dict[str, Any] = {"epsilon": 1.0, "constants": {}}
    space["campaign"] = SimpleNamespace(categories=states, mechanism=mechanism)
    exec(compile(DESKTOP_STATES, "constants.py", "exec"), space)  # noqa: S102 - our own page
    made = space["constants"]
    config = "".join(f"{name} = {value!r}\n" for name, value in made.items())
    near, far, count = made["NEAR_WORDS"], made["FAR_WORDS"], len(made["NEAR"])
    edges = [near * place for place in range(count)]
    edges += [near * count + far * place for place in range(len(made["AWAY"]))]
    # The first and the last word of each piece.
    words = [word for edge in edges for word in (edge, edge - 1) if word >= 0] + [2**64 - 1]
    asked = [(state, word) for state in (*states, "boost") for word in words]
    calls = f"print(json.dumps([place_of_state(s, w) for s, w in {asked!r}]))"
    prelude = f"with open('/config.py', 'w') as file:\n    file.write({config!r})\nimport json\n"
    drawn = json.loads(micropython(f"{prelude}{CHIP_STATES}\n{calls}"))
    law = agent.law(1.0)
    if mechanism == "block-design":
        spots = [agent.domain.spot(state if state in states else "other")[0] for state, _ in asked]
        assert drawn == [
            law.draw(spot, 0, Fixed(word)) for spot, (_, word) in zip(spots, asked, strict=True)
        ]
    by_word = dict(zip(asked, drawn, strict=True))
    for index, state in enumerate(states):
        weights: dict[int, int] = {}
        for edge, end in pairwise([*edges, 2**64]):
            place = by_word[state, edge]
            assert by_word[state, end - 1] == place
            weights[place] = weights.get(place, 0) + end - edge
        assert weights == dict(law.weights(index))


@pytest.mark.needs("node", "micropython")
def test_the_chip_reports_once_a_round_and_its_report_opens(
    chip: Path,
    duchi: Campaign,
    signers: dict[Role, SigningKey],
    openers: dict[str, OpeningKey],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A round is paid for before its draw, never twice; the bytes open at both servers."""
    accept(chip, duchi, signers)
    config = constants(capsys)
    assert (chip.parent / "spent.txt").read_text(encoding="ascii") == "0 1000"
    calls = f"""
made = [report_of({ROUND} + step, 412337) for step in (0, 0, -1, 1, 2, 9000)]
print(json.dumps([[one and one.hex() for one in made], open(MEMORY).read()]))
"""
    made, memory = on_chip(config, "0 2", calls, [0, 2**64 - 1])
    assert [one is not None for one in made] == [True, False, False, True, False, False]
    assert memory == f"{ROUND + 1} 0"
    ch = campaign_hash(duchi)
    inner = InnerOpener(ch, [openers["fusion"]], class_count=2)
    for sealed, content in (
        (made[0], Content(ROUND, duchi.steps, 1)),
        (made[3], Content(ROUND + 1, 0, 1)),
    ):
        outer = OuterOpener(ch, [openers["shuffler"]]).open(bytes.fromhex(sealed))
        opened = inner.open(outer.inner, key_id=outer.mark.fusion_key_id, round=outer.round)
        assert opened == content


@pytest.mark.needs("node", "micropython")
def test_a_damaged_memory_stops_the_chip(
    chip: Path,
    duchi: Campaign,
    signers: dict[Role, SigningKey],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was spent is not known: nothing is drawn."""
    accept(chip, duchi, signers)
    calls = f"""
try:
    told = report_of({ROUND}, 0)
except ValueError:
    told = "stopped"
print(json.dumps([told is None or told, len(words)]))
"""
    assert on_chip(constants(capsys), "", calls, [7]) == ["stopped", 1]


@pytest.mark.needs("node", "micropython")
def test_the_same_bytes_are_sent_until_they_are_answered(
    chip: Path,
    duchi: Campaign,
    signers: dict[Role, SigningKey],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No network, a full disk and too many are waited for; a refusal and the end are final."""
    accept(chip, duchi, signers)
    calls = """
EPOCH_S, clock = 0, [1000]
class time:
    time = lambda: clock[0]
    sleep = lambda pause_s: clock.insert(0, clock[0] + pause_s)
requests.answers = [None, 503, 429, 201]
first = send(b"report", 2000)
requests.answers = [409]
second = send(b"other", 2000)
requests.answers = [None] * 9
third = send(b"third", clock[0] + 60)
print(json.dumps([first, second, third, requests.posted]))
"""
    first, second, third, posted = on_chip(constants(capsys), "0 1", calls, [])
    assert (first, second, third) == (201, 409, None)
    url, data, headers = posted[0]
    assert url == "https://shuffler.example/v1/reports"
    assert headers["Authorization"] == authorization_of(b"report", "3f2a90c1d45b6e78.secret")
    assert headers["Content-Type"] == "application/rase-report"
    sent = [bytes.fromhex(one) for _, one, _ in posted]
    assert sent == [b"report"] * 4 + [b"other"] + [b"third"] * 3
    assert bytes.fromhex(data) == b"report"


class Fixed:
    """Give one word."""

    def __init__(self, word: int) -> None:
        self._word = word

    def word(self) -> int:
        """Return it."""
        return self._word


def edge_of(agent: RangeRandomizer, reading: float) -> int:
    """Return the first word for which the agent draws the lower place."""
    low, high = 0, 1 << 64
    while low < high:
        middle = (low + high) // 2
        if agent.draw_one(reading, Fixed(middle)):
            low = middle + 1
        else:
            high = middle
    return low
