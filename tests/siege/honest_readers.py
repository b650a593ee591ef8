"""Honest keys that walk all the while, in a process of their own: `python -m tests.siege.honest_readers FILE`.

The plan is read from standard input. Each phase is announced by a line on standard output; the observations go to FILE.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop

from tests.siege.target import refusal

_PAUSE_SECONDS = 0.1
_PAGE_SIZE = 50
_TIMEOUT_SECONDS = 30
# Answers in a pause are not counted: the service has just started, or what a siege left behind still ends.
PEACE, SIEGE, PAUSE = "peace", "siege", "pause"


class HonestPlan(msgspec.Struct, frozen=True):
    """The service, a key per reader, the company they walk, and the phases with their length in seconds."""

    url: str
    keys: list[str]
    company: str
    phases: list[tuple[str, float]]


class HonestReport(msgspec.Struct):
    """What the readers observed, by phase; answers in seconds."""

    answers: dict[str, list[float]] = msgspec.field(default_factory=lambda: {PEACE: [], SIEGE: [], PAUSE: []})
    failures: dict[str, dict[str, int]] = msgspec.field(default_factory=lambda: {PEACE: {}, SIEGE: {}, PAUSE: {}})
    walks: int = 0
    wrong: int = 0  # walks that differ from the first
    longest_gap: float = 0.0  # seconds without a good answer to any reader


class ListingsPage(msgspec.Struct, rename="pascal"):
    """A page of listings."""

    final_page: bool
    listings: list[dict[str, Any]]


class HonestReaders:
    """Readers that walk the listings of a company again and again."""

    def __init__(self, plan: HonestPlan) -> None:
        self.report = HonestReport()
        self._plan = plan
        self._phase = PEACE
        self._first: list[str] | None = None
        self._good_at = time.monotonic()

    async def run(self) -> None:
        """Walk through all phases; all of a phase's requests end before the next is announced."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)) as session:
            for phase, seconds in self._plan.phases:
                self._phase = phase
                print(phase, flush=True)
                end = time.monotonic() + seconds
                await asyncio.gather(*(self._walk_until(session, key, end) for key in self._plan.keys))

    async def _walk_until(self, session: aiohttp.ClientSession, key: str, end: float) -> None:
        """Walk until the end; at least one page is requested, however slow the machine is."""
        seen, cursor = list[str](), ""
        while True:
            page = await self._page(session, key, cursor)
            if page is not None:
                seen += [listing["PlatformListingId"] for listing in page.listings]
                cursor = seen[-1] if seen else ""
                if page.final_page:
                    self._judge(seen)
                    seen, cursor = [], ""
            if time.monotonic() > end:
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _page(self, session: aiohttp.ClientSession, key: str, cursor: str) -> ListingsPage | None:
        query = {"platform_company_id": self._plan.company, "updated_since": "0", "market_status": "all"}
        query |= {"page_size": str(_PAGE_SIZE)} | ({"last_platform_listing_id": cursor} if cursor else {})
        started = time.monotonic()
        try:
            async with session.get(f"{self._plan.url}/v1/listings", params=query, headers={"x-api-key": key}) as answer:
                if answer.status != 200:
                    self._fail(await refusal(answer))
                    return None
                page = msgspec.json.decode(await answer.read(), type=ListingsPage)
        except (aiohttp.ClientError, TimeoutError) as error:
            self._fail(type(error).__name__)
            return None
        self._note(started)
        return page

    def _note(self, started: float) -> None:
        now = time.monotonic()
        self.report.answers[self._phase].append(now - started)
        self.report.longest_gap = max(self.report.longest_gap, now - self._good_at)
        self._good_at = now

    def _fail(self, reason: str) -> None:
        failures = self.report.failures[self._phase]
        failures[reason] = failures.get(reason, 0) + 1

    def _judge(self, seen: list[str]) -> None:
        """Compare a complete walk with the first one: the data does not change meanwhile."""
        self._first = self._first or seen
        self.report.walks += 1
        self.report.wrong += seen != self._first


def main() -> None:
    """Run the plan."""
    readers = HonestReaders(msgspec.json.decode(sys.stdin.buffer.read(), type=HonestPlan))
    uvloop.run(readers.run())
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(readers.report))


if __name__ == "__main__":
    main()
