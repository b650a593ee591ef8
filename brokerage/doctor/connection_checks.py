"""What the service connects to, as `brokerage doctor` checks it: TLS and its user."""

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from elastic_transport import TransportError
from elasticsearch import ApiError, AsyncElasticsearch, AuthenticationException, UnsupportedProductError

from cluster.connection import ConnectionSettings
from cluster.terminal import counted
from cluster.tls import TlsContext, describe_tls_error, is_loopback, tls_handshake
from mappings import RESOURCES
from mappings.indices import served_pattern
from service.health.checks import Finding, unknown, warning, wrong

TLS_SUBJECT = "tls"
_HANDSHAKE_SECONDS = 5.0
_DAY_SECONDS = 86_400
# Certificates that expire sooner are reported, while there is time to renew them.
_EXPIRY_WARNING_DAYS = 21


def _is_loopback_only(connection: ConnectionSettings) -> bool:
    """Whether every address is a loopback address, unreachable from other hosts."""
    return all(is_loopback(urlsplit(url).hostname or "") for url in connection.url)


async def tls_finding(connection: ConnectionSettings) -> Finding:
    """Check the certificates over separate connections; without TLS, check what is exposed."""
    trust = connection.tls_context()
    if trust is None:
        return plain_finding(connection)
    try:
        ends = {url: await _expiry_of(urlsplit(url), trust) for url in connection.url}
    except OSError as error:
        detail = describe_tls_error(error, trust, "a node") or str(error) or type(error).__name__
        return warning(TLS_SUBJECT, "not every node can be verified", detail)
    return certificate_finding(ends, trust.source, time.time())


async def _expiry_of(url: SplitResult, trust: TlsContext) -> float:
    """Return when the certificate at an address expires, in Unix seconds."""
    host, port = url.hostname or "", url.port or 0
    async with asyncio.timeout(_HANDSHAKE_SECONDS):
        await trust.resolve_fingerprint(host, port)
        return ssl.cert_time_to_seconds((await tls_handshake(host, port, trust)).getpeercert()["notAfter"])


