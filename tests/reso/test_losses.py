"""The same replication with a walk that is often seen in the field loses records: by `$skip`, or by time alone."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from indexer.reso.odata import Question
from indexer.reso.reader import Reader
from indexer.reso.walks import Walks
from mappings.dictionary import MODIFIED
from tests.reso.expecting import differences
from tests.reso.replicating import Replica
from tests.reso.serving import served
from tests.reso.settings import Settings
from tests.reso.world import make_world

if TYPE_CHECKING:
    from pathlib import Path

    from tests.indexer.conftest import Bench
    from tests.reso.ledger import Visit
    from tests.reso.server import ResoServer

_PAGE = 50
_LISTINGS, _LEFT = 400, 300


class Skipping(Question):
    """A question that goes on behind so many records."""

    skipped: int

    @property
    def query(self) -> str:
        """The query string."""
        return f"{super().query}&$skip={self.skipped}"


async def by_skip(reader: Reader, question: Question, last: str | None) -> list[dict[str, Any]]:
    """Return the page behind as many records as were read, instead of behind the last key."""
    asked = Skipping(question.entity, question.select, question.filters, reader.key, page=question.page)
    object.__setattr__(asked, "skipped", reader.report.read if last else 0)
    return (await reader.access.web.ask(asked)).value


async def by_time(reader: Reader, question: Question, last: str | None) -> list[dict[str, Any]]:
    """Return the page behind the time of the last record, which others may share."""
    rows: list[dict[str, Any]] = reader.__dict__.setdefault("last_rows", [])
    behind = f"{MODIFIED} gt {rows[-1][MODIFIED]}" if last and rows else ""
    reader.__dict__["last_rows"] = (await reader.access.web.ask(replace(question.where(behind), order=MODIFIED))).value
    return list(reader.__dict__["last_rows"])


async def _is_whole(_: Walks) -> bool:
    """Stand in for the count behind a load, which would notice."""
    return False


class Vanishing:
    """Deletes listings before each answer, while there are some to spare."""

    def __init__(self, server: ResoServer) -> None:
        """Choose which."""
        self._server, self._chance = server, random.Random(7)  # noqa: S311 - repeatable

    def __call__(self, visit: Visit) -> None:
        """Take a request that has come: of the listings, some of those vanish that were read already."""
        keys = self._server.keys("Property")
        for key in self._chance.sample(keys[: _PAGE // 2], 10) if visit.resource == "Property" else ():
            if len(self._server.keys("Property")) > _LEFT:
                self._server.delete("Property", key)


async def lost(bench: Bench, folder: Path) -> dict[str, list[str]]:
    """Load a source in which listings vanish and many records share a time; return what is not as it is there."""
    world = make_world(3, properties=_LISTINGS, media=800, open_houses=400, hostile=0)
    with served(Settings(tick_every=40), world) as server:
        replica = Replica(bench, server, folder, changes="events")
        server.on_request = Vanishing(server)
        await replica.round(page_size=_PAGE)
        server.on_request = None
        await replica.round(page_size=_PAGE)
        return await differences(bench, server)


async def test_keys_lose_nothing(bench: Bench, tmp_path: Path) -> None:
    """The walk by key."""
    assert await lost(bench, tmp_path) == {}


@pytest.mark.parametrize("walk", [by_skip, by_time])
async def test_other_walks_lose_records(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walk: Any
) -> None:
    """Records are missing that nobody has touched."""
    monkeypatch.setattr(Reader, "page_behind", walk)
    monkeypatch.setattr(Walks, "_may_differ", _is_whole)
    found = await lost(bench, tmp_path)
    print(f"{walk.__name__}: {sum(map(len, found.values()))} records lost or incomplete")
    assert found["listings missing"] if walk is by_skip else found["listings different"]
