"""Whether requests are traced: OpenTelemetry's own variables say so, and the extra `otel` has to be installed.

What needs the extra is imported only then: without it traces cost nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp.typedefs import Middleware

    from service.telemetry.attempts import Trace

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_log = logging.getLogger("service")


class Tracing(Protocol):
    """Makes spans of requests and of what they ask of Elasticsearch."""

    @property
    def middleware(self) -> Middleware:
        """Traces a request."""

    @property
    def trace(self) -> Trace:
        """Begins the span of a request to Elasticsearch."""

    def close(self) -> None:
        """Send what was not sent yet; this takes seconds where nobody answers."""


def tracing(environ: Mapping[str, str]) -> Tracing | None:
    """Return what traces requests, None where that is not asked for or not installed."""
    if not _is_asked_for(environ):
        return None
    try:
        traced: Tracing = import_module("service.telemetry.opentelemetry").exporting()
    except ImportError as missing:
        _log.warning("No traces: OTEL_* variables ask for them, but the extra `otel` is not installed: %s", missing)
        return None
    return traced


def _is_asked_for(environ: Mapping[str, str]) -> bool:
    exporter = environ.get("OTEL_TRACES_EXPORTER", "")
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter not in {"", "otlp"}:
        return False
    return exporter == "otlp" or any(environ.get(name) for name in _ENDPOINTS)
