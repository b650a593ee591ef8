"""One request to the address of a subscription: which addresses it may have, and what counts as an answer.

An address comes from an operator's partner, so it could name a host of the operator's own network. The addresses of a
host are checked where a socket is made for them, after its name was resolved and for that connection only: a name that
resolves to something else a moment later gains nothing.
"""

import ipaddress
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from yarl import URL

from cluster.http.headers import parse_retry_after
from service.http.requests import IpAddress

_MAX_URL = 2_000
# What is kept of an answer for the operator; the rest is not read.
_MAX_ANSWER_BYTES = 200
_CONNECT_SECONDS = 5.0
# Prefixes of IPv6 behind which there is an address of IPv4 in the last 32 bits: translated (RFC 6052) and compatible.
_EMBEDDING = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
# Translated within a network (RFC 8215); not every supported version of Python knows that it is private.
_LOCAL_TRANSLATION = ipaddress.IPv6Network("64:ff9b:1::/48")


class RefusedAddress(OSError):
    """Deliveries may not go to this address; the text says why."""


class Answer(NamedTuple):
    """The status of an answer, 0 if there was none; what it said; and how many seconds to wait, if it did."""

    status: int
    text: str
    retry_after: float = 0.0

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 300

    def __str__(self) -> str:
        return f"{self.status} {self.text}".strip() if self.status else self.text


def require_deliverable(text: str, *, allow_private: bool) -> None:
    """Raise RefusedAddress for a URL that no delivery may go to, whatever its host resolves to."""
    try:
        url = URL(text)
        port = url.port
    except ValueError as error:
        raise RefusedAddress(f"{text!r} is not a URL: {error}.") from error
    if not url.host or url.scheme not in {"https", "http"} or len(text) > _MAX_URL or not port:
        raise RefusedAddress(f"{text!r} is not an https URL with a host.")
    if url.user or url.password or url.fragment:
        raise RefusedAddress("a URL with a user, a password or a fragment is not used: put a secret into the path.")
    literal = _literal(url.host)
    if url.scheme == "http" and url.host != "localhost" and not (literal and _unwrapped(literal).is_loopback):
        raise RefusedAddress("plain http is for addresses of this host: use https.")
    if literal or url.host == "localhost":
        require_public(literal or ipaddress.IPv4Address("127.0.0.1"), allow_private=allow_private)


def require_public(address: IpAddress, *, allow_private: bool) -> None:
    """Raise RefusedAddress for an address that is not one of the internet."""
    reached = _unwrapped(address)
    is_site_local = isinstance(reached, ipaddress.IPv6Address) and reached.is_site_local
    is_local = not reached.is_global or reached.is_multicast or is_site_local or reached in _LOCAL_TRANSLATION
    if is_local and not allow_private:
        advice = "set BROKERAGE_DELIVER_ALLOW_PRIVATE=true if deliveries may go there"
        raise RefusedAddress(f"{address} is an address of a private network: {advice}.")


def _literal(host: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _unwrapped(address: IpAddress) -> IpAddress:
    """Return the address that packets reach: that of IPv4 that an address of IPv6 stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if (embedded := address.ipv4_mapped or address.sixtofour) is not None:
        return embedded
    if any(address in network for network in _EMBEDDING) and int(address) > 1:  # :: and ::1 are addresses themselves
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


class Sender:
    """Sends deliveries. No redirect is followed, no proxy of the environment used, and no cookie kept."""

    def __init__(self, seconds: float, *, allow_private: bool) -> None:
        """Wait `seconds` for an answer."""
        self._allow_private = allow_private
        self._timeout = ClientTimeout(total=seconds, connect=min(seconds, _CONNECT_SECONDS))
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        # No limit: receivers that hang would hold the connections of others. Each subscription has one at most.
        connector = TCPConnector(limit=0, use_dns_cache=False, socket_factory=self._checked_socket)
        self._session = ClientSession(
            connector=connector,
            timeout=self._timeout,
            trust_env=False,
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def _checked_socket(self, resolved: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = resolved
        require_public(ipaddress.ip_address(address[0]), allow_private=self._allow_private)
        return socket.socket(family, kind, protocol)

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the answer; what is not one of HTTP is a reason."""
        if self._session is None:
            raise RuntimeError("The sender is not open.")
        try:
            require_deliverable(url, allow_private=self._allow_private)
            request = self._session.post(url, data=body, headers=headers, allow_redirects=False)
            async with request as response:
                return await _read_answer(response)
        except TimeoutError:
            return Answer(0, "did not answer in time")
        except ClientConnectorError as error:
            refused = isinstance(error.os_error, RefusedAddress)
            return Answer(0, str(error.os_error) if refused else f"cannot be reached: {error.strerror}")
        except (ClientError, OSError, ValueError) as error:
            return Answer(0, str(error) or type(error).__name__)


async def _read_answer(response: ClientResponse) -> Answer:
    content = await response.content.read(_MAX_ANSWER_BYTES)
    if not response.content.at_eof():
        response.close()  # the rest, however long, is not read
    text = content.decode(errors="replace").partition("\n")[0]
    return Answer(
        response.status,
        "".join(character if character.isprintable() else "\ufffd" for character in text),
        parse_retry_after(response.headers.get("Retry-After", "")) or 0.0,
    )
