"""A small index in memory: everything once, then what was written, and everything again when that does not suffice."""

from collections.abc import Mapping
from typing import Any

import pytest
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from service.app import build_services
from service.search.shared_state import DocumentSet, DocumentSetReader
from service.settings import ServiceSettings
from tests.internals import Internals

MAPPINGS = {"dynamic": False, "properties": {"name": {"type": "keyword"}}}


class Shelf:
    """An index of a real node, what the service knows of it, and what it searched for."""

    def __init__(self, client: AsyncElasticsearch, reader: AsyncElasticsearch, connection: ConnectionSettings) -> None:
        self.client, self.index = client, f"{connection.prefix}shelf"
        self.sizes: list[int] = []
        self.decoded: list[str] = []
        self.deleted_between_pages = ""
        engine = build_services(reader, ServiceSettings(), connection).engine
        search = engine.search_unshared

        async def counting(index: str, body: Mapping[str, Any]) -> bytes:
            self.sizes.append(body["size"])
            if len(self.sizes) == 2 and (name := self.deleted_between_pages):
                self.deleted_between_pages = ""
                await client.delete(index=index, id=name, refresh=True)
            return await search(index, body)

        engine.search_unshared = counting  # type: ignore[method-assign, assignment]
        self.reader = DocumentSetReader(engine, self.index, self.decode, "name")
        self.known: DocumentSet[int] | None = None

    def decode(self, hit: Mapping[str, Any]) -> int:
        """Note which documents are decoded."""
        self.decoded.append(hit["_id"])
        return int(hit["_source"]["value"])

    async def create(self, shards: int = 1) -> None:
        """Create the index, in place of an earlier one."""
        await self.client.indices.delete(index=self.index, ignore_unavailable=True)
        settings = {"number_of_shards": shards, "auto_expand_replicas": "0-1"}
        await self.client.indices.create(index=self.index, mappings=MAPPINGS, settings=settings)

    async def write(self, **values: int) -> None:
        """Write documents, in this order."""
        for name, value in values.items():
            document = {"name": name, "value": value}
            await self.client.index(index=self.index, id=name, document=document, refresh=True)

    async def read(self) -> dict[str, int]:
        """Read what has changed, and return everything."""
        self.sizes.clear()
        self.decoded.clear()
        self.known = await self.reader.read(self.known)
        return dict(self.known.by_id)


@pytest.fixture
async def shelf(
    client: AsyncElasticsearch, reader: AsyncElasticsearch, connection: ConnectionSettings, internals: Internals
) -> Shelf:
    """An index of five documents that are known, read in pages of four."""
    internals(document_set_page=4, document_set_reread=2)
    shelf = Shelf(client, reader, connection)
    await shelf.create()
    await shelf.write(a=1, b=2, c=3, d=4, e=5)
    assert await shelf.read() == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    assert shelf.sizes == [4, 4]
    return shelf


async def test_without_a_change_one_document_is_read_and_none_decoded(shelf: Shelf) -> None:
    before = shelf.known
    await shelf.read()
    assert (shelf.known is before, shelf.sizes, shelf.decoded) == (True, [1], [])


@pytest.mark.parametrize("changed", ["a", "e", "f"])
async def test_only_what_was_written_last_is_decoded(shelf: Shelf, changed: str) -> None:
    """The last document may change again and again, as a key that is rotated and then revoked."""
    expected = await shelf.read()
    for value in (10, 11, 12):
        await shelf.write(**{changed: value})
        assert await shelf.read() == {**expected, changed: value}
        assert shelf.sizes == [1, 4]
        assert {*shelf.decoded} <= {"e", changed}


async def test_more_writes_than_a_page_holds_are_read_with_everything(shelf: Shelf) -> None:
    await shelf.write(a=10, b=20, c=30)
    assert await shelf.read() == {"a": 10, "b": 20, "c": 30, "d": 4, "e": 5}


@pytest.mark.parametrize("written", [{}, {"f": 6}])
async def test_a_deletion_is_noticed(shelf: Shelf, written: dict[str, int]) -> None:
    await shelf.client.delete(index=shelf.index, id="b", refresh=True)
    await shelf.write(**written)
    assert await shelf.read() == {"a": 1, "c": 3, "d": 4, "e": 5, **written}


async def test_a_document_that_is_deleted_while_all_are_read_is_not_returned(shelf: Shelf) -> None:
    shelf.known, shelf.deleted_between_pages = None, "a"
    expected = {"b": 2, "c": 3, "d": 4, "e": 5}
    assert await shelf.read() == expected
    assert await shelf.read() == expected


async def test_a_change_of_the_document_to_continue_from_is_noticed(shelf: Shelf) -> None:
    await shelf.write(d=40)
    assert await shelf.read() == {"a": 1, "b": 2, "c": 3, "d": 40, "e": 5}


async def test_a_change_that_becomes_visible_after_a_later_one_is_noticed(shelf: Shelf) -> None:
    """Two requests may be in flight, as the revocation of a key and the last uses of others."""
    earlier = shelf.known
    assert earlier is not None
    await shelf.write(a=10, b=20)
    expected = await shelf.read()
    assert shelf.known is not None
    assert shelf.known.recent is not None
    by_id, sequences = {**expected, "a": 1}, {**shelf.known.sequences, "a": earlier.sequences["a"]}
    shelf.known = DocumentSet(by_id, sequences, shelf.known.recent[1:])
    assert await shelf.read() == expected


async def test_another_index_of_the_same_name_is_read_from_the_start(shelf: Shelf) -> None:
    await shelf.create()
    await shelf.write(v=1, w=2, x=3, y=4, z=5)
    assert await shelf.read() == {"v": 1, "w": 2, "x": 3, "y": 4, "z": 5}


async def test_an_index_that_becomes_empty_is_noticed(shelf: Shelf) -> None:
    await shelf.create()
    assert await shelf.read() == {}
    await shelf.write(a=1)
    assert await shelf.read() == {"a": 1}


async def test_an_index_of_several_shards_is_read_as_a_whole(shelf: Shelf) -> None:
    await shelf.create(shards=3)
    await shelf.write(a=1, b=2, c=3, d=4, e=5)
    assert await shelf.read() == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    for value in (10, 11):
        await shelf.write(a=value)
        assert (await shelf.read())["a"] == value
