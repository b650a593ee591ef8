"""Validation of the Redis URL without the Redis client, which is slow to import and an optional dependency."""

from importlib.util import find_spec
from urllib.parse import parse_qs, urlsplit

from cluster.settings import SettingError
from cluster.tls import is_loopback

REDIS_URL_SETTING = "BROKERAGE_REDIS_URL"
REDIS_ALLOW_PLAIN_SETTING = "BROKERAGE_REDIS_ALLOW_PLAIN"
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


def require_redis_client(url: str) -> None:
    """Raise SettingError if there is a URL, and the Redis client is not installed."""
    if url and find_spec("redis") is None:
        raise SettingError(
            f"{REDIS_URL_SETTING} needs the Redis client, which is not installed: "
            "pip install 'brokerage-server[redis]'."
        )


def require_encrypted_password(url: str) -> None:
    """Raise SettingError if a valid URL has a password that would be sent to another host unencrypted."""
    address = urlsplit(url)
    has_password = bool(address.password) or "password" in parse_qs(address.query)
    if address.scheme == "redis" and has_password and not is_loopback(address.hostname or "localhost"):
        raise SettingError(
            f"{REDIS_URL_SETTING} has a password, which would be sent to another host unencrypted: use rediss://, or "
            f"set {REDIS_ALLOW_PLAIN_SETTING}=true if you trust the network."
        )
