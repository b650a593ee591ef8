"""The console over a real node shows what the indexer made."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from cluster.control_index import read_mark
from indexer import IndexerContext, IndexerSettings, RebuildRequest, open_source, reindex
from indexer.maintenance.inventory import status
from mappings import LISTING, RESOURCES
from sample import write_source
from service.keys.store import KeyGrant, KeyStore
from tests.console.console_service import serve_console


@pytest.mark.usefixtures("at_once")
async def test_counts_generations_and_marks_are_those_of_the_indexer(
    client: AsyncElasticsearch, connection: ConnectionSettings, tmp_path: Path
) -> None:
    await asyncio.to_thread(write_source, tmp_path / "source", 50)
    engine = IndexerContext(client, connection, IndexerSettings(dead_letter_folder=str(tmp_path)))
    for resources in (RESOURCES, [LISTING]):
        with open_source(str(tmp_path / "source")) as opened:
            assert (await reindex(engine, opened, RebuildRequest(resources))).exit_code == 0
    await asyncio.to_thread(write_source, tmp_path / "smaller", 20)
    with open_source(str(tmp_path / "smaller")) as opened:
        assert (await reindex(engine, opened, RebuildRequest([LISTING]))).exit_code == 1
    expected = {each.resource: each for each in await status(engine)}
    async with serve_console(connection) as operating:
        reported = {each["resource"]: each for each in (await operating.data())["resources"]}
    assert {name: (held["records"], held["generations"]) for name, held in reported.items()} == {
        name: (each.documents, [each.live]) for name, each in expected.items()
    }
    for name, each in expected.items():
        assert each.last is not None
        lag = (each.last.at - each.last.newest) / 1000
        assert reported[name]["last"] == {"verb": "reindex", "at": each.last.at / 1000, "lag": lag, "dead": 0}
    assert expected["listings"].fragmentation is not None
    build = expected["listings"].build
    assert build is not None
    assert {**reported["listings"]["build"]} == {name: getattr(build, name) for name in reported["listings"]["build"]}
    assert build.refusal
    assert {name for name, held in reported.items() if held["build"] is not None} == {"listings"}
    mark = await read_mark(client, connection.control_index, connection.alias(LISTING))
    assert mark is not None
    assert (reported["listings"]["mark"], reported["listings"]["sequence"]) == (mark.clock / 1000, mark.sequence)
    assert reported["listings"]["generations"] == [f"{connection.prefix}listings-v0002"]
    assert reported["listings"]["replaced"] == f"{connection.prefix}listings-v0001"
    assert reported["listings"]["records"] > 0
    # A full rebuild merges each of them.
    assert {held["fragmentation"]["segments"] for held in reported.values()} == {1}
    assert reported["listings"]["fragmentation"] == asdict(expected["listings"].fragmentation)


@pytest.mark.usefixtures("at_once")
async def test_every_way_of_reading_is_a_consumer(
    client: AsyncElasticsearch, connection: ConnectionSettings, tmp_path: Path
) -> None:
    await asyncio.to_thread(write_source, tmp_path / "source", 50)
    with open_source(str(tmp_path / "source")) as opened:
        await reindex(IndexerContext(client, connection, IndexerSettings(dead_letter_folder=str(tmp_path))), opened)
    key = await KeyStore(client, connection.keys_index).create(KeyGrant("Portal", all_companies=True, rate=None))
    pull = {"x-api-key": key.reveal(), "User-Agent": "brokerage-feed/1.0.0"}
    async with serve_console(connection) as operating:
        text = key.reveal()
        assert await operating.get("/v1/agents?updated_since=1&page_size=1", text) == 200
        assert await operating.get("/v1/changes?resources=listings,agents&page_size=1000", text) == 200
        assert await operating.get("/v1/changes?resources=teams&since=nothing", text) == 400
        assert await operating.get("/v1/snapshot/offices", text) == 200
        condition = "$filter=ModificationTimestamp gt 2020-01-01T00:00:00Z"
        assert await operating.get(f"/v1/reso/Office?{condition}&$top=1", text) == 200
        assert await operating.get("/v1/reso/Office?$top=1", text) == 200
        address = f"http://127.0.0.1:{operating.port}/v1/snapshot/listings?platform_company_id=evergreen-realty"
        async with operating.http.get(address, headers=pull) as answer:
            await answer.read()
        rows = (await operating.data())["consumers"]
        _, _, body = await operating.private("/console/data.json")
    seen = {
        (row["seen"]["method"], row["seen"]["resource"]): (row["seen"]["company"], row["seen"]["is_final"])
        for row in rows
    }
    assert seen == {
        ("pages", "agents"): ("", False),
        ("changes", "agents, listings"): ("", True),
        ("snapshot", "offices"): ("", True),
        ("RESO", "offices"): ("", True),
        ("pull: snapshot", "listings"): ("evergreen-realty", True),
    }
    assert {row["behind"] for row in rows if row["seen"]["is_final"]} == {0}
    assert {row["name"] for row in rows} == {"Portal"}
    assert text.encode() not in body
