"""OData clients that are not ours read the RESO Web API: python-odata, and @odata/client of npm."""

import asyncio
import json
from typing import Any

import pytest
from odata import ODataService  # type: ignore[import-untyped]
from odata.exceptions import ODataError  # type: ignore[import-untyped]
from requests import Session

from service.reso.entity_events import EVENT_ENTITY_SET, SEQUENCE_PROPERTY
from service.reso.sets.declarations import ENTITY_SETS
from tests.clients.generated_client import HERE, NODE, run
from tests.contract.world import World
from tests.odata.expected_entities import expected_entities
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient

_BOUND = 500_000
# The key of each entity set.
KEYS = {name: entity_set.key for name, entity_set in ENTITY_SETS.items()} | {EVENT_ENTITY_SET: SEQUENCE_PROPERTY}


@pytest.fixture(scope="module")
async def every_key(world: World) -> dict[str, list[Any]]:
    """The keys of all rows of each entity set, in order."""
    client = ODataClient(world.http.session, str(world.http.make_url("")), world.keys)
    walked = {name: await client.walk(name, "all", MAX_PAGE_SIZE_PREFERENCE, select=key) for name, key in KEYS.items()}
    return {name: [row[KEYS[name]] for row in rows] for name, rows in walked.items()}


@pytest.fixture(scope="module")
def costly(world: World) -> list[dict[str, Any]]:
    """What both clients must find: properties of a price, the dearest first."""
    found = [each for each in expected_entities(world, "Property") if (each["ListPrice"] or 0) >= _BOUND]
    return sorted(found, key=lambda each: (-each["ListPrice"], str(each["ListingKey"])))


async def test_python_odata_reflects_the_metadata_and_reads(
    root: str, asking: dict[str, str], costly: list[dict[str, Any]]
) -> None:
    await asyncio.to_thread(_read_with_python, root, asking["API_KEY"], costly)


def _read_with_python(root: str, key: str, costly: list[dict[str, Any]]) -> None:
    session = Session()
    session.headers["x-api-key"] = key
    service = ODataService(f"{root}/reso/", reflect_entities=True, session=session, quiet_progress=True)
    entity = service.entities["Property"]
    query = service.query(entity).filter(entity.ListPrice >= _BOUND)
    assert query.count() == len(costly)
    ordered = query.order_by(entity.ListPrice.desc(), entity.ListingKey.asc()).limit(5).offset(1).all()
    assert [(each.ListingKey, float(each.ListPrice)) for each in ordered] == [
        (each["ListingKey"], each["ListPrice"]) for each in costly[1:6]
    ]
    # More than a page: it follows the next links.
    assert len(query.all()) == len(costly) > 100
    single = service.query(entity).get(costly[0]["ListingKey"])
    assert (single.City, single.Heating) == (costly[0]["City"], costly[0]["Heating"])
    with pytest.raises(ODataError, match="UnparsedAddress"):
        service.query(entity).filter(entity.UnparsedAddress == "x").all()


async def test_python_odata_signs_in_and_reads_every_set(
    root: str, asking: dict[str, str], every_key: dict[str, list[Any]]
) -> None:
    read = await asyncio.to_thread(_read_sets_with_python, root, asking["API_KEY"])
    assert read == every_key
    assert max(map(len, read.values())) > 1_000


def _read_sets_with_python(root: str, key: str) -> dict[str, list[Any]]:
    """Read all rows of all sets, page after page by their next links; with a user name and a password."""
    session = Session()
    session.auth = key[3:13], key[14:]
    service = ODataService(f"{root}/reso/", reflect_entities=True, session=session, quiet_progress=True)
    assert service.entities.keys() == KEYS.keys()
    rows = {name: service.query(entity).all() for name, entity in service.entities.items()}
    return {name: [getattr(row, KEYS[name]) for row in found] for name, found in rows.items()}


async def test_the_client_of_npm_reads(
    asking: dict[str, str], costly: list[dict[str, Any]], every_key: dict[str, list[Any]]
) -> None:
    environment = {**asking, "ENTITY_SETS": json.dumps(KEYS)}
    finished = await run(NODE, HERE / "odata.mjs", folder=HERE, environment=environment)
    assert finished.code == 0, finished.all
    read = json.loads(finished.output)
    assert read["count"] == len(costly)
    prices = [each["ListPrice"] for each in costly]
    assert [each["ListPrice"] for each in read["first"]] == prices[1:6]
    assert read["single"]["ListingKey"] == read["first"][0]["ListingKey"]
    assert "UnparsedAddress" in read["refusal"]
    assert read["keys"] == every_key
