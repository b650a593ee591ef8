"""The Redis check of `brokerage doctor`. Redis shares the rate limits of keys between processes (decision 11)."""

import time

from service.health.checks import Finding, FindingState
from service.settings import ServiceSettings

REDIS = "redis"
_ALONE = "Until then each process enforces the limits by itself, so a key gets its rate once per process."


async def redis_finding(settings: ServiceSettings) -> Finding:
    """Count a request of a test key in Redis. A failure is only a warning: the service works without Redis."""
    if not settings.redis_url:
        return Finding(subject=REDIS, detail="not used: each process enforces the limits of keys by itself")
    # The Redis client is an optional dependency.
    from service.limits.redis_buckets import RedisBuckets  # noqa: PLC0415

    buckets = RedisBuckets(settings.redis_url, "doctor:")
    began = time.perf_counter()
    error = await buckets.failure()
    milliseconds = (time.perf_counter() - began) * 1000
    await buckets.close()
    if error is None:
        return Finding(subject=REDIS, detail=f"works; connected and responded in {milliseconds:.1f} ms")
    return Finding(
        subject=REDIS,
        state=FindingState.WARNING,
        problem="does not work",
        # Only the class: the text of some errors repeats the command.
        detail=f"{type(error).__name__}. {_ALONE}",
        remedy="Is BROKERAGE_REDIS_URL right, is Redis up, and may its user run EVAL, TIME, GET, SET and DEL?",
    )
