"""A small world behind the real service: sample data indexed by the real indexer, keys of every kind of scope."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from indexer import IndexerContext, IndexerSettings, open_source, reindex
from sample import write_source
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.conftest import open_installation
from tests.contract.world import PARENT, World, read_source

_LISTINGS = 700
# No request is given up on a busy machine, and what is refused on purpose is not counted.
_SETTINGS = ServiceSettings(deadline_seconds=300.0, refusals_per_minute=0)

_GRANTS = {
    "all": KeyGrant("all", all_companies=True, rate=None),
    "large": KeyGrant("large", companies=("summit-crest",), rate=None),
    "child": KeyGrant("child", companies=("4101",), rate=None),
    "parent": KeyGrant("parent", parent_companies=(PARENT,), rate=None),
    "two": KeyGrant("two", companies=("tidewater-brokers", "orchard-street"), rate=None),
}


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
            dead_letter_folder=str(source / "dead-letters"),
            dead_letter_limit=dead_letter_limit,
            shards=(str(shards),),
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
