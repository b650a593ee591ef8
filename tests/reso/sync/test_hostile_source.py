"""A source that is broken or hostile: a sentence, never a traceback or a hang, and the mirror stays usable."""

import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from indexer.errors import IndexerError, SourceError
from indexer.reporting.report import ignore_progress
from indexer.reso.client.edmx import parse_entity_sets
from indexer.reso.client.odata import ODataQuery, SourceRejectedError, TransientSourceError
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.mirror import Mirror
from indexer.reso.settings import ResoSettings
from indexer.reso.sync.entity_events import EntityEventFollower
from indexer.reso.sync.entity_reader import EntityReader, SourceContext
from indexer.reso.sync.entity_sync import EntitySync
from tests.network.http import Reply, Request, http
from tests.network.server import serving
from tests.reso.sync.open_mirror import DICTIONARY

PROPERTIES = ODataQuery("Property", ("ListingKey",), page_size=5)
# In place of each member. Each is JSON.
WRONG = (
    *(b"null", b"true", b"-1", b"1.5", b"1e400", b"9" * 400, b"9" * 5000, b'""', b'"\\ud800"', b'"\xff"', b'"\\u0000"'),
    *(b"[]", b"{}", b"[{}]", b"NaN", b'"x\'; DROP TABLE record; --"', b'"' + b"x" * 5000 + b'"', b"[" * 5000),
    *(b'{"a":' * 5000, b'"9999-12-31T23:59:59-23:59"', b'"0001-01-01T00:00:00+23:59"'),
)
ROW = {
    "ListingKey": "k1",
    "ModificationTimestamp": "2026-01-01T00:00:00Z",
    "StandardStatus": "Active",
    "ListPrice": 1,
    "ListAgentKey": "a1",
}
EVENT = {"EntityEventSequence": 1, "ResourceName": "Property", "ResourceRecordKey": "k1"}


@asynccontextmanager
async def open_source(
    body: Callable[[Request], Reply], folder: Path, **options: Any
) -> AsyncIterator[tuple[EntitySync, EntityEventFollower]]:
    """Open a source that responds to every request with `body(request)`."""

    async def reply(request: Request) -> Reply:
        return body(request)

    settings = ResoSettings(**{"rate": 100_000.0, "page_size": 2, "retry_seconds": 0.0, **options})
    mirror = Mirror(folder / "mirror.sqlite", DICTIONARY)
    async with serving(http(reply)) as server:
        web = ResoClient(server.url, settings, lambda _: None)
        await web.open()
        try:
            entity = DICTIONARY.entities["Property"]
            reader = EntityReader("Property", entity, tuple(ROW), SourceContext(web, mirror, settings, ignore_progress))
            sync = EntitySync(reader)
            yield sync, EntityEventFollower(web, mirror, {"Property": reader}, settings)
        finally:
            await web.close()
            mirror.close()


def _pages(row: dict[str, Any], *, wrap: bool = True) -> list[bytes]:
    """Return pages of two rows: with each member in turn missing or wrong."""
    pages = []
    for name in row:
        for value in WRONG:
            wrong = orjson.dumps(row | {name: "@"}).replace(b'"@"', value)
            pages.append(b'{"value":[%b,%b]}' % (orjson.dumps(row), wrong))
        pages.append(orjson.dumps({"value": [{other: row[other] for other in row if other != name}]}))
    if wrap:
        pages += [b'{"value":%b}' % value for value in WRONG]
        pages += [b'{"value":[],"@odata.nextLink":%b,"@odata.count":%b}' % (value, value) for value in WRONG]
        pages += [*WRONG, b"", b"<html>"]
    return pages


async def test_wrong_members_of_records_end_in_a_sentence_or_are_stored(tmp_path: Path) -> None:
    body = [b""]
    asked: list[str] = []

    def reply(request: Request) -> Reply:
        asked.append(request.path)
        return Reply(body=body[0])

    async with open_source(reply, tmp_path) as (sync, _):
        for body[0] in _pages(ROW):
            for step in (sync.load, sync.follow_changes, sync.recheck_recent, sync.compare_keys):
                sync.state.loaded, sync.state.last, sync.state.place = False, None, None
                sync.state.since = "2026-01-01T00:00:00Z"
                await _tolerating(step)
    assert len(asked) < 40 * len(_pages(ROW))


async def test_wrong_members_of_events_end_in_a_sentence(tmp_path: Path) -> None:
    events = [b""]

    def reply(request: Request) -> Reply:
        return Reply(body=events[0] if "EntityEvent" in request.path else orjson.dumps({"value": [ROW]}))

    async with open_source(reply, tmp_path) as (_, follower):
        for events[0] in _pages(EVENT):
            follower.restart()
            await _tolerating(follower.latest_sequence)
            await _tolerating(follower.follow)


