"""Walks of all listings, company after company, by the cursor that each answer carries."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

import orjson

from bench import textbook
from bench.accounting import processor_seconds
from bench.client import get, post
from bench.results import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.client import Answer, Connection, Pool

_NEXT = re.compile(r'[?&]last_platform_listing_id=([^&>]*)[^>]*>; rel="next"')
_SORT = b'"sort":['
# A sort value ends an answer; no identifier is nearly as long.
_TAIL_BYTES = 2048


class WalkError(Exception):
    """A walk did not meet every record once; the message says where."""


@dataclass(frozen=True)
class Company:
    """A company to walk: its key, how many listings it has, and the identifier of the last."""

    key: str
    listings: int
    last: str


class Way(Protocol):
    """How pages are asked for and how their cursor is found."""

    @property
    def keep(self) -> bool:
        """Whether the body is needed to find the cursor."""

    def request(self, company: str, after: str | None) -> bytes:
        """Return the request for the page behind a cursor."""

    def cursor(self, answer: Answer) -> str | None:
        """Return the cursor that an answer carries, None where it has none."""


@dataclass(frozen=True)
class ServiceWay:
    """By the service: the cursor stands in the Link header."""

    server: str
    path: str
    key: str
    size: int
    keep: bool = False
    encoding: str = "identity"

    def request(self, company: str, after: str | None) -> bytes:
        """Ask for all listings of the company."""
        target = f"{self.path}?platform_company_id={company}&market_status=all&updated_since=1&page_size={self.size}"
        return get(
            self.server,
            target + (f"&last_platform_listing_id={after}" if after else ""),
            {"x-api-key": self.key, "Accept-Encoding": self.encoding},
        )

    def cursor(self, answer: Answer) -> str | None:
        """Read the Link header; the last page has none."""
        found = _NEXT.search(answer.header("link") or "")
        return None if found is None else unquote(found[1])


@dataclass(frozen=True)
class TextbookWay:
    """By plain `search_after`: the cursor is the last hit's sort value, searched from the end of the answer."""

    server: str
    target: str
    answers: str
    size: int
    keep: bool = True

    def request(self, company: str, after: str | None) -> bytes:
        """Ask for all listings of the company."""
        return post(self.server, self.target, textbook.search_body(self.answers, company, self.size, after))

    def cursor(self, answer: Answer) -> str | None:
        """Search the end of the body."""
        return last_sort_value(answer.tail(_TAIL_BYTES))


def last_sort_value(tail: bytes) -> str | None:
    """Return the last sort value in the end of a search answer, nothing else of which is read."""
    at = tail.rfind(_SORT)
    if at < 0:
        return None
    values: list[str] = orjson.loads(tail[at + len(_SORT) - 1 : tail.index(b"]", at) + 1])
    return values[-1]


async def walk(connection: Connection, way: Way, company: Company, size: int) -> tuple[int, int]:
    """Walk one company; return pages and bytes. Raises WalkError unless it took exactly the pages that it holds."""
    pages, length, after = 0, 0, None
    expected = -(-company.listings // size)
    while pages < expected:
        answer = await connection.fetch(way.request(company.key, after), keep=way.keep)
        pages, length = pages + 1, length + answer.length
        before, after = after, way.cursor(answer)
        if after is None and pages < expected:
            raise WalkError(f"{company.key} ended at page {pages} of {expected}.")
        if after is not None and before is not None and after <= before:
            raise WalkError(f"{company.key} went back from {before} to {after}.")
    if after not in {None, company.last}:
        raise WalkError(f"{company.key} ended at {after} and not at {company.last}.")
    return pages, length


@dataclass
class Walker:
    """One way and what its walk of this round has come to."""

    way: Way
    pool: Pool
    server: str
    processes: Mapping[str, int]
    done: Walk = field(default_factory=lambda: Walk({}, 0, 0, {}))

    async def company(self, company: Company, size: int) -> None:
        """Walk one company and add it up."""
        # The others take minutes for a company, longer than a server keeps an idle connection open.
        [connection] = await self.pool.take(self.server, 1)
        before = processor_seconds(self.processes)
        started = time.perf_counter()
        pages, length = await walk(connection, self.way, company, size)
        self.done.seconds[company.key] = time.perf_counter() - started
        self.done.pages += pages
        self.done.bytes += length
        for name, used in processor_seconds(self.processes).items():
            self.done.cpu_seconds[name] = self.done.cpu_seconds.get(name, 0.0) + used - before[name]


def turned(walkers: Sequence[str], companies: Sequence[Company]) -> Iterator[tuple[str, Company]]:
    """Yield who walks which company: all of them each company in turn, every time another one first."""
    for number, company in enumerate(companies):
        begin = number % len(walkers)
        for name in (*walkers[begin:], *walkers[:begin]):
            yield name, company
