"""Read the marks that the indexer publishes."""

import msgspec

from cluster.control_index import Mark, mark_id
from service.search.engine import SearchEngine


async def read_mark(engine: SearchEngine, control_index: str, alias: str) -> Mark | None:
    """Return the mark of a resource's alias, None before its first build."""
    document = await engine.get_document(control_index, mark_id(alias))
    return None if document is None else msgspec.convert(document, Mark)
