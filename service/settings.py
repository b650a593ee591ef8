"""The settings of the service."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.settings import setting


@dataclass(frozen=True)
class ServiceSettings:
    """How the service listens, how long it waits and how fresh its caches are."""

    host: str = setting("BROKERAGE_HOST", "127.0.0.1", "Address to listen on.")
    port: int = setting("BROKERAGE_PORT", 8080, "Port to listen on.")
    workers: int = setting("BROKERAGE_WORKERS", 1, "Processes that share the port.")
    deadline_seconds: float = setting("BROKERAGE_DEADLINE_SECONDS", 10.0, "Longest time a request may take.")
    connections: int = setting("BROKERAGE_ELASTICSEARCH_CONNECTIONS", 64, "Connections to each Elasticsearch node.")
    fresh_seconds: float = setting(
        "BROKERAGE_FRESH_SECONDS", 2.0, "Age at which a cached key, company list or mark is renewed in the background."
    )
    stale_seconds: float = setting(
        "BROKERAGE_STALE_SECONDS", 4.0, "Age beyond which none of them is used while Elasticsearch answers."
    )
    tolerate_unknown: bool = setting(
        "BROKERAGE_TOLERATE_UNKNOWN_PARAMETERS", default=False, note="Warn in a header instead of answering 400."
    )
    drain_seconds: float = setting("BROKERAGE_DRAIN_SECONDS", 1.0, "Time between going unready and closing the port.")
    server_timing: bool = setting(
        "BROKERAGE_SERVER_TIMING", default=False, note="Tell clients in a header what each layer of a request took."
    )
    metrics_port: int = setting(
        "BROKERAGE_METRICS_PORT", 0, "Port of `/metrics` for Prometheus; each further worker takes the next. 0: none."
    )
