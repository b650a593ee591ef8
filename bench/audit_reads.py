"""Random reads of all forms by several keys, and what each key was sent, taken from the responses themselves."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
import orjson

from service.audit.reads import LIVE

Sent = Iterator[tuple[str, str, str]]  # alias of the resource, identifier, state

GEOJSON = {"Accept": "application/geo+json"}
_IDENTIFIERS = {"listings": "PlatformListingId", "agents": "agent_uuid", "offices": "platform_office_id"}


class SentAt(NamedTuple):
    """When a request began and when its response was read, in milliseconds since 1970."""

    began: int
    ended: int


class Holding(NamedTuple):
    """A key and a record."""

    key_id: str
    resource: str
    identifier: str


@dataclass
class Truth:
    """Every time that a key was sent a record, and the last removal that it read."""

    live: dict[Holding, list[SentAt]] = field(default_factory=lambda: defaultdict(list))
    removed: dict[Holding, tuple[SentAt, str]] = field(default_factory=dict)
    reads: int = 0

    def add(self, key_id: str, sent: Sent, at: SentAt) -> None:
        """Add what a response sent."""
        for alias, identifier, state in sent:
            self.reads += 1
            holding = Holding(key_id, alias, identifier)
            if state == LIVE:
                self.live[holding].append(at)
            else:
                self.removed[holding] = at, state


@dataclass
class Reader:
    """One key, which reads at random; it also follows the changes."""

    http: aiohttp.ClientSession
    url: str
    key: str
    companies: list[str]
    truth: Truth
    chance: random.Random
    token: str = ""

    async def read(self) -> None:
        """Read once, in a random form."""
        forms: list[Callable[[], Any]] = [
            self._walk,
            self._walk,
            self._show,
            self._agents,
            self._property,
            self._snapshot,
        ]
        await self.chance.choice(forms)()

    async def follow(self) -> None:
        """Read all changes since the last time."""
        at_end = False
        while not at_end:
            since = {"since": self.token} if self.token else {}
            page = await self._get("changes", {"resources": "listings", "page_size": 500, **since}, _changes)
            self.token, at_end = page["next"], page["at_end"]

    async def _walk(self) -> None:
        kind = self.chance.choice(["plain", "underscored", "timestamps", "geojson", "filtered"])
        parameters = {
            "platform_company_id": self.chance.choice(self.companies),
            "updated_since": 1,
            "market_status": "on-market" if kind == "filtered" else "all",
            "page_size": self.chance.choice([1, 7, 50, 200, 1000]),
            **({"last_platform_listing_id": f"{self.chance.randrange(36**3)}"} if self.chance.random() < 0.5 else {}),
            **({"underscore_response": "true"} if kind == "underscored" else {}),
            **({"timestamps_only": "true"} if kind == "timestamps" else {}),
        }
        await self._get("listings", parameters, _walked, GEOJSON if kind == "geojson" else {})

    async def _show(self) -> None:
        known = [each.identifier for each in self.truth.live if each.resource == "listings"]
        if known:
            await self._get(f"listings/{self.chance.choice(known)}", {}, _shown)

    async def _agents(self) -> None:
        page = self.chance.randrange(1, 4)
        await self._get("agents", {"updated_since": 1, "page_size": 50, "page_number": page}, _listed("agents"))

    async def _property(self) -> None:
        await self._get("reso/Office", {"$top": self.chance.choice([1, 20])}, _offices)

    async def _snapshot(self) -> None:
        if self.chance.random() < 0.2:
            await self._get("snapshot/offices", {}, _snapshot)

    async def _get(
        self, path: str, parameters: dict[str, Any], sent: Callable[[Any], Sent], headers: dict[str, str] | None = None
    ) -> Any:
        began = _now()
        given = {"x-api-key": self.key, **(headers or {})}
        async with self.http.get(f"{self.url}/v1/{path}", params=parameters, headers=given) as response:
            body = await response.read()
        if response.status == 404:
            return None
        response.raise_for_status()
        value = (
            [orjson.loads(line) for line in body.splitlines()] if path.startswith("snapshot") else orjson.loads(body)
        )
        self.truth.add(self.key[3:13], sent(value), SentAt(began, _now()))
        return value


def _walked(page: Any) -> Sent:
    records = page.get("Listings") or page.get("listings") or page.get("features") or ()
    for record in records:
        own = record.get("properties", record)
        yield "listings", own.get("PlatformListingId") or own["platform_listing_id"], LIVE


def _shown(record: Any) -> Sent:
    yield "listings", record["PlatformListingId"], LIVE


def _listed(alias: str) -> Callable[[Any], Sent]:
    return lambda records: ((alias, record[_IDENTIFIERS[alias]], LIVE) for record in records)


def _offices(page: Any) -> Sent:
    return (("offices", row["OfficeKey"], LIVE) for row in page["value"])


def _snapshot(lines: Any) -> Sent:
    return (("offices", line["id"], LIVE) for line in lines[1:-1])


def _changes(page: Any) -> Sent:
    return ((each["resource"], each["id"], each.get("reason", LIVE)) for each in page["changes"])


def _now() -> int:
    return int(time.time() * 1000)
