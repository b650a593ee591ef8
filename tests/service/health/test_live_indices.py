"""Aliases and mappings on a real Elasticsearch: what it answers of itself is something else than an empty list."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from mappings import AGENT, COMPANY, LISTING, RESOURCES, TEAM, Resource
from service.app import create_app
from service.health.checks import FindingState
from service.resources import OPERATIONS
from service.services import SERVICES
from service.settings import ServiceSettings
from tests.conftest import open_installation
from tests.service.index_sandbox import OPERATION_PATHS, IndexSandbox
from tests.waiting import until

UNMAPPED = "index.query.parse.allow_unmapped_fields"
# A field that no query of the service is without.
FIELD = "deleted"


@pytest.fixture(scope="module")
async def filled(engine_url: str) -> AsyncIterator[IndexSandbox]:
    """An installation with sound indices; creating them is what takes time."""
    async with open_installation(engine_url) as (client, connection):
        sandbox = IndexSandbox(client, connection)
        await sandbox.fill()
        yield sandbox


@pytest.fixture
async def sandbox(filled: IndexSandbox) -> AsyncIterator[IndexSandbox]:
    """A sound installation and a service over it that checks it only on request, once it has read its caches."""
    app = create_app(ServiceSettings(fresh_seconds=3600.0, stale_seconds=7200.0, shared_seconds=0.0), filled.connection)
    async with TestClient(TestServer(app)) as filled.http:
        assert await filled.status("/companies/acme") == 200
        yield filled
    await filled.restore()


def test_every_operation_is_asked() -> None:
    assert OPERATION_PATHS.keys() == {operation.path for operation in OPERATIONS}


async def test_indices_as_the_declarations_make_them_are_sound_and_answered_from(sandbox: IndexSandbox) -> None:
    assert await sandbox.check_now() == {}
    assert await sandbox.statuses() == {200, 404}


async def test_a_missing_alias_is_503_in_every_operation(sandbox: IndexSandbox) -> None:
    await sandbox.point(dict.fromkeys(RESOURCES, ()))
    # Elasticsearch says so itself, before anything was looked at; afterwards it is not asked.
    assert await sandbox.statuses() == {503}
    assert await sandbox.check_now() == {
        resource.alias: (FindingState.WRONG, "its alias is missing") for resource in RESOURCES
    }
    assert await sandbox.statuses() == {503}


async def test_a_field_that_the_live_index_lacks_is_503_in_every_operation_at_once(
    sandbox: IndexSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing has looked at what the aliases point at now: Elasticsearch itself refuses the query."""
    await sandbox.point(dict.fromkeys(RESOURCES, (await sandbox.make(LISTING, without=FIELD),)))
    assert await sandbox.statuses() == {503}
    assert "No field mapping can be found for the field with name [deleted]" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_an_index_from_before_unknown_fields_were_refused_is_not_answered_from_either(
    sandbox: IndexSandbox,
) -> None:
    await sandbox.point(dict.fromkeys(RESOURCES, (await sandbox.make(LISTING, without=FIELD, **{UNMAPPED: True}),)))
    # Without the check: an empty list, or that there is no such record; only shows by identifier look at the mapping.
    assert await sandbox.statuses() == {200, 404, 503}
    problem = "its index lacks fields of this version"
    assert await sandbox.check_now() == {resource.alias: (FindingState.WRONG, problem) for resource in RESOURCES}
    assert await sandbox.statuses() == {503}


async def test_a_sort_by_a_field_that_is_not_there_is_503(sandbox: IndexSandbox) -> None:
    options: dict[str, object] = {"index.sort.field": "id", UNMAPPED: True}
    await sandbox.point({LISTING: (await sandbox.make(LISTING, without="feed_key", **options),)})
    assert await sandbox.status("/listings?platform_company_id=acme&updated_since=1") == 503


@pytest.mark.parametrize("resource", [LISTING, COMPANY], ids=lambda resource: resource.alias)
async def test_an_alias_over_two_indices_is_refused(sandbox: IndexSandbox, resource: Resource) -> None:
    await sandbox.point({resource: (sandbox.valid[LISTING], sandbox.valid[COMPANY])})
    assert await sandbox.check_now() == {resource.alias: (FindingState.WRONG, "it has several indices")}
    assert await sandbox.status(OPERATION_PATHS[f"/{resource.alias}"]) == 503


async def test_an_alias_with_a_filter_is_refused(sandbox: IndexSandbox) -> None:
    await sandbox.point({LISTING: (sandbox.valid[LISTING],)}, filter={"term": {"company": "other"}})
    assert await sandbox.check_now() == {"listings": (FindingState.WRONG, "its alias hides records")}
    assert await sandbox.status(OPERATION_PATHS["/listings"]) == 503


