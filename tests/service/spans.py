"""Spans as a collector gets them, for tests of what they hold."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rase.service.telemetry import FIELDS, Telemetry
from rase.service.tracing import OtlpTracer

__all__ = ["Seen", "collected"]


class Seen(NamedTuple):
    """A span: its name, what it tells, and all of it but clock and chance as text."""

    name: str
    fields: Mapping[str, object]
    text: str


@contextmanager
def collected(telemetry: Telemetry, process: str) -> Iterator[list[Seen]]:
    """Collect the spans of a block; the list is filled when it ends.

    Every span is checked: no field beyond those that tell nothing, no parent, event or link.
    """
    exporter = InMemorySpanExporter()
    tracer = OtlpTracer(exporter, process=process, telemetry=telemetry)
    telemetry.tracer = tracer
    seen: list[Seen] = []
    try:
        yield seen
    finally:
        telemetry.tracer = None
        tracer.close()
        seen += [_seen(span) for span in exporter.get_finished_spans()]


def _seen(span: ReadableSpan) -> Seen:
    fields = dict(span.attributes or {})
    allowed = {f"rase.{name}" for name in FIELDS} | {"error.type"}
    assert set(fields) <= allowed, fields
    assert span.parent is None
    assert not span.events
    assert not span.links
    assert span.status.description is None
    return Seen(span.name, fields, _text(span))


def _text(span: ReadableSpan) -> str:
    """Leave out the times and what the SDK drew: by chance their digits are those of any number."""
    told = json.loads(span.to_json())
    for name in ("context", "start_time", "end_time"):
        del told[name]
    told["resource"]["attributes"].pop("service.instance.id", None)
    return json.dumps(told)
