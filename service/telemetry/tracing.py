"""Optional tracing, enabled by the standard OpenTelemetry variables; requires the extra `otel`.

OpenTelemetry is imported only if it is enabled.
"""

import logging
from collections.abc import Mapping
from importlib import import_module

from service.capability import Capability
from service.telemetry.observation import Tracing

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_log = logging.getLogger("service")


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


CAPABILITY = Capability("traces", tracing=load_tracing)
