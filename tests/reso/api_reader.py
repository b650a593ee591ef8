"""A plain reader of a server, for tests: one request, or a walk by one of the ways that readers page."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import yarl

from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_loop
from tests.reso.server.schema import Record
from tests.reso.server.server_settings import ServerSettings
from tests.reso.world.generated_world import World

# A walk that is longer goes in circles.
_MOST_PAGES = 200


class ApiReader:
    """Asks one server; `headers` are sent with each request."""

    def __init__(self, server: ResoServer, session: aiohttp.ClientSession) -> None:
        """Ask with a session."""
        self.server, self._session = server, session
        self.headers: dict[str, str] = {}

    async def ask(self, address: str, **options: str) -> tuple[int, Any, dict[str, str]]:
        """Return status, decoded JSON (or text that is none), and headers of a path behind the root or of a link.

        Options are named without their `$`.
        """
        url = address if address.startswith("http") else f"{self.server.url}/{address}"
        sent = yarl.URL(url, encoded=True)
        if options:
            sent = sent.with_query({f"${name}": value for name, value in options.items()})
        async with self._session.get(sent, headers=self.headers) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text()), dict(answer.headers)

    async def rows(self, resource: str, **options: str) -> list[Record]:
        """Return the rows of one page."""
        status, body, _ = await self.ask(resource, **options)
        assert status == 200, body
        found: list[Record] = body["value"]
        return found

    async def walk(self, resource: str, **options: str) -> list[list[Record]]:
        """Return the pages that next links lead to."""
        _, body, _ = await self.ask(resource, **options)
        pages = [body["value"]]
        while link := body.get("@odata.nextLink"):
            _, body, _ = await self.ask(link)
            pages.append(body["value"])
            assert len(pages) < _MOST_PAGES
        return pages

    async def follow(self, resource: str, order: str, behind: Callable[[Record], str], size: int) -> list[Record]:
        """Return the rows page by page, each page requested after the last row."""
        found = await self.rows(resource, orderby=order, top=str(size))
        while more := await self.rows(resource, orderby=order, top=str(size), filter=behind(found[-1])):
            found += more
            assert len(found) < _MOST_PAGES * size
        return found


@asynccontextmanager
async def open_reader(settings: ServerSettings | None = None, world: World | None = None) -> AsyncIterator[ApiReader]:
    """Run a server and a reader of it."""
    async with serve_in_loop(settings, world) as server, aiohttp.ClientSession() as session:
        yield ApiReader(server, session)
