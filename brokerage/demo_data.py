"""The demo's data and API key, reused by later starts while they are fresh."""

import asyncio
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from elasticsearch import AsyncElasticsearch, NotFoundError

from brokerage.output import echo
from cluster.connection import ConnectionSettings, connect
from cluster.safe_console import SafeConsole
from embedded.cache_folders import cache_folder
from indexer import IndexerContext, IndexerSettings, open_source, reindex
from indexer.reporting.displays import TerminalProgress
from mappings import AGENT, LISTING, RESOURCES
from mappings.generations import parse_generation
from mappings.index_body import schema_fingerprint
from mappings.legends import ON_MARKET_STATUSES
from sample import write_source
from service.keys.api_key import parse_key
from service.keys.store import KeyGrant, KeyStore
from service.search.query import at_or_after, term, terms, window_start

_COMPANY_SHOWN = "evergreen-realty"
_PAGE_SIZE = 2
_STATE = "demo"
# The API shows windows of seven days; older data would gradually fall out of them.
_MAX_AGE_SECONDS = 12 * 3600
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class DemoExamples:
    """The values in the printed examples."""

    key: str
    company: str
    last_listing: str
    agent: str
    page_size: int = _PAGE_SIZE


def prepare_demo(connection: ConnectionSettings, listings: int) -> DemoExamples:
    """Load the demo data unless it is fresh, and return examples for it."""
    return asyncio.run(_prepare(connection, listings))


async def _prepare(connection: ConnectionSettings, listings: int) -> DemoExamples:
    async with connect(connection, connections=4, timeout=_TIMEOUT_SECONDS) as client:
        if not await _is_fresh(client, connection, listings):
            await _load(client, connection, listings)
        return await _choose_examples(client, connection, await _key(client, connection))


def _expected_state(listings: int) -> dict[str, object]:
    return {"listings": listings, "fingerprints": [schema_fingerprint(resource) for resource in RESOURCES]}


async def _is_fresh(client: AsyncElasticsearch, connection: ConnectionSettings, listings: int) -> bool:
    try:
        state = (await client.get(index=connection.control_index, id=_STATE))["_source"]
    except NotFoundError:
        return False
    return bool(time.time() - state.pop("loaded") < _MAX_AGE_SECONDS and state == _expected_state(listings))


async def _load(client: AsyncElasticsearch, connection: ConnectionSettings, listings: int) -> None:
    """Generate data and index it from scratch: a rebuild would stamp every record as changed."""
    await _delete_indices(client, connection)
    source = Path(tempfile.mkdtemp(prefix="brokerage-demo-"))
    try:
        echo(f"writing {listings:,} sample listings", err=True)
        write_source(source, listings)
        with TerminalProgress(SafeConsole(stderr=True)) as bars, open_source(str(source)) as opened:
            await reindex(IndexerContext(client, connection, IndexerSettings()), opened, on_progress=bars.show)
    finally:
        shutil.rmtree(source)
    state = _expected_state(listings) | {"loaded": time.time()}
    await client.index(index=connection.control_index, id=_STATE, document=state, refresh=True)


async def _delete_indices(client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
    """Delete the demo's own indices by their exact names: other indices may share the prefix."""
    aliases = {connection.alias(resource) for resource in RESOURCES}
    names = list(await client.indices.get(index=f"{connection.prefix}*"))
    generations = [name for name in names if (parsed := parse_generation(name)) and parsed.alias in aliases]
    ours = [*generations, *(name for name in names if name == connection.control_index)]
    if ours:
        await client.indices.delete(index=ours)


async def _key(client: AsyncElasticsearch, connection: ConnectionSettings) -> str:
    """Return the key of an earlier start while it is valid, so that copied curl commands keep working."""
    key_file = cache_folder() / "demo-key"
    text = parse_key(key_file.read_text(encoding="ascii")) if key_file.is_file() else None
    store = KeyStore(client, connection.keys_index, connection.usage_index)
    known = {key.key_id for key in await store.list_intact() if key.revoked is None}
    if text is None or text.key_id not in known:
        text = await store.create(KeyGrant("demo", all_companies=True))
        key_file.parent.mkdir(parents=True, exist_ok=True)
        key_file.touch(mode=0o600)
        key_file.write_text(text.reveal(), encoding="ascii")
    return text.reveal()


async def _choose_examples(client: AsyncElasticsearch, connection: ConnectionSettings, key: str) -> DemoExamples:
    """Choose a cursor and an agent for the printed examples."""
    company, on_market = term("company", _COMPANY_SHOWN), terms("status", ON_MARKET_STATUSES)
    listings = await client.search(
        index=connection.alias(LISTING),
        query={"bool": {"filter": [company, on_market, at_or_after("clock", window_start())]}},
        sort=["feed_key"],
        size=_PAGE_SIZE,
        source=False,
    )
    agents = await client.search(index=connection.alias(AGENT), query=company, size=1, source=False)
    return DemoExamples(key, _COMPANY_SHOWN, listings["hits"]["hits"][-1]["_id"], agents["hits"]["hits"][0]["_id"])
