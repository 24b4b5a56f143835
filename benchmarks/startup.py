"""How long does it take to import rase, to be told what it can do, and to start a device?

As installed: every module was compiled once, whatever PYTHONDONTWRITEBYTECODE says here.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.harness import Row, Target, Timed, taken_in_turn
from benchmarks.loading.intakes import prepared, serving
from benchmarks.loading.setting import Fleet
from rase.clock import SystemClock
from rase.shuffler.enrolment import make_tokens
from rase.storage.opening import open_database

__all__ = ["rows"]

BARE = [sys.executable, "-c", "pass"]
# The whole command, told to end while it asks for its terms: that fetch is the last of it.
AGENT = """
import os, signal, sys
from rase.cli import main
from rase.transport.http import HttpTransport
ask = HttpTransport.get
def get(*arguments, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    return ask(*arguments, **options)
HttpTransport.get = get
sys.exit(main(["device", "run", "--folder", os.environ["FOLDER"]]))
"""


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare both with a bare interpreter."""
    repeats = 3 if quick else 25
    cases = (
        ("import rase", [sys.executable, "-c", "import rase"], 3.0),
        ("rase --help", [sys.executable, "-m", "rase", "--help"], 8.0),
    )
    with tempfile.TemporaryDirectory() as compiled:
        environment = _installed(Path(compiled))
        for what, command, limit in cases:
            yield _row(what, _timed(command, environment, repeats=repeats), limit)
        command = [sys.executable, "-c", AGENT]
        with _enrolled() as device:
            _run(command, environment | device)  # accepts the terms, which later starts check
            timed = _timed(command, environment | device, repeats=repeats)
    yield _row("rase device run, up to its first fetch over http", timed, 10.0)


def _installed(compiled: Path) -> dict[str, str]:
    """Return an environment in which modules are compiled once, not at every start."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment | {"PYTHONPYCACHEPREFIX": str(compiled)}


def _timed(command: list[str], environment: Mapping[str, str], *, repeats: int) -> Timed:
    return taken_in_turn(
        partial(_run, command, environment),
        partial(_run, BARE, environment),
        repeats=repeats,
        clock=_children_s,
    )


def _row(what: str, timed: Timed, limit: float) -> Row:
    return Row(
        what=what,
        against="bare interpreter",
        size="1 process",
        ratio=timed.ratio,
        means="its CPU time / that of python -c pass",
        target=Target("at most", limit),
        ours_s=timed.ours_s,
        theirs_s=timed.theirs_s,
        repeats=timed.repeats,
    )


@contextmanager
def _enrolled() -> Iterator[dict[str, str]]:
    """Enrol a device at a shuffler that runs; give the environment in which it starts."""
    with tempfile.TemporaryDirectory() as name:
        folder, fleet = Path(name), Fleet()
        address = folder / "shuffler.db"
        credentials = prepared(folder, fleet, devices=1, address=address)
        with closing(open_database(address, migrations="shuffler")) as database:
            expires_s = int(SystemClock().now_s()) + 3600
            (token,) = make_tokens(database, 1, expires_s=expires_s)
        (folder / "token").write_text(token, encoding="ascii")
        with serving(folder, credentials) as served:
            command = [sys.executable, "-m", "rase", "device", "enrol", f"--folder={name}/device"]
            command += [f"--shuffler=http://127.0.0.1:{served.ports[0]}", "--campaign=bench"]
            command += [f"--token-file={name}/token", "--report-epsilon=1", "--span-epsilon=24"]
            command += ["--total-epsilon=100", f"--fusion-key={fleet.pinned.fusion.hex()}"]
            command += [f"--shuffler-key={fleet.pinned.shuffler.hex()}", "--range", "0", "3000"]
            _run([*command, "--least-k=20"], os.environ)
            yield {"FOLDER": f"{name}/device", "RASE_DEVICE__COVER": "false"}


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        check=True,
    )


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
