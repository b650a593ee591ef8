"""`redis`: all processes and hosts share the limits of keys (decision 11); off unless BROKERAGE_REDIS_URL is set.

The Redis client is an optional dependency and slow to import, so `service.redis.buckets` is imported where it is used.
"""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import parse_qs, urlsplit

from cluster.settings import SettingError, setting
from cluster.tls import is_loopback
from service.capability import Capability, Check
from service.health.checks import Finding, warning
from service.limits.rates import KeyLimiter
from service.services import Services
from service.settings import CapabilitySettings

_URL_SETTING = "BROKERAGE_REDIS_URL"
_ALLOW_PLAIN_SETTING = "BROKERAGE_REDIS_ALLOW_PLAIN"
_SCHEMES = {"redis", "rediss", "unix"}


def _require_url(url: str) -> None:
    """Raise SettingError unless the URL is empty or valid. The error does not quote it, because of the password."""
    try:
        address = urlsplit(url)
        is_usable = address.scheme in _SCHEMES and address.port != 0 and bool(address.netloc or address.path)
    except ValueError:
        is_usable = False
    if url and not is_usable:
        raise SettingError(f"{_URL_SETTING} is not of the form redis://host:port/0, rediss://… (TLS) or unix://path.")


def _require_client(url: str) -> None:
    """Raise SettingError if there is a URL, and the Redis client is not installed."""
    if url and find_spec("redis") is None:
        raise SettingError(f"{_URL_SETTING} needs the Redis client, which is not installed: pip install redis.")


def _require_encrypted_password(url: str) -> None:
    """Raise SettingError if a valid URL has a password that would be sent to another host unencrypted."""
    address = urlsplit(url)
    has_password = bool(address.password) or "password" in parse_qs(address.query)
    if address.scheme == "redis" and has_password and not is_loopback(address.hostname or "localhost"):
        raise SettingError(
            f"{_URL_SETTING} has a password, which would be sent to another host unencrypted: use rediss://, or "
            f"set {_ALLOW_PLAIN_SETTING}=true if you trust the network."
        )


@dataclass(frozen=True)
class RedisSettings(CapabilitySettings):
    """Redis, in which the limits of keys are shared."""

    redis_url: str = setting(
        _URL_SETTING,
        "",
        "Redis in which all processes and hosts share the limits of keys. Without it each process has its own limits.",
        secret=True,
    )
    redis_allow_plain: bool = setting(
        _ALLOW_PLAIN_SETTING,
        default=False,
        note="Send the password of BROKERAGE_REDIS_URL to another host without TLS.",
    )

    def __post_init__(self) -> None:
        """Raise SettingError at the first invalid value."""
        _require_url(self.redis_url)
        _require_client(self.redis_url)
        if not self.redis_allow_plain:
            _require_encrypted_password(self.redis_url)


@asynccontextmanager
async def shared_limits(limiter: KeyLimiter, settings: RedisSettings, prefix: str) -> AsyncIterator[None]:
    """Let a limiter count in Redis, if it is configured; names there are `prefix`, `rate:` and the key id."""
    if not settings.redis_url:
        yield
        return
    from service.redis.buckets import RedisBuckets  # noqa: PLC0415 - as above

    buckets = RedisBuckets(settings.redis_url, f"{prefix}rate:")
    await buckets.open()
    limiter.share(buckets)
    try:
        yield
    finally:
        await buckets.close()


def _open(services: Services) -> AbstractAsyncContextManager[None]:
    return shared_limits(services.limits.rates, services.settings.of(RedisSettings), services.connection.prefix)


_SUBJECT = "redis"
_ALONE = "Until then each process enforces the limits by itself, so a key gets its rate once per process."


async def check_redis(services: Services) -> Finding:
    """Count a request of a test key in Redis. A failure is only a warning: the service works without Redis."""
    settings = services.settings.of(RedisSettings)
    if not settings.redis_url:
        return Finding(subject=_SUBJECT, detail="not used: each process enforces the limits of keys by itself")
    from service.redis.buckets import RedisBuckets  # noqa: PLC0415 - as above

    buckets = RedisBuckets(settings.redis_url, "doctor:")
    began = time.perf_counter()
    error = await buckets.failure()
    milliseconds = (time.perf_counter() - began) * 1000
    await buckets.close()
    if error is None:
        return Finding(subject=_SUBJECT, detail=f"works; connected and responded in {milliseconds:.1f} ms")
    return warning(
        _SUBJECT,
        "does not work",
        # Only the class: the text of some errors repeats the command.
        f"{type(error).__name__}. {_ALONE}",
        "Is BROKERAGE_REDIS_URL right, is Redis up, and may its user run EVAL, TIME, GET, SET and DEL?",
    )


CAPABILITY = Capability(
    "redis",
    settings=RedisSettings,
    open=_open,
    checks=(Check(_SUBJECT, check_redis, needs_elasticsearch=False),),
)
