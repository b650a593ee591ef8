"""More requests than can be served: a few wait, the rest are refused before any work; shows are served."""

import asyncio
import logging
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from prometheus_client.parser import text_string_to_metric_families
from pytest_aiohttp.plugin import AiohttpClient

from service.limits.admission import AdmissionControl, ConcurrencyLimit, RequestKind
from service.operation import Operation
from service.resources import OPERATIONS
from service.telemetry.metrics import create_metrics_app
from service.telemetry.observation import Layer
from tests.service.api_client import services_of
from tests.service.conftest import Open
from tests.service.stand_in import Reply, StandIn, search_response
from tests.waiting import until

PLACES, ROOM = 2, 1
PAGE = "/v1/listings?platform_company_id=acme&updated_since={}"
SHOW = "/v1/agents/{}"
SMALL = {"concurrency": PLACES, "queue": ROOM, "queue_seconds": 3600.0, "show_concurrency": 1}


class Full:
    """A service whose searches for pages do not end, and those who ask it."""

    def __init__(self, api: TestClient[Any, Any], stand_in: StandIn, headers: dict[str, str]) -> None:
        self.api = api
        self.headers = headers
        self.stand_in = stand_in
        self.asking: list[asyncio.Task[Any]] = []
        self.admission: AdmissionControl = services_of(api).limits.admission

    @property
    def pages(self) -> ConcurrencyLimit:
        return self.admission.limits[RequestKind.PAGE]

    def ask(self, number: int) -> asyncio.Task[Any]:
        """Request a page that no other task requests, without waiting for it."""
        task = asyncio.create_task(self.api.get(PAGE.format(number), headers=self.headers))
        self.asking.append(task)
        return task

    async def fill(self) -> None:
        """Request until every slot is taken and the queue is full."""
        for number in range(1, PLACES + ROOM + 1):
            self.ask(number)
            await until(lambda: self.pages.running + self.pages.waiting == len(self.asking))

    async def leave(self) -> None:
        """Let all who ask give up."""
        for task in self.asking:
            task.cancel()
        await asyncio.gather(*self.asking, return_exceptions=True)


@pytest.fixture
async def full(open_api: Open, stand_in: StandIn) -> Any:
    """A service with few slots and warm caches, without requests yet."""
    stand_in.add("companies", "acme", {}, numeric_id="1")
    headers = {"x-api-key": stand_in.grant()}
    api = await open_api(**SMALL)
    assert (await api.get(PAGE.format(1), headers=headers)).status == 200
    stand_in.out(Reply(body=search_response(), delay=3600.0), "listings")
    stand_in.asked.clear()
    full = Full(api, stand_in, headers)
    yield full
    await full.leave()


async def test_excess_requests_get_retry_after(full: Full) -> None:
    await full.fill()
    waits = set()
    for number in range(30):
        response = await full.api.get(PAGE.format(100 + number), headers=full.headers)
        problem = await response.json()
        assert (response.status, problem["status"], problem["code"]) == (503, 503, "overloaded")
        assert response.content_type == "application/problem+json"
        assert response.headers["X-Request-Id"] == problem["request_id"]
        assert response.headers["Cache-Control"] == "no-store"
        waits.add(response.headers["Retry-After"])
    assert waits == {"1", "2", "3"}
    assert (full.pages.running, full.pages.waiting, full.pages.refused) == (PLACES, ROOM, 30)


async def test_nothing_is_done_for_who_is_refused_or_waits(full: Full) -> None:
    await full.fill()
    await until(lambda: len([path for path, _ in full.stand_in.asked if path == "/listings/_search"]) == PLACES)
    asked = len(full.stand_in.asked)
    for headers, status in ((full.headers, 503), ({}, 401), ({"x-api-key": "nonsense"}, 401)):
        assert (await full.api.get(PAGE.format("x"), headers=headers)).status == status
    assert len(full.stand_in.asked) == asked


async def test_another_key_gets_the_next_place(full: Full) -> None:
    await full.fill()
    other = {"x-api-key": full.stand_in.grant()}
    late = asyncio.create_task(full.api.get(PAGE.format(70), headers=other))
    full.asking.append(late)
    # It takes the place of the busy key's queued request, which gets 503.
    assert (await full.asking[PLACES]).status == 503
    full.stand_in.replies.clear()
    full.asking[0].cancel()
    assert (await late).status == 200


