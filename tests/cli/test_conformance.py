"""``rase conformance``: a law as whole numbers, draws against it, what was wrong with a report."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.programs import program
from tests.registering import issuer

from rase import Categories, Range, SeededRandom
from rase.campaign import Campaign
from rase.cli import main
from rase.cli.conformance import Exchange, Findings, Inspector, campaign_for, law_fields
from rase.cli.demo.servers import Servers, running_servers
from rase.clock import FakeClock
from rase.kernels.fixed import WORD
from rase.laws.randomizer import Randomizer
from rase.laws.registry import REGISTRY, randomizer_named
from rase.shuffler.token_keys import published_token_keys
from rase.testing import compare_draws
from rase.wire import cbor
from rase.wire.frames import authorization_of
from rase.wire.issuing import Issuer
from rase.wire.keys import Role
from rase.wire.pure import seal_report
from rase.wire.signed import campaign_hash, public_key_of
from rase.wire.tokens import TOKENS_PATH, key_in_round, requests_bytes, token_keys_from_bytes
from rase.wire.wallet import TokenBatch

CLIENT = Path(__file__).parents[2] / "examples/client/device.mjs"
RANGE, STATES = Range(0, 1000), Categories(tuple("abcdefgh"))
TABLED = sorted(set(REGISTRY) - {"laplace"})


def randomizer(name: str, epsilon: float = 1.0) -> Randomizer:
    """Return a mechanism for its domain."""
    if REGISTRY[name][0] is Range:
        return randomizer_named(name, epsilon, domain=RANGE)
    return randomizer_named(name, epsilon, domain=STATES)


class Given:
    """Give the words that were said."""

    def __init__(self, words: list[int]) -> None:
        self._words = iter(words)

    def word(self) -> int:
        """Return the next one."""
        return next(self._words)


@pytest.mark.needs("node")
def test_the_client_draws_word_for_word_as_the_package() -> None:
    """For the same word the example in JavaScript draws the same place, from every kind of law."""
    rng = np.random.default_rng(7)
    asked: list[Any] = []
    expected: list[int] = []
    for name in TABLED:
        one = randomizer(name)
        fields, law = law_fields(one), one.law(1.0)
        top = law.steps
        spots = [
            (0, 0),
            (top, 0),
            *((int(rng.integers(top)), int(rng.integers(2**63)) * 2) for _ in range(40)),
        ]
        if isinstance(one.domain, Categories):
            spots = [(index, 0) for index, _ in spots]
        words = [
            0,
            WORD - 1,
            *(int(word) for word in rng.integers(2**64, size=40, dtype=np.uint64)),
        ]
        cases = list(zip(spots, words, strict=True))
        asked.append(
            [fields["law"], [[index, str(share), str(word)] for (index, share), word in cases]]
        )
        expected += [law.draw(index, share, Given([word])) for (index, share), word in cases]
    script = (
        f"const {{ draw }} = await import({json.dumps(CLIENT.as_uri())});\n"
        "const { readFileSync } = await import('node:fs');\n"
        "for (const [law, cases] of JSON.parse(readFileSync(0, 'utf8')))\n"
        "  for (const [index, share, word] of cases)\n"
        "    console.log(draw(law, index, BigInt(share), { next: () => BigInt(word) }));\n"
    )
    done = subprocess.run(
        [program("node"), "--input-type=module", "--eval", script, "none"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [int(line) for line in done.stdout.split()] == expected


@pytest.mark.parametrize("name", TABLED)
def test_right_draws_are_as_the_law(name: str) -> None:
    """Secure draws of every mechanism pass; false alarms below 1e-9 by the seed's own choice."""
    one = randomizer(name)
    readings: list[Any] = [0.0, 333.3] if one.domain is RANGE else ["a", "f"]
    draws = {}
    for reading in readings:
        spot = one.domain.spot(reading)
        values = np.full(20_000, reading if one.domain is RANGE else spot[0])
        draws[reading] = one.draw_many(values, rng=SeededRandom(f"{name} {reading}")).tolist()
    assert {row["verdict"] for row in compare_draws(one, draws)} == {"as the law"}


