"""A consumer of the RESO Web API in tests: what it asks, and how it walks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import ClientSession
from multidict import CIMultiDictProxy
from yarl import URL

Entity = dict[str, Any]
ROOT = "/v1/reso"
# Everything of a small market in one page.
MAX_PAGE_SIZE_PREFERENCE = {"Prefer": "odata.maxpagesize=1000"}


@dataclass(frozen=True)
class ODataReply:
    """A response: `body` is parsed, None if it is not JSON."""

    status: int
    raw: bytes
    headers: CIMultiDictProxy[str]

    @property
    def body(self) -> Any:
        return orjson.loads(self.raw)

    @property
    def problem(self) -> tuple[int, str, str]:
        error = self.body["error"]
        return self.status, error["code"], error.get("target", "")


@dataclass(frozen=True)
class ODataClient:
    """The service and its keys."""

    session: ClientSession
    base: str
    keys: dict[str, str]

    @property
    def root(self) -> URL:
        return URL(self.base) / ROOT.lstrip("/")

    async def request(
        self,
        url: str | URL,
        key: str | None = "all",
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        data: bytes | None = None,
    ) -> ODataReply:
        sent = dict(headers or {}) | ({} if key is None else {"Authorization": f"Bearer {self.keys[key]}"})
        target = url if isinstance(url, URL) else self.root / url if url else self.root
        async with self.session.request(method, target, headers=sent, data=data) as answer:
            return ODataReply(answer.status, await answer.read(), answer.headers)

    async def get(
        self, name: str, key: str | None = "all", headers: Mapping[str, str] | None = None, /, **options: object
    ) -> ODataReply:
        query = {f"${option}": str(value) for option, value in options.items() if value is not None}
        return await self.request((self.root / name).with_query(query), key, headers)

    async def page(
        self, name: str, key: str = "all", headers: Mapping[str, str] | None = None, /, **options: object
    ) -> Entity:
        reply = await self.get(name, key, headers, **options)
        assert reply.status == 200, reply.raw
        page: Entity = reply.body
        return page

    async def follow(self, link: str, key: str = "all") -> Entity:
        reply = await self.request(URL(link, encoded=True), key)
        assert reply.status == 200, reply.raw
        page: Entity = reply.body
        return page

    async def walk(
        self, name: str, key: str = "all", headers: Mapping[str, str] | None = None, /, **options: object
    ) -> list[Entity]:
        page = await self.page(name, key, headers, **options)
        found: list[Entity] = page["value"]
        while link := page.get("@odata.nextLink"):
            page = await self.follow(link, key)
            found += page["value"]
        return found

    async def events(self, behind: int = 0, key: str = "all", /, **options: object) -> list[Entity]:
        return await self.walk("EntityEvent", key, None, filter=f"EntityEventSequence gt {behind}", **options)
