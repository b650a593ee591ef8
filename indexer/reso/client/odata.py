"""OData as sources speak it: the queries of replication, timestamps, pages, errors, and the orders that pages have.

Queries are by key, by timestamp and key, or by a list of keys, never by `$skip`. Keys are given as OData literals:
quoted texts or numbers. Bodies are bounded in bytes: a small compressed response can be huge when it is decompressed.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any
from urllib.parse import quote

import aiohttp
import msgspec
from multidict import CIMultiDictProxy

from indexer.errors import SourceError
from mappings.data_dictionary import alphanumeric_key

EVENT_SEQUENCE_FIELD = "EntityEventSequence"
_SAFE = ",()"


def string_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class ODataQuery:
    """A query for records of one entity."""

    entity: str
    select: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    order_by: str = ""
    top: int | None = None
    page_size: int | None = None  # preferred records per page; the source may send fewer
    with_count: bool = False  # request the total number of matches
    expand: tuple[str, ...] = ()
    path: str = ""  # behind the name of the entity, such as "/replication"
    option: str = ""  # one more option, such as "replication=true"

    def where(self, *filters: str) -> ODataQuery:
        """Return the query with more filters; empty ones are ignored."""
        return replace(self, filters=(*self.filters, *(text for text in filters if text)))

    def ordered_by(self, order_by: str) -> ODataQuery:
        """Return the query with an order."""
        return replace(self, order_by=order_by)

    @property
    def addressed(self) -> ODataQuery:
        return ODataQuery(self.entity, self.select, expand=self.expand)

    @property
    def query_string(self) -> str:
        options = {
            "$select": ",".join(self.select),
            "$filter": " and ".join(f"({text})" if len(self.filters) > 1 else text for text in self.filters),
            "$orderby": self.order_by,
            "$top": "" if self.top is None else str(self.top),
            "$count": "true" if self.with_count else "",
            "$expand": ",".join(self.expand),
        }
        given = [f"{name}={quote(value, safe=_SAFE)}" for name, value in options.items() if value]
        return "&".join([*given, self.option] if self.option else given)


def after_key_filter(key: str, last: str | None) -> str:
    """Return the filter for records after a key; empty for the first page."""
    return "" if last is None else f"{key} gt {last}"


def after_change_filter(modified: str, key: str, last: tuple[str, str]) -> str:
    """Return the filter for records after a (timestamp, key) pair, because records may share a timestamp."""
    time, last_key = last
    return f"{modified} gt {time} or ({modified} eq {time} and {key} gt {last_key})"


def keys_filter(key: str, literals: Sequence[str], *, use_or: bool = False) -> str:
    """Return the filter for a list of keys; `use_or` is for sources that do not support `in`."""
    if use_or:
        return " or ".join(f"{key} eq {literal}" for literal in literals)
    return f"{key} in ({','.join(literals)})"


def batch_keys(keys: Iterable[str], max_keys: int, max_characters: int = 1500) -> list[list[str]]:
    """Split keys into batches limited by count and encoded length, because a source may reject a long URL."""
    batches: list[list[str]] = [[]]
    remaining = max_characters
    for key in keys:
        length = len(quote(string_literal(key))) + 1
        if batches[-1] and (len(batches[-1]) == max_keys or length > remaining):
            batches.append([])
            remaining = max_characters
        batches[-1].append(key)
        remaining -= length
    return [batch for batch in batches if batch]


SyncPosition = tuple[str, str]  # a timestamp as the source formats it, and a key

_FRACTION = re.compile(r"\.\d+")


def parse_source_time(value: str) -> dt.datetime | None:
    """Return an ISO 8601 timestamp, None for anything else; one without an offset is UTC.

    Years at the ends of the calendar are not times: sources write them for "never", and arithmetic would overflow.
    """
    try:
        parsed = dt.datetime.fromisoformat(value)
    except ValueError:
        return None
    if not dt.MINYEAR < parsed.year < dt.MAXYEAR:
        return None
    return parsed.replace(tzinfo=dt.UTC) if parsed.tzinfo is None else parsed


def format_source_time(value: dt.datetime) -> str:
    """Return a timestamp with milliseconds and `Z`, the form that also sorts correctly as text."""
    return value.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def queryable_time(modified: str) -> str:
    """Return a timestamp for a filter: unchanged if it is in UTC, else converted to UTC."""
    if modified.endswith("Z") or (parsed := parse_source_time(modified)) is None:
        return modified
    whole = parsed.astimezone(dt.UTC).replace(microsecond=0, tzinfo=None).isoformat()
    fraction = _FRACTION.search(modified)  # kept as text: it may be finer than microseconds
    return f"{whole}{fraction[0] if fraction else ''}Z"


_INITIAL_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.5, 60.0
RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class SourceRejectedError(Exception):
    """The source rejected a request; a retry would not help."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TransientSourceError(Exception):
    """A response that is worth a retry, after `retry_after_seconds` if the source says so."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


# Characters of a next link, which repeats a query with all its fields.
MAX_LINK_LENGTH = 32_768


class ODataPage(msgspec.Struct):
    """A page of records; the client also finds the next link in headers."""

    value: list[dict[str, Any]]
    count: int | None = msgspec.field(default=None, name="@odata.count")
    next_link: Annotated[str, msgspec.Meta(max_length=MAX_LINK_LENGTH)] | None = msgspec.field(
        default=None, name="@odata.nextLink"
    )


_decode_page = msgspec.json.Decoder(ODataPage).decode
_decode_record = msgspec.json.Decoder(dict[str, Any]).decode
# JSON escapes; the group is a lone surrogate, as found in truncated texts.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")


def decode_page(body: bytes) -> ODataPage:
    """Return a page of records; raise DecodeError or UnicodeDecodeError for anything else."""
    return _decode_page(_replace_lone_surrogates(body))


def decode_record(body: bytes) -> dict[str, Any]:
    """Return a record; raise DecodeError or UnicodeDecodeError for anything else."""
    return _decode_record(_replace_lone_surrogates(body))


def _replace_lone_surrogates(body: bytes) -> bytes:
    """Replace escaped lone surrogates: a single one would make the whole page undecodable."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], body)


