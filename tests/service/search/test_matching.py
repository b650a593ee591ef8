"""The service filters documents that are read by identifier exactly like a search: compared on a real node."""

import asyncio
from collections.abc import Mapping
from itertools import product
from typing import Any

import orjson
import pytest
from elasticsearch import AsyncElasticsearch
from hypothesis import given, settings
from hypothesis import strategies as st

from mappings import LISTING
from mappings.indices import index_body
from mappings.shards import Interval, ShardRanges, hide, routing_values
from mappings.stored_document import encode_document, feed_key
from mappings.visibility import DisplayLicence
from service.scope import Scope, Visibility
from service.search.placement import ServedShards, ShardScope
from service.search.query import Selection, matches
from tests.conftest import open_installation

RANGES = ShardRanges(("b:",), routing_values(2))
SERVED = ServedShards("any", "any", RANGES, is_routed=True)
COMPANIES = ("a", "a-2", "b")
BOUNDS = (None, 3, 5)
INTERVALS = [
    [],
    *([Interval(start, end)] for start, end in product(BOUNDS, BOUNDS) if (start or 0) < (end or 9)),
    [Interval(None, 3), Interval(5, None)],
    [Interval(2, 3), Interval(4, 6)],
]
SELECTIONS = st.builds(
    Selection,
    st.just(LISTING),
    st.builds(Scope, st.none() | st.frozensets(st.sampled_from((*COMPANIES, "c")))),
    st.sampled_from([None, *DisplayLicence]).map(lambda licence: Visibility(display=licence).clauses(LISTING)),
)
REACHES = st.builds(ShardScope, sequence=st.none() | st.integers(0, 8))


def sources() -> list[bytes]:
    """Return documents with every combination of what decides who sees them."""
    found: list[bytes] = []
    for company, deleted, withheld, intervals, has_left in product(
        COMPANIES, (True, False), (True, None), INTERVALS, (True, False)
    ):
        name = f"L{len(found)}"
        fields = {"id": name, "feed_key": feed_key(company, name), "company": company, "deleted": deleted}
        head = orjson.dumps(fields | ({"withheld": True} if withheld else {}))[:-1]
        record = None if deleted else b'{"company":"b"}'
        found.append(hide(encode_document(head, 1, 1, record), intervals, has_left=has_left))
    return found


async def write_all(client: AsyncElasticsearch, index: str, documents: dict[str, Any]) -> None:
    """Create the index of two shards with the documents."""
    await client.indices.create(index=index, **index_body(LISTING, RANGES))  # type: ignore[arg-type]
    lines: list[Any] = []
    for name, fields in documents.items():
        lines += [{"index": {"_id": name, "routing": RANGES.routing(fields["feed_key"])}}, fields]
    answer = await client.bulk(index=index, operations=lines, refresh=True)
    assert not answer["errors"], answer["items"][:2]


async def searched(client: AsyncElasticsearch, index: str, body: Mapping[str, Any]) -> set[str]:
    """Return the identifiers that a search finds."""
    answer = await client.search(index=index, size=1_000, source=False, **body)
    return {hit["_id"] for hit in answer["hits"]["hits"]}


def test_a_document_is_accepted_if_a_search_finds_it(engine_url: str) -> None:
    documents = {fields["id"]: fields for fields in map(orjson.loads, sources())}
    with asyncio.Runner() as runner:
        installation = open_installation(engine_url)
        client, connection = runner.run(installation.__aenter__())
        index = f"{connection.prefix}listings"
        runner.run(write_all(client, index, documents))

        @given(SELECTIONS, REACHES)
        @settings(max_examples=40, derandomize=True, database=None, deadline=None)
        def agree(selection: Selection, shard_scope: ShardScope) -> None:
            body = SERVED.visible({"query": selection.query()}, shard_scope)
            accepted = {
                name
                for name, fields in documents.items()
                if SERVED.shows(fields, shard_scope) and selection.accepts(fields)
            }
            assert accepted == runner.run(searched(client, index, body))

        try:
            agree()
        finally:
            runner.run(installation.__aexit__(None, None, None))


def test_an_unknown_kind_of_clause_accepts_nothing() -> None:
    """The request fails."""
    for clause in ({"terms": {"company": ["a"]}}, {"bool": {"should": [{"term": {"company": "a"}}]}}):
        with pytest.raises(KeyError):
            matches(clause, {"company": "a"})
