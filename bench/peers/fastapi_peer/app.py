"""`GET /listings` and `GET /listings/{platform_listing_id}`, over an index that the indexer wrote.

Choices, each the one of the documentation, or the faster one where the documentation leaves it open:

- Answers are dictionaries under a `response_model`, with no response class: FastAPI validates them and pydantic's core
  writes the bytes in one pass (since FastAPI 0.130; `ORJSONResponse` is deprecated). Building model instances first
  validates no less and was no faster.
- Routes and dependencies are `async def`: FastAPI would run plain ones in a thread, each request anew.
- Settings and client are made once, by the lifespan, and injected. The client has its default serializer, and 64
  connections instead of 10, so that it does not queue before 64 clients do.
- The whole `_source` is fetched. Asking for `record` alone spares the client 6 % of the bytes, but Elasticsearch then
  parses and renders every record again, and takes about three times as long for a page.
- A page is `search_after` on the identifier behind a filter of the company, without a count of hits; one hit more than
  the page holds tells whether it is the last. The feed key and its range are our service's own and not used here.
- A show is a search, too: the identifier of a deleted listing still has a document.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from elasticsearch import AsyncElasticsearch
from fastapi import Depends, FastAPI, HTTPException, Query, status

from bench.peers.fastapi_peer.dependencies import Client, CurrentSettings, require_api_key
from bench.peers.fastapi_peer.models import Listing, ListingsPage
from bench.peers.fastapi_peer.queries import ListingQuery, page_search, show_search
from bench.peers.fastapi_peer.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Read the settings and hold one client open while the application runs."""
    settings = Settings()  # type: ignore[call-arg]  # read from the environment
    async with AsyncElasticsearch(settings.elasticsearch_url, connections_per_node=settings.connections) as client:
        app.state.settings, app.state.client = settings, client
        yield


app = FastAPI(title="Listings", lifespan=lifespan, dependencies=[Depends(require_api_key)])


@app.get("/listings", response_model=ListingsPage)
async def list_listings(query: Annotated[ListingQuery, Query()], client: Client, settings: CurrentSettings) -> Any:
    """Answer a page of a company's listings, in the order of their identifiers."""
    answer = await client.search(index=settings.index, **page_search(query))
    hits = answer["hits"]["hits"]
    records = [hit["_source"]["record"] for hit in hits[: query.page_size]]
    return {"FinalPage": len(hits) <= query.page_size, "Listings": records}


@app.get("/listings/{platform_listing_id}", response_model=Listing)
async def show_listing(platform_listing_id: str, client: Client, settings: CurrentSettings) -> Any:
    """Answer one listing, or 404."""
    answer = await client.search(index=settings.index, **show_search(platform_listing_id))
    hits = answer["hits"]["hits"]
    if not hits:
        raise HTTPException(status.HTTP_404_NOT_FOUND, detail="Listing not found")
    return hits[0]["_source"]["record"]
