"""Walks of all listings, company after company, by the cursor in the Link header."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from bench.accounting import processor_seconds, processor_seconds_since
from bench.client import Answer, Connection, Pool, get
from bench.results import Walk

_NEXT = re.compile(r'[?&]last_platform_listing_id=([^&>]*)[^>]*>; rel="next"')


class WalkError(Exception):
    """A walk did not return every record once; the message says where."""


@dataclass(frozen=True)
class Company:
    """A company to walk: its key, how many listings it has, and the identifier of the last."""

    key: str
    listings: int
    last: str


@dataclass(frozen=True)
class ServiceWay:
    """Requests for the pages of a walk, and where the cursor to the next page is found."""

    server: str
    path: str
    key: str
    size: int
    encoding: str = "identity"

    def request(self, company: str, after: str | None) -> bytes:
        """Return the request for the page behind a cursor, of all listings of the company."""
        target = f"{self.path}?platform_company_id={company}&market_status=all&updated_since=1&page_size={self.size}"
        return get(
            self.server,
            target + (f"&last_platform_listing_id={after}" if after else ""),
            {"x-api-key": self.key, "Accept-Encoding": self.encoding},
        )

    def cursor(self, answer: Answer) -> str | None:
        """Return the cursor in the Link header; the last page has none."""
        found = _NEXT.search(answer.header("link") or "")
        return None if found is None else unquote(found[1])


async def walk(connection: Connection, way: ServiceWay, company: Company) -> tuple[int, int]:
    """Walk one company; return pages and bytes. Raise WalkError unless it took exactly the pages that it holds."""
    pages, length, after = 0, 0, None
    expected = -(-company.listings // way.size)
    while pages < expected:
        answer = await connection.fetch(way.request(company.key, after))
        pages, length = pages + 1, length + answer.length
        before, after = after, way.cursor(answer)
        if after is None and pages < expected:
            raise WalkError(f"{company.key} ended at page {pages} of {expected}.")
        if after is not None and before is not None and after <= before:
            raise WalkError(f"{company.key} went back from {before} to {after}.")
    if after not in {None, company.last}:
        raise WalkError(f"{company.key} ended at {after} and not at {company.last}.")
    return pages, length


async def walk_all(pool: Pool, way: ServiceWay, companies: Sequence[Company], processes: Mapping[str, int]) -> Walk:
    """Walk every company; return the time of each, and the processor time of the processes for all of them."""
    done, before = Walk({}, 0, 0, {}), processor_seconds(processes)
    for company in companies:
        [connection] = await pool.take(way.server, 1)
        started = time.perf_counter()
        pages, length = await walk(connection, way, company)
        done.seconds[company.key] = time.perf_counter() - started
        done.pages, done.bytes = done.pages + pages, done.bytes + length
    done.cpu_seconds = processor_seconds_since(before, processes)
    return done
