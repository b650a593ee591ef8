"""The feed's query parameters, and the search that they ask for."""

from __future__ import annotations

import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_ON_MARKET = ["Active", "Pending", "Contingent"]
_COMING_SOON = "ComingSoon"
_WINDOW_SECONDS = 7 * 24 * 3600


class ListingQuery(BaseModel):
    """Parameters of `GET /listings`; others are refused."""

    model_config = ConfigDict(extra="forbid")

    platform_company_id: str = Field(min_length=1, max_length=128)
    last_platform_listing_id: str | None = Field(default=None, min_length=1, max_length=128)
    page_size: int = Field(default=200, ge=1, le=1000)
    updated_since: int | None = Field(default=None, ge=0, description="Unix seconds; seven days ago when absent.")
    market_status: Literal["on-market", "off-market", "all"] = "on-market"


def page_search(query: ListingQuery) -> dict[str, Any]:
    """Return the arguments of the client's `search`; one listing more than the page holds tells whether it is final."""
    search = {
        "query": {"bool": {"filter": _filters(query)}},
        "sort": [{"id": "asc"}],
        "size": query.page_size + 1,
        "track_total_hits": False,
    }
    return search | ({"search_after": [query.last_platform_listing_id]} if query.last_platform_listing_id else {})


def show_search(platform_listing_id: str) -> dict[str, Any]:
    """Return the arguments of the client's `search` for one listing."""
    filters = [{"term": {"id": platform_listing_id}}, {"term": {"deleted": False}}]
    return {"query": {"bool": {"filter": filters}}, "size": 1, "track_total_hits": False}


def _filters(query: ListingQuery) -> list[dict[str, Any]]:
    since = query.updated_since if query.updated_since is not None else int(time.time()) - _WINDOW_SECONDS
    return [
        {"term": {"company": query.platform_company_id}},
        {"term": {"deleted": False}},
        {"range": {"clock": {"gte": since * 1000}}},
        *_market(query.market_status),
    ]


def _market(market_status: str) -> list[dict[str, Any]]:
    if market_status == "on-market":
        return [{"terms": {"status": _ON_MARKET}}]
    if market_status == "off-market":
        return [{"bool": {"must_not": [{"terms": {"status": [*_ON_MARKET, _COMING_SOON]}}]}}]
    return []