async def test_a_closed_index_is_503_before_the_check_and_after(sandbox: IndexSandbox) -> None:
    await sandbox.client.indices.close(index=sandbox.valid[LISTING])
    assert await sandbox.status(OPERATION_PATHS["/listings"]) == 503
    assert await sandbox.check_now() == {"listings": (FindingState.WRONG, "its index is closed")}
    assert await sandbox.status(OPERATION_PATHS["/listings"]) == 503
    await sandbox.client.indices.open(index=sandbox.valid[LISTING], wait_for_active_shards=1)
    assert await sandbox.check_now() == {}
    assert await sandbox.status(OPERATION_PATHS["/listings"]) == 200


async def test_an_index_in_place_of_the_alias_is_refused(sandbox: IndexSandbox) -> None:
    await sandbox.point({TEAM: ()})
    name = sandbox.connection.alias(TEAM)
    await sandbox.client.indices.create(index=name)
    assert await sandbox.check_now() == {"teams": (FindingState.WRONG, "it is not an alias")}
    assert await sandbox.status("/teams") == 503
    await sandbox.client.indices.delete(index=name)


async def test_an_index_with_another_refresh_interval_is_reported_and_served(sandbox: IndexSandbox) -> None:
    index = sandbox.valid[LISTING]
    await sandbox.client.indices.put_settings(index=index, settings={"index.refresh_interval": None})
    assert await sandbox.check_now() == {"listings": (FindingState.WARNING, "updates may become visible late")}
    assert await sandbox.status(OPERATION_PATHS["/listings"]) == 200
    await sandbox.client.indices.put_settings(index=index, settings={"index.refresh_interval": "1s"})


async def test_an_index_without_a_copy_is_503_and_a_red_cluster_takes_no_worker_out(sandbox: IndexSandbox) -> None:
    assert await sandbox.watch.unready_reason() is None
    red = await sandbox.make(LISTING, **{"index.routing.allocation.require._name": "no-such-node"})
    await sandbox.point({LISTING: (red,)})
    await sandbox.watch.check_now()
    (cluster,) = [finding for finding in sandbox.watch.findings()[0] if finding.subject == "cluster"]
    assert (cluster.state, cluster.problem) == (FindingState.WARNING, "status red")
    assert await sandbox.status(OPERATION_PATHS["/listings"]) == 503
    assert await sandbox.watch.unready_reason() is None
    await sandbox.restore()
    await sandbox.client.indices.delete(index=red)


async def test_a_rollback_to_an_older_shape_is_noticed_while_the_service_runs(sandbox: IndexSandbox) -> None:
    old = await sandbox.make(LISTING, without="status", **{UNMAPPED: True})
    app = create_app(ServiceSettings(fresh_seconds=0.1, stale_seconds=0.2, shared_seconds=0.0), sandbox.connection)
    async with TestClient(TestServer(app)) as sandbox.http:
        assert await sandbox.status(OPERATION_PATHS["/listings"]) == 200
        engine = app[SERVICES].engine
        await sandbox.point({LISTING: (old,)})
        await until(lambda: engine.live.missing)
        assert await sandbox.status(OPERATION_PATHS["/listings"]) == 503
        assert await sandbox.status(OPERATION_PATHS["/companies"]) == 200
        await sandbox.restore()
        await until(lambda: not engine.live.missing)
        assert await sandbox.status(OPERATION_PATHS["/listings"]) == 200


LISTINGS = "/listings?platform_company_id=acme"
REBUILD = "`brokerage index reindex SOURCE {}`"
# Of a resource and a search field that its live index lacks: paths that use the field, and paths that do not.
LACKING: dict[tuple[Resource, str], tuple[list[str], list[str]]] = {
    (LISTING, "status"): (
        [
            LISTINGS,
            f"{LISTINGS}&coming_soon=true",
            "/changes?resources=listings&market_status=on-market",
            "/snapshot/listings?market_status=on-market",
            "/digest/listings?market_status=on-market",
            "/digest/listings?market_status=on-market&prefixes=0000",
            "/reso/Property?$filter=StandardStatus eq 'Active'",
        ],
        [
            f"{LISTINGS}&market_status=all",
            f"{LISTINGS}&market_status=all&timestamps_only=true",
            "/listings/one",
            "/sold_listings",
            "/changes?resources=listings",
            "/snapshot/listings",
            "/digest/listings",
            "/reso/Property",
        ],
    ),
    (LISTING, "listing_id"): ([f"{LISTINGS}&timestamps_only=true"], [LISTINGS, "/listings/one"]),
    (LISTING, "agents"): (
        [f"{LISTINGS}&agent_uuid=3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a"],
        [LISTINGS, f"{LISTINGS}&market_status=off-market", "/listings/one"],
    ),
    (AGENT, "deactivated"): (
        [
            "/agents",
            "/agents?deactivated=true",
            "/changes?resources=agents",
            "/changes?resources=companies,agents",
            "/snapshot/agents",
            "/digest/agents",
            "/reso/Member",
            "/reso/Member('one')",
            "/reso/Member?$filter=MemberStatus eq 'Active'&$select=MemberKey",
        ],
        [
            "/agents/one",
            "/offices",
            "/changes?resources=agents&include_deactivated=true",
            "/changes?resources=companies",
            "/snapshot/agents?include_deactivated=true",
            "/reso/Member?$select=MemberKey",
        ],
    ),
    (AGENT, "source_agent_id"): (
        ["/agents/one?platform_company_id=acme", f"{LISTINGS}&source_agent_id=7"],
        ["/agents/one", "/agents", f"{LISTINGS}&agent_uuid=3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a"],
    ),
}


