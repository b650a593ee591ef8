"""The two probes: alive whatever happens, ready while the data can be read and nobody asked to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.health import DRAINING
from tests.service.stand_in import refusal

if TYPE_CHECKING:
    from aiohttp.test_utils import TestClient

    from tests.service.stand_in import StandIn


async def test_the_process_is_alive_whatever_elasticsearch_does(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    stand_in.out(refusal(503, "cluster_block_exception"))
    response = await api.get("/livez")
    assert (response.status, await response.json()) == (200, {"status": "ok"})
    assert stand_in.asked == []


async def test_the_service_is_ready_when_the_companies_can_be_read(api: TestClient[Any, Any]) -> None:
    response = await api.get("/readyz")
    assert (response.status, await response.json()) == (200, {"status": "ready"})


async def test_the_service_is_not_ready_while_they_cannot(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    stand_in.out(refusal(404, "index_not_found_exception"), "companies")
    response = await api.get("/readyz")
    reason = "the companies cannot be read from Elasticsearch"
    assert (response.status, await response.json()) == (503, {"status": "not ready", "reason": reason})
    stand_in.replies.clear()
    assert (await api.get("/readyz")).status == 200


async def test_a_draining_service_is_unready_but_still_answers(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    api.app[DRAINING].set()
    response = await api.get("/readyz")
    assert (response.status, await response.json()) == (503, {"status": "not ready", "reason": "draining"})
    assert (await api.get("/v1/companies", headers={"x-api-key": stand_in.grant()})).status == 200
    assert (await api.get("/livez")).status == 200
