"""Metrics keep Prometheus' rules, name no device, and are all documented."""

import io
import re
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S
from tests.programs import program

from rase.errors import ConfigurationError, StorageUnusable
from rase.service.metrics import COUNTERS, GAUGES, HISTOGRAMS, Gauge, exposition, served_metrics
from rase.service.telemetry import BOUNDS_S, Telemetry

ROOT = Path(__file__).parents[2]
SAMPLE = re.compile(r'([a-z_]+)(?:\{([a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*)\})? (-?[-0-9.e+]+)')
LABELS = {"campaign", "le", "problem", "process", "role", "version"}
# What f-strings in the source stand for.
EXPANDED = {
    "reports_{outcome.value}": ["reports_stored", "reports_repeated", "reports_ignored"],
    "batches_{answer.value}": ["batches_accepted", "batches_final", "batches_later"],
    "rounds_{closed.state}": ["rounds_released", "rounds_below_k"],
    "rounds_{state}": ["rounds_final", "rounds_withheld"],
}


def parsed(text: str) -> dict[str, dict[str, float]]:
    """Read the text format; fail if a line breaks its rules."""
    found: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert word in ("HELP", "TYPE")
            if word == "TYPE":
                kinds[name] = rest
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        timed = re.sub("_(bucket|sum|count)$", "", name)
        if kinds.get(timed) != "histogram":
            assert kinds[name] == ("counter" if name.endswith("_total") else "gauge")
        assert set(re.findall(r'([a-z_]+)="', labels or "")) <= LABELS
        found.setdefault(name, {})[labels or ""] = float(value)
    return found


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("process", COUNTERS)
def test_what_was_not_counted_is_zero(process: str) -> None:
    """Every counter is there from the start, with units and suffix as Prometheus wants them."""
    role = process.split(maxsplit=1)[0]
    text = exposition(Telemetry(role), process)
    done = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = parsed(text)
    for name in COUNTERS[process]:
        if name != "problems":
            assert found[f"rase_{role}_{name}_total"] == {"": 0.0}
    assert found["process_cpu_seconds_total"][""] > 0
    assert found["process_resident_memory_bytes"][""] > 1e6
    assert list(found["rase_build_info"].values()) == [1.0]


def test_problems_are_labels() -> None:
    """Refusals have one name, and their problem as label."""
    telemetry = Telemetry("fusion", stream=io.StringIO())
    telemetry.count("problem_round_closed", 3)
    telemetry.count("problem_http_404")
    telemetry.count("batches_received", 2)
    found = parsed(exposition(telemetry, "fusion"))
    assert found["rase_fusion_problems_total"] == {
        'problem="round-closed"': 3.0,
        'problem="http_404"': 1.0,
    }
    assert found["rase_fusion_batches_received_total"][""] == 2.0


def test_gauges_have_labels_and_may_fail() -> None:
    """A database that does not answer takes only its own gauges away."""
    name = "rase_fusion_last_round_reports"
    gauges = [Gauge(name, 5, {"campaign": "a"}), Gauge(name, 6, {"campaign": "b"})]
    found = parsed(exposition(Telemetry("fusion"), "fusion", lambda: gauges))
    assert found[name] == {'campaign="a"': 5.0, 'campaign="b"': 6.0}

    def failing() -> list[Gauge]:
        raise StorageUnusable("gone")

    found = parsed(exposition(Telemetry("fusion"), "fusion", failing))
    assert name not in found
    assert "rase_fusion_rounds_final_total" in found


def test_durations_are_histograms() -> None:
    """Each piece of work lies in the buckets from its own on, forgotten ones in none."""
    telemetry = Telemetry("shuffler", stream=io.StringIO())
    with telemetry.span("close", campaign="homes"), suppress(LookupError):
        raise LookupError
    with pytest.raises(KeyError), telemetry.span("close", campaign="homes"):
        raise KeyError
    with telemetry.span("close", campaign="homes") as span:
        span.forget()
    timed = telemetry.durations()["close"]
    timed.add(0.3)
    timed.add(1e6)
    assert sum(timed.counts) == 4
    assert (timed.counts[BOUNDS_S.index(0.5)], timed.counts[-1]) == (1, 1)
    found = parsed(exposition(telemetry, "shuffler closer"))
    name = "rase_shuffler_close_duration_seconds"
    buckets = found[f"{name}_bucket"]
    assert len(buckets) == len(BOUNDS_S) + 1
    assert list(buckets.values()) == sorted(buckets.values())
    assert buckets['le="+Inf"'] == found[f"{name}_count"][""] == 2
    assert found[f"{name}_sum"][""] >= 0
    assert found["rase_shuffler_forward_duration_seconds_count"][""] == 0


def test_a_process_without_http_serves_its_metrics() -> None:
    """Only /metrics is answered, on this machine; no port means no server."""
    with served_metrics(None, lambda: "") as nowhere:
        assert nowhere is None
    with served_metrics(0, lambda: "a 1\n") as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.read() == b"a 1\n"
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/")
        with pytest.raises(ConfigurationError, match="cannot be used"), served_metrics(port, str):
            pass


def test_every_metric_is_documented() -> None:
    """The reference names all metrics, and no others."""
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8").split("## Alerts")[0]
    documented = set(re.findall(r"\| `([a-z_]+)", page))
    names = {
        f"rase_{process.split()[0]}_{name}_total"
        for process, counters in COUNTERS.items()
        for name in counters
    }
    names |= {
        f"rase_{process.split()[0]}_{span}_duration_seconds"
        for process, spans in HISTOGRAMS.items()
        for span in spans
    }
    assert documented == names | set(GAUGES)


def test_every_counter_of_the_source_is_known() -> None:
    """What the servers count is in the list, so that it is told from the start and documented."""
    known = {name for counters in COUNTERS.values() for name in counters}
    counted = set()
    for folder in ("service", "shuffler", "fusion", "registrar"):
        for path in (ROOT / "src/rase" / folder).glob("*.py"):
            counted |= set(re.findall(r'telemetry\.count\(f?"([^"]+)"', path.read_text()))
    counted = {name for name in counted if not name.startswith("problem_")}
    assert len(counted) > 15
    for name in counted:
        assert set(EXPANDED.get(name, [name])) <= known, name
