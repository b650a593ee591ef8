"""Aliases and mappings on a real Elasticsearch: what it answers of itself is something else than an empty list."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import TestClient, TestServer

from cluster.connection import ConnectionSettings, connect
from mappings import COMPANY, LISTING, RESOURCES, TEAM, Resource
from service.app import SERVICES, create_app
from service.resources import OPERATIONS
from service.settings import ServiceSettings
from service.soundness import State
from tests.conftest import remove_indices
from tests.service.corner import ASKED, Corner
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


UNMAPPED = "index.query.parse.allow_unmapped_fields"
# A field that no query of the service is without.
FIELD = "deleted"


@pytest.fixture(scope="module")
async def filled(engine_url: str) -> AsyncIterator[Corner]:
    """A corner with sound indices; creating them is what takes time."""
    connection = ConnectionSettings(url=(engine_url,), prefix=f"t{secrets.token_hex(4)}-")
    async with connect(connection, connections=4, timeout=60) as client:
        corner = Corner(client, connection)
        await corner.fill()
        yield corner
        await remove_indices(client, connection.prefix)


@pytest.fixture
async def corner(filled: Corner) -> AsyncIterator[Corner]:
    """The sound corner and a service over it that looks at it only when it is told to, once it has read its caches."""
    app = create_app(ServiceSettings(fresh_seconds=3600.0, stale_seconds=7200.0), filled.connection)
    async with TestClient(TestServer(app)) as filled.http:
        assert await filled.status("/companies/acme") == 200
        yield filled
    await filled.mend()


def test_every_operation_is_asked() -> None:
    assert ASKED.keys() == {operation.path for operation in OPERATIONS}


async def test_indices_as_the_declarations_make_them_are_sound_and_answered_from(corner: Corner) -> None:
    assert await corner.look() == {}
    assert await corner.statuses() == {200, 404}


async def test_a_missing_alias_is_503_in_every_operation(corner: Corner) -> None:
    await corner.point(dict.fromkeys(RESOURCES, ()))
    # Elasticsearch says so itself, before anything was looked at; afterwards it is not asked.
    assert await corner.statuses() == {503}
    assert await corner.look() == {resource.alias: (State.WRONG, "it is not there") for resource in RESOURCES}
    assert await corner.statuses() == {503}


async def test_a_field_that_the_live_index_lacks_is_503_in_every_operation_at_once(
    corner: Corner, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing has looked at what the aliases point at now: Elasticsearch itself refuses the query."""
    await corner.point(dict.fromkeys(RESOURCES, (await corner.make(LISTING, without=FIELD),)))
    assert await corner.statuses() == {503}
    assert "No field mapping can be found for the field with name [deleted]" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_an_index_from_before_unknown_fields_were_refused_is_not_answered_from_either(corner: Corner) -> None:
    await corner.point(dict.fromkeys(RESOURCES, (await corner.make(LISTING, without=FIELD, **{UNMAPPED: True}),)))
    # Without the check: an empty list, or that there is no such record.
    assert await corner.statuses() == {200, 404}
    problem = "its index lacks fields of this version"
    assert await corner.look() == {resource.alias: (State.WRONG, problem) for resource in RESOURCES}
    assert await corner.statuses() == {503}


async def test_a_sort_by_a_field_that_is_not_there_is_503(corner: Corner) -> None:
    options: dict[str, object] = {"index.sort.field": "id", UNMAPPED: True}
    await corner.point({LISTING: (await corner.make(LISTING, without="feed_key", **options),)})
    assert await corner.status("/listings?platform_company_id=acme&updated_since=1") == 503


@pytest.mark.parametrize("resource", [LISTING, COMPANY], ids=lambda resource: resource.alias)
async def test_an_alias_over_two_indices_is_refused(corner: Corner, resource: Resource) -> None:
    await corner.point({resource: (corner.sound[LISTING], corner.sound[COMPANY])})
    assert await corner.look() == {resource.alias: (State.WRONG, "it has several indices")}
    assert await corner.status(ASKED[f"/{resource.alias}"]) == 503


async def test_an_alias_with_a_filter_is_refused(corner: Corner) -> None:
    await corner.point({LISTING: (corner.sound[LISTING],)}, filter={"term": {"company": "other"}})
    assert await corner.look() == {"listings": (State.WRONG, "its alias hides records")}
    assert await corner.status(ASKED["/listings"]) == 503


async def test_a_closed_index_is_503_before_it_is_looked_at_and_after(corner: Corner) -> None:
    await corner.client.indices.close(index=corner.sound[LISTING])
    assert await corner.status(ASKED["/listings"]) == 503
    assert await corner.look() == {"listings": (State.WRONG, "its index is closed")}
    assert await corner.status(ASKED["/listings"]) == 503
    await corner.client.indices.open(index=corner.sound[LISTING], wait_for_active_shards=1)
    assert await corner.look() == {}
    assert await corner.status(ASKED["/listings"]) == 200


async def test_an_index_in_place_of_the_alias_is_refused(corner: Corner) -> None:
    await corner.point({TEAM: ()})
    name = corner.connection.alias(TEAM)
    await corner.client.indices.create(index=name)
    assert await corner.look() == {"teams": (State.WRONG, "it is no alias")}
    assert await corner.status("/teams") == 503
    await corner.client.indices.delete(index=name)


async def test_an_index_with_another_refresh_interval_is_told_and_answered_from(corner: Corner) -> None:
    index = corner.sound[LISTING]
    await corner.client.indices.put_settings(index=index, settings={"index.refresh_interval": None})
    assert await corner.look() == {"listings": (State.WARNING, "updates may become visible late")}
    assert await corner.status(ASKED["/listings"]) == 200
    await corner.client.indices.put_settings(index=index, settings={"index.refresh_interval": "1s"})


async def test_an_index_without_a_copy_is_503_and_the_red_cluster_takes_nobody_out(corner: Corner) -> None:
    assert await corner.watch.unready_reason() is None
    red = await corner.make(LISTING, **{"index.routing.allocation.require._name": "no-such-node"})
    await corner.point({LISTING: (red,)})
    await corner.watch.look()
    (cluster,) = [finding for finding in corner.watch.findings()[0] if finding.subject == "cluster"]
    assert (cluster.state, cluster.problem) == (State.WARNING, "it is red")
    assert await corner.status(ASKED["/listings"]) == 503
    assert await corner.watch.unready_reason() is None
    await corner.mend()
    await corner.client.indices.delete(index=red)


async def test_a_rollback_to_an_older_shape_is_noticed_while_the_service_runs(corner: Corner) -> None:
    old = await corner.make(LISTING, without="status", **{UNMAPPED: True})
    app = create_app(ServiceSettings(fresh_seconds=0.1, stale_seconds=0.2), corner.connection)
    async with TestClient(TestServer(app)) as corner.http:
        assert await corner.status(ASKED["/listings"]) == 200
        engine = app[SERVICES].engine
        await corner.point({LISTING: (old,)})
        await until(lambda: engine.refused)
        assert await corner.status(ASKED["/listings"]) == 503
        assert await corner.status(ASKED["/companies"]) == 200
        await corner.mend()
        await until(lambda: not engine.refused)
        assert await corner.status(ASKED["/listings"]) == 200
