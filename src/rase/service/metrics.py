"""Metrics for Prometheus: counters, gauges and histograms in its text format, version 0.0.4.

Base units, ``_total`` for counters, labels of few values; a device is never one. The format is some
lines of text, so no package is needed for it.
"""

import math
import resource
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from rase.errors import ConfigurationError, StorageError
from rase.service.telemetry import BOUNDS_S, Durations, Telemetry
from rase.version import __version__

__all__ = [
    "CONTENT_TYPE",
    "COUNTERS",
    "GAUGES",
    "HISTOGRAMS",
    "Gauge",
    "Gauges",
    "exposition",
    "served_metrics",
]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_TRACES_FAILED: Final = "Groups of spans that the collector did not accept."
_REFUSED: Final = "Connections refused because of a limit, in total or per address."
_SLOW: Final = (
    "Connections closed because headers or body took too long, or to make room for others."
)
# By server and process, each counter without prefix and suffix, and what it counts.
COUNTERS: Final[Mapping[str, Mapping[str, str]]] = {
    "shuffler intake": {
        "reports_stored": "Reports that were stored.",
        "reports_repeated": "Reports that were sent again although already stored.",
        "reports_ignored": "Second, different reports from a device in the same round.",
        "reports_closed": "Reports whose round closed while they were waiting.",
        "commits": "Transactions that stored reports.",
        "enrolments": "Devices that enrolled.",
        "problems": "Refusals, by problem.",
        "mqtt_messages": "Messages received from the broker.",
        "broker_connections": "Connections made to the broker.",
        "closer_deaths": "Exits of the closer process of this server.",
        "connections_refused": _REFUSED,
        "connections_slow": _SLOW,
        "traces_failed": _TRACES_FAILED,
    },
    "shuffler closer": {
        "rounds_released": "Rounds that were closed and released.",
        "rounds_below_k": "Rounds that were closed below k_min.",
        "rounds_carried": "Rounds closed below k_min whose reports are carried over.",
        "reports_released": "Reports in released rounds.",
        "reports_unopened": "Reports that could not be opened.",
        "reports_cover": "Cover reports dropped.",
        "reports_carried": "Reports carried over, counted at each close.",
        "reports_dropped": "Reports dropped below k_min, or replaced by a newer one of the device.",
        "reports_minority": "Reports sealed for other keys than the rest of their round.",
        "batches_accepted": "Batches that the fusion centre accepted.",
        "batches_refused": "Refusals of a batch by the fusion centre.",
        "batches_no_key": "Refusals of a batch because the fusion centre does not hold its key.",
        "key_reloads_failed": "Changed key files that could not be read.",
        "batches_final": "Batches refused because their round was final.",
        "batches_later": "Failed attempts to send a batch that will be repeated.",
        "leases_lost": "Rounds that another closer took over.",
        "closer_failures": "Steps of the closer that failed.",
        "traces_failed": _TRACES_FAILED,
    },
    "registrar": {
        "certificates": "Certified devices.",
        "token_keys": "Keys of token windows that the shuffler signed.",
        "tokens_issued": "Signed tokens, including repeated ones.",
        "tokens_refused": "Refused requests for tokens.",
        "upkeep_failed": "Failed attempts to make or publish keys of token windows.",
        "connections_refused": _REFUSED,
        "connections_slow": _SLOW,
        "problems": "Refusals, by problem.",
    },
    "fusion": {
        "batches_received": "Batches stored.",
        "batches_known": "Batches sent again although already stored.",
        "key_reloads_failed": "Changed key files that could not be read.",
        "rotations_failed": "Steps of an automatic rotation that failed.",
        "batches_extra": "More batches of a round than an honest shuffler sends.",
        "batches_late": "Batches that arrived after their round was final, and are in no estimate.",
        "envelopes_refused": "Envelopes of a batch that could not be read.",
        "envelopes_replayed": "Envelopes that the round already contained.",
        "reports_without_token": "Reports without a token of their window, or with a spent token.",
        "rounds_final": "Rounds whose estimate became final.",
        "rounds_withheld": "Rounds that became final without an estimate.",
        "rounds_failed": "Rounds that could not be estimated.",
        "ticks_failed": "Failed checks for due rounds.",
        "streams_failed": "Event streams that failed.",
        "connections_refused": _REFUSED,
        "connections_slow": _SLOW,
        "alarms_delivered": "Changes of alarms that were delivered.",
        "alarms_failed": "Failed attempts to look at alarms or to deliver one.",
        "estimates_published": "Estimates published to the broker.",
        "broker_connections": "Connections made to the broker.",
        "problems": "Refusals, by problem.",
        "traces_failed": _TRACES_FAILED,
    },
}
# By server and process, each span that is timed, and what it is the duration of.
HISTOGRAMS: Final[Mapping[str, Mapping[str, str]]] = {
    "shuffler intake": {"intake": "Storing the reports of one commit."},
    "shuffler closer": {
        "close": "Opening, permuting and releasing one round.",
        "forward": "One attempt to send a batch.",
    },
    "registrar": {},
    "fusion": {
        "put": "Storing a batch.",
        "finalise": "Making due rounds final.",
        "question": "Answering one question of a subscriber, streams left out.",
    },
}
GAUGES: Final[Mapping[str, str]] = {
    "rase_build_info": "Always 1; release and process as labels.",
    "process_cpu_seconds_total": "Processor time of this process, in seconds.",
    "process_resident_memory_bytes": "Resident memory of this process, in bytes.",
    "rase_shuffler_devices": "Devices that may send.",
    "rase_shuffler_rounds_waiting": "Rounds not closed yet.",
    "rase_shuffler_rounds_due": "Rounds that should be closed but are not.",
    "rase_shuffler_closers": "Running closers.",
    "rase_shuffler_backlog_seconds": "Age of the oldest round that the fusion centre lacks.",
    "rase_shuffler_backlog_rounds": "The same, in rounds of its campaign.",
    "rase_shuffler_batches_waiting": "Batches waiting to be sent to the fusion centre.",
    "rase_shuffler_batches_stuck": "Batches that the fusion centre refused.",
    "rase_fusion_last_round_timestamp_seconds": "When the newest final round began.",
    "rase_fusion_rounds_behind": "Rounds that should be final but are not.",
    "rase_fusion_keys_missing": "Published keys that a running process does not hold.",
    "rase_fusion_last_round_reports": "Reports in the newest final round; 0 if it was withheld.",
}


