"""Limits that processes and hosts share, over a real Redis: exact, and no response depends on it."""

import asyncio
import datetime as dt
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from redis.asyncio import Redis

from cluster.settings import SettingError, load_settings
from service.keys.api_key import ApiKey
from service.limits.rates import KeyLimiter
from service.redis.buckets import RedisBuckets
from service.redis.capability import RedisSettings, shared_limits
from service.settings import ServiceSettings
from tests.internals import Internals, metric
from tests.network.server import Connection, serving
from tests.service.api_client import services_of
from tests.service.conftest import Open
from tests.service.limits.redis_server import RedisServer
from tests.service.limits.test_key_limits import LISTINGS
from tests.service.limits.test_rate_policy import RATE_LIMIT
from tests.service.stand_in import HeldReply, StandIn
from tests.waiting import until

HOUR = 3600 * 1_000_000
AWAY, BACK = "Redis is unreachable", "Redis is reachable again"


@pytest.fixture(autouse=True)
def patience(internals: Internals) -> None:
    """Let no pause of a busy machine pass for a Redis that does not respond."""
    internals(redis_response_timeout=60.0, redis_connect_timeout=60.0)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own."""
    server = RedisServer(tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def buckets(redis: RedisServer) -> AsyncIterator[RedisBuckets]:
    """Buckets in it."""
    async with opened(redis.url) as buckets:
        yield buckets


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisBuckets]:
    buckets = RedisBuckets(url, "t:")
    await buckets.open()
    try:
        yield buckets
    finally:
        await buckets.close()


@pytest.fixture
async def limiter(redis: RedisServer) -> AsyncIterator[KeyLimiter]:
    """A limiter that counts in it."""
    limiter = KeyLimiter(ServiceSettings())
    async with shared_limits(limiter, RedisSettings(redis_url=redis.url), ""):
        yield limiter


@pytest.fixture
async def console(redis: RedisServer) -> AsyncIterator[Redis]:
    """A client of the same Redis."""
    async with Redis.from_url(redis.url, decode_responses=True) as client:
        yield client


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged of Redis, without the reason."""
    texts = [record.getMessage() for record in caplog.records if record.name == "service"]
    return [known for text in texts for known in (AWAY, BACK) if text.startswith(known)]


def record(key_id: str, **about: Any) -> ApiKey:
    return ApiKey(key_id=key_id, name="", digest="", created=dt.datetime.now(dt.UTC), **about)


def test_processes_and_hosts_admit_exactly_the_burst_together(redis: RedisServer) -> None:
    # Two limiters in each of four processes, 40 requests each, all at once; one request a minute would come back.
    bursts = [1, 97, 319, 320]
    command = [sys.executable, "-m", "tests.service.limits.limit_worker", redis.url, "2", "40", *map(str, bursts)]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
        for _ in range(4)
    ]
    try:
        assert [_line(worker) for worker in workers] == ["ready"] * 4
        for burst in bursts:
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write("go\n")
                worker.stdin.flush()
            assert sum(int(_line(worker)) for worker in workers) == burst
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


