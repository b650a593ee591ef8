"""What contract tests ask and compare with: the service over HTTP, and the source records it was built from."""

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp.test_utils import TestClient
from multidict import CIMultiDictProxy

from cluster.connection import ConnectionSettings

Envelope = dict[str, Any]

PARENT = "cascadia-holdings"
ON_MARKET = ("Active", "Pending", "Contingent")
WEEK_SECONDS = 7 * 24 * 3600
# The member by which a show of each resource finds its record, as the contract names it.
IDENTIFIERS = {
    "listings": "PlatformListingId",
    "sold_listings": "PlatformListingId",
    "agents": "agent_uuid",
    "offices": "platform_office_id",
    "teams": "uuid",
    "companies": "platform_company_id",
}


@dataclass(frozen=True)
class Reply:
    """An answer of the service."""

    status: int
    body: Any
    headers: CIMultiDictProxy[str]

    @property
    def code(self) -> str:
        """The stable code of a problem."""
        return str(self.body["code"])

    @property
    def parameters(self) -> set[str]:
        """The parameters that a problem names."""
        return {error["parameter"] for error in self.body["errors"]}


@dataclass(frozen=True)
class World:
    """The service, its keys and its source data, and how it reaches its node."""

    http: TestClient[Any, Any]
    keys: dict[str, str]
    source: dict[str, list[Envelope]]
    connection: ConnectionSettings

    async def get(self, path: str, key: str = "all", /, **parameters: object) -> Reply:
        """Ask with a key; parameters that are None are left out."""
        query = {name: str(value) for name, value in parameters.items() if value is not None}
        async with self.http.get(f"/v1{path}", params=query, headers={"x-api-key": self.keys[key]}) as response:
            return Reply(response.status, orjson.loads(await response.read()), response.headers)

    async def answer(self, path: str, key: str = "all", /, **parameters: object) -> Any:
        """Ask for what must be answered with 200."""
        reply = await self.get(path, key, **parameters)
        assert reply.status == 200, reply.body
        return reply.body

    async def walk(self, path: str, key: str = "all", /, **parameters: object) -> list[dict[str, Any]]:
        """Walk a feed to its end and return its records; every page but the last is full and not final."""
        found: list[dict[str, Any]] = []
        after: str | None = None
        while True:
            page = await self.answer(path, key, last_platform_listing_id=after, **parameters)
            found += page["Listings"]
            if page["FinalPage"]:
                return found
            assert len(page["Listings"]) == parameters.get("page_size", 200)
            after = page["Listings"][-1]["PlatformListingId"]

    def company(self, envelope: Envelope) -> str:
        """Return the key of the company that a source record belongs to."""
        return str(envelope.get("platform_company_id") or envelope["record"]["platform_company_id"])

    def of(self, resource: str, *companies: str, where: Callable[[Envelope], bool] = lambda _: True) -> list[Envelope]:
        """Return the source envelopes of some companies (all, when none is given) that a condition holds for."""
        return [
            envelope
            for envelope in self.source[resource]
            if (not companies or self.company(envelope) in companies) and where(envelope)
        ]

    def children(self) -> tuple[str, ...]:
        """Return the companies under the parent."""
        return tuple(
            self.company(envelope)
            for envelope in self.source["companies"]
            if envelope.get("parent_company_id") == PARENT
        )

    def numeric(self, company: str) -> str:
        """Return a company's numeric id."""
        [found] = self.of("companies", company)
        return str(found["record"]["numeric_id"])


def read_source(path: Path) -> list[Envelope]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def unix_time(moment: str) -> float:
    """Return the Unix time of an ISO 8601 text."""
    return dt.datetime.fromisoformat(moment).timestamp()


def source_identifiers(envelopes: Iterable[Envelope], name: str = "PlatformListingId") -> list[str]:
    return sorted(str(envelope["record"][name]) for envelope in envelopes)


def response_identifiers(records: Iterable[dict[str, Any]], name: str = "PlatformListingId") -> list[str]:
    """Return the identifiers of answered records, as they came."""
    return [str(record[name]) for record in records]


def response_records(answer: Any) -> list[dict[str, Any]]:
    """Return the records of an answer: itself, its elements, or those of its only array where it is a page."""
    if isinstance(answer, list):
        return answer
    if {"page_number", "FinalPage", "final_page"}.isdisjoint(answer):
        return [answer]
    [page] = [value for value in answer.values() if isinstance(value, list)]
    return page
