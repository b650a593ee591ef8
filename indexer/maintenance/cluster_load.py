"""How busy the processors of Elasticsearch's data nodes are, and waiting until a merge disturbs no reader."""

import asyncio
import time
from collections.abc import Callable

from indexer.context import IndexerContext
from indexer.errors import ElasticsearchError
from indexer.indices.backoff import retry
from indexer.indices.preflight import holds_indices

# Per cent of a data node's processors. A merge occupies one of them and cannot be slowed down; readers need the rest.
MAX_LOAD = 75
# A cluster that is busy for longer is given up: the command runs again the next night.
_LONGEST_WAIT_SECONDS = 3600.0
_POLL_SECONDS = 5.0
_NOTICE_SECONDS = 60.0
_FILTER = "nodes.*.roles,nodes.*.os.cpu.percent"


async def wait_for_quiet(context: IndexerContext, on_wait: Callable[[str], None]) -> None:
    """Wait until no data node is busier than MAX_LOAD; raise ElasticsearchError if one stays busy for an hour."""
    started, noticed = time.monotonic(), -_NOTICE_SECONDS
    while (load := await busiest_node(context)) > MAX_LOAD:
        waited = time.monotonic() - started
        if waited >= _LONGEST_WAIT_SECONDS:
            raise ElasticsearchError(
                f"Elasticsearch was busy for {_LONGEST_WAIT_SECONDS:g} s: a data node used {load} % of its processors, "
                f"more than {MAX_LOAD} %. Run the command again at a quiet time."
            )
        if waited - noticed >= _NOTICE_SECONDS:
            on_wait(f"A data node uses {load} % of its processors: waiting for at most {MAX_LOAD} %.")
            noticed = waited
        await asyncio.sleep(_POLL_SECONDS)


async def busiest_node(context: IndexerContext) -> int:
    """Return the percentage of its processors that the busiest data node uses, 0 if none reports it."""
    read = context.client.nodes.stats
    stats = await retry(lambda: read(metric="os", filter_path=_FILTER), context.settings.retry_seconds)
    nodes = [node for node in stats.get("nodes", {}).values() if holds_indices(node["roles"])]
    return max((int(node.get("os", {}).get("cpu", {}).get("percent", 0)) for node in nodes), default=0)
