"""A process with shared rate limits: `python -m tests.service.limits.limit_worker URL LIMITERS HITS BURST...`.

Prints `ready`. For each burst it waits for a line, lets every limiter count `HITS` requests of one key concurrently,
and prints how many of them were allowed.
"""

import asyncio
import datetime as dt
import sys
from contextlib import AsyncExitStack

from service.keys.api_key import ApiKey
from service.limits.rates import KeyLimiter
from service.redis.capability import RedisSettings, shared_limits
from service.settings import ServiceSettings
from tests.internals import internals_set


async def _run(url: str, limiters: int, hits: int, *bursts: int) -> None:
    opened = [KeyLimiter(ServiceSettings()) for _ in range(limiters)]
    # The test is about exactness, also on a machine so busy that Redis seems unreachable.
    async with AsyncExitStack() as stack:
        stack.enter_context(internals_set(redis_response_timeout=60.0, redis_connect_timeout=60.0))
        for limiter in opened:
            await stack.enter_async_context(shared_limits(limiter, RedisSettings(redis_url=url), ""))
        print("ready", flush=True)
        for burst in bursts:
            key = ApiKey(key_id=f"{burst}", name="", digest="", created=dt.datetime.now(dt.UTC), rate=1, burst=burst)
            await asyncio.to_thread(sys.stdin.readline)
            states = await asyncio.gather(*(limiter.count_request(key) for limiter in opened for _ in range(hits)))
            print(sum(state.is_allowed for state in states), flush=True)


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], *map(int, sys.argv[2:])))
