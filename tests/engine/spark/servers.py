"""A Spark Connect server of one's own, for tests."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

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
    settings = {
        # Any free port, which its log states: one chosen before could be lost until it starts.
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
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
            yield f"sc://127.0.0.1:{_port_of(process, folder / 'server.log')}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)


def executor_logs(session: Any) -> Path:
    """Return where executors of a local cluster log: next to Spark, by the application's name."""
    import pyspark

    name: str = session.sparkContext.applicationId
    return Path(pyspark.__file__).parent / "work" / name


def _port_of(process: "subprocess.Popen[bytes]", log: Path) -> int:
    """Wait until the server says that it listens, and return its port."""
    clock, never = SystemClock(), Event()
    deadline = clock.monotonic_s() + _STARTS_WITHIN_S
    while True:
        text = log.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"Spark Connect server started at: \S+:(\d+)\s", text):
            return int(found[1])
        assert process.poll() is None, text
        assert clock.monotonic_s() < deadline, text
        never.wait(0.1)
