"""A process of a service that shares its limits: `python -m tests.service.limit_worker URL LIMITERS HITS BURST...`.

Says `ready`. For each burst it waits for a line, lets each limiter count so many requests of one key at once, and
prints how many of them were let through.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import sys

from service.keys.record import ApiKey
from service.limits import shared
from service.limits.limiter import make_limiter
from service.settings import ServiceSettings


async def _run(url: str, limiters: int, hits: int, *bursts: int) -> None:
    opened = [make_limiter(ServiceSettings(redis_url=url), "") for _ in range(limiters)]
    # Here exactness is tried, also on a machine so busy that Redis seems away.
    shared._PATIENCE_SECONDS = shared._CONNECT_SECONDS = 60.0
    for limiter in opened:
        await limiter.open()
    print("ready", flush=True)
    for burst in bursts:
        key = ApiKey(key_id=f"{burst}", name="", digest="", created=dt.datetime.now(dt.UTC), rate=1, burst=burst)
        await asyncio.to_thread(sys.stdin.readline)
        standings = await asyncio.gather(*(limiter.hit(key) for limiter in opened for _ in range(hits)))
        print(sum(standing.allowed for standing in standings), flush=True)
    for limiter in opened:
        await limiter.close()


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], *map(int, sys.argv[2:])))
