"""A loader process: takes ranges from standard input until it ends, and answers on standard output.

Ranges are parsed one after the other, and their chunks written concurrently. The parent may be killed at any time: the
end of standard input then ends this process, too, whatever it is doing.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Callable
from typing import BinaryIO

from cluster.connection import connect
from indexer.bulk import BulkOptions, bulk_sender
from indexer.documents.line_parser import ChunkReader, LineParser, ParsedChunk
from indexer.errors import IndexerError, translate_client_errors
from indexer.load.loader import ChunkWriter, DocumentSample, LoadedLines, chunks_ahead
from indexer.load.processes import (
    LineRange,
    LoaderSettings,
    LoadOrder,
    RangeFailure,
    RangeOrder,
    RangeOutcome,
    packed,
    received,
)
from indexer.names import Names
from indexer.settings import IndexerContext
from indexer.source.lines import LineStream

Answer = Callable[[RangeOutcome | RangeFailure], None]


class RangeLoader:
    """Loads ranges of one resource, and passes the outcome of each to `answer`."""

    def __init__(self, context: IndexerContext, order: LoadOrder, answer: Answer) -> None:
        self._context = context
        self._resource = order.resource
        self._answer = answer
        self._sample = DocumentSample()
        self._parser = LineParser(order.resource, order.companies, context.settings)
        options = BulkOptions(require_alias=True, opaque_id=order.opaque_id, ranges=order.ranges)
        sender = bulk_sender(context, order.fence, options)
        known = (order.resource, order.live, order.companies.coverage, Names(context, order.built))
        self._writer = ChunkWriter(context, *known, sender, self._sample)
        self._capacity = asyncio.Semaphore(chunks_ahead(context.settings))
        self._running = set[asyncio.Task[None]]()

    async def load(self, order: RangeOrder) -> None:
        """Read a range; return when its last chunk was read, which may not be written yet."""
        written: list[asyncio.Task[LoadedLines]] = []
        reading = asyncio.create_task(self._read(order.lines, written))
        await asyncio.wait([reading])
        finishing = asyncio.create_task(self._finish(order, reading, written))
        self._running.add(finishing)
        finishing.add_done_callback(self._running.discard)

    async def _read(self, lines: LineRange, written: list[asyncio.Task[LoadedLines]]) -> None:
        settings = self._context.settings
        items = lines.items(self._resource, settings.max_record_bytes)
        stream = LineStream(items, lines.position, lambda: lines.position)
        chunks = ChunkReader(self._parser, stream, settings)
        while (chunk := await asyncio.to_thread(chunks.read)) is not None:
            await self._capacity.acquire()
            written.append(asyncio.create_task(self._write(chunk)))

    async def _write(self, chunk: ParsedChunk) -> LoadedLines:
        try:
            with translate_client_errors():
                return await self._writer.write(chunk)
        finally:
            self._capacity.release()

    async def _finish(
        self, order: RangeOrder, reading: asyncio.Task[None], written: list[asyncio.Task[LoadedLines]]
    ) -> None:
        loaded = LoadedLines(0, order.lines.last_line, order.lines.position, 0, 0, [], [])
        try:
            for chunk in await asyncio.gather(*written):
                loaded.append(chunk)
            await reading
        except Exception as error:
            self._answer(RangeFailure(order.number, _portable(error)))
        else:
            self._answer(RangeOutcome(order.number, loaded, self._sample.added()))


def _portable(error: Exception) -> Exception:
    """Return an error that another process can raise, with the trace of one that is not expected."""
    if isinstance(error, IndexerError):
        return error
    unexpected = RuntimeError(f"{type(error).__name__}: {error}")
    unexpected.add_note("".join(traceback.format_exception(error)))
    return unexpected


_TIMEOUT_SECONDS = 120.0
# Besides bulk requests: look-ups and copies of live documents.
_EXTRA_CONNECTIONS = 4


async def serve(output: BinaryIO) -> None:
    stream = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), sys.stdin.buffer)
    orders: asyncio.Queue[LoadOrder | RangeOrder] = asyncio.Queue()
    settings = await received(stream)
    if isinstance(settings, LoaderSettings):
        receiving = asyncio.create_task(_receive(stream, orders))
        await _load(settings, orders, output)
        await receiving


async def _receive(stream: asyncio.StreamReader, orders: asyncio.Queue[LoadOrder | RangeOrder]) -> None:
    while (message := await received(stream)) is not None:
        orders.put_nowait(message)
    # Not by an exception: threads and requests would be waited for.
    os._exit(0)


async def _load(settings: LoaderSettings, orders: asyncio.Queue[LoadOrder | RangeOrder], output: BinaryIO) -> None:
    def answer(message: object) -> None:
        output.write(packed(message))
        output.flush()

    connections = settings.indexer.bulks_in_flight + _EXTRA_CONNECTIONS
    async with connect(settings.connection, connections=connections, timeout=_TIMEOUT_SECONDS) as client:
        context = IndexerContext(client, settings.connection, settings.indexer)
        loader: RangeLoader | None = None
        while True:
            order = await orders.get()
            if isinstance(order, LoadOrder):
                loader = RangeLoader(context, order, answer)
            elif loader is not None:
                await loader.load(order)


def main() -> None:
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        asyncio.run(serve(output))


if __name__ == "__main__":
    main()
