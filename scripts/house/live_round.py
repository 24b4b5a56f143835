"""One round of a live system in one process: three devices, both servers, a subscriber.

Run by `scripts.house.way.way_of_round` in a process of its own, as ``python live_round.py SOURCE``.
The first round warms caches and connections up; the functions of the second one are listed. Only
the clock is made up; all that passes between the programs passes as HTTP.
"""

import io
import json
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

_DEVICES = 3
_ROUND_S = 3600
_FIRST = 490_000
_PATIENCE_S = 60.0


class Tracer:
    """Note the functions of a source tree that are called, in every thread, while it is on.

    Args:
        source: The folder of the package.
    """

    def __init__(self, source: str) -> None:
        self.is_on = False
        self.called: set[tuple[str, str]] = set()
        self._source = source

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; lambdas and comprehensions belong to their function."""
        code = frame.f_code
        if not self.is_on or event != "call" or not code.co_filename.startswith(self._source):
            return
        if not code.co_name.startswith("<"):
            self.called.add((code.co_filename[len(self._source) + 1 :], code.co_qualname))


def main(source: str) -> None:
    """Live through two rounds; print the functions of the second as JSON."""
    tracer = Tracer(source)
    threading.setprofile(tracer.note)
    sys.setprofile(tracer.note)
    from rase.campaign import Campaign
    from rase.cli.demo.servers import running_servers
    from rase.clock import FakeClock

    campaign = Campaign(
        id="street-power",
        version=1,
        quantity="power",
        unit="W",
        low=0,
        high=3000,
        mechanism="optimal",
        epsilon=(1.0,),
        window=24,
        window_budget=24.0,
        round_s=_ROUND_S,
        upload_s=60,
        grace_s=300,
        k_min=_DEVICES,
        estimators=("unbiased_mean", "tracked"),
        not_before=_FIRST,
        not_after=_FIRST + 100,
    )
    # Two rounds before the first: tokens are fetched before their window begins.
    clock = FakeClock(_ROUND_S * (_FIRST - 2))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        servers = stack.enter_context(running_servers(folder, clock, campaign=campaign))
        agents = [stack.enter_context(_agent(folder, servers, clock, n)) for n in range(_DEVICES)]
        _fetch_tokens(clock, agents)
        for round in (_FIRST, _FIRST + 1):
            tracer.is_on = round > _FIRST
            _live(round, campaign, clock, servers=servers, agents=agents)
        tracer.is_on = False
    sys.setprofile(None)
    print(json.dumps(sorted(tracer.called)))


def _agent(folder: Path, servers: Any, clock: Any, number: int) -> Any:
    from contextlib import contextmanager

    from rase.accounting.ledger import Ledger, OwnerLimits, create_ledger
    from rase.device.agent import Agent
    from rase.device.journal import LineJournal
    from rase.device.memory import Memory
    from rase.device.sources.function import FunctionSource
    from rase.device.state import DeviceState, StateFile
    from rase.device.terms import OwnerRules, Terms
    from rase.device.tokens import TokenFetcher
    from rase.kernels.entropy import SecureEntropy
    from rase.transport.http import HttpTransport
    from rase.wire.signed import public_key_of

    @contextmanager
    def opened() -> Any:
        secret = bytes([number + 1]) * 32
        (credential,) = servers.enrol([public_key_of(secret)])
        path = folder / f"ledger-{number}.db"
        create_ledger(path)
        state = StateFile(folder / f"state-{number}.json")
        state.save(DeviceState())
        limits = OwnerLimits(report_epsilon=1.0, span_epsilon=24.0, total_epsilon=100.0)
        rules = OwnerRules(report_epsilon=1.0)
        with Ledger(path, limits) as ledger:
            terms = Terms("street-power", pinned=servers.pinned, rules=rules)
            journal = LineJournal(io.StringIO(), clock)
            tokens = TokenFetcher(
                ledger,
                HttpTransport(servers.registrar_url),
                secret=secret,
                campaign="street-power",
                pinned=servers.pinned,
                clock=clock,
                entropy=SecureEntropy(),
                journal=journal,
            )
            yield Agent(
                Memory(terms, state),
                ledger,
                tokens=tokens,
                transport=HttpTransport(servers.shuffler_url),
                source=FunctionSource(lambda: 100.0 * number),
                credential=credential,
                clock=clock,
                entropy=SecureEntropy(),
                journal=journal,
            )

    return opened()


def _fetch_tokens(clock: Any, agents: Any) -> None:
    for _ in range(20):
        for agent in agents:
            agent.step()
        clock.advance(_ROUND_S / 11)


def _live(round: int, campaign: Any, clock: Any, *, servers: Any, agents: Any) -> None:
    clock.advance(round * campaign.round_s + 600 - clock.now_s())
    for agent in agents:
        agent.step()
    clock.advance(campaign.round_end_s(round) + 0.001 - clock.now_s())
    while clock.now_s() < campaign.upload_end_s(round) + 2:
        for agent in agents:
            agent.step()
        clock.advance(1.0)
    clock.advance(campaign.closes_s(round) + 0.001 - clock.now_s())
    servers.has_final.clear()
    while servers.closer.step():
        continue
    if not servers.has_final.wait(_PATIENCE_S):
        raise RuntimeError(f"round {round} did not become final.")
    answer = servers.subscriber.average(at=1000 * campaign.round_s * round)
    if answer.n != len(agents):
        raise RuntimeError(f"round {round} has {answer.n} reports.")


if __name__ == "__main__":
    main(sys.argv[1])
