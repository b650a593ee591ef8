"""However slow one request is, only a few chunks are read ahead of it: memory does not grow with the source."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from indexer.intake import Chunks
from indexer.loading import Loader
from mappings import TEAM
from tests.records import envelope

if TYPE_CHECKING:
    import pytest

    from indexer.intake import Chunk
    from tests.indexer.conftest import Bench


async def test_a_chunk_that_is_stuck_holds_the_reading(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    read, released, full = list[int](), asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    write, take = Loader._written, Chunks.next

    async def stuck(loader: Loader, chunk: Chunk) -> Any:
        if chunk.last == 1:
            await released.wait()
        return await write(loader, chunk)

    def counted(chunks: Chunks) -> Chunk | None:
        chunk = take(chunks)
        read.append(chunk.last if chunk else 0)
        if len(read) == 4:
            loop.call_soon_threadsafe(full.set)
        return chunk

    monkeypatch.setattr(Loader, "_written", stuck)
    monkeypatch.setattr(Chunks, "next", counted)
    teams = [envelope(TEAM, {"uuid": f"t{number}"}) for number in range(40)]
    building = asyncio.create_task(bench.build({TEAM: teams}, bulk_documents=1, bulks_in_flight=2))
    await full.wait()
    await asyncio.sleep(0.5)
    assert read == [1, 2, 3, 4]
    released.set()
    assert (await building).of("teams").indexed == 40
