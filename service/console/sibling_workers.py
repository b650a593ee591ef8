"""Snapshots of the other workers on this host, read from their metrics ports, which are consecutive."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, web
from yarl import URL

from service.console.worker_snapshot import WorkerSnapshot
from service.settings import ServiceSettings

WORKER_SNAPSHOT_PATH = "/console/worker.json"
# A worker that takes longer is shown as not responding; the page polls again two seconds later.
_TIMEOUT_SECONDS = 1.0
# A snapshot with the history of all consumers has less than a tenth.
_MAX_BYTES = 16 * 1024**2


class SiblingWorkers:
    """Reads their snapshots; addresses come from the settings and the local socket, never from a request."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Compute the ports of all workers."""
        self._ports = range(settings.metrics_port, settings.metrics_port + settings.workers)
        self._session: ClientSession | None = None

    async def lifespan(self, _: web.Application) -> AsyncIterator[None]:
        """Keep connections open while the application runs."""
        # Without proxies from the environment, which are for other hosts.
        async with ClientSession(timeout=ClientTimeout(total=_TIMEOUT_SECONDS), trust_env=False) as self._session:
            yield

    async def fetch_all(self, host: str, port: int) -> dict[int, WorkerSnapshot | None]:
        """Return the snapshots of the workers other than the one on `port`, by port; None without a response."""
        ports = [sibling for sibling in self._ports if sibling != port] if port in self._ports else []
        snapshots = await asyncio.gather(*(self._fetch(host, sibling) for sibling in ports))
        return dict(zip(ports, snapshots, strict=True))

    async def _fetch(self, host: str, port: int) -> WorkerSnapshot | None:
        if self._session is None:
            return None
        try:
            url = URL.build(scheme="http", host=host, port=port, path=WORKER_SNAPSHOT_PATH)
            async with self._session.get(url, allow_redirects=False) as response:
                return msgspec.json.decode(await _read_bounded(response), type=WorkerSnapshot)
        except (ClientError, TimeoutError, OSError, RecursionError, ValueError):
            return None


async def _read_bounded(response: ClientResponse) -> bytes:
    """Return the body; raise ValueError if it is too long for a worker of ours, so another program has the port."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise ValueError("The response is too long.")
    return bytes(body)
