"""The address of a client, also behind trusted proxies."""

import ipaddress
from collections.abc import Sequence

from aiohttp import web

from cluster.settings import SettingError

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

TRUSTED_PROXIES_SETTING = "BROKERAGE_TRUSTED_PROXIES"
# Addresses that are read from the right of `X-Forwarded-For`; chains of proxies are a handful long.
MAX_PROXIES = 16
# Providers assign at least this prefix to a customer, who can use any address within it.
_IPV6_PREFIX_BITS = 64


def read_networks(texts: Sequence[str]) -> tuple[IpNetwork, ...]:
    """Parse addresses and networks in CIDR form; raise SettingError with the first invalid one."""
    networks: list[IpNetwork] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise SettingError(f"{TRUSTED_PROXIES_SETTING}: {text!r} is not a network: {error}.") from None
    return tuple(networks)


def is_trusted_proxy(peer: str, trusted: Sequence[IpNetwork]) -> bool:
    """Return whether the peer of a connection is a proxy whose headers are trusted."""
    address = _address(peer)
    return address is not None and _is_in(address, trusted)


def client_address(request: web.BaseRequest, trusted: Sequence[IpNetwork]) -> IpAddress | None:
    """Return the address of a client; None if its connection has none, as over a Unix socket."""
    return forwarded_address(request.remote or "", request.headers.getall("X-Forwarded-For", ()), trusted)


def client_network(address: IpAddress | None) -> str:
    """Return what clients are counted by: the address, or the network of one of version 6."""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((address, _IPV6_PREFIX_BITS), strict=False))
    return str(address)


def forwarded_address(peer_text: str, lines: Sequence[str], trusted: Sequence[IpNetwork]) -> IpAddress | None:
    """Return the address of a client by the peer of its connection and the lines of `X-Forwarded-For`.

    The lines count only if the peer is trusted, and are read from the right, because only what trusted proxies appended
    is reliable: the client is the first address that is not a trusted proxy. If all are, it is the leftmost of the
    last `MAX_PROXIES`; if one of those read is malformed, it is the peer.
    """
    peer = _address(peer_text)
    if peer is None or not lines or not _is_in(peer, trusted):
        return peer
    client = peer
    for text in reversed(",".join(lines).rsplit(",", MAX_PROXIES)[-MAX_PROXIES:]):
        address = _address(text.strip())
        if address is None:
            return peer
        client = address
        if not _is_in(address, trusted):
            break
    return client


def _address(text: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    # A dual-stack socket reports IPv4 peers as IPv4-mapped addresses. A zone (`fe80::1%eth0`) is any text, and means
    # nothing outside the host that wrote it.
    return address.ipv4_mapped or ipaddress.IPv6Address(int(address))


def _is_in(address: IpAddress, networks: Sequence[IpNetwork]) -> bool:
    return any(address in network for network in networks)
