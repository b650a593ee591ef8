"""The settings of the service (`brokerage settings`), and the rate of a key by its record and the configured tiers."""

import ipaddress
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TypeVar

from cluster.settings import SettingError, setting
from service.keys.revocation_list import REVOCATION_LIST_SETTING, require_revocation_list

TIERS_SETTING = "BROKERAGE_TIERS"

_MINUTE_MICROSECONDS = 60_000_000
_MIN_DEFAULT_BURST = 20
# Beyond any real load; the interval in whole microseconds is still exact to a thousandth.
MAX_PER_MINUTE = 60_000

_TIER = re.compile(r"(?P<name>[a-z0-9-]{1,32})=(?P<rate>\d{1,9})(?:/(?P<burst>\d{1,9}))?", re.ASCII)


@dataclass(frozen=True)
class RatePolicy:
    """A bucket that holds `burst` requests and refills at `rate` requests per minute."""

    rate: int
    burst: int

    @cached_property
    def interval_microseconds(self) -> int:
        """Microseconds per request, rounded up so that the rate is never exceeded."""
        return -(-_MINUTE_MICROSECONDS // self.rate)

    @cached_property
    def depth_microseconds(self) -> int:
        """Microseconds until an empty bucket is full."""
        return self.burst * self.interval_microseconds


def default_burst(rate: int) -> int:
    """Return ten seconds of the rate (a sixth of it), at least 20 and at most the rate."""
    return min(max(rate // 6, _MIN_DEFAULT_BURST), rate)


@lru_cache(maxsize=1024)
def rate_policy(rate: int, burst: int | None) -> RatePolicy:
    return RatePolicy(rate, default_burst(rate) if burst is None else burst)


def read_tiers(texts: Sequence[str]) -> dict[str, RatePolicy]:
    """Parse tiers such as `gold=3000/500` or `bronze=60`; raise SettingError that names the invalid one."""
    tiers: dict[str, RatePolicy] = {}
    for text in texts:
        match = _TIER.fullmatch(text)
        if match is None:
            raise SettingError(f"{TIERS_SETTING}: {text!r} is not of the form name=rate or name=rate/burst.")
        rate, burst = int(match["rate"]), None if match["burst"] is None else int(match["burst"])
        if not 1 <= rate <= MAX_PER_MINUTE or burst == 0 or (burst or 0) > MAX_PER_MINUTE:
            raise SettingError(f"{TIERS_SETTING}: in {text!r} a number is not between 1 and {MAX_PER_MINUTE}.")
        if match["name"] in tiers:
            raise SettingError(f"{TIERS_SETTING}: {text!r} repeats the name of a tier.")
        tiers[match["name"]] = rate_policy(rate, burst)
    return tiers


class LogFormat(StrEnum):
    AUTO = "auto"  # text on a terminal, otherwise JSON
    JSON = "json"
    CONSOLE = "console"

    @property
    def is_console(self) -> bool:
        return self is LogFormat.CONSOLE or (self is LogFormat.AUTO and sys.stderr.isatty())


class AccessLogMode(StrEnum):
    ALL = "all"  # except probes with status 200
    ERRORS = "errors"  # status 400 and above
    NONE = "none"


class CapabilitySettings:
    """Settings that one capability reads: the base of a frozen dataclass of `setting`s."""

    @property
    def open_files(self) -> int:
        """The files and connections that they allow in each worker, besides those of other requests."""
        return 0


Kind = TypeVar("Kind", bound=CapabilitySettings)
CONTACT_SETTING = "BROKERAGE_CONTACT"
KEEPALIVE_SECONDS_SETTING = "BROKERAGE_KEEPALIVE_SECONDS"
REVOCATION_SECONDS_SETTING = "BROKERAGE_REVOCATION_SECONDS"
# Keys are read every 0.4 of them, in two small searches at most.
_LEAST_REVOCATION_SECONDS = 1.0

_MAIL = re.compile(r"[^\s@<>\"']+@[^\s@<>\"']+\.[^\s@<>\"']+")
_PAGE = re.compile(r"https://[^\s<>\"'/]+[^\s<>\"']*")


def require_contact(contact: str) -> None:
    """Raise SettingError unless it is empty, a mail address or an https URL."""
    if contact and not (_MAIL.fullmatch(contact) or _PAGE.fullmatch(contact)):
        raise SettingError(
            f"{CONTACT_SETTING} is {contact!r}: use a mail address such as api@broker.example, or an https URL."
        )


def contact_uri(contact: str) -> str:
    """Return the URI of a contact, `mailto:` for a mail address; empty without one."""
    return f"mailto:{contact}" if _MAIL.fullmatch(contact) else contact


TRUSTED_PROXIES_SETTING = "BROKERAGE_TRUSTED_PROXIES"
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


def read_networks(texts: Sequence[str]) -> tuple[IpNetwork, ...]:
    """Parse addresses and networks in CIDR form; raise SettingError with the first invalid one."""
    networks: list[IpNetwork] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise SettingError(f"{TRUSTED_PROXIES_SETTING}: {text!r} is not a network: {error}.") from None
    return tuple(networks)


ALLOWED_HOSTS_SETTING = "BROKERAGE_METRICS_ALLOWED_HOSTS"
_HOST_NAME = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


def require_host_names(names: Iterable[str]) -> None:
    """Raise SettingError unless all are names without scheme and port."""
    for name in names:
        if not _HOST_NAME.fullmatch(name):
            raise SettingError(
                f"{ALLOWED_HOSTS_SETTING} contains {name!r}: use names like metrics.example, without port."
            )


CORS_ORIGINS_SETTING = "BROKERAGE_CORS_ORIGINS"
ANY_ORIGIN = "*"
# As browsers send it: no path, lower case, without the default port (RFC 6454, section 6.2).
_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)


def require_valid_origins(origins: Collection[str]) -> None:
    """Raise SettingError at the first value that no browser sends as an origin."""
    for origin in origins:
        if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
            raise SettingError(
                f"{CORS_ORIGINS_SETTING}: {origin!r} is not an origin. Use one like https://portal.example, or *."
            )


class ListenError(OSError):
    """An address is in use or does not belong to this machine; the text names it and what to change."""


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of a service process: addresses, limits, timeouts and cache ages.

    Those of a capability are in a class of its own; `of` finds them.
    """

    host: str = setting("BROKERAGE_HOST", "127.0.0.1", "Address to listen on.")
    port: int = setting("BROKERAGE_PORT", 8080, "Port to listen on.")
    workers: int = setting("BROKERAGE_WORKERS", 1, "Processes that share the port.")
    deadline_seconds: float = setting("BROKERAGE_DEADLINE_SECONDS", 10.0, "Longest time a request may take.")
    keepalive_seconds: float = setting(
        KEEPALIVE_SECONDS_SETTING,
        75.0,
        "Time for which a connection stays open without a request: more than the load balancer in front keeps it, 310 "
        "with Oracle's, 620 with Google's.",
    )
    connections: int = setting("BROKERAGE_ELASTICSEARCH_CONNECTIONS", 64, "Connections to each Elasticsearch node.")
    concurrency: int = setting("BROKERAGE_CONCURRENCY", 16, "Requests for pages that each worker handles at a time.")
    queue: int = setting(
        "BROKERAGE_QUEUE", 64, "Requests for pages that may wait for a slot; further ones are refused."
    )
    queue_seconds: float = setting(
        "BROKERAGE_QUEUE_SECONDS",
        0.5,
        "Longest time that a request waits for a slot; if it would wait longer, it is refused immediately.",
    )
    show_concurrency: int = setting(
        "BROKERAGE_SHOW_CONCURRENCY",
        64,
        "Requests for single records that each worker handles at a time, in addition to those for pages.",
    )
    stall_seconds: float = setting(
        "BROKERAGE_STALL_SECONDS",
        60.0,
        "Period in which a client has to take BROKERAGE_LEAST_BYTES_PER_SECOND of a response, or all of the rest; "
        "otherwise its connection is closed.",
    )
    least_bytes_per_second: int = setting(
        "BROKERAGE_LEAST_BYTES_PER_SECOND", 8192, "Lowest rate at which a client may read a response."
    )
    unsent_bytes_per_key: int = setting(
        "BROKERAGE_UNSENT_BYTES_PER_KEY",
        8_388_608,
        "Bytes of responses that a key may leave unread in each worker; beyond it, its requests get 429.",
    )
    unsent_bytes: int = setting(
        "BROKERAGE_UNSENT_BYTES",
        67_108_864,
        "Bytes of responses that clients may leave unread in each worker; beyond it, connections of the key with the "
        "most are closed.",
    )
    fresh_seconds: float = setting(
        "BROKERAGE_FRESH_SECONDS",
        2.0,
        "Age at which cached keys, companies, watermarks and checks are refreshed in the background.",
    )
    stale_seconds: float = setting(
        "BROKERAGE_STALE_SECONDS", 4.0, "Age beyond which none of them is used while Elasticsearch is available."
    )
    revocation_seconds: float = setting(
        REVOCATION_SECONDS_SETTING,
        5.0,
        "Longest time for which a key that was revoked, has expired or may read less still receives anything: keys are "
        "read, and connections checked, as often as that takes.",
    )
    shared_seconds: float = setting(
        "BROKERAGE_SHARED_SECONDS",
        1.0,
        "Age up to which identical requests share a search. Watermarks are reported with at least this delay.",
    )
    outage_seconds: float = setting(
        "BROKERAGE_OUTAGE_SECONDS",
        60.0,
        "Time without a response from Elasticsearch after which a running replica is no longer ready.",
    )
    tolerate_unknown: bool = setting(
        "BROKERAGE_TOLERATE_UNKNOWN_PARAMETERS",
        default=False,
        note="Ignore unknown parameters with a Warning header instead of responding 400.",
    )
    drain_seconds: float = setting(
        "BROKERAGE_DRAIN_SECONDS", 1.0, "Time between becoming unready and closing the port."
    )
    share_port: bool = setting(
        "BROKERAGE_SHARE_PORT",
        default=False,
        note="Let another service process listen on the same port, for a handover.",
    )
    server_timing: bool = setting(
        "BROKERAGE_SERVER_TIMING",
        default=False,
        note="Report the time of each layer of a request in a Server-Timing header.",
    )
    cors_origins: tuple[str, ...] = setting(
        CORS_ORIGINS_SETTING,
        (),
        "Origins whose scripts may read responses in a browser, such as https://portal.example; * allows any.",
    )
    contact: str = setting(
        CONTACT_SETTING,
        "",
        "Mail address or https URL for partners, and for reports of vulnerabilities, in all that describes the API.",
    )
    metrics_port: int = setting(
        "BROKERAGE_METRICS_PORT",
        0,
        "Port of `/metrics` and the pages for operators; each further worker uses the next port. 0: none.",
    )
    metrics_host: str = setting(
        "BROKERAGE_METRICS_HOST",
        "127.0.0.1",
        "Address on which that port listens; 0.0.0.0 if Prometheus runs on another host.",
    )
    metrics_allowed_hosts: tuple[str, ...] = setting(
        ALLOWED_HOSTS_SETTING,
        (),
        "Names by which operators and Prometheus reach that port, in addition to IP addresses and localhost.",
    )
    log_format: LogFormat = setting(  # noqa: RUF009 - it declares the field
        "BROKERAGE_LOG_FORMAT",
        LogFormat.AUTO,
        "Log format: json, console, or auto (console on a terminal, else json).",
    )
    access_log: AccessLogMode = setting(  # noqa: RUF009 - it declares the field
        "BROKERAGE_ACCESS_LOG",
        AccessLogMode.ALL,
        "Requests that are logged: all, errors (status 400 and above) or none.",
    )
    tiers: tuple[str, ...] = setting(
        TIERS_SETTING,
        (),
        "Rate tiers of keys as name=rate or name=rate/burst, for example gold=3000/500,bronze=60.",
    )
    key_concurrency: int = setting(
        "BROKERAGE_KEY_CONCURRENCY",
        16,
        "Requests of one key that each worker handles at a time; further ones are refused. 0: no limit.",
    )
    revocation_list: str = setting(
        REVOCATION_LIST_SETTING,
        "",
        "File of key ids, one a line, that are refused; read as often as keys. It need not exist yet.",
    )
    failures_per_minute: int = setting(
        "BROKERAGE_FAILURES_PER_MINUTE",
        20,
        "Requests without a valid key per minute and address that get 401; further ones get 429. 0: no limit.",
    )
    refusals_per_minute: int = setting(
        "BROKERAGE_REFUSALS_PER_MINUTE",
        300,
        "Refusals (400, 401, 429 and the like) per minute that each worker sends to a key, or to an address without a "
        "valid key; further ones wait for their turn, at most eight seconds. 0: no limit.",
    )
    without: tuple[str, ...] = setting(
        "BROKERAGE_WITHOUT",
        (),
        "Capabilities that are left out, separated by spaces: nothing of them is loaded, and their paths are 404.",
    )
    trusted_proxies: tuple[str, ...] = setting(
        "BROKERAGE_TRUSTED_PROXIES", (), "Networks of proxies whose X-Forwarded-For is trusted, as CIDR."
    )

    of_capabilities: tuple[CapabilitySettings, ...] = ()

    def of(self, kind: type[Kind]) -> Kind:
        """Return the settings of a capability; the default ones if none were given."""
        return self.find(kind) or kind()

    def find(self, kind: type[Kind]) -> Kind | None:
        """Return the settings of a capability; None if none were given, as for one that is left out."""
        return next((found for found in self.of_capabilities if isinstance(found, kind)), None)

    @cached_property
    def proxies(self) -> tuple[IpNetwork, ...]:
        return read_networks(self.trusted_proxies)

    def __post_init__(self) -> None:
        """Raise SettingError at the first invalid value."""
        if not self.revocation_seconds >= _LEAST_REVOCATION_SECONDS:
            given = f"{REVOCATION_SECONDS_SETTING} is {self.revocation_seconds:g}"
            raise SettingError(f"{given}: use {_LEAST_REVOCATION_SECONDS:g} or more.")
        if not self.keepalive_seconds > 0:
            raise SettingError(f"{KEEPALIVE_SECONDS_SETTING} is {self.keepalive_seconds:g}: use more than 0.")
        read_tiers(self.tiers)
        read_networks(self.trusted_proxies)
        require_host_names(self.metrics_allowed_hosts)
        require_revocation_list(self.revocation_list)
        require_valid_origins(self.cors_origins)
        require_contact(self.contact)
