"""Spans of OpenTelemetry. The only module that imports it: the extra `otel`.

The ready-made instrumentation puts the whole address of a request into its span, with the key where a client sends it
in the query; here a span holds no text that a client chose. Of `traceparent` the two ids and the flag are taken, and
`tracestate` and `baggage`, which are free text, are not read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aiohttp import web
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.telemetry.access_log import known_method
from service.telemetry.observation import NONE, OBSERVED, Observation

if TYPE_CHECKING:
    from service.problems import Handler

_JOINED = "traceparent"
_propagator = TraceContextTextMapPropagator()


def exporting() -> OpenTelemetry:
    """Return what sends spans to where OpenTelemetry's variables say, in batches, from a thread of its own."""
    os.environ.setdefault("OTEL_SERVICE_NAME", "brokerage")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OpenTelemetry(provider)


class OpenTelemetry:
    """Makes a span of each request, and below it one of each request to Elasticsearch."""

    def __init__(self, provider: TracerProvider) -> None:
        """Hand spans to a provider."""
        self._provider = provider
        self._tracer = provider.get_tracer("brokerage")

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Trace a request, as a part of the client's trace where it says so."""
        method = known_method(request.method)
        parent = _propagator.extract({name: request.headers[name] for name in (_JOINED,) if name in request.headers})
        attributes = {"http.request.method": method}
        with self._tracer.start_as_current_span(
            method, parent, SpanKind.SERVER, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            response = await handler(request)
            if (seen := OBSERVED.get(None)) is not None:
                seen.trace_id = format(span.get_span_context().trace_id, "032x")
                _describe(span, seen, method)
            span.set_attribute("http.response.status_code", response.status)
            if response.status >= 500:
                _fail(span, str(response.status))
        return response

    def trace(self, method: str, target: str) -> AttemptSpan | None:
        """Begin the span of a request to Elasticsearch; None for what the service asks for by itself."""
        if not get_current_span().is_recording():
            return None
        # Neither the rest of the path, which may be an identifier, nor the query, nor the body.
        _, collection, operation, *_ = [*target.partition("?")[0].split("/"), ""]
        operation = operation.removeprefix("_")
        attributes = {
            "db.system.name": "elasticsearch",
            "db.collection.name": collection,
            "db.operation.name": operation,
            "http.request.method": method,
        }
        name = f"{operation} {collection}"
        return AttemptSpan(self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes))

    def close(self) -> None:
        """Send what was not sent yet."""
        self._provider.shutdown()


class AttemptSpan:
    """The span of one request to Elasticsearch."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        """Take the span, which has begun."""
        self._span = span

    def end(self, status: int | None) -> None:
        """End it: an error is what brought no answer, or one that the service cannot use."""
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if status not in {200, 404}:
            _fail(self._span, NONE if status is None else str(status))
        self._span.end()


def _fail(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def _describe(span: Span, seen: Observation, method: str) -> None:
    span.set_attribute("brokerage.request_id", seen.request_id)
    span.set_attribute("brokerage.rows", seen.rows)
    span.set_attribute("brokerage.shared", seen.is_shared)
    if seen.key_id:
        span.set_attribute("brokerage.key_id", seen.key_id)
    if seen.route != NONE:
        span.update_name(f"{method} {seen.route}")
        span.set_attribute("http.route", seen.route)