async def _tolerating(step: Callable[[], Any]) -> None:
    with suppress(IndexerError, SourceRejectedError):
        await step()


@pytest.mark.parametrize("keys", [("b", "a"), ("A", "a")])
async def test_a_walk_by_key_that_returns_to_its_start_ends(tmp_path: Path, keys: tuple[str, ...]) -> None:
    asked: list[str] = []

    def reply(request: Request) -> Reply:
        asked.append(request.target)
        return Reply(body=orjson.dumps({"value": [ROW | {"ListingKey": keys[len(asked) % 2]}]}))

    async with open_source(reply, tmp_path) as (sync, _):
        sync.state.since = "2026-01-01T00:00:00Z"
        with pytest.raises(SourceError, match="ignores a filter by ListingKey"):
            await sync.load()
        with pytest.raises(SourceError, match="ignores a filter by ListingKey"):
            await sync.compare_keys()
    assert len(asked) < 10


async def test_a_walk_by_time_that_returns_to_its_start_ends(tmp_path: Path) -> None:
    asked: list[str] = []

    def reply(request: Request) -> Reply:
        asked.append(request.target)
        row = ROW | {"ModificationTimestamp": f"2026-01-0{1 + len(asked) % 2}T00:00:00Z"}
        return Reply(body=orjson.dumps({"value": [row, row], "@odata.nextLink": "http://169.254.169.254/"}))

    async with open_source(reply, tmp_path) as (sync, _):
        sync.state.since = "2026-01-01T00:00:00Z"
        with pytest.raises(SourceError, match="the same pages by time again"):
            await sync.follow_changes()
    assert len(asked) < 10


async def test_bodies_are_bounded_and_name_the_setting(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(2**26), 9)

    def reply(request: Request) -> Reply:
        status = 404 if "Member" in request.path else 200
        return Reply(status=status, body=bomb, headers={"Content-Encoding": "gzip"})

    async with open_source(reply, tmp_path, max_body_mib=1) as (sync, _):
        web = sync.reader.source.client
        with pytest.raises(SourceError, match=r"more than 1 MiB in one response.*BROKERAGE_RESO_MAX_BODY_MIB"):
            await web.fetch_page(PROPERTIES)
        with pytest.raises(SourceError, match="BROKERAGE_RESO_MAX_BODY_MIB"):
            await web.fetch_metadata(parse_entity_sets)
        with pytest.raises(SourceRejectedError, match="Member returned 404"):
            await web.fetch_page(ODataQuery("Member"))


@pytest.mark.parametrize(
    "body",
    [
        b'{"access_token":"a\\nb"}',
        b'{"access_token":"\\u00e9"}',
        b'{"access_token":"a","expires_in":"NaN"}',
        b'{"access_token":"a","expires_in":1e400}',
        b'{"access_token":' + b"[" * 5000,
        b'{"access_token":""}',
        b'"\xff"',
    ],
)
async def test_a_token_that_cannot_be_sent_is_refused(tmp_path: Path, body: bytes) -> None:
    async def reply(_: Request) -> Reply:
        return Reply(body=body)

    async with serving(http(reply)) as server:
        options = {"token_url": f"{server.url}/token", "client_id": "us", "client_secret": "it"}
        async with open_source(lambda _: Reply(), tmp_path, **options) as (sync, _):
            with pytest.raises(SourceError, match="returned 200 without a token"):
                await sync.reader.source.client.fetch_page(PROPERTIES)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1"])
def test_a_document_type_is_refused_in_every_encoding(encoding: str) -> None:
    declared = "" if encoding.startswith("utf-16-") else f'<?xml version="1.0" encoding="{encoding}"?>'
    mark = {"utf-16-le": "\ufeff", "utf-16-be": "\ufeff"}.get(encoding, "")
    text = f'{mark}{declared}<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'
    with pytest.raises(TransientSourceError, match="declares a document type"):
        parse_entity_sets(text.encode(encoding))


def test_deep_metadata_is_refused() -> None:
    with pytest.raises(TransientSourceError, match="more than 64 levels"):
        parse_entity_sets(b"<a>" * 100_000)


@pytest.mark.parametrize("date", ["Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 01 Jan 0001 00:00:00 +2359", "x" * 5000])
async def test_the_clock_of_a_source_may_be_absurd(tmp_path: Path, date: str) -> None:
    def reply(_: Request) -> Reply:
        return Reply(body=b'{"value":[]}', headers={"Date": date})

    async with open_source(reply, tmp_path) as (sync, _):
        await sync.reader.source.client.fetch_page(PROPERTIES)
        assert sync.reader.source.client.source_time.year < 9000
