"""Which addresses would carry credentials unencrypted across a network."""

import ipaddress
from urllib.parse import urlsplit


def is_exposed(url: str) -> bool:
    """Whether an address uses plain HTTP to another host; URLs without a host are not exposed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False  # the first request reports it
    return parts.scheme == "http" and not is_loopback(parts.hostname or "localhost")


def is_loopback(host: str) -> bool:
    """Whether a host is this one, by its loopback address or as `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
