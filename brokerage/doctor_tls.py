"""What `brokerage doctor` says of the way to Elasticsearch: TLS or not, how it is verified, and for how long."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from cluster.trust import Trust, shake_hands, told
from service.soundness import Finding, State

if TYPE_CHECKING:
    from cluster.connection import ConnectionSettings

TLS = "tls"
_SECONDS = 5.0
_DAY_SECONDS = 86_400
# A certificate that ends sooner is told while there is time to renew it.
_SOON_DAYS = 21


def is_local(connection: ConnectionSettings) -> bool:
    """Whether every address is one of this host's own, which nobody else hears."""
    return all(_is_loopback(urlsplit(url).hostname or "") for url in connection.url)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def tls_finding(connection: ConnectionSettings) -> Finding:
    """Look at the certificates over connections of its own, or at what is sent without any."""
    trust = connection.trust()
    if trust is None:
        return plain_finding(connection)
    try:
        ends = {url: await _end(urlsplit(url), trust) for url in connection.url}
    except OSError as error:
        detail = told(error, trust, "a node") or str(error) or type(error).__name__
        return Finding(subject=TLS, state=State.WARNING, problem="not every node can be verified", detail=detail)
    return certificate_finding(ends, trust.source, time.time())


async def _end(url: SplitResult, trust: Trust) -> float:
    """Return when the certificate at an address ends, in Unix seconds."""
    host, port = url.hostname or "", url.port or 0
    async with asyncio.timeout(_SECONDS):
        await trust.learn(host, port)
        return ssl.cert_time_to_seconds((await shake_hands(host, port, trust)).getpeercert()["notAfter"])


def certificate_finding(ends: dict[str, float], source: str, now: float) -> Finding:
    """Return how the certificates are verified and when the first of them ends; times are Unix seconds."""
    first = min(ends, key=lambda url: ends[url])
    days = int((ends[first] - now) // _DAY_SECONDS)
    how = f"verified by {source}"
    if days >= _SOON_DAYS:
        return Finding(subject=TLS, detail=f"{how}, {days} days left")
    return Finding(
        subject=TLS,
        state=State.WARNING,
        problem="a certificate ends soon",
        detail=f"That of {urlsplit(first).hostname} in {days} days; {how}.",
        remedy="Renew it in Elasticsearch; afterwards no connection is made.",
    )


def plain_finding(connection: ConnectionSettings) -> Finding:
    """Return what it means that Elasticsearch is asked without TLS."""
    if is_local(connection):
        return Finding(subject=TLS, detail="off: Elasticsearch is on this host")
    has_credentials = connection.authorization() or any(urlsplit(url).username for url in connection.url)
    told_away = "The credentials and" if has_credentials else "The keys' hashes and"
    return Finding(
        subject=TLS,
        state=State.WARNING,
        problem="off",
        detail=f"{told_away} all data pass the network in the clear.",
        remedy="Write https:// in ELASTICSEARCH_URL, and who signs in BROKERAGE_ELASTICSEARCH_CA_CERTS.",
    )


async def speaks_tls(connection: ConnectionSettings) -> bool:
    """Whether an address that is asked in plain HTTP speaks TLS; nothing is sent to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for url in map(urlsplit, connection.url):
        try:
            async with asyncio.timeout(_SECONDS):
                await shake_hands(url.hostname or "", url.port or 0, context)
        except OSError:
            continue
        return url.scheme == "http"
    return False
