"""Scans of an index: complete, ordered, byte for byte, whatever the identifiers are."""

import asyncio
from typing import Any

import orjson
import pytest
from elasticsearch import AsyncElasticsearch
from msgspec import structs

from cluster.connection import ConnectionSettings
from indexer import scan
from indexer.errors import ElasticsearchError, translate_client_errors
from indexer.generations.lifecycle import refresh_to_seq_nos
from indexer.settings import IndexerContext
from mappings import TEAM
from mappings.indices import index_body
from mappings.stored_document import encode_document
from tests.indexer.conftest import Bench
from tests.internals import Internals
from tests.records import COMPANY_KEY, deletion, envelope

HOSTILE = [
    "a:b",
    'quote"d',
    "back\\slash",
    "*",
    "?a=b&c",
    "..",
    "_none_",
    "ünï-☃-😀",
    "x" * 128,
    "{}",
    "a,b",
    "%2F",
    "<>",
]


@pytest.fixture
def context(bench: Bench) -> IndexerContext:
    return bench.engine()


def fields(identifier: str, number: int, company: str = COMPANY_KEY, **changes: Any) -> dict[str, Any]:
    """Return the bookkeeping fields of a document; its sequence runs against the order of identifiers."""
    return {
        "id": identifier,
        "feed_key": f"{company}:{identifier}",
        "company": company,
        "clock": 1000 + number,
        "sequence": 1_000_000 - number,
        "version": number + 1,
        "content": -(2**63) + number,
        "deleted": False,
        **changes,
    }


def sourced(given: dict[str, Any], record: bytes) -> bytes:
    """Return the source of a document with the given search fields."""
    head = {name: value for name, value in given.items() if name not in {"clock", "sequence"}}
    return encode_document(orjson.dumps(head)[:-1], given["clock"], given["sequence"], record)


async def fill(client: AsyncElasticsearch, index: str, documents: dict[str, bytes]) -> None:
    """Create an index and write documents in the given order, versions counting from 1, without a refresh."""
    body: dict[str, Any] = index_body(TEAM)
    body["settings"]["index.refresh_interval"] = "-1"
    await client.indices.create(index=index, **body)
    lines: list[Any] = []
    for number, (identifier, source) in enumerate(documents.items()):
        lines += [
            orjson.dumps({"index": {"_id": identifier, "version": number + 1, "version_type": "external"}}),
            source,
        ]
    if lines:
        assert (await client.bulk(index=index, operations=lines))["errors"] is False


@pytest.fixture
def index(connection: ConnectionSettings) -> str:
    """The name of a test's own index."""
    return f"{connection.prefix}scanned"


async def filled(context: IndexerContext, index: str, identifiers: list[str]) -> dict[str, bytes]:
    """Write and refresh a document per identifier, and return their sources."""
    sources = {
        identifier: sourced(fields(identifier, number), orjson.dumps({"text": f"{identifier} \t\n", "n": number}))
        for number, identifier in enumerate(identifiers)
    }
    await fill(context.client, index, sources)
    await refresh_to_seq_nos(context.cluster, index)
    return sources


async def all_of(pages: Any) -> list[Any]:
    """Return the items of several pages, none of which is empty."""
    found = [page async for page in pages]
    assert all(found)
    return [item for page in found for item in page]


