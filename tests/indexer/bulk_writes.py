"""Writes, indices, senders and clients for the tests of bulk requests."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from elasticsearch import AsyncElasticsearch

from cluster.connection import connect
from indexer.bulk import AdaptiveLimit, BulkOptions, BulkSender, BulkWrite
from indexer.documents.builder import PendingDocument
from mappings import TEAM
from mappings.indices import index_body
from tests.indexer.conftest import Bench
from tests.indexer.parsed_lines import parse_line
from tests.network.bulk_proxy import RequestProxy
from tests.records import envelope

_PATIENCE_SECONDS = 60.0


def bulk_write(document: PendingDocument, sequence: int = 1) -> BulkWrite:
    return BulkWrite(document.id, document.version, document.stamped_source(1, sequence), document)


def writes(count: int) -> list[BulkWrite]:
    """Return writes of that many teams: t0, t1 and so on."""
    return [bulk_write(parse_line(TEAM, envelope(TEAM, {"uuid": f"t{n}"})), n) for n in range(count)]


def bulky(count: int, size: int = 6_600) -> list[BulkWrite]:
    """Return that many copies of documents of that many bytes, for an index made by `created_index`."""
    filling = b'{"record":{"text":"' + b"x" * (size - 22) + b'"}}'
    return [BulkWrite(f"b{n}", 1, filling) for n in range(count)]


async def created_index(bench: Bench, name: str, **settings: Any) -> str:
    """Create an index of teams and return its full name."""
    index, body = f"{bench.connection.prefix}{name}", index_body(TEAM)
    await bench.client.indices.create(index=index, mappings=body["mappings"], settings=settings)  # type: ignore[arg-type]
    return index


def bulk_sender(
    bench: Bench,
    index: str,
    *,
    client: AsyncElasticsearch | None = None,
    terms: BulkOptions | None = None,
    **settings: Any,
) -> BulkSender:
    """Return a sender with a limit of its own, by default over the client of the bench."""
    chosen = replace(bench.settings, **settings)
    return BulkSender(client or bench.client, index, AdaptiveLimit(chosen), chosen, terms or BulkOptions())


@asynccontextmanager
async def proxied_client(
    bench: Bench, proxy: RequestProxy, bulk_seconds: Iterable[float] = ()
) -> AsyncIterator[AsyncElasticsearch]:
    """Run a proxy and return a client that sends its requests through it.

    It waits for the first bulk requests as long as given, and for all others longer than a busy machine takes.
    """
    async with (
        proxy.running() as address,
        connect(replace(bench.connection, url=(address,)), connections=8, timeout=_PATIENCE_SECONDS) as client,
    ):
        send, waits = client.transport.perform_request, iter(bulk_seconds)

        async def hurried(method: str, target: str, **given: Any) -> Any:
            if target.partition("?")[0].endswith("/_bulk"):
                given["request_timeout"] = next(waits, _PATIENCE_SECONDS)
            return await send(method, target, **given)

        client.transport.perform_request = hurried  # type: ignore[method-assign]
        yield client


async def count(bench: Bench, index: str) -> int:
    await bench.client.indices.refresh(index=index)
    return int((await bench.client.count(index=index))["count"])
