"""The demo's data and key: written once, used again while they are fresh."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from elasticsearch import NotFoundError
from rich.console import Console

from cluster.connection import ConnectionSettings, connect
from embedded.folders import cache_folder
from indexer import Engine, IndexerSettings, open_source, reindex
from indexer.progress import Bars
from mappings import AGENT, LISTING, RESOURCES
from mappings.index import fingerprint
from mappings.legends import ON_MARKET_STATUSES
from mappings.names import parse_generation
from sample import write_source
from service.keys.store import Grant, KeyStore
from service.keys.text import parse
from service.query import since, term, terms, window_start

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

_COMPANY_SHOWN = "evergreen-realty"
_PAGE_SIZE = 2
_STATE = "demo"
# The seven-day windows of the API move on; data older than this would slowly leave them.
_FRESH_SECONDS = 12 * 3600
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Demo:
    """What the greeting shows."""

    key: str
    company: str
    last_listing: str
    agent: str
    page_size: int = _PAGE_SIZE


def prepare(connection: ConnectionSettings, listings: int) -> Demo:
    """Bring the cluster to the point where the demo's data can be read."""
    return asyncio.run(_prepare(connection, listings))


async def _prepare(connection: ConnectionSettings, listings: int) -> Demo:
    async with connect(connection, connections=4, timeout=_TIMEOUT_SECONDS) as client:
        if not await _is_fresh(client, connection, listings):
            await _load(client, connection, listings)
        return await _shown(client, connection, await _key(client, connection))


def _wanted(listings: int) -> dict[str, object]:
    return {"listings": listings, "fingerprints": [fingerprint(resource) for resource in RESOURCES]}


async def _is_fresh(client: AsyncElasticsearch, connection: ConnectionSettings, listings: int) -> bool:
    try:
        state = (await client.get(index=connection.control_index, id=_STATE))["_source"]
    except NotFoundError:
        return False
    return bool(time.time() - state.pop("loaded") < _FRESH_SECONDS and state == _wanted(listings))


async def _load(client: AsyncElasticsearch, connection: ConnectionSettings, listings: int) -> None:
    """Write a source and index it as if for the first time: the clocks of a rebuild would say that all is new."""
    await _forget(client, connection)
    source = Path(tempfile.mkdtemp(prefix="brokerage-demo-"))
    try:
        click.echo(f"writing {listings:,} sample listings", err=True)
        write_source(source, listings)
        with Bars(Console(stderr=True)) as bars, open_source(str(source)) as opened:
            await reindex(Engine(client, connection, IndexerSettings()), opened, on_progress=bars.show)
    finally:
        shutil.rmtree(source)
    state = _wanted(listings) | {"loaded": time.time()}
    await client.index(index=connection.control_index, id=_STATE, document=state, refresh=True)


async def _forget(client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
    """Delete the demo's own indices by exact names: somebody else's may begin with the same letters."""
    aliases = {connection.alias(resource) for resource in RESOURCES}
    names = list(await client.indices.get(index=f"{connection.prefix}*"))
    generations = [name for name in names if (parsed := parse_generation(name)) and parsed.alias in aliases]
    ours = [*generations, *(name for name in names if name == connection.control_index)]
    if ours:
        await client.indices.delete(index=ours)


async def _key(client: AsyncElasticsearch, connection: ConnectionSettings) -> str:
    """Return the key of earlier starts while it is valid, so that a copied curl line goes on working."""
    kept = cache_folder() / "demo-key"
    text = parse(kept.read_text(encoding="ascii")) if kept.is_file() else None
    store = KeyStore(client, connection.keys_index, connection.usage_index)
    known = {key.key_id for key in await store.everything() if key.revoked is None}
    if text is None or text.key_id not in known:
        text = await store.create(Grant("demo", all_companies=True))
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.touch(mode=0o600)
        kept.write_text(text.reveal(), encoding="ascii")
    return text.reveal()


async def _shown(client: AsyncElasticsearch, connection: ConnectionSettings, key: str) -> Demo:
    """Choose a cursor and an agent for the printed examples."""
    company, on_market = term("company", _COMPANY_SHOWN), terms("status", ON_MARKET_STATUSES)
    listings = await client.search(
        index=connection.alias(LISTING),
        query={"bool": {"filter": [company, on_market, since("clock", window_start())]}},
        sort=["feed_key"],
        size=_PAGE_SIZE,
        source=False,
    )
    agents = await client.search(index=connection.alias(AGENT), query=company, size=1, source=False)
    return Demo(key, _COMPANY_SHOWN, listings["hits"]["hits"][-1]["_id"], agents["hits"]["hits"][0]["_id"])
