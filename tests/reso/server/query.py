"""The query options of one request, and the page that they ask for: those that replication sends, and no others.

A filter is comparisons of a field with literals, joined by and, or, not and parentheses, which Python has, too: so it
is not parsed, but each comparison is replaced by a call. What is left must be nothing else.
"""

import base64
import datetime as dt
import operator
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

import orjson

from tests.reso.server.error_responses import ODataError, bad_option
from tests.reso.server.schema import BOOLEAN, MODIFICATION_FIELD, STRING, TIMESTAMP, EntityType, Record
from tests.reso.server.server_settings import Dialect, ServerFault, ServerSettings

Predicate = Callable[[Record], bool]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@lru_cache(1 << 18)
def _parsed(text: str) -> int | None:
    try:
        moment = dt.datetime.fromisoformat(text)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH) // dt.timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None


def to_microseconds(value: object) -> int | None:
    """Return microseconds since 1970, or None for what is not a time. Without an offset it is UTC."""
    return _parsed(value) if isinstance(value, str) else None


_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
_LITERAL = rf"(?:'(?:[^']|'')*'|{_MOMENT}|-?\d+(?:\.\d+)?(?![\w.-])|true|false|null)"
_COMPARISON = re.compile(
    rf"\b(?P<field>[A-Za-z]\w*) (?:(?P<sign>eq|ne|gt|ge|lt|le) (?P<literal>{_LITERAL})"
    rf"|in \((?P<list>{_LITERAL}(?:,{_LITERAL})*)\))"
)
_REST = re.compile(r"(?:and|or|not|[() ])*")
_SIGNS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
_SYSTEM = re.compile(r"\(?OriginatingSystemName eq '[^']*'\)?(?: and .*)?", re.DOTALL)


def predicate(text: str, entity: EntityType, settings: ServerSettings) -> Predicate:
    """Return the function of a $filter; raise ODataError for one that the server or its dialect does not take."""
    dialect, found = settings.dialect, list(_COMPARISON.finditer(text))
    holds = [_condition(entity, match, settings) for match in found]
    numbers = iter(range(len(found)))
    rest = _COMPARISON.sub(lambda _: f"holds[{next(numbers)}](row)", text)
    if dialect.system and not _SYSTEM.fullmatch(text):
        raise bad_option("$filter", "a single OriginatingSystemName must be specified")
    for name in (match["field"] for match in found):
        if name not in dialect.searchable.get(entity.name, entity.fields):
            raise bad_option("$filter", f"{name} is not a searchable field of {entity.name}")
    if dialect.most_or is not None and rest.count(" or ") > dialect.most_or:
        raise bad_option("$filter", f"more than {dialect.most_or} 'or' operators")
    try:
        # Calls, operators and parentheses; what is anything else is no Python.
        python = rest if _REST.fullmatch(_COMPARISON.sub("", text)) else ""
        made: Predicate = eval(f"lambda row: {python}", {"holds": holds})  # noqa: S307
    except SyntaxError:
        raise bad_option("$filter", f"unexpected: {text}") from None
    return made


def _condition(entity: EntityType, match: re.Match[str], settings: ServerSettings) -> Predicate:
    name, kind = match["field"], entity.fields.get(match["field"])
    if kind is None:
        raise bad_option("$filter", f"{entity.name} has no field {name}")
    is_moment = kind == TIMESTAMP and not settings.compares_text
    literals = re.findall(_LITERAL, match["list"] or match["literal"])
    values = [_value(name, kind, literal, is_moment=is_moment) for literal in literals]

    def read(row: Record) -> Any:
        return to_microseconds(row.get(name)) if is_moment else row.get(name)

    if match["list"] or match["sign"] == "eq":
        return (lambda row: read(row) in values) if len(values) > 1 else (lambda row: read(row) == values[0])
    if match["sign"] == "ne":
        return lambda row: read(row) != values[0]
    order, comparable = _SIGNS[match["sign"]], str if isinstance(values[0], str) else (int, float)
    # Nothing is more or less than null, nor than a value of another type.
    return lambda row: isinstance(found := read(row), comparable) and order(found, values[0])


def _value(name: str, kind: str, literal: str, *, is_moment: bool) -> Any:
    if literal == "null":
        return None
    if literal[0] == "'" and kind == STRING:
        return literal[1:-1].replace("''", "'")
    if literal in {"true", "false"} and kind == BOOLEAN:
        return literal == "true"
    if "T" in literal and literal[0] != "'" and kind == TIMESTAMP:
        return to_microseconds(literal) if is_moment else literal
    if literal.lstrip("-").replace(".", "").isdecimal() and kind.startswith(("Edm.Int", "Edm.Decimal")):
        return float(literal) if "." in literal else int(literal)
    raise bad_option("$filter", f"{name} is {kind}: {literal}")


