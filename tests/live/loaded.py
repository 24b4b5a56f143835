"""A process that has loaded the programs and becomes them: loading one takes a second.

Started as ``python loaded.py FD``, with a socket over which it is asked for programs. What comes of
it is a process like any other, with a standard input, a log and a death of its own; only the start
of the interpreter and the imports are spared. `tests/live/running.py`, chaos and the demonstration
start ``python -m rase`` itself.
"""

import atexit
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

__all__ = ["Program", "start_program"]

_ROOMS = ("device", "shuffler", "fusion", "registrar", "service", "storage", "wire", "transport")
_COMMANDS = ("rase.cli.device", "rase.cli.fusion", "rase.cli.registrar", "rase.cli.shuffler")


class Program:
    """A running program, to be used like a `subprocess.Popen`.

    Args:
        pid: The process.
        stdin: The other end of its standard input.
    """

    def __init__(self, pid: int, stdin: IO[bytes]) -> None:
        self.pid, self.stdin = pid, stdin
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self._code is None:
            self._code = _loaded().ask({"poll": self.pid})
        return self._code

    def wait(self, timeout: float) -> int:
        """Return the exit code once it has ended.

        Raises:
            TimeoutError: If it does not end in so many seconds.
        """
        if self.poll() is None:
            handle = os.pidfd_open(self.pid)
            try:
                ended, _, _ = select.select([handle], [], [], timeout)
            finally:
                os.close(handle)
            if not ended:
                raise TimeoutError(f"a program did not end in {timeout} s.")
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


def start_program(
    arguments: Sequence[str], *, log: IO[bytes], environment: Mapping[str, str]
) -> Program:
    """Start ``rase`` with these arguments; what it prints goes to a file."""
    theirs, ours = os.pipe()
    try:
        asked = {"start": list(arguments), "environment": dict(environment)}
        pid = _loaded().ask(asked, [theirs, log.fileno()])
    finally:
        os.close(theirs)
    return Program(pid, os.fdopen(ours, "wb"))


class _Loaded:
    """The process that has loaded all, as those see it who want programs."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(number)], pass_fds=[number]
            )
        self._turn = threading.Lock()
        atexit.register(self._close)

    def ask(self, what: Mapping[str, object], files: Sequence[int] = ()) -> Any:
        """Ask for something, and return the answer."""
        with self._turn:
            socket.send_fds(self._line, [json.dumps(what).encode()], list(files))
            return json.loads(self._line.recv(1 << 16))

    def _close(self) -> None:
        self._line.close()
        self._process.wait()


@cache
def _loaded() -> _Loaded:
    return _Loaded()


def main() -> None:
    """Obey until the line is closed."""
    for room in _ROOMS:
        package = import_module(f"rase.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"rase.{room}."):
            import_module(found.name)
    for command in _COMMANDS:
        import_module(command)
    codes: dict[int, int] = {}
    with socket.socket(fileno=int(sys.argv[1])) as line:
        while True:
            said, files, _, _ = socket.recv_fds(line, 1 << 18, 2)
            if not said:
                return
            asked = json.loads(said)
            if "start" in asked:
                pid = os.fork()
                if pid == 0:
                    line.close()
                    _become(asked["start"], asked["environment"], *files)
                for file in files:
                    os.close(file)
                answer: int | None = pid
            else:
                answer = _code_of(asked["poll"], codes)
            line.sendall(json.dumps(answer).encode())


def _become(arguments: Sequence[str], environment: Mapping[str, str], *files: int) -> None:
    """Be the program, and end with its exit code."""
    for file, standard in zip((files[0], files[1], files[1]), range(3), strict=True):
        os.dup2(file, standard)
    for file in set(files):
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    from rase.cli import main as run

    code = 1
    try:
        code = int(run(list(arguments)) or 0)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _code_of(pid: int, codes: dict[int, int]) -> int | None:
    if pid not in codes:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return None
        codes[pid] = os.waitstatus_to_exitcode(status)
    return codes[pid]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
