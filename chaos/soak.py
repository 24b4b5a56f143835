"""A long steady load on a whole installation: memory and open files must stay where they are."""

import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from benchmarks.loading.generator import request

from chaos.evidence import INSTALLATION
from chaos.installation import Installation
from chaos.invariants import is_settled
from chaos.pressure import Pressure
from chaos.programs import TooLate, until
from rase.clock import SystemClock
from rase.lab.provenance import Measurement
from rase.wire.frames import authorization_of
from rase.wire.keys import Role
from rase.wire.messages import REPORT_TYPE, Content
from rase.wire.seal import seal_report
from rase.wire.signed import campaign_hash

__all__ = ["is_flat", "main", "soaked"]

_DEVICES: Final = 200
_AGENTS: Final = 2
_A_SECOND: Final = 150.0
_LOOK_S: Final = 5.0
_SLACK_BYTES: Final = 8 << 20


@click.command()
@click.option("--seconds", type=float, default=300.0, show_default=True, help="How long.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Where the result goes.")
def main(*, seconds: float, file: Path | None) -> None:
    """Load a whole installation steadily for long, and see whether it grows."""
    measurement = Measurement(INSTALLATION)
    figures = soaked(seconds, tell=lambda words: click.echo(words, err=True))
    document = {
        "schema": "rase.soak/1",
        **measurement.header(f"python -m chaos.soak --seconds {seconds:g}", seed=None),
        **figures,
    }
    text = json.dumps(document, indent=1)
    click.echo(text)
    if file is not None:
        file.write_text(text + "\n", encoding="utf-8")
    if document["failures"]:
        sys.exit(1)


def soaked(seconds: float, *, tell: Callable[[str], None]) -> dict[str, Any]:
    """Report for so long, once a round by each of 200 devices, and return what was held.

    Args:
        seconds: How long.
        tell: Is told how it goes.
    """
    with tempfile.TemporaryDirectory() as folder, Pressure() as pressure:
        installation = Installation(Path(folder), agents=_AGENTS)
        try:
            return _Soak(installation, pressure).run(seconds, tell)
        finally:
            installation.close()


def is_flat(held: list[int], *, slack: int) -> bool:
    """Return whether the last quarter is as high as the second, but for a tenth and some slack.

    The first quarter is left out: caches fill, and the first rounds come.

    Example:
        >>> is_flat([5, 9, 10, 10, 10, 10, 11, 10], slack=0)
        True
        >>> is_flat([5, 9, 10, 11, 12, 13, 14, 15], slack=0)
        False
    """
    quarter = len(held) // 4
    if quarter == 0:
        return True
    return median(held[-quarter:]) <= 1.1 * median(held[quarter : 2 * quarter]) + slack