class Row(NamedTuple):
    """A record and its place in the heap. A record that is stored is never changed, only replaced."""

    number: int
    record: Record


class OrderTerm(NamedTuple):
    """One field to order by."""

    field: str
    is_descending: bool


def _order(text: str, entity: EntityType) -> tuple[OrderTerm, ...]:
    terms = [words.split(" ") for words in text.split(",") if words]
    for name, *direction in terms:
        if name not in entity.fields or direction not in ([], ["desc"]):
            raise bad_option("$orderby", f"unexpected: {text}")
    return tuple(OrderTerm(words[0], len(words) > 1) for words in terms)


Place = list[Any]  # the ranks of a row in an order, and its number


@dataclass(frozen=True)
class CollectionQuery:
    """The query of one resource; `options` are as sent, `preferred` the page size that is asked for."""

    entity: EntityType
    options: dict[str, str]
    accepts: Predicate
    order: tuple[OrderTerm, ...]
    select: tuple[str, ...] | None
    top: int | None  # rows that are left of `$top`
    skip: int
    after: Place | None
    preferred: int | None
    most: int  # rows of the largest page
    paging: str
    expand: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)  # children, and their fields or all

    def place(self, row: Row) -> Place:
        """Return the place of a row in the order: null is before everything."""
        values = [row.record.get(term.field) for term in self.order]
        known = [to_microseconds(value) if term.field == MODIFICATION_FIELD else value
                 for term, value in zip(self.order, values, strict=True)]  # fmt: skip
        return [*([value is not None, value] for value in known), row.number]

    def is_after(self, row: Row) -> bool:
        """Whether a row comes behind the place where the query continues."""
        directions = [*(term.is_descending for term in self.order), False]
        for mine, other, is_descending in zip(self.place(row), self.after or (), directions, strict=True):
            if mine != other:
                return bool((mine > other) != is_descending)
        return False

    def sorted(self, rows: Iterable[Row], salt: int | None) -> list[Row]:
        """Return rows in the order; a salt shuffles those that it leaves tied."""
        tie = (lambda row: row.number) if salt is None else (lambda row: zlib.crc32(b"%d:%d" % (salt, row.number)))
        found = sorted(rows, key=tie)
        for at, term in reversed(list(enumerate(self.order))):
            found.sort(key=lambda row, at=at: self.place(row)[at], reverse=term.is_descending)  # type: ignore[misc]
        return found


_PREFERRED = re.compile(r"(?:odata\.)?maxpagesize=(\d+)")
# What a value of a next link may hold raw.
_RAW = "!~*'()"
_KNOWN = frozenset({"$select", "$filter", "$orderby", "$top", "$skip", "$count", "$expand", "$skiptoken"})


def parse_query(entity: EntityType, text: str, prefer: str, settings: ServerSettings) -> CollectionQuery:
    """Return the query of a URL behind its `?`; raise ODataError for what the server refuses."""
    options, dialect = dict(parse_qsl(text, keep_blank_values=True)), settings.dialect
    if missing := [name for name in options if name.startswith("$") and name not in _KNOWN]:
        raise ODataError(501, "50100", f"{missing[0]} is not implemented")
    select, top = _select(options.get("$select"), entity), _whole(options, "$top")
    most = _largest_page(entity, select, settings, is_expanded="$expand" in options)
    if dialect.refuses_large_top and top is not None and top > most:
        raise bad_option("$top", f"must not be more than {most}")
    after, left = _token(options.get("$skiptoken"), top)
    preferred = _PREFERRED.search(prefer) if dialect.honours_prefer else None
    default = {"none": "", "key": entity.key, "time": f"{MODIFICATION_FIELD},{entity.key}"}[dialect.default_order]
    query = CollectionQuery(
        entity,
        options,
        accepts=predicate(options["$filter"], entity, settings) if "$filter" in options else lambda _row: True,
        order=_order(options.get("$orderby") or default, entity),
        select=select,
        top=left,
        skip=0 if after else _whole(options, "$skip") or 0,
        after=after,
        preferred=int(preferred[1]) if preferred else None,
        most=most,
        paging=settings.paging,
        expand=_expansion(entity.name, options.get("$expand", ""), dialect),
    )
    return replace(query, top=None, preferred=top) if dialect.top_is_page_size and top else query


