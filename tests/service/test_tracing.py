"""Spans reach a collector by OTLP, hold nothing that could tell, and never stop a server."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.patience import PATIENCE_S, until
from tests.service.spans import collected

from rase.cli import main
from rase.errors import ConfigurationError
from rase.fusion.settings import FusionSettings
from rase.service.settings import load_settings
from rase.service.telemetry import Telemetry
from rase.service.tracing import OtlpTracer, TraceSettings, send_spans


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Listen as an OTLP collector does; yield its address and what it was sent."""
    received: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_spans_reach_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, times, fields and the process arrive; nothing of the machine does."""
    monkeypatch.setattr("rase.service.tracing._TIMEOUT_S", PATIENCE_S)
    telemetry = Telemetry("shuffler")
    with collector() as (endpoint, received):
        settings = TraceSettings(endpoint=endpoint)
        with send_spans(telemetry, settings, process="shuffler closer"):
            with telemetry.span("close", campaign="homes", round=7) as span:
                span.add_fields(state="released")
            with telemetry.span("forward") as nothing:
                nothing.forget()
        until(lambda: bool(received))
    assert telemetry.tracer is None
    (resource,) = received[0].resource_spans
    told = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert set(told) == {"service.name", "service.version", "service.instance.id"}
    assert told["service.name"] == "rase-shuffler-closer"
    (one,) = resource.scope_spans[0].spans
    assert one.name == "close"
    assert one.parent_span_id == b""
    assert 0 < one.start_time_unix_nano <= one.end_time_unix_nano
    fields = {field.key: field.value for field in one.attributes}
    assert set(fields) == {"rase.campaign", "rase.round", "rase.state"}
    assert fields["rase.round"].int_value == 7


def test_without_a_collector_nothing_is_made() -> None:
    """Spans cost nothing and load nothing; their fields are checked all the same."""
    telemetry = Telemetry("fusion")
    with send_spans(telemetry, None, process="fusion"), telemetry.span("put", round=1) as span:
        assert telemetry.tracer is None
        with pytest.raises(ValueError, match="device"):
            span.add_fields(device=4)
    with pytest.raises(ValueError, match="value"), telemetry.span("put", value=1.5):
        pass


def test_of_an_error_only_its_kind_is_told() -> None:
    """A message may name a file or hold what was sent; it stays here."""
    telemetry = Telemetry("fusion", stream=StringIO())
    with (
        collected(telemetry, "fusion") as spans,
        pytest.raises(OSError, match="secret"),
        telemetry.span("put", round=3),
    ):
        raise OSError("secret")
    (one,) = spans
    assert one.fields == {"rase.round": 3, "error.type": "OSError"}
    assert "secret" not in one.text
    assert '"ERROR"' in one.text


@pytest.mark.parametrize("kind", ["away", "refusing"])
def test_a_collector_that_fails_costs_spans_only(
    kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The work goes on to its end, and what was lost is counted."""
    stream = StringIO()
    telemetry = Telemetry("fusion", stream=stream)
    with collector(status=400) as (refusing, _):
        endpoint = refusing if kind == "refusing" else "http://127.0.0.1:1/v1/traces"
        settings = TraceSettings(endpoint=endpoint)
        with send_spans(telemetry, settings, process="fusion"), telemetry.span("put", round=1):
            pass
    assert telemetry.counters() == {"rase_fusion_traces_failed_total": 1}
    assert stream.getvalue() == "fusion traces_not_sent count=1\n"
    assert capfd.readouterr() == ("", "")


def test_an_exporter_that_raises_stops_nothing() -> None:
    """Whatever goes wrong on the way to the collector is counted, and the server goes on."""

    class Broken(InMemorySpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            raise RuntimeError("secret")

    stream = StringIO()
    telemetry = Telemetry("fusion", stream=stream)
    tracer = OtlpTracer(Broken(), process="fusion", telemetry=telemetry)
    telemetry.tracer = tracer
    with telemetry.span("put"):
        pass
    tracer.close()
    assert telemetry.counters() == {"rase_fusion_traces_failed_total": 1}
    assert stream.getvalue() == "fusion traces_not_sent count=1\n"


def test_a_missing_package_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who asks for traces without the extra is told what to install; nothing is served."""
    assert main(["init", str(tmp_path / "made"), "--range", "0", "1", "--epsilon", "1"]) == 0
    config = next((tmp_path / "made").glob("**/fusion/rase.toml"))
    config.write_text(
        config.read_text() + '\n[fusion.traces]\nendpoint = "http://127.0.0.1:4318/v1/traces"\n'
    )
    module = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, module, None)
    capsys.readouterr()
    assert main(["fusion", "run", "--config", str(config), "--port", "0"]) == 3
    assert 'install it with: pip install "rase-iot[otlp]"' in capsys.readouterr().err


def test_an_endpoint_is_an_address() -> None:
    """Anything else is a mistake of the settings, told by name."""
    with pytest.raises(ConfigurationError, match=r"fusion\.traces\.endpoint"):
        load_settings(
            FusionSettings, "fusion", environment={"RASE_FUSION__TRACES__ENDPOINT": "collector"}
        )
