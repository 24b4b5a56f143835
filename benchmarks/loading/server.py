"""One server as a process of its own whose clock is set from outside, by lines on its input.

Each line is a time in seconds; it is answered by ``done`` when the server has that time and, if it
is the closer, has closed and forwarded all that is due.

Usage: python -m benchmarks.loading.server intake|closer|fusion FOLDER [FUSION_URL]
"""

import os
import pickle
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx

from benchmarks.loading.setting import Fleet, Shuffler, centre_of
from rase.clock import FakeClock
from rase.fusion.app import fusion_app
from rase.fusion.opening import BatchOpener
from rase.fusion.settings import FusionLimits, FusionPolicy
from rase.fusion.subscribers import add_subscriber
from rase.service.http import serve
from rase.service.telemetry import Telemetry
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.documents import Countersigner, Policy
from rase.shuffler.forward import HttpSender
from rase.shuffler.opening import OuterOpenerPool
from rase.shuffler.settings import LimitSettings
from rase.storage.sqlite import open_sqlite
from rase.wire.keys import Role


def main(part: str, folder: Path, url: str = "") -> None:
    """Serve until the input ends."""
    fleet: Fleet = pickle.loads((folder / "fleet").read_bytes())  # noqa: S301 - ours
    clock = FakeClock(float((folder / "begin").read_text(encoding="ascii")))
    {"intake": _intake, "closer": _closer, "fusion": _fusion}[part](folder, clock, fleet, url)


def _intake(folder: Path, clock: FakeClock, fleet: Fleet, _: str) -> None:
    telemetry = Telemetry("intake")
    with closing(open_sqlite(folder / "shuffler.db", migrations="shuffler")) as database:
        app = create_shuffler_app(
            database,
            clock,
            countersigner=Countersigner(
                database,
                key=fleet.signers[Role.SHUFFLER],
                pinned=fleet.pinned,
                policy=Policy(max_epsilon=1, max_window_budget=1, min_k_min=2),
            ),
            pinned=fleet.pinned,
            telemetry=telemetry,
            # Its minutes are the fake clock's: they last as long as the whole run.
            limits=LimitSettings(reports_per_minute=10**9),
        )
        threading.Thread(target=_follow, args=(clock,), daemon=True).start()
        serve(app, host="127.0.0.1", port=0, telemetry=telemetry)


def _fusion(folder: Path, clock: FakeClock, fleet: Fleet, _: str) -> None:
    telemetry = Telemetry("fusion")
    with (
        closing(open_sqlite(folder / "fusion.db", migrations="fusion")) as database,
        BatchOpener([fleet.openers[Role.FUSION]], processes=0) as opener,
    ):
        # A thousand rounds pass in less than a minute here; nobody is to be kept waiting.
        policy = FusionPolicy(limits=FusionLimits(questions_per_minute=10**9))
        centre = centre_of(
            database, clock, fleet, opener=opener, telemetry=telemetry, policy=policy
        )
        (folder / "token").write_text(add_subscriber(database, "bench"), encoding="ascii")
        threading.Thread(target=_follow, args=(clock,), daemon=True).start()
        serve(fusion_app(centre), host="127.0.0.1", port=0, telemetry=telemetry)


def _closer(folder: Path, clock: FakeClock, fleet: Fleet, url: str) -> None:
    with (
        closing(open_sqlite(folder / "shuffler.db", migrations="shuffler")) as database,
        OuterOpenerPool([fleet.openers[Role.SHUFFLER]]) as opener,
        closing(HttpSender(url, client=httpx.Client(trust_env=False))) as sender,
    ):
        shuffler = Shuffler(database, clock, fleet)
        closer = shuffler.closer(opener, sender, telemetry=Telemetry("closer"))
        print("closer listening port=0", file=sys.stderr, flush=True)

        def work() -> None:
            while closer.step():
                pass
            closer.tidy()

        _follow(clock, work)


def _follow(clock: FakeClock, work: Callable[[], None] | None = None) -> None:
    for line in sys.stdin:
        clock.jump(float(line) - clock.now_s())
        if work is not None:
            work()
        print("done", flush=True)
    if work is None:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
