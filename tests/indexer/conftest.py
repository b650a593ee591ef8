"""Fixtures that build small sources under a test's own index prefix, and read back what is served."""

import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark, read_mark
from indexer import IndexerContext, IndexerSettings, RebuildRequest, RunSummary, Source, open_source, reindex, update
from indexer.bulk import AdaptiveLimit
from indexer.changes.update_writer import UpdateWriter
from indexer.documents.companies import BY_SOURCE
from indexer.lock import ignore_wait
from indexer.reporting.report import ignore_progress
from indexer.scan import fetch_documents
from mappings import COMPANY, RESOURCES, TEAM, Resource
from mappings.shards import LEFT_QUERY, ShardRanges
from tests.conftest import open_installation
from tests.indexer.raw_documents import index_ranges
from tests.internals import Internals
from tests.records import envelope, write

Lines = Mapping[Resource, Iterable[dict[str, Any] | bytes]]


def assert_nothing_refused(summary: RunSummary | str) -> None:
    """Fail if a run refused a line or a resource; that an update is older than what is served does not count."""
    reports = summary.resources if isinstance(summary, RunSummary) else []
    assert not [report for report in reports if report.dead or report.refusal], summary


@dataclass
class Bench:
    """An index prefix of its own with an indexer to exercise."""

    client: AsyncElasticsearch
    connection: ConnectionSettings
    settings: IndexerSettings
    folder: Path

    async def build(self, lines: Lines, **options: Any) -> RunSummary:
        """Write a source and rebuild the given resources, by default the company of the test records.

        Every source has that company, so that records of it can be resolved.
        """
        write(self.folder, {COMPANY: [envelope(COMPANY)], **lines})
        return await self.build_folder(list(lines) or [COMPANY], **options)

    async def build_folder(self, resources: Collection[Resource] = RESOURCES, **options: Any) -> RunSummary:
        """Rebuild from the source folder; options are settings, `force`, `covered`, `processes` or `on_progress`."""
        with open_source(str(self.folder)) as source:
            return await self.build_source(source, resources, **options)

    async def build_source(
        self, source: Source, resources: Collection[Resource] = RESOURCES, **options: Any
    ) -> RunSummary:
        """Rebuild from any source; options as for a folder."""
        given = {
            name: options.pop(name) for name in ("force", "on_progress", "covered", "processes") if name in options
        }
        return await reindex(self.engine(**options), source, RebuildRequest(resources=resources, **given))

    async def update(self, lines: Lines, **options: Any) -> RunSummary:
        """Write another source and apply it as updates to what is live."""
        folder = write(self.folder.parent / f"changes-{secrets.token_hex(4)}", lines)
        covered = options.pop("covered", BY_SOURCE)
        with open_source(str(folder)) as source:
            return await update(self.engine(**options), source, covered=covered, on_progress=ignore_progress)

    def engine(self, **options: Any) -> IndexerContext:
        """Return an indexer context for this prefix; options are settings."""
        return IndexerContext(self.client, self.connection, replace(self.settings, **options))

    def writer(self, on_wait: Callable[[str], None] = ignore_wait, **options: Any) -> UpdateWriter:
        """Return a writer of updates of the teams; options are settings."""
        return UpdateWriter(self.engine(**options), TEAM, AdaptiveLimit(self.settings), on_wait)

    async def served(self, resource: Resource) -> dict[str, dict[str, Any]]:
        """Return the documents behind the alias by identifier."""
        answer = await self.client.search(
            index=self.connection.alias(resource), size=10_000, query={"bool": {"must_not": LEFT_QUERY}}
        )
        return {hit["_id"]: hit["_source"] for hit in answer["hits"]["hits"]}

    async def names(self) -> dict[str, str | None]:
        """Return the names of the teams that are served, None for tombstones."""
        served = (await self.served(TEAM)).items()
        return {name: None if one["deleted"] else one["record"]["name"] for name, one in served}

    async def live(self, resource: Resource) -> str:
        """Return the generation behind the alias, without the prefix."""
        (index,) = await self.client.indices.get_alias(name=self.connection.alias(resource))
        return str(index).removeprefix(self.connection.prefix)

    async def indices(self) -> list[str]:
        """Return every index under the prefix but the control index, without the prefix."""
        names = list(await self.client.indices.get(index=f"{self.connection.prefix}*"))
        return sorted(
            name.removeprefix(self.connection.prefix) for name in names if name != self.connection.control_index
        )

    async def mark(self, resource: Resource) -> Mark:
        mark = await read_mark(self.client, self.connection.control_index, self.connection.alias(resource))
        assert mark is not None
        return mark

    async def stored_bytes(self, resource: Resource, identifier: str) -> bytes:
        """Return the stored bytes of a document's source."""
        context = self.engine()
        await self.client.indices.refresh(index=self.connection.alias(resource))
        (document,) = await fetch_documents(context, self.connection.alias(resource), [identifier])
        return document.source

    def letters(self) -> list[dict[str, Any]]:
        """Return the dead letters of every run, in the order of files and lines."""
        files = sorted((self.folder.parent / "dead-letters").glob("*.ndjson"))
        return [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]


@pytest.fixture
def quick_retries(internals: Internals) -> None:
    """Shorten the first wait before a request is repeated to a hundredth."""
    internals(cluster_first_pause_seconds=0.005)


async def live_ranges(bench: Bench, resource: Resource) -> ShardRanges:
    return await index_ranges(bench.client, bench.connection.alias(resource))


@pytest.fixture
def bench(client: AsyncElasticsearch, connection: ConnectionSettings, tmp_path: Path, shards: int) -> Bench:
    """An index prefix, a source folder, and settings that avoid waits."""
    return make_bench(client, connection, tmp_path, shards)


@pytest.fixture(scope="module")
async def module_bench(engine_url: str, shards: int, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """What `bench` is to a test, for all tests of a module that only read."""
    async with open_installation(engine_url) as (client, connection):
        yield make_bench(client, connection, tmp_path_factory.mktemp("module"), shards)


def make_bench(client: AsyncElasticsearch, connection: ConnectionSettings, folder: Path, shards: int) -> Bench:
    """Return an indexer of a prefix whose settings avoid waits."""
    settings = IndexerSettings(
        dead_letter_folder=str(folder / "dead-letters"),
        retry_seconds=5.0,
        lock_wait_seconds=0.0,
        green_seconds=5,
        merge=False,
        shards=(str(shards),),
    )
    return Bench(client, connection, settings, folder / "source")
