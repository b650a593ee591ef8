"""What tests of bulk requests send, where to, and through what."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cluster.connection import connect
from indexer.bulk import Sender, Terms, Write
from indexer.pace import Pace
from mappings import TEAM
from mappings.index import index_body
from tests.indexer.lines import accept
from tests.records import envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from elasticsearch import AsyncElasticsearch

    from indexer.documents import Draft
    from tests.indexer.conftest import Bench
    from tests.indexer.fault_proxy import FaultProxy


def written(draft: Draft, sequence: int = 1) -> Write:
    """Return the write of a draft."""
    return Write(draft.id, draft.version, draft.source(1, sequence), draft)


def writes(count: int) -> list[Write]:
    """Return writes of as many teams: t0, t1 and so on."""
    return [written(accept(TEAM, envelope(TEAM, {"uuid": f"t{n}"})), n) for n in range(count)]


def bulky(count: int, size: int = 6_600) -> list[Write]:
    """Return copies of as many documents of that many bytes, for an index that was made by `created`."""
    filling = b'{"record":{"text":"' + b"x" * (size - 22) + b'"}}'
    return [Write(f"b{n}", 1, filling) for n in range(count)]


async def created(bench: Bench, name: str, **settings: Any) -> str:
    """Create an index of teams and return its full name."""
    index, body = f"{bench.connection.prefix}{name}", index_body(TEAM)
    await bench.client.indices.create(index=index, mappings=body["mappings"], settings=settings)  # type: ignore[arg-type]
    return index


def sender(
    bench: Bench, index: str, *, client: AsyncElasticsearch | None = None, terms: Terms | None = None, **settings: Any
) -> Sender:
    """Return a sender with a pace of its own, over the client of the bench unless another is given."""
    chosen = replace(bench.settings, **settings)
    return Sender(client or bench.client, index, Pace(chosen), chosen, terms or Terms())


@asynccontextmanager
async def proxied(bench: Bench, proxy: FaultProxy, seconds: float = 5) -> AsyncIterator[AsyncElasticsearch]:
    """Run a proxy and return a client that asks through it, which waits as many seconds for an answer."""
    async with (
        proxy.running() as address,
        connect(replace(bench.connection, url=(address,)), connections=8, timeout=seconds) as client,
    ):
        yield client


async def count(bench: Bench, index: str) -> int:
    """Return the number of documents in an index."""
    await bench.client.indices.refresh(index=index)
    return int((await bench.client.count(index=index))["count"])