@pytest.mark.parametrize("size", [1, 3, 7, 20, 21, 22, 5000])
async def test_rows_are_complete_and_in_the_order_of_the_feed_key_whatever_the_page(
    context: IndexerContext, index: str, internals: Internals, size: int
) -> None:
    identifiers = [f"{number:02}" for number in (*range(20, 10, -1), *range(11))]
    await filled(context, index, identifiers)
    internals(scan_page_rows=size)
    rows = await all_of(scan.scan_rows(context, index))
    assert [row.id for row in rows] == sorted(identifiers)
    assert len([page async for page in scan.scan_rows(context, index)]) == -(-21 // size)
    only = await all_of(scan.scan_rows(context, index, query={"range": {"clock": {"gt": 1017}}}))
    assert [row.id for row in only] == sorted(identifiers[18:])


async def test_a_row_says_what_the_index_keeps(context: IndexerContext, index: str) -> None:
    live = fields("live", 3)
    dead = fields("dead", 4, deleted=True, reason="gone from the source")
    await fill(context.client, index, {"live": sourced(live, b"{}"), "dead": orjson.dumps(dead)})
    await refresh_to_seq_nos(context.cluster, index)
    expected = {
        "live": scan.IndexRow(
            "live", "acme:live", 4, -(2**63) + 3, 1003, 999_997, deleted=False, reason=None, stored_version=1
        ),
        "dead": scan.IndexRow("dead", "acme:dead", 5, -(2**63) + 4, 1004, 999_996, True, "gone from the source", 2),
    }
    assert {row.id: row for row in await all_of(scan.scan_rows(context, index))} == expected
    looked_up = expected | {"live": structs.replace(expected["live"], changed=(999_997,))}
    assert await scan.look_up_rows(context, index, ["live", "dead", "absent"]) == looked_up


async def test_hostile_identifiers_are_found_again(context: IndexerContext, index: str, internals: Internals) -> None:
    sources = await filled(context, index, HOSTILE)
    internals(scan_page_rows=2, look_up_rows=2, fetched_documents=2, scan_page_documents=2)
    assert {row.id for row in await all_of(scan.scan_rows(context, index))} == set(HOSTILE)
    asked = ["absent", *HOSTILE, "a", "*a*"]
    assert {name: row.id for name, row in (await scan.look_up_rows(context, index, asked)).items()} == {
        name: name for name in HOSTILE
    }
    assert {found.id: found.source for found in await scan.fetch_documents(context, index, asked)} == sources
    documents = await all_of(scan.scan_documents(context, index, query={"match_all": {}}, order="feed_key"))
    assert {found.id: found.source for found in documents} == sources


@pytest.mark.parametrize("bounds", [(1, 10**9, 1), (3, 10**9, 7), (1000, 1500, 2), (1000, 10**9, 100)])
@pytest.mark.parametrize("order", ["_seq_no", "sequence", "feed_key"])
async def test_documents_come_in_the_requested_order_with_their_exact_bytes(
    context: IndexerContext, index: str, internals: Internals, order: str, bounds: tuple[int, int, int]
) -> None:
    identifiers = [f"{number * 7 % 30:02}" for number in range(30)]
    sources = await filled(context, index, identifiers)
    internals(**dict(zip(("scan_page_documents", "scan_page_bytes", "scan_first_page"), bounds, strict=True)))
    found = await all_of(scan.scan_documents(context, index, query={"match_all": {}}, order=order))
    expected = {"_seq_no": identifiers, "sequence": identifiers[::-1], "feed_key": sorted(identifiers)}
    assert [one.id for one in found] == expected[order]
    assert [(one.version, one.seq_no) for one in found] == [
        (identifiers.index(one.id) + 1, identifiers.index(one.id)) for one in found
    ]
    assert {one.id: one.source for one in found} == sources


async def test_pages_of_documents_are_bounded_in_bytes_and_in_documents(
    context: IndexerContext, index: str, internals: Internals
) -> None:
    sources = {f"{number:02}": sourced(fields(f"{number:02}", number), b'"%b"' % (b"x" * 5000)) for number in range(25)}
    await fill(context.client, index, sources)
    await refresh_to_seq_nos(context.cluster, index)
    internals(scan_first_page=2, scan_page_bytes=40_000)
    pages = [len(page) async for page in scan.scan_documents(context, index, query={"match_all": {}}, order="_seq_no")]
    assert pages == [2, 7, 7, 7, 2]
    internals(scan_page_documents=5)
    pages = [len(page) async for page in scan.scan_documents(context, index, query={"match_all": {}}, order="_seq_no")]
    assert pages == [2, 5, 5, 5, 5, 3]


async def test_a_catch_up_reads_documents_after_a_sequence_number(context: IndexerContext, index: str) -> None:
    await filled(context, index, [f"{number}" for number in range(10)])
    query = {"range": {"_seq_no": {"gt": 6}}}
    assert [one.seq_no for one in await all_of(scan.scan_documents(context, index, query=query, order="_seq_no"))] == [
        7,
        8,
        9,
    ]


async def test_what_was_written_is_counted_and_made_visible(context: IndexerContext, index: str) -> None:
    await fill(context.client, index, {})
    assert await refresh_to_seq_nos(context.cluster, index) == [-1]
    assert await all_of(scan.scan_rows(context, index)) == []
    assert await all_of(scan.scan_documents(context, index, query={"match_all": {}}, order="_seq_no")) == []
    await context.client.index(index=index, id="a", document=fields("a", 1))
    assert await scan.look_up_rows(context, index, ["a"]) == {}
    assert await refresh_to_seq_nos(context.cluster, index) == [0]
    assert list(await scan.look_up_rows(context, index, ["a"])) == ["a"]
    assert await scan.look_up_rows(context, index, []) == {}
    assert await scan.fetch_documents(context, index, []) == []


async def test_a_scan_that_is_left_leaves_nothing_running(
    context: IndexerContext, index: str, internals: Internals
) -> None:
    await filled(context, index, [f"{number}" for number in range(10)])
    internals(scan_page_rows=2)
    pages = scan.scan_rows(context, index)
    assert [row.id for row in await anext(pages)] == ["0", "1"]
    assert pages_in_flight() == 1
    await pages.aclose()
    assert pages_in_flight() == 0


def pages_in_flight() -> int:
    """Count the tasks that read a page of rows; services of other tests have tasks of their own."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return names.count("scan_rows.<locals>.page")


async def test_what_a_build_stores_is_read_back(bench: Bench, context: IndexerContext) -> None:
    await bench.build({TEAM: [envelope(TEAM), deletion(TEAM, "gone")]})
    live = bench.connection.alias(TEAM)
    rows = {row.id: row for row in await all_of(scan.scan_rows(context, live))}
    assert {name: row.deleted for name, row in rows.items()} == {"team-1": False, "gone": True}
    for one in await scan.fetch_documents(context, live, list(rows)):
        assert one.source == await bench.stored_bytes(TEAM, one.id)
        assert (one.version, one.source.count(b"\t")) == (rows[one.id].version, 0 if rows[one.id].deleted else 2)


async def test_an_error_of_a_raw_request_keeps_its_reason(context: IndexerContext, index: str) -> None:
    with (
        pytest.raises(ElasticsearchError, match=r"Elasticsearch returned 404: no such index \[.*scanned\]\."),
        translate_client_errors(),
    ):
        await scan.look_up_rows(context, index, ["a"])
