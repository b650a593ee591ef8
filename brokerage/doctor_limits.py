"""What `brokerage doctor` says of Redis, through which processes share the limits of keys (decision 11)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from service.limits.shared import SharedBuckets
from service.soundness import Finding, State

if TYPE_CHECKING:
    from service.settings import ServiceSettings

REDIS = "redis"
_ALONE = "Until then each process counts alone, and a key may send its rate to each."


async def redis_finding(settings: ServiceSettings) -> Finding:
    """Count a request of nobody there; a Redis that is away keeps no request from being answered."""
    if not settings.redis_url:
        return Finding(subject=REDIS, detail="none needed: each process counts the rates of keys alone")
    buckets = SharedBuckets(settings.redis_url, "doctor:")
    began = time.perf_counter()
    error = await buckets.failure()
    milliseconds = (time.perf_counter() - began) * 1000
    await buckets.close()
    if error is None:
        return Finding(subject=REDIS, detail=f"it counts; connected and answered in {milliseconds:.1f} ms")
    return Finding(
        subject=REDIS,
        state=State.WARNING,
        problem="it does not count",
        # The kind alone: the text of some errors repeats what was sent.
        detail=f"{type(error).__name__}. {_ALONE}",
        remedy="Is BROKERAGE_REDIS_URL right, is Redis up, and may its user run EVAL, TIME, GET, SET and DEL?",
    )
