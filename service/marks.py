"""The marks that the indexer publishes, as the service reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.control import Mark, mark_id

if TYPE_CHECKING:
    from service.elastic import Engine


async def read_mark(engine: Engine, control_index: str, alias: str) -> Mark | None:
    """Return the mark of a resource's alias, or None before its first build."""
    document = await engine.document(control_index, mark_id(alias))
    return None if document is None else msgspec.convert(document, Mark)
