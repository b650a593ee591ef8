"""Validation of the Redis URL without the Redis client, which is slow to import."""

from __future__ import annotations

from urllib.parse import urlsplit

from cluster.settings import SettingError

REDIS_URL_SETTING = "BROKERAGE_REDIS_URL"
_SCHEMES = {"redis", "rediss", "unix"}


def require_redis_url(url: str) -> None:
    """Raise SettingError unless the URL is empty or valid. The error does not quote it, because of the password."""
    try:
        address = urlsplit(url)
        is_usable = address.scheme in _SCHEMES and address.port != 0 and bool(address.netloc or address.path)
    except ValueError:
        is_usable = False
    if url and not is_usable:
        raise SettingError(
            f"{REDIS_URL_SETTING} is not of the form redis://host:port/0, rediss://… (TLS) or unix://path."
        )
