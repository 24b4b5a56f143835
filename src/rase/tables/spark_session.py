"""Reach a Spark cluster, and say in one line what is missing where it cannot be reached.

A session opened here ends with the run, and with it whatever executors knew of the run's key.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from rase.errors import ConfigurationError, RaseError
from rase.version import __version__

__all__ = ["check_master", "in_words", "opened_session", "refusal"]

_PATIENCE_S = 5.0
_OLDEST_JAVA = 17
_MASTERS = re.compile(r"local(-cluster)?(\[[^]]+\])?|yarn|(spark|k8s|sc)://.+")
_PORTS = {"spark": 7077, "k8s": 443, "sc": 15002}
_SETTINGS = {
    # Blobs are large: a few to a batch.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32",
}
_OWN_SETTINGS = {
    # Whatever Spark puts on a disk, it encrypts with a key that it keeps in memory.
    "spark.io.encryption.enabled": "true",
    # Noise cannot be compressed.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def check_master(master: str) -> None:
    """Refuse a text that is not an address, or where nobody answers.

    Raises:
        ConfigurationError: With the way out.
    """
    if not _MASTERS.fullmatch(master):
        raise _setup_refused(
            "master must be local[N], local-cluster[N,CORES,MB], yarn, spark://HOST:PORT, "
            f"k8s://HOST:PORT or sc://HOST, got {_shown(master)!r}."
        )
    if not master.startswith("sc://"):
        _check_java()
    scheme, separator, rest = master.partition("://")
    if not separator:
        return
    # A standalone cluster may have several masters, one of which leads.
    places = [urlsplit(f"//{place.split('://')[-1]}") for place in rest.split(",")]
    if not any(_answers(place.hostname, place.port or _PORTS[scheme]) for place in places):
        raise _setup_refused(
            f"nobody answers at {_shown(master)}; check the address, that the cluster runs, or use "
            "--master local[2]."
        )


@contextmanager
def opened_session(master: str, *, workers: int | None = None) -> Iterator[Any]:
    """Open a session of one's own, and end all of it in the end.

    Args:
        master: Where the cluster is; an address of Spark Connect begins with ``sc://``.
        workers: How many executors; None for what the cluster's settings say.

    Raises:
        ConfigurationError: If pyspark or Java is missing, or the cluster does not answer.
    """
    check_master(master)
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise _setup_refused(
            f'--engine spark needs {error.name}; pip install "rase-iot[spark]".'
        ) from error
    builder = SparkSession.builder.appName("rase")
    if master.startswith("sc://"):
        with in_words(master):
            session = builder.remote(master).create()
        try:
            for name, value in _SETTINGS.items():
                session.conf.set(name, value)
            yield session
        finally:
            with suppress(Exception):
                session.stop()
        return
    settings = {**_SETTINGS, **_OWN_SETTINGS, **_sizes(master, workers)}
    with _gateway_ended(), _python_of_driver(master):
        with in_words(master):
            builder = builder.master(master)
            for name, value in settings.items():
                builder = builder.config(name, value)
            session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def in_words(master: str) -> Iterator[None]:
    """Turn what Spark says into one line."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, _java_error(), _remote_error()) as error:
        raise refusal(str(error), master) from error


def refusal(says: str, master: str) -> RaseError:
    """Return a refusal that quotes nothing which a table may hold."""
    for pattern, words in _REASONS.items():
        found = re.search(pattern, says)
        if found:
            versions = {"python": "{}.{}".format(*sys.version_info), "version": __version__}
            return _setup_refused(words.format(*found.groups(), master=_shown(master), **versions))
    kind = re.search(r"\b([A-Z]\w*(?:Error|Exception))\b", says)
    return RaseError(
        f"Spark stopped the job with {kind[1] if kind else 'an error'}; the logs of driver and "
        "executors say more. Nothing was released."
    )


# What Spark says, and what it means.
_REASONS = {
    "PYTHON_VERSION_MISMATCH": (
        "the driver runs Python {python} and the executors another; give both the same, and name "
        "that of the executors with PYSPARK_PYTHON."
    ),
    r"No module named '([\w.]+)'": (
        "the executors have no module {}; install the same there with pip install "
        '"rase-iot[spark]=={version}", and name that Python with PYSPARK_PYTHON.'
    ),
    "executors must run the code of the driver": (
        "the executors have other code of rase than the driver; install the same there with pip "
        'install "rase-iot[spark]=={version}".'
    ),
    "Cannot run program": (
        "the executors cannot start their Python; name one that is there with PYSPARK_PYTHON."
    ),
    "OutOfMemory|ExecutorLostFailure|MemoryError": (
        "executors were lost, probably for want of memory; give a smaller --memory, or more to the "
        "executors (spark.executor.memory, spark.executor.memoryOverhead)."
    ),
    "SparkContext was shut down|unresponsive": (
        "the cluster at {master} ended the job; see its page and logs."
    ),
}


def _shown(master: str) -> str:
    """Return an address without what may follow it: a token, a user."""
    return master.partition(";")[0]


def _setup_refused(words: str) -> ConfigurationError:
    return ConfigurationError([words])


def _java_error() -> type[Exception]:
    from py4j.protocol import Py4JError

    error: type[Exception] = Py4JError
    return error


def _remote_error() -> type[Exception]:
    try:
        from grpc import RpcError
    except ModuleNotFoundError:
        return _java_error()
    error: type[Exception] = RpcError
    return error


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    way_out = "install one, as with apt install openjdk-17-jre-headless, or set JAVA_HOME."
    if java is None:
        where = f"there is none in JAVA_HOME={home}" if home else "there is none on PATH"
        raise _setup_refused(f"Spark needs Java {_OLDEST_JAVA} or newer, {where}; {way_out}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - what PATH or JAVA_HOME name
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        found = version[1] if version else "one that does not start"
        raise _setup_refused(
            f"Spark needs Java {_OLDEST_JAVA} or newer, got {found} at {java}; {way_out}"
        )


def _answers(host: str | None, port: int) -> bool:
    try:
        with socket.create_connection((host or "", port), timeout=_PATIENCE_S):
            return True
    except OSError:
        return False


def _sizes(master: str, workers: int | None) -> dict[str, str]:
    if workers is None:
        return {}
    if master.startswith("spark://"):
        return {"spark.executor.cores": "1", "spark.cores.max": str(workers)}
    return {"spark.executor.instances": str(workers)}


@contextmanager
def _python_of_driver(master: str) -> Iterator[None]:
    """Let executors on this machine run the driver's Python, unless another was named."""
    is_named = "PYSPARK_PYTHON" in os.environ or not master.startswith("local")
    if not is_named:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        if not is_named:
            os.environ.pop("PYSPARK_PYTHON", None)


@contextmanager
def _gateway_ended() -> Iterator[None]:
    """End the Java process of a session in the end, unless it was there before.

    PySpark keeps it for the next session; but it has seen the run's key.
    """
    from pyspark import SparkContext

    was_there = SparkContext._gateway is not None
    try:
        yield
    finally:
        gateway = SparkContext._gateway
        if gateway is not None and not was_there:
            SparkContext._gateway = SparkContext._jvm = None
            gateway.shutdown()
            process = gateway.proc
            # It ends when nobody writes to it any more.
            process.stdin.close()
            _end(process.wait, process.kill)


def _end(wait: Callable[..., object], kill: Callable[[], None]) -> None:
    try:
        wait(timeout=60)
    except subprocess.TimeoutExpired:
        kill()
        wait(timeout=60)
