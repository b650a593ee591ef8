"""A proxy that lets a build write so much, and holds it there until a test lets it go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.network.bulk_proxy import RequestProxy

if TYPE_CHECKING:
    from tests.network.http import Reply, Request


class HoldingProxy(RequestProxy):
    """Forwards some bulk requests for teams, and holds all others until it is released."""

    def __init__(self, target: str, free: int = 0) -> None:
        super().__init__(target)
        self.free = free
        self.bulks = 0
        self.is_holding = False
        self.released = asyncio.Event()
        self.late: list[Reply] = []  # the replies to those that were held

    async def reply(self, request: Request) -> Reply:
        """Forward a request, or hold it first."""
        if not request.path.endswith("/_bulk") or "teams" not in request.path:
            return await self.forward(request)
        self.bulks += 1
        if self.bulks <= self.free or self.released.is_set():
            return await self.forward(request)
        self.is_holding = True
        await self.released.wait()
        self.late.append(await self.forward(request))
        return self.late[-1]
