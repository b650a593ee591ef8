"""Checks that the companies of a key are loaded."""

from collections.abc import Sequence

from elasticsearch import AsyncElasticsearch, AuthorizationException, NotFoundError

from cluster.connection import ConnectionSettings
from mappings import COMPANY
from service.search.query import term, terms


async def unknown_companies(
    client: AsyncElasticsearch, connection: ConnectionSettings, companies: Sequence[str]
) -> list[str]:
    """Return which of these companies, given by key or numeric id, are not loaded."""
    if not companies:
        return []
    by_key_or_id = {"bool": {"should": [terms("_id", companies), terms("numeric_id", companies)]}}
    try:
        response = await client.search(
            index=connection.alias(COMPANY),
            query={"bool": {"filter": [term("deleted", value=False), by_key_or_id]}},
            size=2 * len(companies),
            source_includes=["numeric_id"],
        )
    except NotFoundError:
        return list(companies)
    except AuthorizationException:
        # A user that manages keys may lack `read` on companies.
        return []
    hits = response["hits"]["hits"]
    known = {hit["_id"] for hit in hits} | {hit["_source"].get("numeric_id") for hit in hits}
    return [company for company in companies if company not in known]
