"""The kinds of faults, each in words: what the harness and the page of evidence call them."""

from typing import Final

__all__ = ["KINDS"]

KINDS: Final = {
    "kill": "kill -9 of a process, and its start",
    "stop": "SIGSTOP of a process for longer than a lease, then SIGCONT",
    "stutter": "a process stopped for 80 of every 120 ms; stands for a slow machine",
    "network": "connections cut, delayed, truncated or reset by a proxy",
    "slow": "every sync of a process takes a fifth of a second to two seconds: a slow disk",
    "locked": "another writer holds the database for seconds",
    "full": "a disk (tmpfs) without a free byte",
    "readonly": "servers started on a disk that cannot be written",
    "clock": "the clock of one process jumps and comes back (libfaketime)",
    "keys": "an opening key is renewed and the old one expires while rounds go on",
    "database": "PostgreSQL crashes or restarts, or one of its processes is killed",
    "broker": "the MQTT broker is killed and started",
}
