"""A flood against several services that share limits through a real Redis, which dies and comes back meanwhile."""

import asyncio
import signal
import time
from collections import Counter
from typing import Any

from aiohttp.test_utils import TestClient

from tests.service.api_client import services_of
from tests.service.conftest import Open
from tests.service.limits.redis_server import RedisServer
from tests.service.limits.test_redis_buckets import redis
from tests.service.stand_in import StandIn
from tests.waiting import until

__all__ = ["redis"]

BURST, CLIENTS, FLOOD = 20, 8, 200


class Flood:
    """Clients that ask several services with one key, without pause."""

    def __init__(self, services: list[TestClient[Any, Any]], key: str) -> None:
        self.statuses: Counter[int] = Counter()
        self._key = {"x-api-key": key}
        self._tasks = [asyncio.create_task(self._ask(services[n % len(services)])) for n in range(CLIENTS)]

    async def _ask(self, service: TestClient[Any, Any]) -> None:
        while True:
            async with service.get("/v1/companies", headers=self._key) as response:
                self.statuses[response.status] += 1

    async def goes_on(self) -> None:
        """Wait for many more answers."""
        goal = self.statuses.total() + FLOOD
        await until(lambda: self.statuses.total() >= goal)

    async def stop(self) -> None:
        """End all clients."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def are_unreachable(services: list[TestClient[Any, Any]]) -> set[bool]:
    """Whether Redis is unreachable, as the services see it."""
    return {not services_of(service).limits.rates.is_shared for service in services}


async def test_a_limit_holds_in_a_flood_while_redis_dies_and_comes_back(
    redis: RedisServer, open_api: Open, stand_in: StandIn
) -> None:
    services, started = [await open_api(redis_url=redis.url, refusals_per_minute=0) for _ in range(2)], time.monotonic()
    flood = Flood(services, stand_in.grant(rate=1, burst=BURST))
    await flood.goes_on()
    redis.send(signal.SIGKILL)
    await until(lambda: are_unreachable(services) == {True})
    await flood.goes_on()
    redis.start()
    await until(lambda: are_unreachable(services) == {False})
    await flood.goes_on()
    await flood.stop()
    # Redis limits, and again when it has come back empty; meanwhile, or when it is slow, each process by itself.
    buckets = 2 + len(services)
    refilled = (time.monotonic() - started) / 60
    assert BURST <= flood.statuses[200] <= buckets * (BURST + 1 + refilled)
    assert flood.statuses.keys() == {200, 429}
