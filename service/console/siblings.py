"""The other workers of this service on this host: each tells what it knows on its own port, the one after the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout
from yarl import URL

from service.console.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from service.settings import ServiceSettings

PATH = "/console/worker.json"
# One that is held up for longer is shown as away; the page asks again two seconds later.
_SECONDS = 1.0


class Siblings:
    """Asks them; the addresses come from the settings and from the socket, never from a request or an answer."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Know the ports of all workers."""
        self._ports = range(settings.metrics_port, settings.metrics_port + settings.workers)
        self._session: ClientSession | None = None

    async def opened(self, _: web.Application) -> AsyncIterator[None]:
        """Hold the connections for as long as the application runs."""
        # What a proxy of the environment is for is not on this host.
        async with ClientSession(timeout=ClientTimeout(total=_SECONDS), trust_env=False) as self._session:
            yield

    async def ask(self, host: str, port: int) -> dict[int, Worker | None]:
        """Return what the workers beside the one on `port` know, by their ports; None is one that does not answer."""
        ports = [each for each in self._ports if each != port] if port in self._ports else []
        return dict(zip(ports, await asyncio.gather(*(self._one(host, each) for each in ports)), strict=True))

    async def _one(self, host: str, port: int) -> Worker | None:
        if self._session is None:
            return None
        try:
            url = URL.build(scheme="http", host=host, port=port, path=PATH)
            async with self._session.get(url, allow_redirects=False) as answer:
                return msgspec.json.decode(await answer.read(), type=Worker)
        except (ClientError, TimeoutError, OSError, msgspec.DecodeError):
            return None
