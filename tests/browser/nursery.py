"""A process that has loaded all that a site needs, and becomes sites: loading takes a second.

Started as ``python nursery.py FD``, with a socket over which it is told what to do: ``start PORT
FOLDER``, with a socket for the site's orders, answers the number of a new process; ``kill NUMBER``
kills one as a power cut would, and answers once nothing is left of it.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TextIO

__all__ = ["Nursery"]


class Nursery:
    """The process, as those see it who want sites."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(number)], pass_fds=[number]
            )

    def start(self, folder: Path, port: int) -> tuple[int, TextIO]:
        """Start a site; return its process and where it takes orders, once it listens."""
        orders, theirs = socket.socketpair()
        with orders, theirs:
            said = f"start {port} {folder}".encode()
            socket.send_fds(self._line, [said], [theirs.fileno()])
            pid = int(self._line.recv(64))
            file = orders.makefile("rw", encoding="utf-8")
        assert file.readline() == "listening\n"
        return pid, file

    def kill(self, pid: int) -> None:
        """Kill a site."""
        self._line.sendall(f"kill {pid}".encode())
        assert self._line.recv(64) == b"done"

    def close(self) -> None:
        """End; there must be no site any more."""
        self._line.close()
        self._process.wait()


def main() -> None:
    """Obey until the line is closed."""
    # Here, not above: who only asks for sites does not need it.
    from tests.browser import serving

    serving.warm()
    with socket.socket(fileno=int(sys.argv[1])) as line:
        while True:
            said, fds, _, _ = socket.recv_fds(line, 4096, 1)
            if not said:
                return
            word, number, *rest = said.decode().split(" ", 2)
            if word == "kill":
                os.kill(int(number), signal.SIGKILL)
                os.waitpid(int(number), 0)
                line.sendall(b"done")
                continue
            pid = os.fork()
            if pid == 0:
                line.close()
                with socket.socket(fileno=fds[0]) as orders:
                    file = orders.makefile("rw", encoding="utf-8")
                serving.serve(Path(rest[0]), int(number), orders=file, answers=file)
            os.close(fds[0])
            line.sendall(str(pid).encode())


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