# A link of a `Link` header, with its parameters (RFC 8288); addresses may have commas and semicolons.
_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_NEXT = re.compile(r';\s*rel\s*=\s*"?(?:[^";,]*\s)?next(?:\s[^";,]*)?"?\s*(?:[;,]|$)', re.IGNORECASE)


def header_next_links(headers: CIMultiDictProxy[str]) -> list[str]:
    """Return the next links in the headers of a page: `Link: <…>; rel="next"`, and `next`, as Bridge sends them."""
    links = [link for value in headers.getall("Link", ()) for link in _LINK.findall(value)]
    found = [address for address, parameters in links if _NEXT.search(parameters)]
    return [address.strip() for address in (*found, *headers.getall("next", ())) if address.strip()]


def retry_delay_seconds(error: Exception, failures: int) -> float:
    """Return the delay before a retry: what the source requests, or exponential backoff with full jitter."""
    requested = error.retry_after_seconds if isinstance(error, TransientSourceError) else None
    ceiling = min(_MAX_DELAY_SECONDS, _INITIAL_DELAY_SECONDS * 2.0 ** min(failures, 10))
    backoff: float = random.uniform(0, ceiling)  # noqa: S311
    if requested is None:
        return backoff
    # Without the backoff, a token that is always rejected or a Retry-After of 0 would cause a tight loop.
    return requested + (backoff if failures > 1 or requested else 0.0)


def error_detail(body: bytes) -> str:
    """Return the message of an OData error, truncated, with a leading colon; empty for any other body."""
    try:
        message = msgspec.json.decode(body)["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return ""
    text = message.get("value") if isinstance(message, dict) else message
    return f": {text}"[:300] if isinstance(text, str) else ""


_MIB = 1024**2
# Of an error or a token: only a sentence or a token is read.
MAX_SMALL_BODY_BYTES = 256 * 1024


async def read_body(response: aiohttp.ClientResponse, limit_mib: int) -> bytes:
    """Return a decompressed body of at most `limit_mib` MiB; raise SourceError for a longer one."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit_mib * _MIB:
            raise SourceError(
                f"{response.url.path} sent more than {limit_mib} MiB in one response. If the source needs such pages, "
                "raise BROKERAGE_RESO_MAX_BODY_MIB, or lower BROKERAGE_RESO_PAGE_SIZE."
            )
    return bytes(body)


async def read_small_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the first `MAX_SMALL_BODY_BYTES` of a body."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= MAX_SMALL_BODY_BYTES:
            # The rest is not read: closing the connection costs less.
            response.close()
            break
    return bytes(body[:MAX_SMALL_BODY_BYTES])


# Databases collate texts by bytes, case-insensitively, or by letters and digits alone; numeric keys may sort by value.
_COLLATIONS: tuple[Callable[[str], object], ...] = (str, str.casefold, alphanumeric_key)


def is_sorted_by_key(keys: Sequence[str]) -> bool:
    """Return whether keys ascend in one of the collations that sources use."""
    if all(key.isdecimal() for key in keys) and _is_ascending(keys, int):
        return True
    return any(_is_ascending(keys, collation) for collation in _COLLATIONS)


def is_sorted_by_time(times: Sequence[str]) -> bool:
    """Return whether timestamps ascend, as times or as texts: some sources compare the text."""
    parsed = [time for text in times if (time := parse_source_time(text)) is not None]
    if len(parsed) == len(times) and all(one <= other for one, other in pairwise(parsed)):
        return True
    return _is_ascending(times, str)


def _is_ascending(keys: Sequence[str], collation: Callable[[str], object]) -> bool:
    collated = [collation(key) for key in keys]
    return all(one <= other for one, other in pairwise(collated))  # type: ignore[operator]  # all str or all int
