"""Three clients of a platform of this shape, as they behave on the wire.

They are written from what is documented of such clients, with none of their code.

Each sends exactly the bytes that such a client sends, and reads exactly what it reads; neither knows this service.
"""

import asyncio
import base64
import gzip
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from multidict import CIMultiDict

MEDIA_TYPE = "application/vnd.platform+json;version=1"
_PATIENCE_SECONDS = 60
PAGED = {"agents", "offices"}
WALKED = {"listings", "sold_listings"}


class RemoteRefusal(Exception):
    """The platform refused a call; the text is its messages."""


def basic(user: str, password: str) -> str:
    """Return the value of an `Authorization` header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@dataclass
class WireClient:
    """What the three have in common: a session, calls below `/api`, and the walks over blocks."""

    port: int
    user: str
    password: str
    cookie: str = ""
    statuses: list[int] = field(default_factory=list)

    async def find(self, resource: str, identifier: str, **parameters: str) -> dict[str, Any]:
        """Return one record; raise RemoteRefusal."""
        found: dict[str, Any] = await self.call(f"/api/{resource}/{quote(identifier, safe='')}", parameters)
        return found

    async def search(self, resource: str, **parameters: str) -> list[dict[str, Any]]:
        """Return the records of all pages."""
        if resource in WALKED:
            return await self._walk(resource, parameters)
        if resource in PAGED:
            return await self._blocks(resource, parameters)
        return list(await self.call(f"/api/{resource}", parameters))

    async def _walk(self, resource: str, parameters: dict[str, str]) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        while True:
            after = {"last_platform_listing_id": records[-1]["PlatformListingId"]} if records else {}
            page = await self.call(f"/api/{resource}", parameters | after)
            records += page["Listings"]
            if page["FinalPage"]:
                return records

    async def _blocks(self, resource: str, parameters: dict[str, str]) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        number, total = 1, 1
        while number <= total:
            page = await self.call(f"/api/{resource}", parameters | {"page_number": str(number)})
            assert page["page_number"] == number
            total, number = page["total_pages"], number + 1
            records += page[resource]
        return records

    async def call(self, path: str, parameters: dict[str, str]) -> Any:
        """Send one request and return the parsed body; raise RemoteRefusal for an error body."""
        return await self._answer(self.request(path, parameters))

    async def _answer(self, sent: bytes) -> Any:
        status, headers, body = await self.exchange(sent)
        self.statuses.append(status)
        # The session begins with the first response: without a cookie the next call fails in the client.
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        parsed = orjson.loads(body)
        if isinstance(parsed, dict) and parsed.get("status") in {"fail", "error"}:
            assert parsed["status_code"] == status
            raise RemoteRefusal(", ".join(parsed["messages"]))
        assert status == 200
        return parsed

    async def close(self) -> None:
        """Close what is open between calls."""

    def request(self, path: str, parameters: dict[str, str]) -> bytes:
        raise NotImplementedError

    async def exchange(self, sent: bytes) -> tuple[int, CIMultiDict[str], bytes]:
        """Send a request over a connection of its own and read the response."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            return await _exchange(reader, writer, sent)
        finally:
            writer.close()

    def head(self, path: str, **headers: str) -> bytes:
        """Return a request head; the cookie of the session is sent once there is one."""
        cookie = {"Cookie": self.cookie} if self.cookie else {}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in {**headers, **cookie}.items()]
        return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()


