"""What is loaded is used again; what is not whole is loaded anew, and the textbook holds what the service answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from bench.arms import TEXTBOOK, UNSORTED
from bench.changes import change, segments
from bench.facts import companies, identifiers
from bench.loading import load, unload
from bench.progress import Progress
from bench.textbook import INDICES, search_body
from cluster.raw import RAW_HEADERS
from mappings import LISTING

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings

LISTINGS = 60


async def _created(client: AsyncElasticsearch, prefix: str) -> dict[str, str]:
    """Return what tells an index from another of the same name, by the names of all indices of listings."""
    found = await client.indices.get_settings(index=f"{prefix}listings-*,{prefix}textbook-*")
    return {name: settings["settings"]["index"]["uuid"] for name, settings in found.items()}


async def _sources(client: AsyncElasticsearch, index: str, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    answer = await client.perform_request("POST", f"/{index}/_search", headers=RAW_HEADERS, body=orjson.dumps(body))
    return {hit["_id"]: hit["_source"] for hit in orjson.loads(answer.body)["hits"]["hits"]}


async def test_data_is_loaded_once_used_again_and_taken_away(
    client: AsyncElasticsearch, connection: ConnectionSettings, prefix: str
) -> None:
    await load(connection, LISTINGS, Progress())
    first = await _created(client, prefix)
    assert len(first) == 1 + len(TEXTBOOK)

    every = {"size": 100, "query": {"match_all": {}}}
    live = await _sources(client, connection.alias(LISTING), every)
    assert len(live) == LISTINGS
    for name, _ in INDICES.values():
        assert await _sources(client, prefix + name, every) == live
        assert await segments(connection, prefix + name) == 1

    # Nothing is loaded twice, and what was changed meanwhile lies in one segment again.
    assert 0 < await change(connection, 0.3) < LISTINGS
    assert await segments(connection, connection.alias(LISTING)) > 1
    changed = await _sources(client, connection.alias(LISTING), every)
    prices = {each: (live[each]["record"]["ListPrice"], changed[each]["record"]["ListPrice"]) for each in live}
    assert {after - before for before, after in prices.values()} == {0, 1000}
    await load(connection, LISTINGS, Progress())
    assert await _created(client, prefix) == first
    assert await segments(connection, connection.alias(LISTING)) == 1

    # An index that is not whole is filled anew, and no other.
    broken = prefix + INDICES[UNSORTED][0]
    await client.delete(index=broken, id=next(iter(live)), refresh=True)
    await load(connection, LISTINGS, Progress())
    again = await _created(client, prefix)
    assert {name for name in first if again[name] != first[name]} == {broken}

    await _ask_the_textbook(client, connection)
    await unload(connection)
    assert await client.indices.get(index=f"{prefix}*", expand_wildcards="all") == {}


async def _ask_the_textbook(client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
    """Every textbook query answers the same listings of a company behind a cursor, in the order of identifiers."""
    [largest, *others] = await companies(connection)
    assert largest.listings + sum(each.listings for each in others) == LISTINGS
    shown = sorted(await identifiers(connection))
    assert len(shown) == largest.listings
    for arm in TEXTBOOK:
        index = connection.prefix + INDICES[arm][0]
        body = orjson.loads(search_body(arm, largest.key, 5, shown[3]))
        assert list(await _sources(client, index, body)) == shown[4:9]
        assert list(await _sources(client, index, orjson.loads(search_body(arm, largest.key, 100, None)))) == shown
