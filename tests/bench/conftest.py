"""A small index of generated listings, one of them deleted, and our service over it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from cluster.connection import ConnectionSettings, connect
from indexer import Engine, IndexerSettings, open_source, reindex, update
from indexer.report import ignore
from mappings import LISTING
from sample import write_source
from service.app import create_app
from service.keys.store import Grant, KeyStore
from service.settings import ServiceSettings
from tests.conftest import remove_indices
from tests.contract.world import read_source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

COMPANY = "summit-crest"
_LISTINGS = 300


@dataclass(frozen=True)
class Corner:
    """A corner of the engine: its connection settings, our service over it with a key, and what it was built from."""

    connection: ConnectionSettings
    http: TestClient[Any, Any]
    key: str
    identifiers: list[str]
    deleted: str

    @property
    def index(self) -> str:
        """The alias of the listings."""
        return self.connection.alias(LISTING)

    async def ours(self, path: str, **parameters: object) -> Any:
        """Return what our service answers."""
        query = {name: str(value) for name, value in parameters.items()}
        async with self.http.get(f"/v1{path}", params=query, headers={"x-api-key": self.key}) as response:
            assert response.status == 200, await response.text()
            return orjson.loads(await response.read())


@pytest.fixture(scope="session")
async def corner(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Corner]:
    """Listings of several companies; `identifiers` are the largest company's, in order, without the deleted one."""
    folder = tmp_path_factory.mktemp("bench")
    write_source(folder / "source", _LISTINGS)
    connection = ConnectionSettings(url=(engine_url,), prefix=f"t{secrets.token_hex(4)}-")
    async with connect(connection, connections=4, timeout=60) as client:
        engine = Engine(client, connection, IndexerSettings(dead_letter_folder=str(folder / "dead-letters")))
        with open_source(str(folder / "source")) as source:
            assert (await reindex(engine, source)).exit_code == 0
        first, *others = _identifiers(folder / "source")
        with open_source(str(_without(folder, first))) as source:
            assert (await update(engine, source, on_progress=ignore)).exit_code == 0
        key = (
            await KeyStore(client, connection.keys_index).create(Grant("bench", all_companies=True, rate=None))
        ).reveal()
        await client.indices.refresh(index=f"{connection.prefix}*")
        async with TestClient(TestServer(create_app(ServiceSettings(), connection))) as http:
            yield Corner(connection, http, key, others, first)
        await remove_indices(client, connection.prefix)


def _identifiers(source: Path) -> list[str]:
    envelopes = read_source(source / "listings.ndjson")
    return sorted(line["record"]["PlatformListingId"] for line in envelopes if line["platform_company_id"] == COMPANY)


def _without(folder: Path, identifier: str) -> Path:
    """Write a source that deletes a listing."""
    changes = folder / "changes"
    changes.mkdir()
    envelope = {"platform_company_id": COMPANY, "updated_at": "2100-01-01T00:00:00Z", "deleted": True}
    line = orjson.dumps(envelope | {"record": {"PlatformListingId": identifier}})
    (changes / "listings.ndjson").write_bytes(line + b"\n")
    return changes
