"""A live index of an earlier version, whose strict mapping would reject every document of this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.errors import RefusedError

if TYPE_CHECKING:
    from indexer.context import IndexerContext
    from mappings import Resource


async def require_declared_fields(context: IndexerContext, resource: Resource, index: str) -> None:
    """Raise RefusedError if an index lacks fields that documents of this version have."""
    response = await context.client.indices.get_mapping(index=index)
    live = response[index]["mappings"].get("properties", {})
    if missing := sorted({field.name for field in resource.indexed_fields} - live.keys()):
        raise RefusedError(
            f"{index} was built by an earlier version and lacks {', '.join(missing)}. "
            f"Rebuild it with `brokerage index reindex SOURCE {resource.alias}`, then repeat the update."
        )
