"""The reading half of a replication for tests: source, mirror, walks and events, without an index."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from indexer.report import ignore
from indexer.reso.access import Access
from indexer.reso.events import Events
from indexer.reso.metadata import entities
from indexer.reso.mirror import Mirror
from indexer.reso.reader import Reader
from indexer.reso.settings import ResoSettings
from indexer.reso.walks import Walks
from indexer.reso.web import Web
from mappings.dictionary import Dictionary, read_dictionary
from tests.reso.schema import ENTITY_TYPES
from tests.reso.world import complete, make_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.reso.server import ResoServer
    from tests.reso.store import Store
    from tests.reso.world import World

DICTIONARY = read_dictionary()
Records = dict[str, dict[str, Any]]
ON_SALE = {"StandardStatus": "Active", "PropertyType": "Residential"}


def small_world(seed: int = 1, **sizes: Any) -> World:
    """Return a source of a few records of each entity, nothing odd among them unless that is asked for."""
    usual = {"properties": 12, "media": 16, "open_houses": 6, "members": 6, "offices": 3, "teams": 2, "team_members": 6}
    return make_world(seed, **{**usual, "hostile": 0, **sizes})


def put(store: Store, entity: str, *keys: str, stamped: str | None = None, **fields: object) -> None:
    """Put bare records of an entity into a source."""
    for key in keys:
        store.put(entity, complete(entity, {ENTITY_TYPES[entity].key: key, **fields}), stamped)


@contextmanager
def without_events(server: ResoServer) -> Iterator[None]:
    """Let changes be made that no event tells of."""
    with patch.object(server.events, "tell"):
        yield


def begin_new_sequence(server: ResoServer) -> None:
    """Lose all events, and number those to come from the beginning."""
    for sequence in server.keys("EntityEvent"):
        server._tables["EntityEvent"].remove(sequence)
    server.events.sequence = 0


def shown(store: Store, entity: str, select: tuple[str, ...]) -> Records:
    """Return the records of a source as a mirror must hold them."""
    return {
        key: {name: row[name] for name in select if row.get(name) is not None}
        for key, row in store.records(entity).items()
    }


@dataclass
class Mirroring:
    """An open mirror of a source."""

    server: ResoServer
    access: Access
    waits: list[str]
    dictionary: Dictionary
    walks: dict[str, Walks] = field(default_factory=dict)
    events: Events = field(init=False)

    async def begin(self) -> None:
        """Ask the source what it has."""
        offered = await self.access.web.metadata(entities)
        for name, entity in self.dictionary.entities.items():
            select = tuple(each for each in self.dictionary.asked(name) if each in offered[name])
            self.walks[name] = Walks(Reader(name, entity, select, self.access))
        readers = {name: each.reader for name, each in self.walks.items()}
        self.events = Events(self.access.web, self.access.mirror, readers, self.access.settings)

    def held(self, entity: str = "Property") -> Records:
        """Return the records of an entity that the mirror has."""
        keys = self.access.mirror.keys(entity, "", 1_000_000)
        return {key: self.access.mirror.record(entity, key) or {} for key in keys}

    def is_equal(self, entity: str = "Property") -> bool:
        """Whether mirror and source hold the same of an entity."""
        return self.held(entity) == shown(self.server, entity, self.walks[entity].reader.select)

    def asked(self, entity: str = "Property") -> list[str]:
        """Return the decoded addresses of an entity that were asked for."""
        return [visit.text for visit in self.server.ledger.visits if visit.resource == entity]


@asynccontextmanager
async def mirroring(
    server: ResoServer, folder: Path, dictionary: Dictionary = DICTIONARY, **options: Any
) -> AsyncIterator[Mirroring]:
    """Open the mirror of a folder; options are fields of ResoSettings."""
    waits: list[str] = []
    settings = ResoSettings(**{"rate": 10_000.0, "page_size": 5, "removal_limit": 1.0, **options})
    mirror, web = Mirror(folder / "mirror.sqlite", dictionary), Web(server.url, settings, waits.append)
    await web.open()
    try:
        opened = Mirroring(server, Access(web, mirror, settings, ignore), waits, dictionary)
        await opened.begin()
        yield opened
    finally:
        await web.close()
        mirror.close()
