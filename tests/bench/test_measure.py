"""Rounds over real servers: arms alternate, warm-up is dropped, and an arm that fails loses no other."""

import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from bench.client import Pool
from bench.measure import SMALLEST, Meter, Progress
from bench.questions import CLIENT, GROUPS, RAW, SERVICE, Arm, Heard, Templates
from bench.results import Measured, Results
from tests.bench.made import results
from tests.bench.servers import serving

SIZE = replace(SMALLEST, requests=2, requests_each=2, warm_up=1, rounds={"latency": 4})
PAGE = b'{"PlatformListingId":1},{"PlatformListingId":2}'
GROUP = (Arm(SERVICE), Arm(SERVICE, "show", ""), Arm(RAW, clients=3))


@dataclass
class Server:
    """Answers pages as the test wants them, and remembers who was asked."""

    asked: list[str] = field(default_factory=list)
    fails_from: int = 10_000
    page: bytes = PAGE

    async def answer(self, request: web.Request) -> web.Response:
        """Respond to every request with a page; the service's requests differ by their paths."""
        name = {"/v1/listings": SERVICE, "/v1/listings/a": "show"}.get(request.path, RAW)
        self.asked.append(name)
        if name == SERVICE and self.asked.count(name) > self.fails_from:
            return web.Response(status=503, text="not now")
        if request.headers["Accept-Encoding"] == "gzip":
            return web.Response(body=gzip.compress(self.page), headers={"Content-Encoding": "gzip"})
        return web.Response(body=self.page)


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """Connections that are closed afterwards."""
    made = Pool()
    yield made
    made.close()


async def _measured(
    monkeypatch: pytest.MonkeyPatch, pool: Pool, server: Server, *members: Arm
) -> tuple[dict[str, Measured], Results]:
    monkeypatch.setitem(GROUPS, "latency", members)
    found = results({})
    async with serving(server.answer) as url:
        answering = {arm.answers: url for arm in members}
        heard = {"page": Heard("POST", "/listings/_search", b"5eed5eed")}
        templates = Templates(answering, {RAW: heard}, "key", ["a"], page=2, large_page=1000)
        await Meter(pool, SIZE, {}, found, Progress()).group("latency", templates)
    return found.groups["latency"], found


async def test_every_arm_is_asked_once_a_round_and_another_one_first(
    monkeypatch: pytest.MonkeyPatch, pool: Pool
) -> None:
    server = Server()
    measured, found = await _measured(monkeypatch, pool, server, *GROUP)
    assert list(measured) == [arm.name for arm in GROUP]
    assert found.absent == {}
    # After a probe of each and a round to warm up: two requests of one client, six of three.
    rounds, asked = [], server.asked[3 + 10 :]
    for _ in range(4):
        rounds.append(list(dict.fromkeys(asked[:10])))
        assert sorted(asked[:10]) == sorted([SERVICE] * 2 + ["show"] * 2 + [RAW] * 6)
        asked = asked[10:]
    names = [SERVICE, "show", RAW]
    assert rounds == [names, [*names[1:], names[0]], [names[2], *names[:2]], names]
    assert asked == []


async def test_a_measurement_holds_what_was_asked_in_rounds_that_count(
    monkeypatch: pytest.MonkeyPatch, pool: Pool
) -> None:
    measured, _ = await _measured(monkeypatch, pool, Server(), *GROUP)
    for arm in GROUP:
        each = measured[arm.name]
        assert (len(each.rounds), each.requests, each.bytes) == (4, 2 * arm.clients, len(PAGE))
        assert 0 < each.latency_ms.low <= each.latency_ms.median <= each.p99_ms
        assert set(each.cpu_ms) == {CLIENT}


async def test_an_arm_that_fails_is_reported_and_loses_no_other(monkeypatch: pytest.MonkeyPatch, pool: Pool) -> None:
    measured, found = await _measured(monkeypatch, pool, Server(fails_from=6), *GROUP)
    assert list(measured) == [GROUP[1].name, GROUP[2].name]
    assert {len(each.rounds) for each in measured.values()} == {4}
    assert found.absent == {f"latency: {GROUP[0].name}": "status 503: not now"}


async def test_an_encoding_is_never_measured_by_another(monkeypatch: pytest.MonkeyPatch, pool: Pool) -> None:
    gzipped, zstd = (Arm(SERVICE, encoding=encoding) for encoding in ("gzip", "zstd"))
    measured, found = await _measured(monkeypatch, pool, Server(), gzipped, zstd)
    assert list(measured) == [gzipped.name]
    assert found.absent == {f"latency: {zstd.name}": "requested zstd, but the response is identity"}


async def test_a_page_that_lacks_records_is_rejected(monkeypatch: pytest.MonkeyPatch, pool: Pool) -> None:
    measured, found = await _measured(monkeypatch, pool, Server(page=PAGE[:30]), Arm(SERVICE))
    assert measured == {}
    assert list(found.absent.values()) == ["the response has 1 listings instead of 2"]
