"""How Elasticsearch is reached: the settings of the connection, the client, and the names behind the alias prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elastic_transport.client_utils import basic_auth_to_header
from elasticsearch import AsyncElasticsearch

from cluster.contradictions import refuse_contradictions
from cluster.raw import serializers
from cluster.settings import SettingError, setting
from cluster.trust import CA_CERTS, FINGERPRINT, URL, Trust
from cluster.typed_node import TypedNode

if TYPE_CHECKING:
    from mappings.resource import Resource


@dataclass(frozen=True)
class ConnectionSettings:
    """Where the cluster is and what may be used in it."""

    url: tuple[str, ...] = setting(
        URL, (), "Addresses of the cluster, separated by commas. Without it the demo embeds a node."
    )
    api_key: str = setting("BROKERAGE_ELASTICSEARCH_API_KEY", "", "API key of the cluster, base64.", secret=True)
    username: str = setting("BROKERAGE_ELASTICSEARCH_USERNAME", "", "User of the cluster, beside its password.")
    password: str = setting("BROKERAGE_ELASTICSEARCH_PASSWORD", "", "Password of that user.", secret=True)
    ca_certs: str = setting(CA_CERTS, "", "File of certificates that sign the cluster's. Else the system's.")
    fingerprint: str = setting(
        FINGERPRINT, "", "SHA-256 of a certificate that signs the cluster's, or of the node's own, in hexadecimal."
    )
    prefix: str = setting("BROKERAGE_INDEX_PREFIX", "", "Stands before every index and alias name.")

    def __post_init__(self) -> None:
        """Raise SettingError where values contradict each other or certificates cannot be read."""
        refuse_contradictions(self)
        self.trust()

    def trust(self) -> Trust | None:
        """Return which certificates are believed; None where the cluster is asked without TLS."""
        return Trust(self.ca_certs, self.fingerprint) if self.is_secured else None

    @property
    def is_secured(self) -> bool:
        """Whether the cluster is asked over TLS."""
        return any(url.startswith("https:") for url in self.url)

    def require_url(self) -> None:
        """Raise SettingError when no cluster is named."""
        if not self.url:
            raise SettingError(
                "ELASTICSEARCH_URL is not set: name a cluster, or start `brokerage node` and use its URL."
            )

    def alias(self, resource: Resource) -> str:
        """Return the alias under which a resource's live generation is found."""
        return self.prefix + resource.alias

    def authorization(self) -> dict[str, str]:
        """Return the header that authenticates requests which do not pass the typed client."""
        if self.api_key:
            return {"authorization": f"ApiKey {self.api_key}"}
        return {"authorization": basic_auth_to_header((self.username, self.password))} if self.username else {}

    @property
    def keys_index(self) -> str:
        """The index of API keys."""
        return f"{self.prefix}api_keys"

    @property
    def usage_index(self) -> str:
        """The alias of the index of when API keys were last used."""
        return f"{self.prefix}key_usage"

    @property
    def control_index(self) -> str:
        """The index of the indexer's marks and lock."""
        return f"{self.prefix}control"


def connect(settings: ConnectionSettings, *, connections: int, timeout: float, **options: Any) -> AsyncElasticsearch:
    """Return a client that never retries by itself: the transport's own retries are not spaced and multiply load.

    `connections` are kept per node; `timeout` is in seconds and includes waiting for a free connection. Requests with
    the headers of `cluster.raw` are answered with bytes. Certificates are verified as `cluster.trust` says.
    """
    settings.require_url()
    options.setdefault("node_class", TypedNode)
    return AsyncElasticsearch(
        list(settings.url),
        connections_per_node=connections,
        request_timeout=timeout,
        max_retries=0,
        retry_on_status=(),
        retry_on_timeout=False,
        serializers=serializers(),
        **_credentials(settings),
        **options,
    )


def _credentials(settings: ConnectionSettings) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if settings.api_key:
        given["api_key"] = settings.api_key
    elif settings.username:
        given["basic_auth"] = (settings.username, settings.password)
    if (trust := settings.trust()) is not None:
        given["ssl_context"] = trust
    return given
