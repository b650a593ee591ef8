"""The settings of the service."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.settings import setting
from service.addresses import read_networks
from service.cross_origin import SETTING, refuse_unusable
from service.limits.policy import read_tiers
from service.limits.redis_url import require_redis_url
from service.telemetry.access_log import Told
from service.telemetry.logs import Form


@dataclass(frozen=True)
class ServiceSettings:
    """How the service listens, how long it waits and how fresh its caches are."""

    host: str = setting("BROKERAGE_HOST", "127.0.0.1", "Address to listen on.")
    port: int = setting("BROKERAGE_PORT", 8080, "Port to listen on.")
    workers: int = setting("BROKERAGE_WORKERS", 1, "Processes that share the port.")
    deadline_seconds: float = setting("BROKERAGE_DEADLINE_SECONDS", 10.0, "Longest time a request may take.")
    connections: int = setting("BROKERAGE_ELASTICSEARCH_CONNECTIONS", 64, "Connections to each Elasticsearch node.")
    concurrency: int = setting("BROKERAGE_CONCURRENCY", 16, "Requests for pages that each worker answers at a time.")
    queue: int = setting("BROKERAGE_QUEUE", 64, "Requests for pages that may wait for their turn; the rest is refused.")
    queue_seconds: float = setting(
        "BROKERAGE_QUEUE_SECONDS", 0.5, "A request that would wait for its turn for longer is refused at once."
    )
    show_concurrency: int = setting(
        "BROKERAGE_SHOW_CONCURRENCY",
        64,
        "Requests for single records at a time in each worker, beside those for pages.",
    )
    waiting: int = setting(
        "BROKERAGE_WAITING", 1000, "Requests for changes at a time in each worker; most of them wait for one."
    )
    snapshots: int = setting("BROKERAGE_SNAPSHOTS", 4, "Snapshots that each worker sends at a time.")
    fresh_seconds: float = setting(
        "BROKERAGE_FRESH_SECONDS",
        2.0,
        "Age at which cached keys, companies, marks and checks are renewed in the background.",
    )
    stale_seconds: float = setting(
        "BROKERAGE_STALE_SECONDS", 4.0, "Age beyond which none of them is used while Elasticsearch answers."
    )
    shared_seconds: float = setting(
        "BROKERAGE_SHARED_SECONDS",
        1.0,
        "Age up to which a search answers others who ask the same. Watermarks are told at that age at least.",
    )
    outage_seconds: float = setting(
        "BROKERAGE_OUTAGE_SECONDS", 60.0, "Silence of Elasticsearch after which a running replica is no longer ready."
    )
    tolerate_unknown: bool = setting(
        "BROKERAGE_TOLERATE_UNKNOWN_PARAMETERS", default=False, note="Warn in a header instead of answering 400."
    )
    drain_seconds: float = setting("BROKERAGE_DRAIN_SECONDS", 1.0, "Time between going unready and closing the port.")
    share_port: bool = setting(
        "BROKERAGE_SHARE_PORT",
        default=False,
        note="Let another service listen on the same port, to take over.",
    )
    server_timing: bool = setting(
        "BROKERAGE_SERVER_TIMING", default=False, note="Tell clients in a header what each layer of a request took."
    )
    cors_origins: tuple[str, ...] = setting(
        SETTING, (), "Origins whose scripts may read answers in a browser, such as https://portal.example; * is any."
    )
    metrics_port: int = setting(
        "BROKERAGE_METRICS_PORT",
        0,
        "Port of `/metrics` and `/console`, for operators; each further worker takes the next. 0: none.",
    )
    log_format: Form = setting(  # noqa: RUF009 - the field is declared by it
        "BROKERAGE_LOG_FORMAT", Form.AUTO, "Form of the log: json, console, or auto: console on a terminal, else json."
    )
    access_log: Told = setting(  # noqa: RUF009 - the field is declared by it
        "BROKERAGE_ACCESS_LOG", Told.ALL, "Requests that get a line in the log: all, errors (from 400 on) or none."
    )
    tiers: tuple[str, ...] = setting(
        "BROKERAGE_TIERS",
        (),
        "Rate tiers of keys as name=rate or name=rate/burst, for example gold=3000/500,bronze=60.",
    )
    redis_url: str = setting(
        "BROKERAGE_REDIS_URL",
        "",
        "Redis through which all processes and hosts share the limits of keys. Without it each process has its own.",
        secret=True,
    )
    key_concurrency: int = setting(
        "BROKERAGE_KEY_CONCURRENCY",
        16,
        "Requests of one key at a time in each worker; the rest is refused. 0: no limit.",
    )
    failures_per_minute: int = setting(
        "BROKERAGE_FAILURES_PER_MINUTE",
        20,
        "Requests without a valid key a minute from one address that are answered 401 instead of 429. 0: no limit.",
    )
    trusted_proxies: tuple[str, ...] = setting(
        "BROKERAGE_TRUSTED_PROXIES", (), "Networks of the proxies in front whose X-Forwarded-For is believed, as CIDR."
    )

    def __post_init__(self) -> None:
        """Raise SettingError at the first value that cannot be used."""
        read_tiers(self.tiers)
        read_networks(self.trusted_proxies)
        require_redis_url(self.redis_url)
        refuse_unusable(self.cors_origins)