async def test_a_show_is_served_all_the_same(full: Full) -> None:
    full.stand_in.add("companies", "acme", {}, numeric_id="1")
    await full.fill()
    for path in ("/v1/companies/acme", "/livez", "/readyz"):
        assert (await full.api.get(path, headers=full.headers)).status == 200
    assert (await full.api.options(PAGE.format(1))).status == 204


async def test_shows_are_bounded_too(full: Full) -> None:
    full.stand_in.out(Reply(delay=3600.0), "agents")
    limit = full.admission.limits[RequestKind.SHOW]
    for number in range(2):
        full.asking.append(asyncio.create_task(full.api.get(SHOW.format(number), headers=full.headers)))
        await until(lambda: limit.running + limit.waiting == len(full.asking))
    assert (await full.api.get(SHOW.format(3), headers=full.headers)).status == 503
    assert (limit.running, limit.waiting, limit.refused, full.pages.running) == (1, 1, 1, 0)


async def test_the_place_of_who_leaves_is_given_on(full: Full) -> None:
    await full.fill()
    full.asking[0].cancel()
    await until(lambda: full.pages.waiting == 0)
    assert full.pages.running == PLACES
    full.ask(50)
    await until(lambda: full.pages.waiting == 1)
    # One that waits takes its wait along.
    full.asking[-1].cancel()
    await until(lambda: full.pages.waiting == 0)
    await full.leave()
    await until(lambda: full.pages.running == 0)


async def test_all_are_served_again_when_the_stall_is_over(full: Full) -> None:
    await full.fill()
    await full.leave()
    full.stand_in.replies.clear()
    assert (await full.api.get(PAGE.format(60), headers=full.headers)).status == 200


async def test_the_deadline_covers_waiting(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(**(SMALL | {"concurrency": 1, "deadline_seconds": 0.1}))
    limit = services_of(api).limits.admission.limits[RequestKind.PAGE]
    async with limit.slot("a"):
        response = await api.get(PAGE.format(1), headers={"x-api-key": stand_in.grant()})
        assert (response.status, (await response.json())["code"]) == (504, "deadline-passed")
        assert (limit.running, limit.waiting) == (1, 0)
    assert limit.running == 0
    assert [path for path, _ in stand_in.asked if not path.startswith("/api_keys/")] == []


async def test_who_reads_slowly_holds_no_place(full: Full) -> None:
    # More than the buffers between two sockets take.
    for number in range(16):
        full.stand_in.add("listings", f"L{number}", {"PlatformListingId": f"L{number}", "PublicRemarks": "x" * 2**20})
    full.stand_in.replies.clear()
    services = services_of(full.api)
    written = services.totals.timings.totals["/listings", Layer.WRITE].count
    _, writer = await asyncio.open_connection(full.api.host, full.api.port, limit=1024)
    key = full.headers["x-api-key"]
    writer.write(f"GET {PAGE.format(7)} HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\n\r\n".encode())
    await until(lambda: full.pages.running == 1)
    await until(lambda: full.pages.running == 0)
    assert [path for path, _ in full.stand_in.asked if path == "/listings/_search"] != []
    assert services.totals.timings.totals["/listings", Layer.WRITE].count == written
    writer.close()


async def test_the_metrics_count_running_queued_and_refused_requests(full: Full, aiohttp_client: AiohttpClient) -> None:
    await full.fill()
    metrics = await aiohttp_client(create_metrics_app(services_of(full.api)))
    for _ in range(20):
        await full.api.get(PAGE.format(1), headers=full.headers)
    families = text_string_to_metric_families(await (await metrics.get("/metrics")).text())
    samples = {
        (sample.name, sample.labels.get("kind")): sample.value for family in families for sample in family.samples
    }
    assert samples["brokerage_requests_refused_total", "page"] == 20
    assert samples["brokerage_requests_running", "page"] == PLACES
    assert samples["brokerage_requests_waiting", "page"] == ROOM
    assert samples["brokerage_requests_refused_total", "show"] == 0


async def test_a_refusal_is_not_a_line_in_the_log(full: Full, caplog: pytest.LogCaptureFixture) -> None:
    await full.fill()
    with caplog.at_level(logging.DEBUG, "service"):
        response = await full.api.get(PAGE.format(1), headers=full.headers)
    assert response.status == 503
    assert response.headers["X-Request-Id"] not in caplog.text


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)
async def test_every_operation_has_a_concurrency_limit(full: Full, operation: Operation) -> None:
    limit = full.admission.limits[operation.request_kind]
    assert limit.kind == ("show" if "{" in operation.path else "page")
