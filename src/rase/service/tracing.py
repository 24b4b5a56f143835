"""Spans to a collector by OTLP over HTTP, where the operator names one; otherwise nothing is made.

What a span may hold is decided in `rase.service.telemetry`: its name and a few fields, none of
which can be a device, a subscriber or a value. No context is taken from requests and none is passed
on, so no trace leads from a device through the shuffler.
"""

import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pydantic import Field

from rase.service.settings import Settings
from rase.service.telemetry import Ending, Telemetry
from rase.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

__all__ = ["OtlpTracer", "TraceSettings", "send_spans"]

_TIMEOUT_S: Final = 5.0


class TraceSettings(Settings):
    """Where spans go.

    Headers that a collector asks for are read from OTEL_EXPORTER_OTLP_HEADERS.

    Args:
        endpoint: The collector's address for traces, e.g. http://127.0.0.1:4318/v1/traces.
    """

    endpoint: str = Field(pattern=r"^https?://[^\s/]+(/\S*)?$")


@contextmanager
def send_spans(
    telemetry: Telemetry, settings: TraceSettings | None, *, process: str
) -> Iterator[None]:
    """Send the spans of a server while the block lasts.

    Args:
        telemetry: Makes them.
        settings: Where they go; None for nowhere.
        process: Which process it is, by the names of `rase.service.metrics.COUNTERS`.

    Raises:
        ModuleNotFoundError: If the extra ``otlp`` is not installed.
    """
    if settings is None:
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=_TIMEOUT_S)
    tracer = OtlpTracer(exporter, process=process, telemetry=telemetry)
    telemetry.tracer = tracer
    try:
        yield
    finally:
        telemetry.tracer = None
        tracer.close()


class OtlpTracer:
    """Gather spans and hand them to an exporter, in a thread of its own.

    A collector that does not answer costs spans, never requests: what does not fit into the queue
    is dropped, and each group that could not be sent is counted.

    Args:
        exporter: Sends groups of spans.
        process: Which process it is.
        telemetry: Counts groups that could not be sent.
    """

    def __init__(self, exporter: "SpanExporter", *, process: str, telemetry: Telemetry) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # Its own complaints would be lines of another form, with addresses in them.
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        # Not Resource.create: that would add whatever the environment says.
        resource = Resource(
            {
                "service.name": f"rase-{process.replace(' ', '-')}",
                "service.version": __version__,
                "service.instance.id": secrets.token_hex(8),
            }
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_count_failures(exporter, telemetry)))
        self._tracer = self._provider.get_tracer("rase", __version__)

    def begin(self, name: str) -> Ending:
        """Begin a span; it has no parent, whatever the caller was sent."""
        from opentelemetry.context import Context
        from opentelemetry.trace import Status, StatusCode

        span = self._tracer.start_span(name, context=Context())

        def end(fields: Mapping[str, str | float], error: str | None) -> None:
            span.set_attributes({f"rase.{key}": value for key, value in fields.items()})
            if error is not None:
                span.set_attribute("error.type", error)
                span.set_status(Status(StatusCode.ERROR))
            span.end()

        return end

    def close(self) -> None:
        """Send what waits, if it can be sent, and end the thread."""
        self._provider.shutdown()


def _count_failures(exporter: "SpanExporter", telemetry: Telemetry) -> "SpanExporter":
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Counted(SpanExporter):
        """Hand spans on, and count what could not be sent."""

        def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
            try:
                result = exporter.export(spans)
            except Exception:  # noqa: BLE001 - whatever it was, no work of the server stops for it
                result = SpanExportResult.FAILURE
            if result is not SpanExportResult.SUCCESS:
                telemetry.count("traces_failed")
                telemetry.event("traces_not_sent", count=len(spans))
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return exporter.force_flush(timeout_millis)

    return Counted()
