"""The feed with FastAPI, pydantic and the official client, on the best textbook index: `uvicorn --factory …:create`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from elasticsearch import AsyncElasticsearch
from fastapi import Depends, FastAPI, Header, HTTPException, Query
from pydantic import BaseModel, create_model

from mappings import LISTING
from mappings.fields import Field, FieldKind, View

_TYPES: dict[FieldKind, Any] = {
    FieldKind.INTEGER: int,
    FieldKind.UNIX: int,
    FieldKind.NUMBER: float,
    FieldKind.BOOLEAN: bool,
    FieldKind.STRINGS: list[str],
    FieldKind.UNTYPED: Any,
    FieldKind.UNTYPED_LIST: list[Any],
}


def _model(name: str, fields: tuple[Field, ...]) -> type[BaseModel]:
    """Return the model that a team would write out by hand; derived, so that it stays that of the contract."""
    members: dict[str, Any] = {field.name: (_type(field) | None, None) for field in fields}
    return create_model(name, **members)


def _type(field: Field) -> Any:
    if field.kind is FieldKind.OBJECTS:
        return list[_model(field.object_name, field.members)]  # type: ignore[misc]
    if field.kind is FieldKind.OBJECT:
        return _model(field.object_name, field.members)
    return _TYPES.get(field.kind, str)


Listing = _model("Listing", LISTING.view(View.INDEX))


class Page(BaseModel):
    """A page of the feed."""

    FinalPage: bool
    Listings: list[Listing]  # type: ignore[valid-type]


def create() -> FastAPI:
    """Return the application, of the environment's ELASTICSEARCH_URL, PEER_INDEX and PEER_KEY."""
    client = AsyncElasticsearch(os.environ["ELASTICSEARCH_URL"], connections_per_node=64)
    index, known = os.environ["PEER_INDEX"], os.environ["PEER_KEY"]

    async def authorize(x_api_key: Annotated[str, Header()]) -> None:
        if x_api_key != known:
            raise HTTPException(401)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await client.close()

    app = FastAPI(lifespan=lifespan, dependencies=[Depends(authorize)])

    @app.get("/v1/listings")
    async def page(
        platform_company_id: str,
        updated_since: int,
        page_size: Annotated[int, Query(ge=1, le=1000)] = 200,
        last_platform_listing_id: str = "",
    ) -> Page:
        found = await client.search(
            index=index,
            size=page_size,
            query={"bool": {"filter": feed_filter(platform_company_id, updated_since)}},
            sort=[{"company": "asc"}, {"PlatformListingId": "asc"}],
            search_after=[platform_company_id, last_platform_listing_id],
            track_total_hits=False,
        )
        records = [hit["_source"] for hit in found["hits"]["hits"]]
        return Page(FinalPage=len(records) < page_size, Listings=records)

    @app.get("/v1/listings/{identifier}")
    async def show(identifier: str) -> Listing:  # type: ignore[valid-type]
        found = await client.options(ignore_status=404).get(index=index, id=identifier)
        if not found.get("found"):
            raise HTTPException(404)
        return Listing.model_validate(found["_source"])

    return app


def feed_filter(company: str, updated_since: int) -> list[dict[str, Any]]:
    """Return the clauses of a page: the company, and what changed after a Unix time in seconds."""
    return [{"term": {"company": company}}, {"range": {"ModificationTimestamp": {"gt": updated_since * 1000}}}]
