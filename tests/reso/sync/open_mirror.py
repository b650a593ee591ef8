"""The reading half of a replication for tests: source, mirror, walks and events, without an index."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indexer.reporting.report import ignore_progress
from indexer.reso.client.edmx import parse_entity_sets
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.mirror import Mirror
from indexer.reso.settings import ResoSettings
from indexer.reso.sync.entity_events import EntityEventFollower
from indexer.reso.sync.entity_reader import EntityReader, SourceContext
from indexer.reso.sync.entity_sync import EntitySync
from mappings.data_dictionary import DataDictionary, load_dictionary
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_loop
from tests.reso.server.schema import ENTITY_TYPES, complete
from tests.reso.server.server_settings import ServerSettings
from tests.reso.server.store import Store
from tests.reso.world.generated_world import World, make_world

DICTIONARY = load_dictionary()
Records = dict[str, dict[str, Any]]
ON_SALE = {"StandardStatus": "Active", "PropertyType": "Residential"}


def small_world(seed: int = 1, **sizes: Any) -> World:
    """Return a source of a few records of each entity, nothing odd among them unless requested."""
    usual = {"properties": 12, "media": 16, "open_houses": 6, "members": 6, "offices": 3, "teams": 2, "team_members": 6}
    return make_world(seed, **{**usual, "hostile": 0, **sizes})


def put(store: Store, entity: str, *keys: str, stamped: str | None = None, **fields: object) -> None:
    for key in keys:
        store.put(entity, complete(entity, {ENTITY_TYPES[entity].key: key, **fields}), stamped)


def expected_records(store: Store, entity: str, select: tuple[str, ...]) -> Records:
    return {
        key: {name: row[name] for name in select if row.get(name) is not None}
        for key, row in store.records(entity).items()
    }


@dataclass
class OpenMirror:
    """An open mirror of a source."""

    server: ResoServer
    access: SourceContext
    waits: list[str]
    dictionary: DataDictionary
    walks: dict[str, EntitySync] = field(default_factory=dict)
    events: EntityEventFollower = field(init=False)

    async def begin(self) -> None:
        offered = await self.access.client.fetch_metadata(parse_entity_sets)
        for name, entity in self.dictionary.entities.items():
            select = tuple(item for item in self.dictionary.requested_fields(name) if item in offered[name])
            self.walks[name] = EntitySync(EntityReader(name, entity, select, self.access))
        readers = {name: value.reader for name, value in self.walks.items()}
        self.events = EntityEventFollower(self.access.client, self.access.mirror, readers, self.access.settings)

    def held(self, entity: str = "Property") -> Records:
        keys = self.access.mirror.keys(entity, "", 1_000_000)
        return {key: self.access.mirror.record(entity, key) or {} for key in keys}

    def is_equal(self, entity: str = "Property") -> bool:
        return self.held(entity) == expected_records(self.server, entity, self.walks[entity].reader.select)

    def asked(self, entity: str = "Property") -> list[str]:
        return [visit.describe for visit in self.server.ledger.visits if visit.resource == entity]


@asynccontextmanager
async def open_mirror(
    server: ResoServer, folder: Path, dictionary: DataDictionary = DICTIONARY, **options: Any
) -> AsyncIterator[OpenMirror]:
    """Open the mirror of a folder; options are fields of ResoSettings."""
    waits: list[str] = []
    settings = ResoSettings(**{"rate": 10_000.0, "page_size": 5, "removal_limit": 1.0, **options})
    mirror, web = Mirror(folder / "mirror.sqlite", dictionary), ResoClient(server.url, settings, waits.append)
    await web.open()
    try:
        opened = OpenMirror(server, SourceContext(web, mirror, settings, ignore_progress), waits, dictionary)
        await opened.begin()
        yield opened
    finally:
        await web.close()
        mirror.close()


@asynccontextmanager
async def loaded_mirror(
    folder: Path, *keys: str, source: ServerSettings | None = None, world: World | None = None, **options: Any
) -> AsyncIterator[tuple[ResoServer, OpenMirror, EntitySync]]:
    """Serve listings with these keys, or a world, and load the listings into a mirror."""
    async with serve_in_loop(source, world) as server, open_mirror(server, folder, **options) as mirror:
        put(server, "Property", *keys)
        await mirror.walks["Property"].load()
        yield server, mirror, mirror.walks["Property"]
