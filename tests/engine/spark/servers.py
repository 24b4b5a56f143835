"""A Spark Connect server of one's own, for tests."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from benchmarks.loading.ports import held_port

from rase.clock import SystemClock

# Short work is compiled quickly rather than well, and its garbage collected by one thread.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_STARTS_WITHIN_S = 120


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start a server with two threads that keeps all its files in a folder; yield its address."""
    import pyspark

    for name in ("events", "local"):
        (folder / name).mkdir(parents=True)
    # Given back, it might be somebody else's before the server, which takes seconds, has it.
    port = held_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.local.dir": f"{folder}/local",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.ui.enabled": "false",
    }
    script = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(script), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONNECT_MODE": "0",
    }
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        try:
            _wait_for(process, port)
            yield f"sc://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)


def _wait_for(process: "subprocess.Popen[bytes]", port: int) -> None:
    clock, never = SystemClock(), Event()
    deadline = clock.monotonic_s() + _STARTS_WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None
            assert clock.monotonic_s() < deadline
            never.wait(0.1)
        else:
            return