@dataclass
class RubyClient(WireClient):
    """Sends every parameter as a form in the body of a GET; id and secret; a connection for each call."""

    def request(self, path: str, parameters: dict[str, str]) -> bytes:
        """Return a GET with a form."""
        return self._form(path, urlencode(parameters).encode())

    def _form(self, path: str, body: bytes) -> bytes:
        return (
            self.head(
                path,
                Accept=MEDIA_TYPE,
                User_Agent="rest-client/2.1.0 (linux x86_64) ruby/3.2.2p53",
                Content_Type="application/x-www-form-urlencoded",
                Authorization=basic(self.user, self.password),
                Content_Length=str(len(body)),
                Accept_Encoding="gzip;q=1.0,deflate;q=0.6,identity;q=0.3",
                Host=f"127.0.0.1:{self.port}",
            )
            + body
        )

    async def search_by_previous_page(self, resource: str, **parameters: str) -> list[dict[str, Any]]:
        """Return the records of all pages, each asked for with the whole page before, as this library documents it."""
        page = await self.call(f"/api/{resource}", parameters)
        records: list[dict[str, Any]] = [*page["Listings"]]
        while not page["FinalPage"]:
            last = {"last_platform_listing_id": records[-1]["PlatformListingId"]}
            body = urlencode({**parameters, **last}) + "&" + previous_page(page)
            page = await self._answer(self._form(f"/api/{resource}", body.encode()))
            records += page["Listings"]
        return records


def previous_page(page: dict[str, Any]) -> str:
    """Return the form of a page as rest-client flattens it: an object of the library is its class and address."""
    pairs = [f"previous_page[final_page]={str(page['FinalPage']).lower()}"]
    objects = [f"#<Platform::Listing:0x{0x78F1A2B3C400 + 40 * number:016x}>" for number in range(len(page["Listings"]))]
    return "&".join((*pairs, *(f"previous_page[listings][]={quote(text)}" for text in objects)))


@dataclass
class PhpClient(WireClient):
    """Sends parameters in the query, the type of a form without a body, and nothing without a cookie but the first."""

    def request(self, path: str, parameters: dict[str, str]) -> bytes:
        """Return a GET with a query."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        return self.head(
            path + query,
            Host=f"127.0.0.1:{self.port}",
            User_Agent="GuzzleHttp/7",
            Authorization=basic(self.user, self.password),
            Accept=MEDIA_TYPE,
            Content_Type="application/x-www-form-urlencoded",
        )


_REPEATED = {
    "listings": "platform_listing_id",
    "sold_listings": "platform_listing_id",
    "agents": "agent_uuid",
    "offices": "platform_office_id",
    "teams": "platform_team_id",
    "companies": "platform_company_id",
}


@dataclass
class DotNetClient(WireClient):
    """Repeats the identifier of a path as a parameter, sends empty parameters, and keeps its connection."""

    stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def find(self, resource: str, identifier: str, **parameters: str) -> dict[str, Any]:
        """Return one record, with the identifier in path and query."""
        name = _REPEATED[resource]
        if resource == "agents" and identifier.count("-") != 4:
            name = "platform_agent_id" if "@" in identifier else "source_agent_id"
        return await super().find(resource, identifier, **{name: identifier, **parameters})

    def request(self, path: str, parameters: dict[str, str]) -> bytes:
        """Return a GET with a query that holds every parameter that the method has, also without a value."""
        query = urlencode({"parent_company_id": "", **parameters})
        return self.head(
            f"{path}?{query}",
            Host=f"127.0.0.1:{self.port}",
            Authorization=basic(self.user, self.password),
            Accept="application/json",
        )

    async def close(self) -> None:
        if self.stream is not None:
            self.stream[1].close()
            await self.stream[1].wait_closed()

    async def exchange(self, sent: bytes) -> tuple[int, CIMultiDict[str], bytes]:
        """Send a request over the one connection."""
        if self.stream is None:
            self.stream = await asyncio.open_connection("127.0.0.1", self.port)
        return await _exchange(*self.stream, sent)


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes
) -> tuple[int, CIMultiDict[str], bytes]:
    writer.write(sent)
    async with asyncio.timeout(_PATIENCE_SECONDS):
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        headers = CIMultiDict((name, value) for name, _, value in (line.partition(": ") for line in lines))
        body = await reader.readexactly(int(headers["Content-Length"]))
    if headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return int(first.split()[1]), headers, body
