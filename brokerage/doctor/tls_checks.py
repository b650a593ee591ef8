"""The TLS check of `brokerage doctor`: whether it is on, how certificates are verified, and when they expire."""

import asyncio
import ssl
import time
from urllib.parse import SplitResult, urlsplit

from cluster.connection import ConnectionSettings
from cluster.plain_http import is_loopback
from cluster.tls import TlsContext, describe_tls_error, tls_handshake
from service.health.checks import Finding, FindingState

TLS_SUBJECT = "tls"
_TIMEOUT_SECONDS = 5.0
_DAY_SECONDS = 86_400
# Certificates that expire sooner are reported, while there is time to renew them.
_EXPIRY_WARNING_DAYS = 21


def is_loopback_only(connection: ConnectionSettings) -> bool:
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
        return Finding(
            subject=TLS_SUBJECT, state=FindingState.WARNING, problem="not every node can be verified", detail=detail
        )
    return certificate_finding(ends, trust.source, time.time())


async def _expiry_of(url: SplitResult, trust: TlsContext) -> float:
    """Return when the certificate at an address expires, in Unix seconds."""
    host, port = url.hostname or "", url.port or 0
    async with asyncio.timeout(_TIMEOUT_SECONDS):
        await trust.resolve_fingerprint(host, port)
        return ssl.cert_time_to_seconds((await tls_handshake(host, port, trust)).getpeercert()["notAfter"])


def certificate_finding(ends: dict[str, float], source: str, now: float) -> Finding:
    """Return how certificates are verified and when the first one expires; times are Unix seconds."""
    first = min(ends, key=lambda url: ends[url])
    days = int((ends[first] - now) // _DAY_SECONDS)
    how = f"verified by {source}"
    if days >= _EXPIRY_WARNING_DAYS:
        return Finding(subject=TLS_SUBJECT, detail=f"{how}, {days} days left")
    return Finding(
        subject=TLS_SUBJECT,
        state=FindingState.WARNING,
        problem="a certificate expires soon",
        detail=f"The one of {urlsplit(first).hostname} in {days} days; {how}.",
        remedy="Renew it in Elasticsearch; once it has expired, connections fail.",
    )


def plain_finding(connection: ConnectionSettings) -> Finding:
    """Return the finding for connections without TLS."""
    if is_loopback_only(connection):
        return Finding(subject=TLS_SUBJECT, detail="off: Elasticsearch is on this host")
    has_credentials = connection.authorization() or any(urlsplit(url).username for url in connection.url)
    exposed = "Credentials and" if has_credentials else "Key hashes and"
    return Finding(
        subject=TLS_SUBJECT,
        state=FindingState.WARNING,
        problem="off",
        detail=f"{exposed} all data cross the network unencrypted.",
        remedy="Use https:// in ELASTICSEARCH_URL and set BROKERAGE_ELASTICSEARCH_CA_CERTS to the CA certificate.",
    )


async def speaks_tls(connection: ConnectionSettings) -> bool:
    """Whether an address with http:// speaks TLS. Nothing is sent over the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for url in map(urlsplit, connection.url):
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await tls_handshake(url.hostname or "", url.port or 0, context)
        except OSError:
            continue
        return url.scheme == "http"
    return False