class _Soak:
    def __init__(self, installation: Installation, pressure: Pressure) -> None:
        self._installation = installation
        self._pressure = pressure
        self._port = int(installation.url(Role.SHUFFLER).rpartition(":")[2])
        self._credentials, self._wallets = installation.enrolled(_DEVICES)
        self._accepted: dict[int, int] = {}
        self._statuses: Counter[int] = Counter()
        self._slowest_s = 0.0
        self._memory: dict[str, list[int]] = {name: [] for name in installation.all_programs()}
        self._files: dict[str, list[int]] = {name: [] for name in installation.all_programs()}
        self._is_over = threading.Event()

    def run(self, seconds: float, tell: Callable[[str], None]) -> dict[str, Any]:
        """Report until the time is over, and return what was seen."""
        clock = SystemClock()
        campaign, keyset = self._installation.agreed()
        watch = threading.Thread(target=self._watch)
        watch.start()
        self._wallets.keep_full()
        begin_s, last = clock.monotonic_s(), 0
        try:
            while clock.monotonic_s() < begin_s + seconds:
                ended = int(clock.now_s()) // campaign.round_s - 1
                if ended == last:
                    self._is_over.wait(0.05)
                    continue
                last = ended
                self._report(ended, campaign, keyset)
                if len(self._accepted) % 30 == 0:
                    tell(f"soak: {clock.monotonic_s() - begin_s:.0f} s, {dict(self._statuses)}")
        finally:
            lasted_s = clock.monotonic_s() - begin_s
            self._is_over.set()
            self._wallets.stop()
            watch.join()
        return self._judged(lasted_s)

    def _report(self, round: int, campaign: Any, keyset: Any) -> None:
        now_s = SystemClock().now_s()
        keys = {role: keyset.active(role, now_s=now_s) for role in (Role.SHUFFLER, Role.FUSION)}
        taken = (self._wallets.take(number, round) for number in range(_DEVICES))
        # Without tokens, as before the first window, there is nothing to send.
        tokens = [token for token in taken if token is not None]
        if len(tokens) < _DEVICES:
            return
        wires = [
            seal_report(
                Content(round, (997 * round + 31 * number) % campaign.steps, 0, token),
                campaign_hash=campaign_hash(campaign),
                shuffler=keys[Role.SHUFFLER],
                fusion=keys[Role.FUSION],
                keyset=keyset.version,
            )
            for number, token in enumerate(tokens)
        ]
        requests = [
            request(
                "/v1/reports",
                authorization_of(wire, credential),
                body=wire,
                media_type=REPORT_TYPE,
            )
            for wire, credential in zip(wires, self._credentials, strict=True)
        ]
        pressed = self._pressure.press(self._port, requests, a_second=_A_SECOND, connections=16)
        self._statuses += pressed.statuses
        self._accepted[round] = pressed.statuses[201]
        self._slowest_s = max(self._slowest_s, pressed.quantile_s(0.99))

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            for name, program in self._installation.all_programs().items():
                held = program.held()
                if held is not None:
                    self._memory[name].append(held[0])
                    self._files[name].append(held[1])

    def _judged(self, lasted_s: float) -> dict[str, Any]:
        failures = []
        try:
            until(
                lambda: is_settled(self._installation, set(self._accepted)),
                what="the end of all rounds",
                deadline_s=90,
            )
        except TooLate as error:
            failures.append(str(error))
        told = dict(self._installation.rows(Role.FUSION, "SELECT round, n FROM answers"))
        lost = sum(max(0, count - told.get(round, 0)) for round, count in self._accepted.items())
        doubled = sum(max(0, told.get(round, 0) - _DEVICES - _AGENTS) for round in self._accepted)
        if lost or doubled:
            failures.append(f"soak: {lost} reports lost, {doubled} doubled")
        failures += [
            f"soak: the memory of {name} grows: {[round(one / 2**20) for one in held]}"
            for name, held in self._memory.items()
            if not is_flat(held, slack=_SLACK_BYTES)
        ]
        failures += [
            f"soak: the open files of {name} grow: {held}"
            for name, held in self._files.items()
            if not is_flat(held, slack=8)
        ]
        return {
            "loaded_s": round(lasted_s),
            "rounds": len(self._accepted),
            "accepted": sum(self._accepted.values()),
            "lost": lost,
            "doubled": doubled,
            "statuses": {str(status): n for status, n in sorted(self._statuses.items())},
            "worst_round_p99_ms": round(1000 * self._slowest_s),
            "memory_mb": _over_time(self._memory, 2**20),
            "files": _over_time(self._files, 1),
            "failures": failures,
        }


def _over_time(held: dict[str, list[int]], unit: int) -> dict[str, dict[str, int]]:
    """Return of each process the medians of the second and the last quarter, and the most."""
    found = {}
    for name, values in held.items():
        quarter = max(len(values) // 4, 1)
        found[name] = {
            "early": round(median(values[quarter : 2 * quarter] or values) / unit),
            "late": round(median(values[-quarter:]) / unit),
            "most": round(max(values) / unit),
        }
    return found


if __name__ == "__main__":
    main()