def certificate_finding(ends: dict[str, float], source: str, now: float) -> Finding:
    """Return how certificates are verified and when the first one expires; times are Unix seconds."""
    first = min(ends, key=lambda url: ends[url])
    days = int((ends[first] - now) // _DAY_SECONDS)
    how = f"verified by {source}"
    if days >= _EXPIRY_WARNING_DAYS:
        return Finding(subject=TLS_SUBJECT, detail=f"{how}, {counted(days, 'day')} left")
    return warning(
        TLS_SUBJECT,
        "a certificate expires soon",
        f"The one of {urlsplit(first).hostname} in {counted(days, 'day')}; {how}.",
        "Renew it in Elasticsearch; once it has expired, connections fail.",
    )


def plain_finding(connection: ConnectionSettings) -> Finding:
    """Return the finding for connections without TLS."""
    if _is_loopback_only(connection):
        return Finding(subject=TLS_SUBJECT, detail="off: Elasticsearch is on this host")
    has_credentials = connection.authorization() or any(urlsplit(url).username for url in connection.url)
    exposed = "Credentials and" if has_credentials else "Key hashes and"
    return warning(
        TLS_SUBJECT,
        "off",
        f"{exposed} all data cross the network unencrypted.",
        "Use https:// in ELASTICSEARCH_URL and set BROKERAGE_ELASTICSEARCH_CA_CERTS to the CA certificate.",
    )


async def speaks_tls(connection: ConnectionSettings) -> bool:
    """Whether an address with http:// speaks TLS. Nothing is sent over the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for url in map(urlsplit, connection.url):
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await tls_handshake(url.hostname or "", url.port or 0, context)
        except OSError:
            continue
        return url.scheme == "http"
    return False


USER, PRIVILEGES = "user", "rights"
# The required privileges (docs/elasticsearch-rights.md) on the cluster, on indices it reads, on indices it writes.
CLUSTER_PRIVILEGES = ("monitor",)
READ_PRIVILEGES = ("read", "view_index_metadata")
WRITE_PRIVILEGES = ("index",)
# On the aliases: without it, the console does not show which index is to be compacted.
STATISTICS_PRIVILEGES = ("monitor",)
# On the aliases of the shards of an index that has several.
SERVED_PRIVILEGES = ("read",)
# Privileges that an attacker who takes over the service must not gain.
_EXCESSIVE = ("index", "delete", "delete_index")
_ROLE = "Give it the role `brokerage_service` of docs/elasticsearch-rights.md"


def _read_indices(connection: ConnectionSettings) -> list[str]:
    return [*map(connection.alias, RESOURCES), connection.keys_index, connection.control_index]


def _served_patterns(connection: ConnectionSettings) -> list[str]:
    """Return patterns for the aliases through which the service reads indices of several shards."""
    return [served_pattern(connection.alias(resource)) for resource in RESOURCES]


async def user_findings(client: AsyncElasticsearch, connection: ConnectionSettings) -> list[Finding]:
    """Return the user and its missing or excessive privileges; nothing if Elasticsearch does not respond.

    Every user may query its own privileges.
    """
    try:
        user = (await client.security.authenticate()).body
        rights = await client.security.has_privileges(
            cluster=[*CLUSTER_PRIVILEGES, "all"], index=privileges_request(connection)
        )
    except AuthenticationException:
        return [_bad_credentials(connection)]
    except ApiError as error:
        # A node without security has no such path.
        has_path = error.status_code not in {400, 404, 405}
        return [unknown(USER, "could not be checked", error.message) if has_path else _without_security(connection)]
    except (TransportError, UnsupportedProductError):
        return []
    return [_user(user), *privilege_findings(rights.body, connection)]


def privileges_request(connection: ConnectionSettings) -> list[dict[str, Any]]:
    """Return the `index` part of the body of `_has_privileges`."""
    return [
        {"names": _read_indices(connection), "privileges": [*READ_PRIVILEGES, *_EXCESSIVE]},
        {"names": [*map(connection.alias, RESOURCES)], "privileges": [*STATISTICS_PRIVILEGES]},
        {"names": _served_patterns(connection), "privileges": [*SERVED_PRIVILEGES]},
        {"names": [connection.usage_index], "privileges": [*WRITE_PRIVILEGES]},
    ]


def _user(user: Mapping[str, Any]) -> Finding:
    kind = "API key of " if user.get("authentication_type") == "api_key" else ""
    roles = ", ".join(user.get("roles", ())) or "no roles of its own"
    return Finding(subject=USER, detail=f"{kind}{user['username']}, {roles}")


def _bad_credentials(connection: ConnectionSettings) -> Finding:
    variables = (
        "BROKERAGE_ELASTICSEARCH_API_KEY"
        if connection.api_key
        else "BROKERAGE_ELASTICSEARCH_USERNAME and BROKERAGE_ELASTICSEARCH_PASSWORD"
        if connection.username
        else ""
    )
    if variables:
        return wrong(USER, "Elasticsearch rejects the credentials", f"They come from {variables}.", "Correct them.")
    remedy = "Set BROKERAGE_ELASTICSEARCH_API_KEY, or a user and its password."
    return wrong(USER, "Elasticsearch requires credentials", "None are set.", remedy)


def _without_security(connection: ConnectionSettings) -> Finding:
    if _is_loopback_only(connection):
        return Finding(subject=USER, detail="none needed: no security, but only reachable from this host")
    return warning(
        USER,
        "Elasticsearch has no security",
        "Anyone who can connect to it can read and change everything.",
        "Set `xpack.security.enabled`, or restrict network access to it.",
    )


def privilege_findings(response: Mapping[str, Any], connection: ConnectionSettings) -> Iterator[Finding]:
    """Yield missing and excessive privileges from a response of `_has_privileges`."""
    problems = [
        *_missing_privileges(response, connection),
        *_missing_shard_privileges(response, connection),
        *_excessive_privileges(response),
    ]
    yield from problems or [Finding(subject=PRIVILEGES, detail="all required ones, and no more")]


def _missing_privileges(response: Mapping[str, Any], connection: ConnectionSettings) -> Iterator[Finding]:
    needed: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(_read_indices(connection), READ_PRIVILEGES),
        connection.usage_index: WRITE_PRIVILEGES,
    }
    needed |= dict.fromkeys(map(connection.alias, RESOURCES), (*READ_PRIVILEGES, *STATISTICS_PRIVILEGES))
    lacking: dict[str, list[str]] = {
        right: [name for name, rights in needed.items() if right in rights and not response["index"][name][right]]
        for right in (*READ_PRIVILEGES, *WRITE_PRIVILEGES, *STATISTICS_PRIVILEGES)
    }
    lacking |= {right: ["the cluster"] for right in CLUSTER_PRIVILEGES if not response["cluster"][right]}
    if any(lacking.values()):
        missing = (f"`{right}` on {', '.join(names)}" for right, names in lacking.items() if names)
        remedy = f"{_ROLE}. Do its index names begin with BROKERAGE_INDEX_PREFIX?"
        # Without the others a check or a record of usage is missing, but requests are served.
        state = wrong if lacking["read"] else warning
        yield state(PRIVILEGES, "some are missing", f"{'; '.join(missing)}.", remedy)


def _missing_shard_privileges(response: Mapping[str, Any], connection: ConnectionSettings) -> Iterator[Finding]:
    """Yield what is needed as soon as an index has several shards: by then it is too late."""
    if lacking := [name for name in _served_patterns(connection) if not response["index"][name]["read"]]:
        yield warning(
            PRIVILEGES,
            "some are missing for indices of several shards",
            f"`read` on {', '.join(lacking)}. Requests fail once BROKERAGE_SHARDS is above 1.",
            f"{_ROLE}.",
        )


def _excessive_privileges(response: Mapping[str, Any]) -> Iterator[Finding]:
    remedy = f"{_ROLE} only, and use another user for the indexer."
    if response["cluster"]["all"]:
        problem, detail = "it has all privileges", "An attacker who takes over the service controls the whole cluster."
        yield warning(PRIVILEGES, problem, detail, remedy)
        return
    changeable = sorted(
        name for name, has in response["index"].items() if any(has.get(right) for right in _EXCESSIVE if "read" in has)
    )
    if changeable:
        yield warning(PRIVILEGES, "it can write indices that it only reads", f"{', '.join(changeable)}.", remedy)
