"""The address of a client, also behind proxies that the settings name."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from cluster.settings import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

TRUSTED_PROXIES = "BROKERAGE_TRUSTED_PROXIES"


def read_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Read addresses and networks in CIDR form; raise SettingError that names the part at fault."""
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise SettingError(f"{TRUSTED_PROXIES}: {text!r} is not a network: {error}.") from None
    return tuple(networks)


def is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    """Tell whether the peer of a connection is a proxy whose headers are believed."""
    address = _address(peer)
    return address is not None and _is_in(address, trusted)


def client_address(request: web.BaseRequest, trusted: Sequence[Network]) -> Address | None:
    """Return who asks; None where the connection has no address, as over a Unix socket."""
    return forwarded(request.remote or "", request.headers.getall("X-Forwarded-For", ()), trusted)


def forwarded(peer_text: str, lines: Sequence[str], trusted: Sequence[Network]) -> Address | None:
    """Return who asks, by the peer of the connection and the lines of `X-Forwarded-For`.

    They count only if the peer is trusted, and are read from the right, since only what trusted proxies added is true:
    the first address that is not one of theirs asks. If all are theirs, the leftmost does; if one that is read is
    malformed, the peer.
    """
    peer = _address(peer_text)
    if peer is None or not lines or not _is_in(peer, trusted):
        return peer
    client = peer
    for text in reversed(",".join(lines).split(",")):
        address = _address(text.strip())
        if address is None:
            return peer
        client = address
        if not _is_in(address, trusted):
            break
    return client


def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # A socket for both families tells IPv4 peers this way.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
