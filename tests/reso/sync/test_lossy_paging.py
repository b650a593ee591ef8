"""The same replication with a walk that is often seen in the field loses records: by `$skip`, or by time alone."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.reso.client.odata import ODataQuery
from indexer.reso.sync.entity_reader import EntityReader
from indexer.reso.sync.entity_sync import EntitySync
from mappings.data_dictionary import MODIFICATION_TIMESTAMP
from tests.indexer.conftest import Bench
from tests.reso.expected_index import differences
from tests.reso.replica_process import ReplicaProcess
from tests.reso.server.request_log import LoggedRequest
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import ServerSettings
from tests.reso.world.generated_world import make_world

_PAGE = 50
_LISTINGS, _LEFT = 400, 300


class SkipQuery(ODataQuery):
    """A request that continues after so many records."""

    skipped: int

    @property
    def query_string(self) -> str:
        """The query string."""
        return f"{super().query_string}&$skip={self.skipped}"


async def by_skip(reader: EntityReader, question: ODataQuery, last: str | None) -> list[dict[str, Any]]:
    """Return the page behind as many records as were read, instead of behind the last key."""
    asked = SkipQuery(question.entity, question.select, question.filters, reader.key, page_size=question.page_size)
    object.__setattr__(asked, "skipped", reader.report.read if last else 0)
    return (await reader.source.client.fetch_page(asked)).value


async def by_time(reader: EntityReader, question: ODataQuery, last: str | None) -> list[dict[str, Any]]:
    """Return the page behind the time of the last record, which others may share."""
    rows: list[dict[str, Any]] = reader.__dict__.setdefault("last_rows", [])
    behind = f"{MODIFICATION_TIMESTAMP} gt {rows[-1][MODIFICATION_TIMESTAMP]}" if last and rows else ""
    reader.__dict__["last_rows"] = (
        await reader.source.client.fetch_page(replace(question.where(behind), order_by=MODIFICATION_TIMESTAMP))
    ).value
    return list(reader.__dict__["last_rows"])


async def _is_whole(_: EntitySync) -> bool:
    """Replace the count after a load, which would notice."""
    return False


class DeletingListings:
    """Deletes listings before each answer, while there are some to spare."""

    def __init__(self, server: ResoServer) -> None:
        """Choose which."""
        self._server, self._chance = server, random.Random(7)  # noqa: S311 - repeatable

    def __call__(self, visit: LoggedRequest) -> None:
        """Take a request that has come: of the listings, some of those vanish that were read already."""
        keys = self._server.keys("Property")
        for key in self._chance.sample(keys[: _PAGE // 2], 10) if visit.resource == "Property" else ():
            if len(self._server.keys("Property")) > _LEFT:
                self._server.delete("Property", key)


async def lost_records(bench: Bench, folder: Path) -> dict[str, list[str]]:
    """Load a source in which listings vanish and many records share a time; return what is not as it is there."""
    world = make_world(3, properties=_LISTINGS, media=800, open_houses=400, hostile=0)
    with serve_in_thread(ServerSettings(tick_every=40), world) as server:
        replica = ReplicaProcess(bench, server, folder, changes="events")
        server.on_request = DeletingListings(server)
        await replica.round(page_size=_PAGE)
        server.on_request = None
        await replica.round(page_size=_PAGE)
        return await differences(bench, server)


async def test_keys_lose_nothing(bench: Bench, tmp_path: Path) -> None:
    """The walk by key."""
    assert await lost_records(bench, tmp_path) == {}


@pytest.mark.parametrize("walk", [by_skip, by_time])
async def test_other_walks_lose_records(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walk: Any
) -> None:
    """Untouched records are missing."""
    monkeypatch.setattr(EntityReader, "_page_after", walk)
    monkeypatch.setattr(EntitySync, "_may_differ", _is_whole)
    found = await lost_records(bench, tmp_path)
    print(f"{walk.__name__}: {sum(map(len, found.values()))} records lost or incomplete")
    assert found["listings missing"] if walk is by_skip else found["listings different"]
