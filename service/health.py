"""`/livez`: the process answers. `/readyz`: it should be sent requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from service.errors import ApiError

if TYPE_CHECKING:
    from service.operation import Services

DRAINING = web.AppKey("draining", asyncio.Event)


async def live(_: web.Request) -> web.Response:
    """Answer without touching anything else: a restart does not mend Elasticsearch."""
    return web.json_response({"status": "ok"})


async def ready(request: web.Request, services: Services) -> web.Response:
    """Answer 200 when the data can be read, else 503 with the reason."""
    reason = "draining" if request.app[DRAINING].is_set() else await _missing(services)
    if reason is None:
        return web.json_response({"status": "ready"})
    return web.json_response({"status": "not ready", "reason": reason}, status=503)


async def _missing(services: Services) -> str | None:
    try:
        await services.directory.get()
    except ApiError:
        return "the companies cannot be read from Elasticsearch"
    return None
