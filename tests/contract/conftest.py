"""A small world behind the real service: sample data indexed by the real indexer, keys of every kind of scope."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from indexer import IndexerContext, IndexerSettings, open_source, reindex
from sample import write_source
from service.app import create_app
from service.capabilities import CAPABILITIES, require_known_capabilities
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.conftest import open_installation
from tests.contract.world import PARENT, World, read_source

_LISTINGS = 700
# Capabilities that are left out, as an operator names them; "all" is all of them.
WITHOUT = tuple(CAPABILITIES) if (names := os.environ.get("BROKERAGE_WITHOUT", "")) == "all" else (names,)
# What tests need besides the contract, by a part of their names.
_NEEDS = {
    "test_compatible_clients": "compatible",
    "test_exact_values": "compatible",
    "test_geojson": "geojson",
    "test_document_completeness": "openapi",
    "/openapi.json": "openapi",
    "test_the_document_is_served": "openapi",
    "test_openapi_fuzz": "openapi",
    "test_head_has_the_status_and_the_headers_of_get[/-": "site",
    "test_what_needs_no_key_answers_as_described[/]": "site",
    "test_feed_scope": "changes",
    "test_identifiers": "changes",
    "/changes": "changes",
    "/snapshot": "changes",
    "/digest": "changes",
    "/history": "history",
    "odata": "reso",
    "reso_is_exact": "reso",
    "test_without_capabilities": "site",
}
# No request is given up on a busy machine, and what is refused on purpose is not counted.
_SETTINGS = ServiceSettings(deadline_seconds=300.0, refusals_per_minute=0, without=WITHOUT)

_GRANTS = {
    "all": KeyGrant("all", all_companies=True, rate=None),
    "large": KeyGrant("large", companies=("summit-crest",), rate=None),
    "child": KeyGrant("child", companies=("4101",), rate=None),
    "parent": KeyGrant("parent", parent_companies=(PARENT,), rate=None),
    "two": KeyGrant("two", companies=("tidewater-brokers", "orchard-street"), rate=None),
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of what is left out."""
    absent = require_known_capabilities(WITHOUT)
    gone = [item for item in items if any(part in item.nodeid and name in absent for part, name in _NEEDS.items())]
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if item not in gone]


@pytest.fixture(scope="session")
async def world(engine_url: str, tmp_path_factory: pytest.TempPathFactory, shards: int) -> AsyncIterator[World]:
    """The service over an index of generated data; the data itself; a key for each scope."""
    source = tmp_path_factory.mktemp("source") / "sample"
    write_source(source, _LISTINGS)
    async with open_world(engine_url, source, _GRANTS, shards=shards) as opened:
        yield opened


@asynccontextmanager
async def open_world(
    engine_url: str, source: Path, grants: dict[str, KeyGrant], *, dead_letter_limit: float = 0.0, shards: int = 1
) -> AsyncIterator[World]:
    """Index a source, create a key for each grant, and serve. Without a limit every line must be valid."""
    async with open_installation(engine_url) as (client, connection):
        settings = IndexerSettings(
            dead_letter_folder=str(source / "dead-letters"), dead_letter_limit=dead_letter_limit, shards=(str(shards),)
        )
        with open_source(str(source)) as opened:
            summary = await reindex(IndexerContext(client, connection, settings), opened)
        assert summary.exit_code == 0 or dead_letter_limit
        store = KeyStore(client, connection.keys_index)
        keys = {name: (await store.create(grant)).reveal() for name, grant in grants.items()}
        async with TestClient(TestServer(create_app(_SETTINGS, connection))) as http:
            yield World(http, keys, _read(source), connection)


def _read(source: Path) -> dict[str, list[dict[str, object]]]:
    return {path.stem: read_source(path) for path in source.glob("*.ndjson")}
