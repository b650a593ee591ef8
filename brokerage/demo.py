"""`brokerage demo`: the service with sample data and a key, on an embedded Elasticsearch.

Later starts reuse data and key while they are fresh.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import rich_click as click
from elasticsearch import AsyncElasticsearch, NotFoundError

from brokerage.command_runs import exit_on_error
from brokerage.demo_activity import CHANGE_SECONDS, activity
from brokerage.help import epilog
from brokerage.node import show_start_progress
from brokerage_feed.terminal import echo, fail
from cluster.connection import ConnectionSettings, connect
from cluster.settings import load_settings
from cluster.terminal import SafeConsole
from embedded import DataFolderError, EmbeddedCluster, EmbeddedNodeError, NodeOptions
from embedded.folders import cache_folder
from embedded.node_options import free_ports
from indexer import IndexerContext, IndexerSettings, RebuildRequest, open_source, reindex
from indexer.reporting.displays import TerminalProgress
from mappings import AGENT, LISTING, RESOURCES
from mappings.indices import parse_generation, schema_fingerprint
from mappings.listing import ON_MARKET_STATUSES
from sample import write_source
from service.capabilities import load_service_settings
from service.keys.api_key import parse_key
from service.keys.store import KeyGrant, KeyStore
from service.search.query import at_or_after, term, terms, window_start
from service.settings import ServiceSettings
from service.workers.worker import run_server

_COMPANY_SHOWN = "evergreen-realty"
_PAGE_SIZE = 2
_STATE = "demo"
# The API shows windows of seven days; older data would gradually fall out of them.
_MAX_AGE_SECONDS = 12 * 3600
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class DemoExamples:
    key: str
    company_key: str
    company: str
    last_listing: str
    agent: str
    page_size: int = _PAGE_SIZE


async def _prepare(connection: ConnectionSettings, listings: int) -> DemoExamples:
    async with connect(connection, connections=4, timeout=_TIMEOUT_SECONDS) as client:
        if not await _is_fresh(client, connection, listings):
            await _load(client, connection, listings)
        keys = [await _key(client, connection, *named) for named in _KEYS.items()]
        return await _choose_examples(client, connection, *keys)


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
            context = IndexerContext(client, connection, IndexerSettings())
            await reindex(context, opened, RebuildRequest(on_progress=bars.show))
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


# By the file that keeps it.
_KEYS = {
    "demo-key": KeyGrant("demo", all_companies=True),
    "demo-company-key": KeyGrant(f"demo of {_COMPANY_SHOWN}", companies=(_COMPANY_SHOWN,)),
}


async def _key(client: AsyncElasticsearch, connection: ConnectionSettings, name: str, grant: KeyGrant) -> str:
    """Return the key of an earlier start while it is valid, so that copied curl commands keep working."""
    key_file = cache_folder() / name
    text = parse_key(key_file.read_text(encoding="ascii")) if key_file.is_file() else None
    store = KeyStore(client, connection.keys_index, connection.usage_index)
    known = {key.key_id for key in await store.list_intact() if key.revoked is None}
    if text is None or text.key_id not in known:
        text = await store.create(grant)
        key_file.parent.mkdir(parents=True, exist_ok=True)
        key_file.touch(mode=0o600)
        key_file.write_text(text.reveal(), encoding="ascii")
    return text.reveal()


async def _choose_examples(
    client: AsyncElasticsearch, connection: ConnectionSettings, key: str, company_key: str
) -> DemoExamples:
    company, on_market = term("company", _COMPANY_SHOWN), terms("status", ON_MARKET_STATUSES)
    listings = await client.search(
        index=connection.alias(LISTING),
        query={"bool": {"filter": [company, on_market, at_or_after("clock", window_start())]}},
        sort=["feed_key"],
        size=_PAGE_SIZE,
        source=False,
    )
    agents = await client.search(index=connection.alias(AGENT), query=company, size=1, source=False)
    return DemoExamples(
        key, company_key, _COMPANY_SHOWN, listings["hits"]["hits"][-1]["_id"], agents["hits"]["hits"][0]["_id"]
    )


_PREFIX = "demo-"
_CONSOLE_DISTANCE = 1000


@click.command(
    epilog=epilog(
        "brokerage demo",
        "brokerage demo --port 8090 --listings 20000",
        exits="0 stopped by Ctrl-C, 1 failure, 2 usage or settings error, 3 Elasticsearch unavailable, 143 SIGTERM",
    )
)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Port to listen on.")
@click.option("--listings", type=click.IntRange(min=1), default=2000, show_default=True, help="Listings to generate.")
def demo(port: int, listings: int) -> None:
    """Serve sample data from an embedded Elasticsearch until Ctrl-C.

    The first start downloads Elasticsearch and generates the data; later starts take seconds. If ELASTICSEARCH_URL is
    set, the demo uses that cluster, with its own index names. The operators' console is on BROKERAGE_METRICS_PORT, by
    default --port + 1000.
    """
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    started = time.monotonic()
    with exit_on_error(), tempfile.TemporaryDirectory(prefix="brokerage-demo-exports-") as folder:
        loaded = load_service_settings({"BROKERAGE_ACCESS_LOG": "errors", "BROKERAGE_EXPORTS": folder, **os.environ})
        settings = replace(loaded, port=port, workers=1, drain_seconds=0.0)
        _require_free_port(settings.host, port, "Choose another --port.")
        settings = replace(settings, metrics_port=settings.metrics_port or _console_port(settings))
        _require_free_port(settings.metrics_host, settings.metrics_port, "Choose another BROKERAGE_METRICS_PORT.")
        with _cluster() as connection:
            examples = asyncio.run(_prepare(connection, listings))
            with activity(connection, settings, listings, examples.company):
                run_server(
                    settings, connection, lambda: _greet(settings, connection, examples, time.monotonic() - started)
                )
    echo("stopped")


def _exit_on_sigterm(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _require_free_port(host: str, port: int, remedy: str) -> None:
    """Fail before minutes are spent on a start that cannot succeed."""
    if (error := _listen_error(host, port)) is not None:
        fail(f"Cannot listen on {host}:{port}: {error.strerror}. {remedy}")


def _listen_error(host: str, port: int) -> OSError | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def _console_port(settings: ServiceSettings) -> int:
    """Return the same port at every start, so that bookmarks keep working; a free one if that is taken."""
    preferred = settings.port + (_CONSOLE_DISTANCE if settings.port < 2**16 - _CONSOLE_DISTANCE else -_CONSOLE_DISTANCE)
    return preferred if _listen_error(settings.metrics_host, preferred) is None else free_ports(1)[0]


@contextmanager
def _cluster() -> Iterator[ConnectionSettings]:
    settings = load_settings(ConnectionSettings, os.environ)
    if settings.url:
        yield replace(settings, prefix=settings.prefix + _PREFIX)
        return
    try:
        with show_start_progress() as report:
            cluster = EmbeddedCluster(NodeOptions(data=cache_folder() / "data" / "demo"), report)
            cluster.start()
    except DataFolderError as error:
        fail(f"Error: {error} with XDG_CACHE_HOME")
    except EmbeddedNodeError as error:
        fail(f"Error: {error}")
    try:
        yield replace(settings, url=(cluster.url,), prefix=_PREFIX)
    finally:
        cluster.stop()


def _greet(settings: ServiceSettings, connection: ConnectionSettings, examples: DemoExamples, seconds: float) -> None:
    root = f"http://{settings.host}:{settings.port}/v1"
    header = f"-H 'x-api-key: {examples.key}'"
    feed = f"{root}/listings?platform_company_id={examples.company}&page_size={examples.page_size}"
    address = "" if "ELASTICSEARCH_URL" in os.environ else f"ELASTICSEARCH_URL={connection.url[0]} "
    echo(
        f"""
Serving sample data at {root} after {seconds:.0f} s. It is derived from real house sales.

API keys, for all companies and for {examples.company} alone:
  {examples.key}
  {examples.company_key}

A page of the listings feed:
  curl {header} '{feed}'

The next page:
  curl {header} '{feed}&last_platform_listing_id={examples.last_listing}'

An agent:
  curl {header} '{root}/agents/{examples.agent}'

A copy in SQLite that stays current: the price of a listing changes every {CHANGE_SECONDS:.0f} seconds.
  BROKERAGE_API_KEY={examples.company_key} brokerage-feed pull copy --follow --url {root}

Guides, a map, and an API reference with the key filled in:
  {root.removesuffix("/v1")}/docs#key={examples.key}

The operators' console:
  http://{settings.metrics_host}:{settings.metrics_port}/console

For other commands, such as `brokerage doctor`, in another terminal:
  export {address}BROKERAGE_INDEX_PREFIX={connection.prefix}

Ctrl-C stops the service and Elasticsearch."""
    )
