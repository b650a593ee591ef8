"""Reads every form of listings with a key, and compares them with the source."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp
import orjson

from mappings.visibility import ADDRESS_MEMBERS, ADDRESS_SWITCH, LISTING_SWITCH

Record = dict[str, Any]

_PAGE = "/v1/listings?updated_since=1&market_status=all&page_size=1000&platform_company_id="
_CHANGED = 20  # one listing in so many is changed
_CHOICES = (True, True, True, False, None)


@dataclass
class Judge:
    """What the source holds, and how what was received differs from it."""

    source: dict[str, Record] = field(default_factory=dict)
    wrong: Counter[str] = field(default_factory=Counter)
    compared: int = 0

    def generate(self, template: Record, count: int, chance: Random) -> None:
        """Make the listings; each has an address of its own."""
        for number in range(count):
            place = {name: f"{name} {number}" for name in ADDRESS_MEMBERS if name != "Address2"}
            place |= {"Latitude": f"47.{number:06}", "Longitude": f"-122.{number:06}"}
            self.source[f"L{number:06}"] = template | place | {"PlatformListingId": f"L{number:06}"}
        for record in self.source.values():
            switch(record, chance)

    def change(self, chance: Random) -> list[Record]:
        """Change some listings, and return them."""
        changed = chance.sample(sorted(self.source), len(self.source) // _CHANGED)
        for name in changed:
            switch(self.source[name], chance)
            self.source[name]["ListPrice"] += 1
        return [self.source[name] for name in changed]

    @property
    def shown(self) -> set[str]:
        """The identifiers that may be shown."""
        return {name for name, record in self.source.items() if record[LISTING_SWITCH] is not False}

    def compare(self, form: str, received: Iterable[Record]) -> None:
        """Count records that must not be shown, or not like this, and those that are missing."""
        missing = self.shown
        for record in received:
            self.compared += 1
            missing.discard(record["PlatformListingId"])
            if not self._is_right(record):
                self.wrong[f"{form}: shown"] += 1
        if missing:
            self.wrong[f"{form}: missing"] += len(missing)

    def _is_right(self, record: Record) -> bool:
        expected = self.source[record["PlatformListingId"]]
        hides = expected[ADDRESS_SWITCH] is False
        empty = dict.fromkeys(ADDRESS_MEMBERS) if hides else {}
        compared = (*ADDRESS_MEMBERS, "ListPrice", ADDRESS_SWITCH, LISTING_SWITCH)
        wanted = expected | empty
        return expected[LISTING_SWITCH] is not False and all(record[name] == wanted.get(name) for name in compared)


def switch(record: Record, chance: Random) -> None:
    """Set both switches: true, false or absent."""
    record |= {LISTING_SWITCH: chance.choice(_CHOICES), ADDRESS_SWITCH: chance.choice(_CHOICES)}


@dataclass
class Reader:
    """A key and the service."""

    http: aiohttp.ClientSession
    url: str
    company: str

    async def json(self, path: str, **headers: str) -> Any:
        """Return a body."""
        async with self.http.get(f"{self.url}{path}", headers=headers) as response:
            response.raise_for_status()
            return orjson.loads(await response.read())

    async def walk(self, accept: str, member: str) -> AsyncIterator[Record]:
        """Yield the records of all pages."""
        after, is_final = "", False
        while not is_final:
            page = await self.json(
                _PAGE + self.company + (f"&last_platform_listing_id={after}" if after else ""), Accept=accept
            )
            for item in page[member]:
                yield item
            is_final, last = page["FinalPage"], page[member][-1]
            after = last.get("id") or last["PlatformListingId"]

    async def reso(self) -> AsyncIterator[Record]:
        """Yield the rows of Property."""
        path = "/v1/reso/Property"
        while path:
            page = await self.json(path, Prefer="maxpagesize=1000")
            for row in page["value"]:
                yield row
            path = page.get("@odata.nextLink", "").removeprefix(self.url)

    async def snapshot(self) -> list[Record]:
        """Return the lines of a snapshot."""
        async with self.http.get(f"{self.url}/v1/snapshot/listings") as response:
            response.raise_for_status()
            return [orjson.loads(line) for line in (await response.read()).splitlines()]
