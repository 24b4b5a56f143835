"""One process of Java for all sessions of the tests, and a Spark Connect server in it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rase.tables.spark_session import opened_session

__all__ = ["Java", "Server", "connect_server", "executor_logs", "write_settings"]

# Short work is compiled quickly rather than well, and its garbage collected by one thread.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# Executors log to stderr, as always; all that Java says is in the file, too.
_LOGS = """
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
rootLogger.appenderRef.file.ref = file
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{{1}}: %m%n%ex
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n%ex
"""


def write_settings(folder: Path) -> None:
    """Write Spark's settings into a folder, and make the folders that they name."""
    for name in ("events", "local", "conf"):
        (folder / name).mkdir()
    settings = {
        "spark.eventLog.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.local.dir": f"{folder}/local",
        "spark.ui.enabled": "false",
        # Files of shuffles stay until the session ends, whenever Java collects its garbage.
        "spark.cleaner.referenceTracking": "false",
        # Any free one: other workers may have pages of their own.
        "spark.ui.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": "quick_daemon",
        "spark.driver.extraJavaOptions": _QUICK_JAVA,
        "spark.executor.extraJavaOptions": _QUICK_JAVA,
    }
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "conf" / "spark-defaults.conf").write_text("".join(lines))
    (folder / "conf" / "log4j2.properties").write_text(_LOGS.format(file=folder / "spark.log"))


class Java:
    """The one process of Java, which the first session starts and ends.

    Args:
        stack: What closes that session, if nobody did before.
        folder: Where Spark keeps all its files.
    """

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.folder = folder
        self.process: Any = None
        self._stack = stack
        self._first: Any = None

    def started(self, master: str) -> Any:
        """Return the first session, which may have been stopped since; Java runs."""
        from pyspark import SparkContext

        if self._first is None:
            self._first = self._stack.enter_context(opened_session(master))
            gateway: Any = SparkContext._gateway
            self.process = gateway.proc
        return self._first

    def end(self) -> None:
        """Close the first session, and with it Java."""
        self._stack.close()

    @contextmanager
    def with_settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Let the sessions that are opened meanwhile have other settings."""
        from pyspark import SparkContext

        system = SparkContext._jvm.System
        before = {name: system.getProperty(name) for name in settings}
        for name, value in settings.items():
            system.setProperty(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    system.clearProperty(name)
                else:
                    system.setProperty(name, old)


@dataclass(frozen=True)
class Server:
    """A server of Spark Connect: its address, and where all its files are."""

    address: str
    folder: Path


@contextmanager
def connect_server(java: Java) -> Iterator[Server]:
    """Serve Spark Connect with two threads and with an operator's settings: nothing encrypted."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    folder = java.folder / "server"
    for name in ("events", "local"):
        (folder / name).mkdir(parents=True)
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        # Any free port, which the service tells: one chosen before could be lost until it starts.
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.local.dir": f"{folder}/local",
        # The session that started Java had it otherwise, and a key in a shuffle would not be seen.
        "spark.io.encryption.enabled": "false",
        "spark.shuffle.compress": "false",
    }
    with java.with_settings(settings):
        session = SparkSession.builder.master("local[2]").appName("server").getOrCreate()
        try:
            session.sparkContext.setLogLevel("INFO")
            service = getattr(
                SparkContext._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$"
            )
            port = getattr(service, "MODULE$").localPort()
            yield Server(f"sc://127.0.0.1:{port}", folder)
        finally:
            # A client sets it, and PySpark would then have no other session here.
            os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
            session.stop()


def executor_logs(session: Any) -> Path:
    """Return where executors of a local cluster log: next to Spark, by the application's name."""
    import pyspark

    name: str = session.sparkContext.applicationId
    return Path(pyspark.__file__).parent / "work" / name