def _largest_page(
    entity: EntityType, select: tuple[str, ...] | None, settings: ServerSettings, *, is_expanded: bool
) -> int:
    dialect = settings.dialect
    if is_expanded and dialect.max_page_with_expand is not None:
        return dialect.max_page_with_expand
    if select == (entity.key,) and dialect.max_page_of_keys is not None:
        return dialect.max_page_of_keys
    return settings.max_page


def _select(text: str | None, entity: EntityType) -> tuple[str, ...] | None:
    if not text:
        return None
    named = text.split(",")
    if unknown := [name for name in named if name not in entity.fields]:
        raise bad_option("$select", f"{entity.name} has no field {unknown[0]}")
    return tuple(name for name in entity.fields if name in named or name == entity.key)


def _whole(options: dict[str, str], name: str) -> int | None:
    if (text := options.get(name)) and not text.isdecimal():
        raise bad_option(name, f"not a number: {text}")
    return int(text) if text else None


def _token(text: str | None, top: int | None) -> tuple[Place | None, int | None]:
    """Return what an opaque next link holds: the place behind which to continue, and the rows left of `$top`."""
    if not text:
        return None, top
    place, left = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return place, left


_CHILD = re.compile(r"(?P<child>\w+)(?:\(\$select=(?P<fields>[\w,]+)\))?")


def _expansion(resource: str, text: str, dialect: Dialect) -> Mapping[str, tuple[str, ...] | None]:
    found: dict[str, tuple[str, ...] | None] = {}
    for part in re.split(r",(?![^()]*\))", text) if text else ():
        named, members = _CHILD.fullmatch(part), dialect.expanded_members(resource)
        if named is None or named["child"] not in members:
            raise bad_option("$expand", f"{resource} has no {part}")
        if named["fields"] and not dialect.expands_with_options:
            raise bad_option("$expand", "no options are supported in it")
        found[members[named["child"]]] = tuple(named["fields"].split(",")) if named["fields"] else None
    return found


class ServerPage(NamedTuple):
    """`options` are those of the next link, None at the end; `total` is None unless it was requested."""

    rows: list[Row]
    options: dict[str, str] | None
    total: int | None
    is_truncated: bool = False


def read_page(
    rows: Iterable[Row], query: CollectionQuery, settings: ServerSettings, salt: int, fault: str | None
) -> ServerPage:
    """Return a page of the rows of a table, with what goes wrong with it; `salt` is what ties are shuffled by."""
    accepted = [row for row in rows if query.accepts(row.record)]
    count = len(accepted) if query.options.get("$count") == "true" else None
    size = min(query.preferred or query.top or settings.default_page, query.most)
    limit = size if query.top is None else min(size, query.top)
    behind = accepted if query.after is None else [row for row in accepted if query.is_after(row)]
    # Links by token lose no rows.
    shuffled = salt if settings.shuffles_ties and settings.paging == "skip" else None
    page = query.sorted(behind, shuffled)[query.skip : query.skip + limit]
    left = None if query.top is None else query.top - len(page)
    is_last = not 0 < len(page) == size or left == 0
    whole = ServerPage(page, None if is_last else _following(query, page), count)
    half = page[: len(page) // 2]
    if fault == ServerFault.EMPTY and page:
        return ServerPage([], None, None if count is None else 0, is_truncated=True)
    if fault == ServerFault.STOPS_SHORT and page:
        return ServerPage(half, None, count, is_truncated=True)
    if fault == ServerFault.SHORT_PAGE and half:
        return ServerPage(half, _following(query, half), count, is_truncated=True)
    return whole


def _following(query: CollectionQuery, page: list[Row]) -> dict[str, str]:
    left = None if query.top is None else query.top - len(page)
    if query.paging == "token":
        token = base64.urlsafe_b64encode(orjson.dumps([query.place(page[-1]), left])).decode().rstrip("=")
        return query.options | {"$skip": "", "$skiptoken": token}
    top = {} if left is None else {"$top": str(left)}
    return query.options | top | {"$skip": str(query.skip + len(page))}


def next_link(address: str, options: Mapping[str, str]) -> str:
    """Return a next link as the reference server writes it: `$` and `=` raw, everything else of a value encoded."""
    given = ((name, options[name]) for name in options if name in _KNOWN and options[name])
    return f"{address}?" + "&".join(f"{name}={quote(text, safe=_RAW)}" for name, text in given)
