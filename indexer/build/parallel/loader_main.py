"""A loader process: takes ranges from standard input until it ends, and answers on standard output.

Its parent may be killed at any time: the end of standard input then ends this process, too, whatever it is doing.
"""

import asyncio
import os
import sys
from typing import BinaryIO

from cluster.connection import connect
from indexer.build.parallel.messages import LoaderSettings, LoadOrder, RangeOrder, packed, received
from indexer.build.parallel.range_loader import RangeLoader
from indexer.context import IndexerContext

_TIMEOUT_SECONDS = 120.0
# Besides bulk requests: look-ups and copies of live documents.
_EXTRA_CONNECTIONS = 4


async def serve(output: BinaryIO) -> None:
    """Load what arrives on standard input."""
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
    """Keep standard output for the answers, and serve."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        asyncio.run(serve(output))


if __name__ == "__main__":
    main()
