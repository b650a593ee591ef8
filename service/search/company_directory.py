"""Read the company directory from the companies index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.scope import CompanyDirectory
from service.search.search_response import parse_hits

if TYPE_CHECKING:
    from service.search.engine import SearchEngine

_BATCH_SIZE = 5_000


async def read_company_directory(engine: SearchEngine, alias: str) -> CompanyDirectory:
    """Return the directory of all companies."""
    documents: list[dict[str, Any]] = []
    after: list[object] | None = None
    while True:
        page = parse_hits(await engine.search(alias, _page_body(after)))
        documents += [hit["_source"] for hit in page]
        if len(page) < _BATCH_SIZE:
            return CompanyDirectory.of(documents)
        after = page[-1]["sort"]


def _page_body(after: list[object] | None) -> dict[str, object]:
    body: dict[str, object] = {
        "size": _BATCH_SIZE,
        "query": {"bool": {"filter": [{"term": {"deleted": False}}]}},
        "sort": ["id"],
        "track_total_hits": False,
        # The list is small and read every few seconds: omitting the record saves more than filtering the source costs.
        "_source": ["id", "numeric_id", "parent_company_id"],
    }
    return body | ({"search_after": after} if after else {})
