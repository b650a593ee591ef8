"""However slow one request is, only a few chunks are read ahead: memory does not grow with the source."""

import asyncio
from typing import Any

import pytest

from indexer.documents.line_parser import ChunkReader, ParsedChunk
from indexer.load.loader import ChunkWriter
from mappings import TEAM
from tests.indexer.conftest import Bench
from tests.records import envelope


async def test_a_chunk_that_is_stuck_holds_the_reading(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    read, released, full = list[int](), asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    write, take = ChunkWriter.write, ChunkReader.read

    async def stuck(writer: ChunkWriter, chunk: ParsedChunk) -> Any:
        if chunk.last_line == 1:
            await released.wait()
        return await write(writer, chunk)

    def counted(chunks: ChunkReader) -> ParsedChunk | None:
        chunk = take(chunks)
        read.append(chunk.last_line if chunk else 0)
        if len(read) == 4:
            loop.call_soon_threadsafe(full.set)
        return chunk

    monkeypatch.setattr(ChunkWriter, "write", stuck)
    monkeypatch.setattr(ChunkReader, "read", counted)
    teams = [envelope(TEAM, {"uuid": f"t{number}"}) for number in range(40)]
    building = asyncio.create_task(bench.build({TEAM: teams}, bulk_documents=1, bulks_in_flight=2))
    await full.wait()
    await asyncio.sleep(0.5)
    assert read == [1, 2, 3, 4]
    released.set()
    assert (await building).report_for("teams").indexed == 40