class Gauge(NamedTuple):
    """A current value, with labels that never name a device."""

    name: str
    value: float
    labels: Mapping[str, str] = {}


Gauges = Callable[[], Iterable[Gauge]]


def exposition(telemetry: Telemetry, process: str, gauges: Gauges = tuple) -> str:
    """Return all metrics of a process as text.

    Args:
        telemetry: Its counters.
        process: One of `COUNTERS`; what it has not counted yet is 0.
        gauges: What else it shows; left out while its database does not answer.
    """
    prefix = f"rase_{telemetry.role}_"
    counted: dict[str, dict[str, int]] = {f"{prefix}{name}_total": {} for name in COUNTERS[process]}
    for name, count in telemetry.counters().items():
        if name.startswith(f"{prefix}problem_"):
            problem = name.removeprefix(f"{prefix}problem_").removesuffix("_total")
            counted.setdefault(f"{prefix}problems_total", {})[_label(problem)] = count
        else:
            counted.setdefault(name, {})[""] = count
    lines = []
    for name, samples in sorted(counted.items()):
        short = name.removeprefix(prefix).removesuffix("_total")
        lines += _head(name, COUNTERS[process].get(short, "Not documented."), "counter")
        if not samples and short != "problems":
            samples[""] = 0
        lines += [f"{name}{label} {count}" for label, count in sorted(samples.items())]
    lines += _histogram_lines(telemetry, HISTOGRAMS[process])
    lines += _gauge_lines([*_own(telemetry.role, process), *_read_gauges(gauges)])
    return "\n".join(lines) + "\n"


@contextmanager
def served_metrics(port: int | None, text: Callable[[], str]) -> Iterator[int | None]:
    """Serve metrics of a process that has no HTTP of its own, on this machine only.

    Args:
        port: Where; None for nowhere.
        text: Makes the answer.

    Raises:
        ConfigurationError: If the port cannot be used.
    """
    if port is None:
        yield None
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text().encode() if self.path == "/metrics" else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing: a line would name the address of the peer."""

    try:
        server = _Server(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ConfigurationError(
            [f"metrics port {port} cannot be used: {error.strerror}."]
        ) from None
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    """Serve few and trusted askers."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a line would name the address of the peer."""


def _histogram_lines(telemetry: Telemetry, described: Mapping[str, str]) -> Iterator[str]:
    """Yield each duration as a histogram; those not measured yet are 0."""
    timed = telemetry.durations()
    for span in sorted(described.keys() | timed.keys()):
        name, one = f"rase_{telemetry.role}_{span}_duration_seconds", timed.get(span, Durations())
        yield from _head(name, described.get(span, "Not documented."), "histogram")
        counts = list(accumulate(one.counts))
        for bound, count in zip([*BOUNDS_S, math.inf], counts, strict=True):
            yield f'{name}_bucket{{le="{"+Inf" if bound == math.inf else f"{bound:g}"}"}} {count}'
        yield f"{name}_sum {one.total_s!r}"
        yield f"{name}_count {counts[-1]}"


def _label(problem: str) -> str:
    # http_404 and the like have no name of their own; all others are written with hyphens.
    name = problem if problem.startswith("http_") else problem.replace("_", "-")
    return f'{{problem="{name}"}}'


def _read_gauges(gauges: Gauges) -> list[Gauge]:
    try:
        return list(gauges())
    except StorageError:
        return []


def _own(role: str, process: str) -> list[Gauge]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    own = [
        Gauge("rase_build_info", 1, {"process": process, "role": role, "version": __version__}),
        Gauge("process_cpu_seconds_total", used.ru_utime + used.ru_stime),
    ]
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        memory = float(pages * resource.getpagesize())
        own.append(Gauge("process_resident_memory_bytes", memory))
    return own


def _gauge_lines(gauges: Iterable[Gauge]) -> list[str]:
    lines, seen = [], set()
    for gauge in sorted(gauges, key=lambda one: one.name):
        if gauge.name not in seen:
            seen.add(gauge.name)
            kind = "counter" if gauge.name.endswith("_total") else "gauge"
            lines += _head(gauge.name, GAUGES[gauge.name], kind)
        words = ",".join(f'{name}="{value}"' for name, value in sorted(gauge.labels.items()))
        label = f"{{{words}}}" if words else ""
        lines.append(f"{gauge.name}{label} {gauge.value!r}")
    return lines


def _head(name: str, text: str, kind: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
