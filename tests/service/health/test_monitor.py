"""What is found while the service runs: which requests are refused, what partners read, and what is logged."""

import asyncio
import logging
from dataclasses import replace
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient

from cluster.connection import ConnectionSettings
from service.background import keep_running
from service.errors import DeadlineExceeded
from service.health.checks import get_within_timeout
from service.health.monitor import HEALTH_MONITOR, HealthMonitor
from service.search.engine import SearchEngine
from service.settings import ServiceSettings
from tests.internals import Internals
from tests.service.api_client import app_of
from tests.service.conftest import Open
from tests.service.health.test_probes import check_now, of_old_shape, on_an_old_node, probe
from tests.service.stand_in import Reply, StandIn, refusal
from tests.waiting import until, until_true

LISTING = "/v1/listings/one"
_NODES = "/_nodes/_all/_none"


@pytest.fixture
def key(stand_in: StandIn) -> str:
    """A key, and a company and a listing to read with it."""
    stand_in.add("companies", "acme", {}, company="acme")
    stand_in.add("listings", "one", {"PlatformListingId": "one"}, company="acme")
    return stand_in.grant()


async def answer(api: TestClient[Any, Any], key: str, path: str = LISTING) -> tuple[int, Any]:
    """Return status and body of a request."""
    async with api.get(path, headers={"x-api-key": key}) as response:
        return response.status, await response.json()


async def test_a_resource_whose_index_is_unsound_is_refused_and_no_other(
    api: TestClient[Any, Any], stand_in: StandIn, key: str
) -> None:
    assert (await answer(api, key))[0] == 200
    of_old_shape(stand_in)
    await check_now(api)
    searches = len(stand_in.asked)
    status, problem = await answer(api, key)
    assert (status, problem["code"]) == (503, "temporarily-unavailable")
    assert problem["detail"] == "The listing index is being rebuilt and is temporarily unavailable. Try again shortly."
    assert [path for path, _ in stand_in.asked[searches:] if "listings" in path] == []
    assert (await answer(api, key, "/v1/companies"))[0] == 200


async def test_a_refusal_says_when_to_come_back(api: TestClient[Any, Any], stand_in: StandIn, key: str) -> None:
    of_old_shape(stand_in)
    await check_now(api)
    response = await api.get(LISTING, headers={"x-api-key": key})
    assert int(response.headers["Retry-After"]) > 0


async def test_an_unsupported_version_refuses_every_resource(
    api: TestClient[Any, Any], stand_in: StandIn, key: str
) -> None:
    assert (await answer(api, key))[0] == 200
    on_an_old_node(stand_in)
    await check_now(api)
    for path in (LISTING, "/v1/companies", "/v1/agents", "/v1/offices", "/v1/teams", "/v1/sold_listings"):
        assert (await answer(api, key, path))[0] == 503


async def test_a_fault_and_its_end_are_noticed_without_requests(open_api: Open, stand_in: StandIn, key: str) -> None:
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    sound = stand_in.indices["listings-v0001"]["mappings"]["properties"]["clock"]
    of_old_shape(stand_in)
    while (await answer(api, key))[0] != 503:
        pass
    stand_in.indices["listings-v0001"]["mappings"]["properties"]["clock"] = sound
    while (await answer(api, key))[0] != 200:
        pass


async def test_an_unexpected_error_is_logged_and_ends_no_check_after_it(
    open_api: Open, stand_in: StandIn, key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    monitor = app_of(api)[HEALTH_MONITOR]

    async def failing() -> None:
        monkeypatch.undo()
        raise RuntimeError("unexpected")

    monkeypatch.setattr(monitor, "check_now", failing)
    await until(lambda: "HealthMonitor.run failed and starts again" in caplog.messages)
    of_old_shape(stand_in)
    await until_true(lambda: is_refused(api, key))


async def is_refused(api: TestClient[Any, Any], key: str) -> bool:
    """Return whether a listing is refused."""
    return (await answer(api, key))[0] == 503


async def test_what_was_loaded_while_the_cluster_was_checked_is_served(
    api: TestClient[Any, Any], stand_in: StandIn, key: str
) -> None:
    loaded = stand_in.indices.pop("teams-v0001")
    stand_in.strange[_NODES] = Reply(delay=0.3, body=b'{"nodes": {}}')
    check = await start_check(api, stand_in, _NODES)
    stand_in.indices["teams-v0001"] = loaded
    await check
    assert (await answer(api, key, "/v1/teams"))[0] == 200


async def test_a_check_does_not_overwrite_what_a_later_one_found(
    api: TestClient[Any, Any], stand_in: StandIn, key: str
) -> None:
    (joint,) = [path for path in set(stand_in.looked_at) if "listings" in path]
    stand_in.strange[joint] = replace(refusal(404, "index_not_found_exception"), delay=0.3)
    stand_in.strange["/teams"] = refusal(404, "index_not_found_exception")
    check = await start_check(api, stand_in, joint)
    stand_in.strange.pop(joint)
    await check_now(api)
    await check
    assert (await answer(api, key, "/v1/teams"))[0] == 200


async def start_check(api: TestClient[Any, Any], stand_in: StandIn, path: str) -> asyncio.Task[None]:
    """Start a check, and return once it has sent a request to a path."""
    stand_in.looked_at.clear()
    check = asyncio.create_task(check_now(api))
    await until(lambda: path in stand_in.looked_at)
    return check


async def test_a_sound_index_is_checked_before_the_first_request(open_api: Open, stand_in: StandIn, key: str) -> None:
    of_old_shape(stand_in)
    assert (await answer(await open_api(fresh_seconds=3600.0), key))[0] == 503


async def test_in_an_outage_what_was_found_last_stands(api: TestClient[Any, Any], stand_in: StandIn, key: str) -> None:
    assert (await answer(api, key))[0] == 200
    of_old_shape(stand_in)
    await check_now(api)
    stand_in.strange = {path: refusal(503, "cluster_block_exception") for path in stand_in.looked_at}
    await check_now(api)
    status, problem = await answer(api, key)
    assert (status, "rebuilt" in problem["detail"]) == (503, True)


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"took": 3}', b'{"listings-v0001": {}}', b"null", b"<html/>", b""])
async def test_answers_that_make_no_sense_refuse_nothing_and_end_nothing(
    api: TestClient[Any, Any], stand_in: StandIn, key: str, body: bytes
) -> None:
    (joint,) = [path for path in set(stand_in.looked_at) if "listings" in path]
    for path in (joint, _NODES, "/_cluster/health"):
        stand_in.strange = {path: Reply(body=body)}
        await check_now(api)
    stand_in.strange.clear()
    assert (await answer(api, key))[0] == 200
    of_old_shape(stand_in)
    await check_now(api)
    assert (await answer(api, key))[0] == 503