def test_a_budget_that_is_too_large_is_found() -> None:
    """Five per cent more than the law allows shows in 200,000 draws at an end of the range."""
    wrong = randomizer("duchi", 1.05).draw_many(np.zeros(200_000), rng=SeededRandom(3)).tolist()
    (row,) = compare_draws(randomizer("duchi"), {0.0: wrong})
    assert row["verdict"] == "not as the law"
    (row,) = compare_draws(randomizer("duchi"), {0.0: [0] * 400 + [7]})
    assert row["verdict"] == "place 7 is never drawn by this law"
    (row,) = compare_draws(randomizer("duchi"), {0.0: [0] * 20})
    assert row["verdict"] == "too few draws to compare"


def test_a_law_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of 64 bits are texts; unclamped noise has no table and says so."""
    assert (
        main(
            ["conformance", "law", "--mechanism", "randomized-response", "--categories", "on, off"]
        )
        == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["categories"] == ["on", "off"]
    assert document["law"]["kind"] == "window-and-bit"
    assert int(document["law"]["near"]) + int(document["law"]["far"]) == WORD
    assert main(["conformance", "law", "--mechanism", "laplace"]) == 2
    assert "must have a table" in capsys.readouterr().err
    assert main(["conformance", "law", "--mechanism", "none"]) == 2
    assert main(["conformance", "law", "--categories", "on,on"]) == 2


def test_a_file_of_draws_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Right draws end with 0, wrong ones with 7, and what is no such file with 2."""
    file = tmp_path / "draws.csv"
    law = ["--mechanism", "duchi"]
    places = randomizer("duchi").draw_many(np.zeros(5_000), rng=SeededRandom(1)).tolist()
    file.write_text("reading,place\n" + "".join(f"0,{place}\n" for place in places))
    assert main(["conformance", "check", str(file), *law]) == 0
    assert "0.0: 5000 draws, as the law" in capsys.readouterr().out
    file.write_text("reading,place\n" + "0,0\n" * 5_000)
    assert main(["conformance", "check", str(file), *law, "--json"]) == 7
    assert json.loads(capsys.readouterr().out)["is_right"] is False
    for text in (
        "time,value\n1,2\n",
        "reading,place\n",
        "reading,place\nx,1\n",
        "reading,place\n1,x\n",
    ):
        file.write_text(text)
        assert main(["conformance", "check", str(file), *law]) == 2
        assert "draws.csv must" in capsys.readouterr().err


