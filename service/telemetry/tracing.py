"""Optional tracing, enabled by the standard OpenTelemetry variables; requires the extra `otel`.

OpenTelemetry is imported only if it is enabled.
"""

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Protocol

from aiohttp.typedefs import Middleware

from service.telemetry.attempts import StartSpan

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_log = logging.getLogger("service")


class Tracing(Protocol):
    """Creates spans for requests and for their requests to Elasticsearch."""

    @property
    def middleware(self) -> Middleware:
        """The middleware that traces requests."""

    @property
    def start_span(self) -> StartSpan:
        """The function that starts the span of a request to Elasticsearch."""

    def close(self) -> None:
        """Export the remaining spans; takes seconds if the collector does not respond."""


def load_tracing(environ: Mapping[str, str]) -> Tracing | None:
    """Return the tracing, or None if it is disabled or not installed."""
    if not _is_enabled(environ):
        return None
    try:
        tracing: Tracing = import_module("service.telemetry.opentelemetry").create_tracing()
    except ImportError as missing:
        _log.warning("Tracing is off: OTEL_* variables enable it, but the extra `otel` is not installed: %s", missing)
        return None
    return tracing


def _is_enabled(environ: Mapping[str, str]) -> bool:
    exporter = environ.get("OTEL_TRACES_EXPORTER", "")
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter not in {"", "otlp"}:
        return False
    return exporter == "otlp" or any(environ.get(name) for name in _ENDPOINTS)
