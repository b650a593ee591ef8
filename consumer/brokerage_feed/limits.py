"""Limits of a client: sizes and addresses that a service announces are compared with these before they are used."""

import ipaddress
import shutil
import socket
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import aiohttp

from brokerage_feed.errors import CopyError, ResponseTooLarge
from brokerage_feed.messages import ListedFile, PublishedFiles

_MIB, _GIB = 1024**2, 1024**3


@dataclass(frozen=True)
class FeedLimits:
    """The largest published file, all files of a list, what stays free on the disk, and hosts that files may be on.

    `file_hosts` are `host` or `host:port`. Files may also be on the service itself, and over https on any host whose
    address is public, or in a network like that of the service.
    """

    max_file_mib: int = 4096
    max_total_gib: int = 256
    min_free_mib: int = 256
    file_hosts: frozenset[str] = frozenset()

    def require_file(self, name: str, file: ListedFile) -> None:
        """Raise ResponseTooLarge if a file is listed as larger than a file may be."""
        if file.bytes > self.max_file_mib * _MIB:
            raise ResponseTooLarge(
                f"{name} is listed with {file.bytes:,} bytes, more than {self.max_file_mib:,} MiB. If the service has "
                "such files, raise BROKERAGE_PULL_MAX_FILE_MIB (FeedLimits.max_file_mib in programs)."
            )

    def require_total(self, name: str, published: PublishedFiles) -> None:
        """Raise ResponseTooLarge if the files of a list are more than may be downloaded."""
        files: Sequence[ListedFile] = [*published.files, *(published.changes or ())]
        if (total := sum(file.bytes for file in files)) > self.max_total_gib * _GIB:
            raise ResponseTooLarge(
                f"{name} lists {len(files):,} files with {total:,} bytes, more than {self.max_total_gib:,} GiB. If the "
                "service has as much, raise BROKERAGE_PULL_MAX_TOTAL_GIB (FeedLimits.max_total_gib in programs)."
            )

    def require_space(self, folder: Path, coming: int, what: str) -> None:
        """Raise CopyError if so many bytes more would leave too little space on the disk, and OSError."""
        free = shutil.disk_usage(folder).free
        if free - coming < self.min_free_mib * _MIB:
            raise CopyError(
                f"{what} needs {coming:,} bytes of the {free:,} that are free in {folder}, where {self.min_free_mib:,} "
                "MiB stay free: use a larger disk, or lower BROKERAGE_PULL_MIN_FREE_MIB (FeedLimits.min_free_mib)."
            )

    def names_host(self, host: str, port: int | None) -> bool:
        """Whether a host is one of `file_hosts`."""
        return not self.file_hosts.isdisjoint({host, f"{host}:{port}"})


class Network(StrEnum):
    """Where an address is; only addresses of one kind can be reached from everywhere."""

    PUBLIC = "a public address"
    LOOPBACK = "a loopback address"
    LINK_LOCAL = "a link-local address"
    PRIVATE = "a private address"


# An IPv4 address is in the last four bytes: behind a gateway (RFC 6052), and in compatible addresses (RFC 4291).
_EMBEDDING = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
# Behind a gateway of one's own network (RFC 8215); not every supported version of Python knows that it is private.
_LOCAL_GATEWAY = ipaddress.IPv6Network("64:ff9b:1::/48")


def network_of(address: str) -> Network:
    """Return where an IP address is; an IPv6 address that stands for an IPv4 address is where that is."""
    given = ipaddress.ip_address(address)
    if isinstance(given, ipaddress.IPv6Address):
        # `::` and `::1` are addresses themselves.
        has_embedded = int(given) > 1 and any(given in network for network in _EMBEDDING)
        embedded = ipaddress.IPv4Address(given.packed[-4:]) if has_embedded else None
        given = given.ipv4_mapped or given.sixtofour or embedded or given
    # The unspecified address connects to this host.
    if given.is_loopback or given.is_unspecified:
        return Network.LOOPBACK
    if given.is_link_local:
        return Network.LINK_LOCAL
    is_own = isinstance(given, ipaddress.IPv6Address) and (given.is_site_local or given in _LOCAL_GATEWAY)
    return Network.PRIVATE if not given.is_global or given.is_multicast or is_own else Network.PUBLIC


class AddressRefused(OSError):
    """A connection to an address in a network that the service is not in."""


class NotingConnector(aiohttp.TCPConnector):
    """Notes in which networks the addresses are that it has connected to."""

    def __init__(self) -> None:
        super().__init__()
        self.networks: set[Network] = set()

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        """Connect as aiohttp does."""
        connection = await super().connect(*arguments, **options)
        if connection.transport is not None:
            self.networks.add(network_of(connection.transport.get_extra_info("peername")[0]))
        return connection


def guarded_connector(networks: AbstractSet[Network]) -> aiohttp.TCPConnector:
    """Return a connector to public addresses and to those in some networks.

    Each address is checked when it is connected to, after any name was resolved: AddressRefused.
    """

    def create_socket(address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, place = address
        network = network_of(place[0])
        if network is not Network.PUBLIC and network not in networks:
            raise AddressRefused(f"it has {network}")
        return socket.socket(family, kind, protocol)

    return aiohttp.TCPConnector(socket_factory=create_socket)