@pytest.mark.parametrize("unmapped", [True, False], ids=["of an old version", "of this version"])
@pytest.mark.parametrize(("resource", "field"), LACKING, ids=lambda part: getattr(part, "alias", part))
async def test_a_search_field_that_the_live_index_lacks_stops_only_requests_that_use_it(
    sandbox: IndexSandbox, resource: Resource, field: str, unmapped: bool
) -> None:
    refused, served = LACKING[resource, field]
    old = await sandbox.make(resource, without=field, **({UNMAPPED: True} if unmapped else {}))
    await sandbox.point({resource: (old,)})
    problem = "its index lacks search fields of this version"
    assert await sandbox.check_now() == {resource.alias: (FindingState.WARNING, problem)}
    for path in refused:
        status, body = await sandbox.problem(path)
        assert (path, status) == (path, 503)
        # OData has errors of a form of its own.
        about = body.get("error", body)
        said = about.get("detail", about.get("message"))
        assert about["code"] == "temporarily-unavailable"
        assert REBUILD.format(resource.alias) in said
        assert field not in said
    assert {path: status for path in served if (status := await sandbox.status(path)) not in {200, 404}} == {}
    assert {await sandbox.status(path) for path in served} & {200}
    await sandbox.restore()
    assert await sandbox.check_now() == {}
    assert {path: status for path in refused if (status := await sandbox.status(path)) not in {200, 400, 404}} == {}


async def test_a_rebuild_that_is_due_is_reported_and_keeps_no_process_from_becoming_ready(
    sandbox: IndexSandbox,
) -> None:
    await sandbox.point({LISTING: (await sandbox.make(LISTING, without="status"),)})
    app = create_app(
        ServiceSettings(fresh_seconds=3600.0, stale_seconds=7200.0, shared_seconds=0.0), sandbox.connection
    )
    async with TestClient(TestServer(app)) as sandbox.http:
        answered = await sandbox.http.get("/readyz?verbose")
        assert answered.status == 200
        [check] = [check for check in (await answered.json())["checks"] if check["subject"] == "listings"]
        assert check["problem"] == "its index lacks search fields of this version"
        assert check["state"] == "warning"
        findings, _ = sandbox.watch.findings()
        [finding] = [finding for finding in findings if finding.subject == "listings"]
        assert finding.detail.endswith(
            "lacks these fields, or maps them differently: status. Requests that use them get 503."
        )
        assert REBUILD.format("listings") in finding.remedy
        assert await sandbox.status(LISTINGS) == 503


async def test_before_it_was_looked_at_elasticsearch_refuses_and_the_rebuild_is_named_too(
    sandbox: IndexSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    await sandbox.point({LISTING: (await sandbox.make(LISTING, without="status"),)})
    status, body = await sandbox.problem(LISTINGS)
    assert status == 503
    assert "`brokerage index reindex SOURCE`" in body["detail"]
    assert "No field mapping can be found for the field with name [status]" in caplog.text


async def test_companies_without_a_field_that_scopes_need_stop_every_request_rather_than_widen_one(
    sandbox: IndexSandbox,
) -> None:
    await sandbox.point({COMPANY: (await sandbox.make(COMPANY, without="parent_company_id"),)})
    app = create_app(ServiceSettings(fresh_seconds=0.1, stale_seconds=0.2, shared_seconds=0.0), sandbox.connection)
    async with TestClient(TestServer(app)) as sandbox.http:
        status, body = await sandbox.problem("/companies")
        assert (status, REBUILD.format("companies") in body["detail"]) == (503, True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"properties": {"colour": {"type": "keyword"}, "aroma": {"type": "text"}}}, "aroma, colour."),
        ({"properties": {"record": {"type": "object", "properties": {"hue": {"type": "long"}}}}}, "record.hue."),
        ({"dynamic": "false"}, "dynamic."),
    ],
)
async def test_what_is_added_to_a_live_mapping_by_hand_is_named(
    sandbox: IndexSandbox, change: dict[str, Any], named: str
) -> None:
    index = await sandbox.make(TEAM)
    await sandbox.point({TEAM: (index,)})
    assert "teams" not in await sandbox.check_now()
    await sandbox.client.indices.put_mapping(index=index, **change)
    assert (await sandbox.check_now())["teams"] == (FindingState.WARNING, "its mapping was changed by hand")
    (finding,) = [finding for finding in sandbox.watch.findings()[0] if finding.subject == "teams"]
    assert finding.detail.endswith(f"another program than the indexer: {named}")
    assert await sandbox.statuses() == {200, 404}