async def test_requests_of_one_moment_share_a_round_trip_and_each_has_its_own_count(
    buckets: RedisBuckets, console: Redis
) -> None:
    before = (await console.info("commandstats"))["cmdstat_evalsha"]["calls"]
    states = await asyncio.gather(*(buckets.take(name, HOUR, 3 * HOUR) for name in "aabaab"))
    backlogs = [0 if backlog is None else -(-backlog // HOUR) for backlog in states]
    assert backlogs == [1, 2, 1, 3, 4, 2]
    assert (await console.info("commandstats"))["cmdstat_evalsha"]["calls"] == before + 1


async def test_a_request_comes_back_with_time_and_by_a_refund(limiter: KeyLimiter) -> None:
    slow, quick = record("slow", rate=1, burst=2), record("quick", rate=6000, burst=1)
    assert [(await limiter.count_request(slow)).is_allowed for _ in range(3)] == [True, True, False]
    assert (await limiter.refund(slow)).headers()["X-RateLimit-Remaining"] == "1"
    assert [(await limiter.count_request(slow)).is_allowed for _ in range(2)] == [True, False]
    # Never more than the burst.
    assert [(await limiter.refund(slow)).headers()["X-RateLimit-Remaining"] for _ in range(4)] == ["1", "2", "2", "2"]
    assert [(await limiter.count_request(slow)).is_allowed for _ in range(3)] == [True, True, False]
    assert (await limiter.count_request(quick)).is_allowed
    await asyncio.sleep(0.05)
    assert (await limiter.count_request(quick)).is_allowed


async def test_clients_that_leave_do_not_mix_up_answers(
    buckets: RedisBuckets, amount: Callable[[int, int], int]
) -> None:
    for number in range(1, amount(40, 2_000)):
        leaving = [asyncio.create_task(buckets.take("left", HOUR, 10**6 * HOUR)) for _ in range(3)]
        staying = [asyncio.create_task(buckets.take("stayed", 1000 * HOUR, 10**9 * HOUR)) for _ in range(2)]
        for _ in range(number % 4):
            await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        states = await asyncio.gather(*staying)
        # Steps of the one that stayed, whatever became of the others.
        assert [-(-(backlog or 0) // (1000 * HOUR)) for backlog in states] == [2 * number - 1, 2 * number]
    assert not buckets.is_unreachable


async def test_redis_holds_public_ids_under_the_prefix_and_expires_them(
    redis: RedisServer, console: Redis, open_api: Open, stand_in: StandIn
) -> None:
    api = await open_api(redis_url=redis.url)
    key, quick = stand_in.grant(rate=1), stand_in.grant(rate=60_000, burst=1)
    for text in (key, quick):
        assert (await api.get("/v1/companies", headers={"x-api-key": text})).status == 200
    # The bucket of the quick one is full again.
    await asyncio.sleep(0.05)
    name = f"rate:{key[3:13]}"
    assert await console.keys("*") == [name]
    assert (await console.get(name) or "").isdigit()
    assert 0 < await console.pttl(name) <= 60_000


async def test_two_services_share_the_rate_of_a_key(redis: RedisServer, open_api: Open, stand_in: StandIn) -> None:
    services = [await open_api(redis_url=redis.url) for _ in range(2)]
    key = {"x-api-key": stand_in.grant(rate=1, burst=4)}
    answers = [await services[n % 2].get("/v1/companies", headers=key) for n in range(6)]
    assert [answer.status for answer in answers] == [200] * 4 + [429] * 2
    states = [RATE_LIMIT.fullmatch(answer.headers["RateLimit"]) for answer in answers]
    assert [match and int(match[1]) for match in states] == [3, 2, 1, 0, 0, 0]


async def test_who_has_room_is_searched_for_while_redis_counts(
    redis: RedisServer, open_api: Open, stand_in: StandIn
) -> None:
    api = await open_api(redis_url=redis.url)
    key = {"x-api-key": stand_in.grant(rate=1, burst=3)}
    await (await api.get("/v1/companies", headers=key)).read()
    redis.send(signal.SIGSTOP)
    stand_in.asked.clear()
    asked = asyncio.create_task(api.get("/v1/listings/none", headers=key))
    await until(lambda: bool(stand_in.asked))
    assert not asked.done()
    redis.send(signal.SIGCONT)
    answer = await asked
    # Not found, and counted all the same.
    assert (answer.status, answer.headers["X-RateLimit-Remaining"]) == (404, "1")


async def test_what_others_used_up_is_refused_behind_its_search_and_then_before_it(
    redis: RedisServer, open_api: Open, stand_in: StandIn
) -> None:
    here, there = [await open_api(redis_url=redis.url) for _ in range(2)]
    key = {"x-api-key": stand_in.grant(rate=1, burst=8)}
    answers = [await service.get("/v1/companies", headers=key) for service in (here, *[there] * 7)]
    assert [answer.status for answer in answers] == [200] * 8
    stand_in.asked.clear()
    refused = [await here.get("/v1/listings/none", headers=key) for _ in range(3)]
    assert [answer.status for answer in refused] == [429] * 3
    assert [answer.headers["X-RateLimit-Remaining"] for answer in refused] == ["0"] * 3
    assert len(stand_in.asked) == 1


async def test_no_more_are_begun_ahead_than_there_was_room_for(
    redis: RedisServer, open_api: Open, stand_in: StandIn
) -> None:
    api = await open_api(redis_url=redis.url)
    key = {"x-api-key": stand_in.grant(rate=1, burst=5)}
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    await (await api.get("/v1/companies", headers=key)).read()
    stand_in.asked.clear()
    answers = await asyncio.gather(*(api.get(LISTINGS.format(n), headers=key) for n in range(1, 13)))
    assert sorted(answer.status for answer in answers) == [200] * 4 + [429] * 8
    assert [path for path, _ in stand_in.asked if path.endswith("_search")] == ["/listings/_search"] * 4


async def test_who_is_refused_a_place_was_counted(redis: RedisServer, open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(redis_url=redis.url, key_concurrency=2)
    key = {"x-api-key": stand_in.grant(rate=1, burst=20)}
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    await (await api.get("/v1/companies", headers=key)).read()
    held = HeldReply()
    stand_in.out(held, "listings")
    asked = [asyncio.create_task(api.get(LISTINGS.format(n), headers=key)) for n in range(1, 7)]
    await until(lambda: sum(request.done() for request in asked) == 4)
    held.release.set()
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status for answer in answers) == [200] * 2 + [429] * 4
    left = {int(answer.headers["X-RateLimit-Remaining"]) for answer in answers}
    assert left == set(range(13, 19))


async def test_a_redis_that_hangs_or_dies_under_load_costs_no_answer(
    redis: RedisServer,
    open_api: Open,
    stand_in: StandIn,
    caplog: pytest.LogCaptureFixture,
    internals: Internals,
) -> None:
    # A busy machine must not refuse what waits for its turn.
    api = await open_api(redis_url=redis.url, queue_seconds=60.0)
    rates = services_of(api).limits.rates
    assert rates.is_shared
    statuses, load = await under_load(api, stand_in.grant(rate=60_000))
    fail_opens = metric("brokerage_limit_fail_opens_total")

    async def more(change: int) -> None:
        before = len(statuses)
        await until(lambda: len(said(caplog)) == change)
        await until(lambda: len(statuses) >= before + 100)

    with caplog.at_level(logging.WARNING, "service"):
        stop_at_next_exchange(redis, internals)
        await more(1)
        internals(redis_response_timeout=60.0)
        redis.send(signal.SIGCONT)
        await more(2)
        redis.send(signal.SIGKILL)
        await more(3)
        redis.start()
        await more(4)
    for client in load:
        client.cancel()
    await asyncio.wait(load)
    assert set(statuses) == {200}
    assert said(caplog) == [AWAY, BACK, AWAY, BACK]
    assert metric("brokerage_limit_fail_opens_total") >= fail_opens + 200
    assert rates.is_shared


def stop_at_next_exchange(redis: RedisServer, internals: Internals) -> None:
    """Stop Redis when it is asked next, and let that exchange and those behind it give up soon."""
    send = internals.present("redis_send")

    async def stop_and_send(buckets: RedisBuckets, hits: Any) -> list[int] | None:
        internals(redis_send=send, redis_response_timeout=0.1)
        redis.send(signal.SIGSTOP)
        return await send(buckets, hits)  # type: ignore[no-any-return]

    internals(redis_send=stop_and_send)


async def under_load(api: TestClient[Any, Any], key: str) -> tuple[list[int], list[asyncio.Task[None]]]:
    """Let eight clients ask without pause; return the statuses so far and the clients."""
    statuses: list[int] = []

    async def client() -> None:
        while True:
            async with api.get("/v1/companies", headers={"x-api-key": key}) as response:
                statuses.append(response.status)

    load = [asyncio.create_task(client()) for _ in range(8)]
    await until(lambda: len(statuses) >= 20)
    return statuses, load


async def test_while_redis_is_unreachable_no_request_waits_for_it(
    redis: RedisServer, buckets: RedisBuckets, internals: Internals
) -> None:
    internals(redis_response_timeout=0.1)
    redis.send(signal.SIGSTOP)
    states = await asyncio.gather(*(buckets.take("a", HOUR, HOUR) for _ in range(50)))
    assert states == [None] * 50
    asked = buckets.take("a", HOUR, HOUR)
    # It ends at its first step, so no other task runs.
    with pytest.raises(StopIteration) as ended:
        asked.send(None)
    assert ended.value.value is None


async def test_away_each_process_still_limits_by_itself(redis: RedisServer, limiter: KeyLimiter) -> None:
    redis.send(signal.SIGKILL)
    assert [(await limiter.count_request(record("a", rate=1, burst=2))).is_allowed for _ in range(4)] == [
        True,
        True,
        False,
        False,
    ]


# What keeps Redis from writing, and what ends it.
_REFUSES_WRITES = {
    "a replica": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
    "full": (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
}


@pytest.mark.parametrize("kind", _REFUSES_WRITES)
async def test_a_redis_that_may_not_write_is_unreachable_until_it_may(
    buckets: RedisBuckets, console: Redis, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    begin, end = _REFUSES_WRITES[kind]
    with caplog.at_level(logging.WARNING, "service"):
        await console.execute_command(*begin)  # type: ignore[no-untyped-call]
        assert await buckets.take("a", HOUR, HOUR) is None
        # Looked for at least once in vain.
        await asyncio.sleep(0.2)
        assert buckets.is_unreachable
        await console.execute_command(*end)  # type: ignore[no-untyped-call]
        await until(lambda: not buckets.is_unreachable)
        assert await buckets.take("a", HOUR, HOUR) == HOUR
    assert said(caplog) == [AWAY, BACK]


async def test_a_bucket_is_full_for_no_longer_than_it_can_be(buckets: RedisBuckets, console: Redis) -> None:
    """The clock of Redis was set back, or somebody wrote to it."""
    await console.set("t:a", "9" * 18)
    assert await buckets.take("a", HOUR, 3 * HOUR) == 4 * HOUR
    assert await buckets.take("a", -HOUR, 3 * HOUR) == 2 * HOUR
    assert await console.pttl("t:a") <= 2 * 3_600_000


@pytest.mark.parametrize("backlog", [-1, HOUR + 2, 2**63 - 1])
async def test_a_redis_whose_answer_is_impossible_is_not_believed(backlog: int) -> None:
    answers = iter([1, backlog])

    async def lying(connection: Connection) -> None:
        while word := await connection.reader.readline():
            if word == b"EVALSHA\r\n":
                await connection.send(b"*1\r\n:%d\r\n" % next(answers, 1))
            elif word in {b"HELLO\r\n", b"CLIENT\r\n", b"SELECT\r\n"}:
                await connection.send(b"+OK\r\n")

    async with serving(lying) as server, opened(server.url.replace("http", "redis")) as buckets:
        assert not buckets.is_unreachable
        assert await buckets.take("a", 1, HOUR) is None


async def test_a_redis_that_lost_the_script_gets_it_again(buckets: RedisBuckets, console: Redis) -> None:
    await console.script_flush()
    assert await buckets.take("a", HOUR, HOUR) == HOUR
    assert not buckets.is_unreachable


async def _reset(connection: Connection) -> None:
    connection.reset()


async def _silent(connection: Connection) -> None:
    await connection.reader.read()


async def _nonsense(connection: Connection) -> None:
    await connection.reader.read(1)
    await connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize("behaviour", [None, _reset, _silent, _nonsense])
async def test_a_service_starts_while_redis_is_refused_reset_silent_or_something_else(
    behaviour: Any, open_api: Open, stand_in: StandIn, caplog: pytest.LogCaptureFixture, internals: Internals
) -> None:
    internals(redis_connect_timeout=1.0)
    async with serving(behaviour or _reset) as server:
        if behaviour is None:
            server.refuse()
        with caplog.at_level(logging.WARNING, "service"):
            api = await open_api(redis_url=f"redis://:secret@127.0.0.1:{server.port}/0")
        key = {"x-api-key": stand_in.grant(rate=1, burst=2)}
        answers = [await api.get("/v1/companies", headers=key) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert said(caplog) == [AWAY]
    assert "secret" not in caplog.text


@pytest.mark.parametrize("url", ["http://x", "redis", "redis://x:port", "redis://x:99999", "redis:"])
def test_an_invalid_address_is_reported_without_repeating_it(url: str) -> None:
    with pytest.raises(SettingError, match=r"^BROKERAGE_REDIS_URL is not of the form [^x]*x?[^x]*$") as refused:
        load_settings(RedisSettings, {"BROKERAGE_REDIS_URL": f"{url}?password=hunter2"})
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(RedisSettings(redis_url="rediss://x/0?password=hunter2"))


@pytest.mark.parametrize(
    "url", ["redis://:hunter2@redis.example/0", "redis://user:hunter2@192.0.2.1", "redis://x/0?password=hunter2"]
)
def test_a_password_is_not_sent_unencrypted_to_another_host(url: str) -> None:
    with pytest.raises(
        SettingError, match=r"^BROKERAGE_REDIS_URL .* use rediss://, or set BROKERAGE_REDIS_ALLOW_PLAIN="
    ) as refused:
        load_settings(RedisSettings, {"BROKERAGE_REDIS_URL": url})
    assert "hunter2" not in str(refused.value)
    load_settings(RedisSettings, {"BROKERAGE_REDIS_URL": url, "BROKERAGE_REDIS_ALLOW_PLAIN": "true"})
    load_settings(RedisSettings, {"BROKERAGE_REDIS_URL": url.replace("redis:", "rediss:")})


@pytest.mark.parametrize(
    "url",
    ["redis://redis.example/0", "redis://:hunter2@127.0.0.1/0", "redis://:hunter2@[::1]", "unix://:hunter2@/run/redis"],
)
def test_this_host_and_no_password_need_no_encryption(url: str) -> None:
    assert load_settings(RedisSettings, {"BROKERAGE_REDIS_URL": url}).redis_url == url