async def test_what_is_found_is_logged_once_with_its_remedy_and_so_is_its_end(
    api: TestClient[Any, Any], stand_in: StandIn, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "service")
    sound = stand_in.indices["listings-v0001"]["mappings"]["properties"]["clock"]
    of_old_shape(stand_in)
    for _ in range(3):
        await check_now(api)
        await answer(api, key)
    assert said(caplog, "listings") == [
        (
            "ERROR",
            "listings: its index lacks fields of this version. "
            "listings-v0001 lacks these fields, or maps them differently: clock. "
            "Rebuild it with this version: `brokerage index reindex SOURCE listings`.",
        )
    ]
    stand_in.indices["listings-v0001"]["mappings"]["properties"]["clock"] = sound
    for _ in range(2):
        await check_now(api)
    assert [text for _, text in said(caplog, "listings")[1:]] == ["listings: healthy again"]


async def test_an_outage_is_logged_once(
    api: TestClient[Any, Any], stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "service")
    stand_in.is_away(Reply(status=502, headers={}))
    for _ in range(3):
        await check_now(api)
    ((_, logged),) = said(caplog, "elasticsearch")
    assert logged.startswith("elasticsearch: it is unreachable.")


def said(caplog: pytest.LogCaptureFixture, subject: str) -> list[tuple[str, str]]:
    """Return level and text of what was logged of a subject; other services of the process log others."""
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    return [(level, text) for level, text in logged if text.startswith(f"{subject}: ")]


def running() -> int:
    """Return how many background tasks are running."""
    return len([task for task in asyncio.all_tasks() if task.get_coro().__qualname__ == keep_running.__qualname__])  # type: ignore[union-attr]


async def test_background_tasks_end_with_the_service(open_api: Open) -> None:
    before = running()
    api = await open_api()
    assert running() >= before + 5
    await api.close()
    assert running() == before


async def test_a_mark_that_cannot_be_read_ends_no_checks(open_api: Open, stand_in: StandIn, key: str) -> None:
    stand_in.documents["control", "mark-teams"] = {"clock": "yesterday"}
    api = await open_api(fresh_seconds=0.0)
    await until(lambda: stand_in.looked_at.count(_NODES) > 2)
    assert await probe(api) == (503, "keys and companies cannot be read")
    of_old_shape(stand_in)
    stand_in.looked_at.clear()
    await until(lambda: stand_in.looked_at.count(_NODES) > 1)
    assert (await answer(api, key))[0] == 503


class _Silent:
    """A call that never returns."""

    async def get_json(self, target: str) -> tuple[int, Any]:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError(target)


async def test_no_check_waits_for_an_answer_that_does_not_come(internals: Internals) -> None:
    internals(check_timeout=0.01)
    with pytest.raises(DeadlineExceeded):
        # Far longer than any check takes: it ends a test that would wait for ever.
        await asyncio.wait_for(get_within_timeout(_Silent(), "/"), 60)


async def test_readiness_does_not_wait_for_what_cannot_be_read(internals: Internals) -> None:
    async def unreadable() -> None:
        await asyncio.Event().wait()

    internals(readiness_timeout=0.01)
    watch = HealthMonitor(cast("SearchEngine", _Silent()), ConnectionSettings(), ServiceSettings(), unreadable)
    assert await asyncio.wait_for(watch.unready_reason(), 60) == "keys and companies cannot be read"
