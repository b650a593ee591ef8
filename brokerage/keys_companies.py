"""Whether the companies that a key is to read have been loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elasticsearch import AuthorizationException, NotFoundError

from mappings import COMPANY
from service.query import term, terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings


async def unknown_companies(
    client: AsyncElasticsearch, connection: ConnectionSettings, named: Sequence[str]
) -> list[str]:
    """Return those of the companies, given by key or numeric id, that are not loaded.."""
    if not named:
        return []
    either = {"bool": {"should": [terms("_id", named), terms("numeric_id", named)]}}
    is_there = term("deleted", value=False)
    try:
        answer = await client.search(
            index=connection.alias(COMPANY),
            query={"bool": {"filter": [is_there, either]}},
            size=2 * len(named),
            source_includes=["numeric_id"],
        )
    except NotFoundError:
        return list(named)
    except AuthorizationException:
        # Whoever makes keys need not read data.
        return []
    found = answer["hits"]["hits"]
    known = {hit["_id"] for hit in found} | {hit["_source"].get("numeric_id") for hit in found}
    return [company for company in named if company not in known]
