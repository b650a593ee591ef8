"""The three probes: alive whatever happens, ready by rules that never take all replicas out, started for good."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from mappings import RESOURCES
from service.health.monitor import DRAINING, HEALTH_MONITOR, unready_reason
from tests.internals import Clock, Internals, count_reads
from tests.service.api_client import app_of, services_of
from tests.service.conftest import Open
from tests.service.stand_in import HeldReply, Reply, StandIn, refusal
from tests.waiting import until

AWAY = refusal(503, "cluster_block_exception")


async def probe(api: TestClient[Any, Any], path: str = "/readyz") -> tuple[int, str | None]:
    """Return the status of a probe and the reason that it gives."""
    async with api.get(path) as response:
        return response.status, (await response.json()).get("reason")


async def check_now(api: TestClient[Any, Any]) -> None:
    """Take the next round of checks now."""
    await app_of(api)[HEALTH_MONITOR].check_now()


def without_agents(stand_in: StandIn) -> None:
    """Take an alias away that was there."""
    del stand_in.indices["agents-v0001"]
    stand_in.documents["control", "mark-agents"] = {"clock": 1, "sequence": 1, "epoch": 0, "generation": "agents-v0001"}


def of_old_shape(stand_in: StandIn) -> None:
    """Take a search field away that every request uses."""
    del stand_in.indices["listings-v0001"]["mappings"]["properties"]["clock"]


def on_an_old_node(stand_in: StandIn) -> None:
    """Add a node whose version is not supported."""
    stand_in.versions["secret-node-8"] = "9.5.1"


FATAL: dict[str, tuple[Callable[[StandIn], None], str]] = {
    "a missing alias": (without_agents, "agents: its alias is missing"),
    "a stale mapping": (of_old_shape, "listings: its index lacks fields of this version"),
    "an old version": (on_an_old_node, "elasticsearch: unsupported version"),
}


async def test_a_resource_never_loaded_is_reported_and_does_not_block_the_start(
    open_api: Open, stand_in: StandIn
) -> None:
    del stand_in.indices["teams-v0001"]
    api = await open_api()
    answer = await (await api.get("/readyz?verbose")).json()
    assert answer["status"] == "ready"
    assert {"subject": "teams", "state": "absent", "problem": "nothing has been loaded yet"} in answer["checks"]


async def test_the_process_is_alive_whatever_elasticsearch_does(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    stand_in.is_away(AWAY)
    stand_in.looked_at.clear()
    async with api.get("/livez") as response:
        assert (response.status, await response.json()) == (200, {"status": "ok"})
    assert (stand_in.asked, stand_in.looked_at) == ([], [])


async def test_the_service_is_ready_at_once_where_all_is_well(api: TestClient[Any, Any]) -> None:
    async with api.get("/readyz") as response:
        assert (response.status, await response.json()) == (200, {"status": "ready"})
    assert await probe(api, "/startupz") == (200, None)


@pytest.mark.parametrize("fault", FATAL)
async def test_a_starting_replica_is_not_ready_while_something_is_wrong(
    open_api: Open, stand_in: StandIn, fault: str
) -> None:
    spoil, reason = FATAL[fault]
    spoil(stand_in)
    api = await open_api()
    for path in ("/readyz", "/startupz"):
        assert await probe(api, path) == (503, reason)
    stand_in.indices, stand_in.versions = type(stand_in)().indices, {}
    await check_now(api)
    assert await probe(api) == (200, None)


@pytest.mark.parametrize("index", ["companies", "api_keys"])
async def test_a_starting_replica_is_not_ready_before_it_can_read(
    open_api: Open, stand_in: StandIn, index: str
) -> None:
    stand_in.out(AWAY, "companies")
    stand_in.strange["/api_keys/_doc/readiness"] = refusal(403, "security_exception")
    api = await open_api()
    assert await probe(api) == (503, "keys and companies cannot be read")
    (stand_in.replies if index == "companies" else stand_in.strange).clear()
    assert await probe(api) == (503, "keys and companies cannot be read")
    stand_in.replies.clear()
    stand_in.strange.clear()
    assert await probe(api) == (200, None)


async def test_a_replica_may_start_before_there_is_a_key(open_api: Open, stand_in: StandIn) -> None:
    del stand_in.indices["api_keys"]
    assert await probe(await open_api()) == (200, None)


@pytest.mark.parametrize("reply", [AWAY, Reply(status=200, headers={})])
async def test_a_replica_that_starts_in_an_outage_is_ready_after_it(
    open_api: Open, stand_in: StandIn, reply: Reply
) -> None:
    stand_in.is_away(reply)
    api = await open_api()
    status, reason = await probe(api)
    assert status == 503
    assert str(reason).startswith("elasticsearch: ")
    stand_in.strange.clear()
    stand_in.replies.clear()
    await check_now(api)
    assert await probe(api) == (200, None)


@pytest.mark.parametrize("fault", FATAL)
async def test_what_is_wrong_for_every_replica_takes_no_running_one_out(
    api: TestClient[Any, Any], stand_in: StandIn, fault: str
) -> None:
    assert await probe(api) == (200, None)
    spoil, _ = FATAL[fault]
    spoil(stand_in)
    await check_now(api)
    assert await probe(api) == (200, None)


async def test_a_running_replica_outlives_a_short_outage_and_not_a_long_one(
    open_api: Open, stand_in: StandIn, internals: Internals
) -> None:
    api = await open_api(outage_seconds=60.0)
    assert await probe(api) == (200, None)
    stand_in.is_away(Reply(status=502, headers={}))
    await check_now(api)
    assert await probe(api) == (200, None)
    silent_since = services_of(api).engine.last_response_at = time.monotonic() - 61
    await check_now(api)
    internals(monitor_time=Clock(silent_since + 61))
    assert await probe(api) == (503, "elasticsearch: no response for 61 seconds")
    assert await probe(api, "/startupz") == (200, None)
    stand_in.strange.clear()
    await check_now(api)
    assert await probe(api) == (200, None)


async def test_a_pause_without_requests_is_not_an_outage(open_api: Open) -> None:
    api = await open_api(fresh_seconds=3600.0)
    assert await probe(api) == (200, None)
    services_of(api).engine.last_response_at = time.monotonic() - 61
    assert await probe(api) == (200, None)


async def test_an_overloaded_cluster_is_not_an_outage(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    assert await probe(api) == (200, None)
    services_of(api).engine.last_response_at = time.monotonic() - 61
    stand_in.is_away(refusal(429, "es_rejected_execution_exception"))
    await check_now(api)
    assert await probe(api) == (200, None)


async def test_a_draining_service_is_unready_at_once_but_still_answers(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    assert await probe(api) == (200, None)
    app_of(api)[DRAINING].set()
    assert await probe(api) == (503, "draining")
    assert await unready_reason(app_of(api)) == "draining"
    assert await probe(api, "/startupz") == (200, None)
    assert (await api.get("/v1/companies", headers={"x-api-key": stand_in.grant()})).status == 200
    assert (await api.get("/livez")).status == 200


async def test_however_often_readiness_is_asked_a_silent_cluster_is_asked_once(
    open_api: Open, stand_in: StandIn
) -> None:
    held = HeldReply(status=503)
    stand_in.out(held, "companies")
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0, deadline_seconds=60.0)
    stand_in.looked_at.clear()
    reading = count_reads(app_of(api)[HEALTH_MONITOR])
    asking = [asyncio.create_task(probe(api)) for _ in range(50)]
    await until(lambda: len(reading) == 50)
    held.release.set()
    assert {status for status, _ in await asyncio.gather(*asking)} == {503}
    marks = [f"/control/_doc/mark-{resource.alias}" for resource in RESOURCES]
    assert sorted(path for path, _ in stand_in.asked) == ["/companies/_search", *sorted(marks)]
    assert stand_in.looked_at == []


async def test_a_ready_replica_asks_nothing_when_it_is_asked(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0)
    assert await probe(api) == (200, None)
    stand_in.looked_at.clear()
    stand_in.asked.clear()
    assert await probe(api) == (200, None)
    assert (stand_in.looked_at, stand_in.asked) == ([], [])


@pytest.mark.parametrize("query", ["verbose", "verbose=1", "verbose=true"])
async def test_verbose_lists_every_check_with_state_and_age(
    api: TestClient[Any, Any], stand_in: StandIn, query: str
) -> None:
    stand_in.health = "yellow"
    without_agents(stand_in)
    await check_now(api)
    answer = await (await api.get(f"/readyz?{query}")).json()
    checks = {check.pop("subject"): check for check in answer["checks"]}
    assert checks["cluster"] == {"state": "warning", "problem": "status yellow"}
    assert checks["agents"] == {"state": "wrong", "problem": "its alias is missing"}
    assert checks["listings"] == {"state": "ok"}
    assert 0 <= answer["age_seconds"] < 60
    assert "checks" not in await (await api.get("/readyz")).json()
    assert "checks" not in await (await api.get("/readyz?verbose=0")).json()


async def test_verbose_shows_strangers_no_index_node_version_or_address(open_api: Open, stand_in: StandIn) -> None:
    bodies = []
    for spoil in (without_agents, of_old_shape, on_an_old_node):
        spoil(stand_in)
        bodies.append(await (await (await open_api()).get("/readyz?verbose")).text())
    stand_in.is_away(refusal(503, "cluster_block_exception"))
    bodies.append(await (await (await open_api()).get("/readyz?verbose")).text())
    insides = ["secret-node", "9.5", "v0001", "127.0.0.1", "http", "exception", "_meta", "status:", "fingerprint"]
    assert [word for word in insides if word in "".join(bodies)] == []


async def test_in_an_outage_verbose_shows_it_first_and_what_was_last_seen(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    stand_in.is_away(AWAY)
    await check_now(api)
    answer = await (await api.get("/readyz?verbose")).json()
    assert answer["checks"][0] == {"subject": "elasticsearch", "state": "wrong", "problem": "it is unreachable"}
    assert {"subject": "listings", "state": "ok"} in answer["checks"]
