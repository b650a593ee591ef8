"""A process with shared rate limits: `python -m tests.service.limits.limit_worker URL LIMITERS HITS BURST...`.

Prints `ready`. For each burst it waits for a line, lets every limiter count `HITS` requests of one key concurrently,
and prints how many of them were allowed.
"""

import asyncio
import datetime as dt
import sys

from service.keys.api_key import ApiKey
from service.limits import redis_buckets
from service.limits.rates import create_limiter
from service.settings import ServiceSettings


async def _run(url: str, limiters: int, hits: int, *bursts: int) -> None:
    opened = [create_limiter(ServiceSettings(redis_url=url), "") for _ in range(limiters)]
    # The test is about exactness, also on a machine so busy that Redis seems unreachable.
    redis_buckets._RESPONSE_TIMEOUT_SECONDS = redis_buckets._CONNECT_TIMEOUT_SECONDS = 60.0
    for limiter in opened:
        await limiter.open()
    print("ready", flush=True)
    for burst in bursts:
        key = ApiKey(key_id=f"{burst}", name="", digest="", created=dt.datetime.now(dt.UTC), rate=1, burst=burst)
        await asyncio.to_thread(sys.stdin.readline)
        states = await asyncio.gather(*(limiter.count_request(key) for limiter in opened for _ in range(hits)))
        print(sum(state.is_allowed for state in states), flush=True)
    for limiter in opened:
        await limiter.close()


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], *map(int, sys.argv[2:])))
