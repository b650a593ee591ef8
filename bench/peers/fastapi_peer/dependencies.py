"""What FastAPI injects: the client, the settings, and the check of the API key."""

from __future__ import annotations

import secrets
from typing import Annotated

from elasticsearch import AsyncElasticsearch
from fastapi import Depends, HTTPException, Request, Security, status
from fastapi.security import APIKeyHeader

from bench.peers.fastapi_peer.settings import Settings

_api_key_header = APIKeyHeader(name="x-api-key")


async def get_settings(request: Request) -> Settings:
    """Return the settings that the lifespan read."""
    settings: Settings = request.app.state.settings
    return settings


async def get_client(request: Request) -> AsyncElasticsearch:
    """Return the client that the lifespan opened."""
    client: AsyncElasticsearch = request.app.state.client
    return client


CurrentSettings = Annotated[Settings, Depends(get_settings)]
Client = Annotated[AsyncElasticsearch, Depends(get_client)]


async def require_api_key(settings: CurrentSettings, sent: Annotated[str, Security(_api_key_header)]) -> None:
    """Answer 401 unless the request carries the key."""
    if not secrets.compare_digest(sent.encode(), settings.api_key.get_secret_value().encode()):
        raise HTTPException(status.HTTP_401_UNAUTHORIZED, detail="Invalid API key")
