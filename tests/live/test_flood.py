"""A real intake under a flood: slow connections and wrong enrolments keep no honest device out."""

import resource
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from chaos.wallets import enrolled
from tests.enrolling import asked
from tests.live.installed import Fleet, Installed
from tests.patience import PATIENCE_S, until

from rase.clock import SystemClock
from rase.wire.keys import Role

SLOW = 1100
WRONG_A_SECOND = 640
SECONDS = 3


@pytest.mark.slow
def test_an_honest_device_gets_in_among_a_flood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,100 slow connections and 640 wrong enrolments a second: a device enrols and reports.

    The intake may open 1,024 files, as it did when so many connections silenced it.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        installed = Installed(tmp_path, capsys)
    finally:
        # The test itself needs a file for each slow connection.
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 8192), before[1]))
    try:
        installed.publish()
        ((token, approval),) = installed.admissions(1)
        fleet = Fleet(installed, 3, starts=False)
        host, port = installed.shuffler_url.removeprefix("http://").split(":")
        done, statuses = threading.Event(), list[int]()

        def guess() -> None:
            with httpx.Client(base_url=installed.shuffler_url, timeout=PATIENCE_S) as client:
                for number in range(WRONG_A_SECOND * SECONDS // 8):
                    if done.is_set():
                        return
                    with suppress(httpx.HTTPError):
                        wrong = asked(f"{number:016x}.guess")
                        statuses.append(client.post("/v1/enrolments", json=wrong).status_code)

        with ExitStack() as stack:
            for _ in range(SLOW):
                slow = stack.enter_context(socket.create_connection((host, int(port))))
                slow.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nX-")
            threads = [threading.Thread(target=guess) for _ in range(8)]
            began_s = SystemClock().monotonic_s()
            for thread in threads:
                thread.start()
            until(lambda: len(statuses) >= WRONG_A_SECOND // 2)
            assert enrolled(
                secret=bytes([77]) * 32,
                shuffler=installed.shuffler_url,
                registrar=installed.registrar_url,
                token=token,
                approval=approval,
            )
            enrolled_s = SystemClock().monotonic_s() - began_s
            round = fleet.tokened_round()
            assert fleet.send_together(round, places=[1, 2, 3]) == [201] * 3
            for thread in threads:
                thread.join()
            rate = len(statuses) / (SystemClock().monotonic_s() - began_s)
        done.set()
        assert set(statuses) <= {403, 429}
        until(lambda: bool(installed.rows(Role.FUSION, "SELECT n FROM answers")), logs=tmp_path)
        print(f"{len(statuses)} wrong, {rate:.0f} a second; enrolled after {enrolled_s:.2f} s")  # noqa: T201
    finally:
        installed.kill()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