class Bench:
    """Servers on a clock that is turned, one enrolled device, and what the inspector says."""

    def __init__(self, servers: Servers, campaign: Campaign, clock: FakeClock) -> None:
        self.servers, self.campaign, self.clock = servers, campaign, clock
        self.round = campaign.not_before
        (self.credential,) = servers.enrol([public_key_of(bytes(32))])
        self.inspector = Inspector(servers, campaign, Findings(as_json=False), clock)
        document = published_token_keys(servers.databases[Role.SHUFFLER], now_s=clock.now_s())
        key = key_in_round(
            [one.key for one in token_keys_from_bytes(document, servers.pinned)],
            campaign.id,
            self.round,
        )
        assert key is not None
        batch = TokenBatch(key, bytes(32))
        requests = requests_bytes([batch.request(bytes(32))])
        with httpx.Client(trust_env=False) as client:
            answer = client.post(
                f"{servers.registrar_url}{TOKENS_PATH}",
                content=requests,
                headers={"Content-Type": "application/cbor"},
            )
        ((_, signatures),) = cbor.decode(answer.content, max_size=1 << 20)
        self.tokens = batch.open(signatures)

    def seal(self, place: int = 0, **other: Any) -> bytes:
        """Seal a report as the campaign wants it, but for what is given."""
        configs = {
            role: key.config(not_before_s=0, not_after_s=1).public_key
            for role, key in self.servers.openers.items()
        }
        given: dict[str, Any] = {
            "epsilon_class": 0,
            "is_cover": False,
            "campaign_hash": campaign_hash(self.campaign),
            "shuffler_id": 1,
            "shuffler_key": configs[Role.SHUFFLER],
            "fusion_id": 1,
            "fusion_key": configs[Role.FUSION],
            "token": self.tokens[0],
            "keyset": 1,
        }
        round = other.pop("round", self.round)
        return seal_report(round, place, **(given | other))

    def look(self, report: bytes, *, status: int = 201, **other: Any) -> None:
        """Have an exchange looked at."""
        given: dict[str, Any] = {
            "server": "shuffler",
            "method": "POST",
            "path": "/v1/reports",
            "authorization": authorization_of(report, self.credential).encode(),
            "body": report,
            "status": status,
            "answer": b"",
        }
        self.inspector.look(Exchange(**(given | other)))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Real servers, with keys of windows that are kept."""
    clock = FakeClock(1_000_000_000)
    campaign = campaign_for(randomizer("duchi"), round_s=60, rounds=2, now_s=clock.now_s())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Issuer, "generate", staticmethod(issuer))
        with running_servers(tmp_path_factory.mktemp("bench"), clock, campaign=campaign) as servers:
            yield Bench(servers, campaign, clock)


def test_a_right_report_is_right(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Its place is named, since no owner's reading is behind it; a repeated one is right, too."""
    report = bench.seal(4096)
    bench.look(report)
    bench.look(report, status=200)
    bench.look(bench.seal(0, round=bench.round + 1, is_cover=True))
    assert capsys.readouterr().out.splitlines() == [
        f"ok: round {bench.round}: place 4096, token accepted.",
        f"ok: round {bench.round}: place 4096, token accepted.",
        f"ok: round {bench.round + 1}: a cover report.",
    ]


REFUSED = b'{"type": "urn:rase:problem:round-closed", "title": "Closed", "detail": "too late."}'


def test_each_fault_is_named(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a device can get wrong in a report is said in its own words."""
    late = {"round": bench.round + 2}
    faults: list[tuple[str, bytes, dict[str, Any]]] = [
        ("Authorization must be RASE", bench.seal(**late), {"authorization": b"Bearer x"}),
        (
            "not by a device",
            bench.seal(**late),
            {"authorization": b"RASE " + b"0" * 16 + b"." + b"0" * 32},
        ),
        ("must have", bench.seal(**late)[:-1], {}),
        ("belongs to another campaign", bench.seal(campaign_hash=bytes(32)), {}),
        (
            "outer envelope does not open",
            bench.seal(shuffler_key=bytes([9]) + bytes(31), **late),
            {},
        ),
        ("sealed for key 9", bench.seal(shuffler_id=9, **late), {}),
        ("inner envelope does not open", bench.seal(fusion_key=bytes([9]) + bytes(31), **late), {}),
        ("sealed for key 7", bench.seal(fusion_id=7, round=bench.round + 3), {}),
        ("epsilon classes", bench.seal(epsilon_class=1, round=bench.round + 4), {}),
        ("never drawn by duchi", bench.seal(17, round=bench.round + 5), {}),
        (
            "not signed by the key of its window",
            bench.seal(token=bytes([1]) * 288, round=bench.round + 6),
            {},
        ),
        ("a second, other report", bench.seal(round=bench.round + 6), {}),
        ("in an earlier report", bench.seal(round=bench.round + 8), {}),
        ("in no token window", bench.seal(round=bench.round + 10**6), {}),
        ("too late", bench.seal(round=bench.round + 7), {"status": 410, "answer": REFUSED}),
    ]
    for text, report, other in faults:
        bench.look(report, **other)
        line = capsys.readouterr().out
        assert line.startswith("wrong: POST /v1/reports at the shuffler: "), line
        assert text in line
