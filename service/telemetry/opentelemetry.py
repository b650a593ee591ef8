"""OpenTelemetry spans; the only module that imports OpenTelemetry (extra `otel`).

The standard instrumentation would put the URL of a request into its span, including a key sent in the query; these
spans contain no text sent by a client. `traceparent` is read; `tracestate` and `baggage`, which are free text, are not.
"""

from __future__ import annotations

import os

from aiohttp import web
from aiohttp.typedefs import Handler
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.telemetry.logs import known_method
from service.telemetry.observation import CURRENT_OBSERVATION, NO_LABEL, RequestObservation

_PARENT_HEADER = "traceparent"
_propagator = TraceContextTextMapPropagator()


def create_tracing() -> OtelTracing:
    os.environ.setdefault("OTEL_SERVICE_NAME", "brokerage")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTracing(provider)


class OtelTracing:
    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("brokerage")

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        method = known_method(request.method)
        parent = _propagator.extract(
            {name: request.headers[name] for name in (_PARENT_HEADER,) if name in request.headers}
        )
        attributes = {"http.request.method": method}
        with self._tracer.start_as_current_span(
            method, parent, SpanKind.SERVER, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            response = await handler(request)
            if (seen := CURRENT_OBSERVATION.get(None)) is not None:
                seen.trace_id = format(span.get_span_context().trace_id, "032x")
                _describe(span, seen, method)
            span.set_attribute("http.response.status_code", response.status)
            if response.status >= 500:
                _fail(span, str(response.status))
        return response

    def start_span(self, method: str, target: str) -> OtelAttemptSpan | None:
        """Start the span of a request to Elasticsearch; None for the service's own background requests."""
        if not get_current_span().is_recording():
            return None
        # Not the rest of the path, which may be an identifier, the query or the body.
        _, collection, operation, *_ = [*target.partition("?")[0].split("/"), ""]
        operation = operation.removeprefix("_")
        attributes = {
            "db.system.name": "elasticsearch",
            "db.collection.name": collection,
            "db.operation.name": operation,
            "http.request.method": method,
        }
        name = f"{operation} {collection}"
        return OtelAttemptSpan(self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes))

    def close(self) -> None:
        self._provider.shutdown()


class OtelAttemptSpan:
    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def end(self, status: int | None) -> None:
        """End the span; any status but 200 and 404 is an error, as is None."""
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if status not in {200, 404}:
            _fail(self._span, NO_LABEL if status is None else str(status))
        self._span.end()


def _fail(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def _describe(span: Span, seen: RequestObservation, method: str) -> None:
    span.set_attribute("brokerage.request_id", seen.request_id)
    span.set_attribute("brokerage.rows", seen.rows)
    span.set_attribute("brokerage.shared", seen.is_shared)
    if seen.key_id:
        span.set_attribute("brokerage.key_id", seen.key_id)
    if seen.route != NO_LABEL:
        span.update_name(f"{method} {seen.route}")
        span.set_attribute("http.route", seen.route)
