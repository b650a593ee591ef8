"""The connection to Elasticsearch: settings, index names, the client and supported versions.

The client's own retries are switched off, as they repeat everything, and without a pause. A node that is restarted must
not end a load, though, so what is harmless to repeat is sent to another node. A single node has nothing to fail over
to. The service uses nodes of its own (`cluster.http.nodes`).
"""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from aiohttp import ClientConnectorError
from elastic_transport import (
    AiohttpHttpNode,
    AsyncTransport,
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    HttpHeaders,
    TlsError,
    TransportApiResponse,
)
from elastic_transport._node import NodeApiResponse
from elastic_transport.client_utils import DEFAULT, basic_auth_to_header
from elasticsearch import AsyncElasticsearch

from cluster.http.responses import raw_serializers
from cluster.settings import SettingError, setting
from cluster.tls import CA_CERTS, FINGERPRINT, URL, TlsContext, describe_tls_error, is_exposed, parse_fingerprint
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
        """Whether connections use TLS."""
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


# A host that is down drops packets silently.
_HANDSHAKE_SECONDS = 10.0


class NotSentError(ConnectionError):
    """A node accepted no connection, so that it has not seen the request."""


class TypedNode(AiohttpHttpNode):
    """A node for typed calls that resolves the configured fingerprint before its first request."""

    async def perform_request(  # type: ignore[override]
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: Any = DEFAULT,
    ) -> NodeApiResponse:
        """Return the complete response; raise the transport's errors, with a remedy in those of TLS."""
        await self._resolve_fingerprint()
        try:
            return await super().perform_request(method, target, body, headers, request_timeout)
        except TlsError as error:
            raise self._tls_error(error, error.errors) from None
        except ConnectionError as error:
            for cause in error.errors:
                if isinstance(cause, ClientConnectorError):
                    raise self._not_sent_error(cause, error.errors) from None
            raise

    async def _resolve_fingerprint(self) -> None:
        if not isinstance(self._ssl_context, TlsContext):
            return
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await self._ssl_context.resolve_fingerprint(self.host, self.port)
        except ssl.SSLError as error:
            raise self._tls_error(error, (error,)) from None
        except TimeoutError as error:
            raise ConnectionTimeout("The host does not accept connections.", errors=(error,)) from None
        except OSError as error:
            raise ConnectionError(str(error), errors=(error,)) from None

    def _not_sent_error(self, cause: ClientConnectorError, causes: tuple[Exception, ...]) -> NotSentError:
        # The text of aiohttp mentions ssl, whatever the scheme.
        reason = cause.os_error.strerror or cause.os_error
        return NotSentError(f"{self.host}:{self.port} accepts no connection ({reason})", errors=causes)

    def _tls_error(self, error: Exception, causes: tuple[Exception, ...]) -> TlsError:
        sentences = (describe_tls_error(_innermost(cause), self._ssl_context, self.host) for cause in causes)
        return TlsError(next(filter(None, sentences), str(error)), errors=causes)


def _innermost(error: Exception) -> Exception:
    """Return the error of OpenSSL, which aiohttp wraps."""
    nested = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return nested if isinstance(nested, ssl.SSLError) else error


_READS = ("/_search", "/_mget")
# Statuses while the shards of a node that is gone become available on others, and the pauses: 8 s altogether.
_PASSING = frozenset({502, 503})
_PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0)


class FailoverTransport(AsyncTransport):
    """Sends a request to one node after the other while they refuse connections, or break them during a read.

    A read that needs what a lost node had is repeated, too, for some seconds.
    """

    async def perform_request(self, method: str, target: str, **options: Any) -> TransportApiResponse:  # type: ignore[override]
        """Return the response; raise the transport's errors."""
        response = await self._fail_over(method, target, **options)
        if len(self.node_pool) > 1 and _is_read(method, target):
            for pause in _PAUSES_SECONDS:
                if response.meta.status not in _PASSING:
                    break
                await asyncio.sleep(pause)
                response = await self._fail_over(method, target, **options)
        return response

    async def _fail_over(self, method: str, target: str, **options: Any) -> TransportApiResponse:
        """Send a request, at most once to each node: the pool avoids one that has failed."""
        for _ in range(len(self.node_pool) - 1):
            try:
                return await super().perform_request(method, target, **options)
            except ConnectionError as error:
                if isinstance(error, TlsError) or not (isinstance(error, NotSentError) or _is_read(method, target)):
                    raise
        return await super().perform_request(method, target, **options)


def _is_read(method: str, target: str) -> bool:
    return method in {"GET", "HEAD"} or target.partition("?")[0].endswith(_READS)


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
