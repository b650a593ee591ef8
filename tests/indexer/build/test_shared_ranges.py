"""A range that is passed to another host: whatever becomes of single responses, its outcome arrives."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from elasticsearch import ConnectionError  # noqa: A004 - the client's name for it

from indexer import FolderSource
from indexer.build.chunk_writer import LoadedLines
from indexer.build.hosts.build_terms import build_terms
from indexer.build.hosts.membership import Membership
from indexer.build.hosts.shared_documents import HOST_IDS, HostOrder, SharedBuild, place_id
from indexer.build.hosts.shared_run import SharedRun
from indexer.build.hosts.shared_store import SharedStore
from indexer.build.parallel.loader_pool import LoaderPool
from indexer.build.parallel.messages import LoadOrder, RangeOutcome
from indexer.documents.companies import Companies
from indexer.documents.coverage import BY_SOURCE
from indexer.lock.distributed_lock import acquire_lock
from indexer.source.line_ranges import FileRange
from mappings import TEAM
from mappings.shards.ranges import ONE_SHARD
from tests.records import envelope, write
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pytest

    from indexer.source.line_ranges import LineRange
    from tests.indexer.conftest import Bench

PLACE = place_id(HOST_IDS[0], 0)


class Loaders:
    """The loaders of a host, which finish when they may."""

    processes = 1

    def __init__(self) -> None:
        self.exits = list[str]()
        self.may_end = asyncio.Event()
        self.has_begun = False

    async def load(self, _order: LoadOrder, lines: LineRange) -> RangeOutcome:
        """Load nothing."""
        self.has_begun = True
        await self.may_end.wait()
        return RangeOutcome(1, LoadedLines.none(lines.last_line, lines.position), [])


class LostResponses:
    """Loses the first response to a write of a document, once `is_due`."""

    def __init__(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, is_due: Callable[[], bool] = lambda: True
    ) -> None:
        self._send, self._name, self._is_due = bench.client.transport.perform_request, name, is_due
        self.writes = 0
        monkeypatch.setattr(bench.client.transport, "perform_request", self._perform)

    async def _perform(self, method: str, target: str, **given: Any) -> Any:
        response = await self._send(method, target, **given)
        if method == "PUT" and target.partition("?")[0].endswith(f"/{self._name}"):
            self.writes += 1
            if self.writes == 1:
                await until(self._is_due)
                raise ConnectionError("lost")
        return response


@asynccontextmanager
async def shared_run(bench: Bench, loaders: Loaders) -> AsyncIterator[tuple[LoaderPool, LoadOrder, FileRange]]:
    """Coordinate a build that only one other host loads; yield what a range of it is loaded with."""
    source, context = FolderSource(write(bench.folder, {TEAM: [envelope(TEAM)]})), bench.engine()
    terms, path = build_terms(source, [TEAM], BY_SOURCE, context.settings), source.line_file(TEAM)
    order = HostOrder(TEAM.alias, Companies(), None, "fence", "opaque", ONE_SHARD)
    async with (
        acquire_lock(context.client, context.connection.control_index) as lock,
        LoaderPool(context, 0) as pool,
        SharedRun(context, lock, terms) as shared,
        shared.loading(pool, order),
    ):
        build = SharedBuild(lock.token, "x", terms)
        membership = Membership(
            SharedStore(context), source, build, cast("LoaderPool", loaders), lambda _order, _lines, _read: None
        )
        helping = asyncio.create_task(membership.serve())
        try:
            lines = FileRange(path, 0, path.stat().st_size, 0, 1, 0)
            yield pool, LoadOrder(TEAM, Companies(), None, "fence", "opaque", ONE_SHARD), lines
        finally:
            helping.cancel()
            await asyncio.wait([helping])


async def test_a_range_that_was_written_twice_has_an_outcome(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    loaders = Loaders()
    lost = LostResponses(bench, monkeypatch, PLACE, lambda: loaders.has_begun)
    async with shared_run(bench, loaders) as (pool, order, lines):
        loading = asyncio.create_task(pool.load(order, lines))
        await until(lambda: lost.writes == 2)
        loaders.may_end.set()
        await until(loading.done)
        assert (await loading).loaded.last_line == 1


async def test_an_offer_that_was_written_twice_takes_one_document(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaders = Loaders()
    lost = LostResponses(bench, monkeypatch, HOST_IDS[0])
    async with shared_run(bench, loaders) as (pool, order, lines):
        loaders.may_end.set()
        assert (await pool.load(order, lines)).loaded.last_line == 1
        first, second = await SharedStore(bench.engine()).read(HOST_IDS[:2])
    assert lost.writes > 1
    assert (first is not None, second) == (True, None)
