"""The connection to Elasticsearch: settings, index names, how it is opened, and supported versions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from elastic_transport.client_utils import basic_auth_to_header
from elasticsearch import AsyncElasticsearch

from cluster.client import FailoverTransport, TypedNode
from cluster.http.responses import raw_serializers
from cluster.settings import SettingError, setting
from cluster.tls import CA_CERTS, FINGERPRINT, URL, TlsContext, is_exposed, parse_fingerprint
from mappings.resource import Resource

_ALLOW_HTTP = "BROKERAGE_ELASTICSEARCH_ALLOW_HTTP"
_KEY, _USER, _PASSWORD = (
    "BROKERAGE_ELASTICSEARCH_API_KEY",
    "BROKERAGE_ELASTICSEARCH_USERNAME",
    "BROKERAGE_ELASTICSEARCH_PASSWORD",
)


@dataclass(frozen=True)
class ConnectionSettings:
    """Addresses, credentials, certificates and index prefix of the cluster."""

    url: tuple[str, ...] = setting(
        URL, (), "Addresses of the cluster, separated by commas. If unset, the demo starts an embedded node."
    )
    api_key: str = setting(_KEY, "", "API key of the cluster, base64.", secret=True)
    username: str = setting(_USER, "", "User of the cluster; requires a password.")
    password: str = setting(_PASSWORD, "", "Password of that user.", secret=True)
    ca_certs: str = setting(CA_CERTS, "", "File of CA certificates for the cluster; those of the system by default.")
    fingerprint: str = setting(
        FINGERPRINT, "", "SHA-256 fingerprint of a CA certificate or of the node's certificate, in hexadecimal."
    )
    allow_http: bool = setting(
        _ALLOW_HTTP,
        default=False,
        note="Whether credentials may be sent to another host without TLS, over a network that you trust.",
    )
    prefix: str = setting("BROKERAGE_INDEX_PREFIX", "", "Prefix of all index and alias names.")

    def __post_init__(self) -> None:
        """Raise SettingError if values conflict or certificates cannot be read."""
        _reject_conflicts(self)
        self.tls_context()

    def tls_context(self) -> TlsContext | None:
        """Return which certificates are trusted; None without TLS."""
        return TlsContext(self.ca_certs, self.fingerprint) if self.is_secured else None

    @property
    def is_secured(self) -> bool:
        return any(url.startswith("https:") for url in self.url)

    def require_url(self) -> None:
        """Raise SettingError if no address is set."""
        if not self.url:
            raise SettingError(
                "ELASTICSEARCH_URL is not set: set it to your cluster, or start `brokerage node` and use its URL."
            )

    def alias(self, resource: Resource) -> str:
        return self.prefix + resource.alias

    def authorization(self) -> dict[str, str]:
        """Return the header that authenticates requests sent without the typed client."""
        if self.api_key:
            return {"authorization": f"ApiKey {self.api_key}"}
        return {"authorization": basic_auth_to_header((self.username, self.password))} if self.username else {}

    @property
    def keys_index(self) -> str:
        return f"{self.prefix}api_keys"

    @property
    def usage_index(self) -> str:
        """The alias of the index with the times when API keys were last used."""
        return f"{self.prefix}key_usage"

    @property
    def audit_index(self) -> str:
        """The alias of the indices that record which key was sent which records."""
        return f"{self.prefix}audit"

    @property
    def subscriptions_index(self) -> str:
        """The index of what is sent where, with the secrets that sign it."""
        return f"{self.prefix}subscriptions"

    @property
    def deliveries_index(self) -> str:
        """The index of how far subscriptions have been delivered, and of the locks of those who deliver."""
        return f"{self.prefix}deliveries"

    @property
    def control_index(self) -> str:
        """The index of marks and locks of the indexer."""
        return f"{self.prefix}control"


def connect(settings: ConnectionSettings, *, connections: int, timeout: float, **options: Any) -> AsyncElasticsearch:
    """Return a client that repeats only what a node that is gone could not take: retries are left to callers.

    `connections` is the limit per node; `timeout` is in seconds and includes waiting for a free connection. Requests
    with the headers of `cluster.http.responses` return bytes. See `cluster.tls` for the verification of certificates.
    """
    settings.require_url()
    options.setdefault("node_class", TypedNode)
    options.setdefault("transport_class", FailoverTransport)
    return AsyncElasticsearch(
        list(settings.url),
        connections_per_node=connections,
        request_timeout=timeout,
        max_retries=0,
        retry_on_status=(),
        retry_on_timeout=False,
        serializers=raw_serializers(),
        **_credentials(settings),
        **options,
    )


def _credentials(settings: ConnectionSettings) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if settings.api_key:
        given["api_key"] = settings.api_key
    elif settings.username:
        given["basic_auth"] = (settings.username, settings.password)
    if (trust := settings.tls_context()) is not None:
        given["ssl_context"] = trust
    return given


def _reject_conflicts(settings: ConnectionSettings) -> None:
    """Raise SettingError for the first conflict."""
    parts = [_split_url(url) for url in settings.url]
    schemes = {part.scheme for part in parts}
    conflicts = {
        f"{_KEY} and {_USER} are both set: remove one.": settings.api_key and settings.username,
        f"{_USER} and {_PASSWORD} must be set together.": bool(settings.username) != bool(settings.password),
        f"{URL} contains a user, and {_KEY} or {_USER} is set: remove one.": (
            (settings.api_key or settings.username) and any(part.username for part in parts)
        ),
        (
            f"{_KEY}, {_PASSWORD} or a user in {URL} would be sent to another host unencrypted: use https://, or set "
            f"{_ALLOW_HTTP}=true if you trust the network."
        ): (
            not settings.allow_http
            and (settings.api_key or settings.username or any(part.username for part in parts))
            and any(map(is_exposed, settings.url))
        ),
        f"{URL} mixes http:// and https://: use the same scheme for all addresses.": len(schemes) > 1,
        f"{FINGERPRINT} is set and {URL} begins with http://: use https://.": (
            settings.fingerprint and "http" in schemes
        ),
        f"{CA_CERTS} is set and {URL} begins with http://: use https://.": settings.ca_certs and "http" in schemes,
    }
    for sentence, is_so in conflicts.items():
        if is_so:
            raise SettingError(sentence)
    if settings.fingerprint:
        parse_fingerprint(settings.fingerprint)


def _split_url(url: str) -> SplitResult:
    """Return the parts of an address. SettingError does not repeat the address, which may contain a password."""
    try:
        parts = urlsplit(url)
        is_complete = parts.scheme in {"http", "https"} and parts.hostname and parts.port
    except ValueError:
        is_complete = False
    if not is_complete:
        raise SettingError(f"{URL} is not valid: use addresses like https://node.example:9200, with the port.")
    return parts


_MIN_VERSION = (9, 4, 0)
# These can lose bulk items on replicas (elasticsearch#158212).
_FAULTY = frozenset({(9, 5, 0), (9, 5, 1), (9, 5, 2)})


def unsupported_versions(nodes: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each unsupported version among nodes, which have `name` and `version`."""
    names: dict[str, list[str]] = {}
    for node in nodes:
        names.setdefault(node["version"], []).append(node["name"])
    problems = {version: _version_problem(version) for version in sorted(names)}
    return [f"{', '.join(sorted(names[version]))}: {problem}" for version, problem in problems.items() if problem]


def _version_problem(version: str) -> str | None:
    numbers = tuple(int(part) for part in version.partition("-")[0].split("."))
    if numbers in _FAULTY:
        return f"Elasticsearch {version} can lose documents on replicas, install 9.5.3 or newer."
    if numbers < _MIN_VERSION:
        return f"Elasticsearch {version} is too old, install 9.5.3 or newer."
    return None
