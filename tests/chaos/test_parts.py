"""The proxy harms what passes, the load is bounded, and the reader notices what is told wrongly."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from benchmarks.loading.generator import request
from chaos.disks import build_slow_disk, compiler, disk_variables
from chaos.pressure import Pressure
from chaos.programs import environment
from chaos.proxy import Harm, ToxicProxy
from chaos.reader import Reader
from chaos.soak import is_flat
from tests.patience import PATIENCE_S, until

ANSWER = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\nno"


@pytest.fixture
def port() -> Iterator[int]:
    """A server that answers every request with a refusal that does not say when to return."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def answer(connection: socket.socket) -> None:
            with closing(connection), suppress(OSError):
                while connection.recv(65536):
                    connection.sendall(ANSWER)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def ask(port: int) -> bytes:
    """Return what comes back for a request of more than two hundred bytes; empty if cut off."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"x" * 1000)
            return connection.recv(65536)
    except ConnectionError:
        return b""


@pytest.mark.parametrize(
    ("harm", "answer"),
    [("cut", b""), ("truncate", b""), ("reset", b""), ("delay", ANSWER)],
    ids=["cut", "truncate", "reset", "delay"],
)
def test_a_harmed_connection(port: int, harm: Harm, answer: bytes) -> None:
    """Harm is done while it is told so, and before and after everything passes."""
    proxy = ToxicProxy(port)
    try:
        assert ask(proxy.port) == ANSWER
        proxy.begin(harm)
        assert ask(proxy.port) == answer
        assert proxy.harmed >= 1
        proxy.end()
        assert ask(proxy.port) == ANSWER
    finally:
        proxy.close()


def test_a_load_counts_all_answers(port: int) -> None:
    """Statuses, times, and refusals that do not say when to try again."""
    with Pressure() as pressure:
        asked = [request("/v1/reports", "x", body=b"y")] * 40
        pressed = pressure.press(port, asked, a_second=400, connections=4)
    assert pressed.statuses == {429: 40}
    assert pressed.without_retry == 40
    assert len(pressed.took_s) == len(pressed.waited_s) == 40
    assert pressed.behind == 0
    assert 0 < pressed.quantile_s(0.5) <= pressed.quantile_s(0.99)


def test_a_reader_compares_what_it_was_told() -> None:
    """Rounds that changed, were told twice or never are named."""
    reader = Reader("http://127.0.0.1:1", "token")
    reader.stop()
    for round, mean in ((1, 5.0), (2, None), (3, 7.0), (3, 7.0)):
        reader._take(round, mean)
    assert reader.is_at(3)
    assert not reader.is_at(2)
    assert reader.against({1: 5.0, 3: 7.0}) == ["round 3 was told twice."]
    found = reader.against({1: 5.5, 3: 7.0, 4: 1.0})
    assert len(found) == 3
    assert found[2] == "round 4 was never told."


def test_growth_is_told_from_a_level() -> None:
    """A level with noise is flat; a line that rises is not; too few looks say nothing."""
    assert is_flat([10, 30, 31, 30, 31, 30, 31, 30], slack=0)
    assert not is_flat(list(range(100, 200, 2)), slack=0)
    assert is_flat([1, 9], slack=0)


@pytest.mark.needs("cc")
def test_a_slow_disk_is_waited_for(tmp_path: Path) -> None:
    """A preloaded process waits at each sync for as long as its file says, and not afterwards."""
    if compiler() is None:
        pytest.skip("the C compiler does not work: apt-get install gcc libc6-dev")
    library = build_slow_disk(tmp_path)
    variables = disk_variables(library, "one", {"LD_PRELOAD": ""})
    assert variables["LD_PRELOAD"] == str(library)

    def synced_s(pause_ms: str) -> float:
        (tmp_path / "one.disk").write_text(pause_ms)
        program = (
            "import os, sys, time\nbegin = time.perf_counter()\nos.fsync(1)\nos.fdatasync(1)\n"
            "print(time.perf_counter() - begin, file=sys.stderr)"
        )
        with (tmp_path / "file").open("w") as file:
            done = subprocess.run(
                [sys.executable, "-c", program],
                env=environment(variables),
                stdout=file,
                stderr=subprocess.PIPE,
                text=True,
                check=True,
            )
        return float(done.stderr)

    assert synced_s("300") >= 0.6
    # A true disk may be slow, too, but not each time.
    until(lambda: synced_s("0") < 0.6)
