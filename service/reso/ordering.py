"""The order of an entity set's records, and `$skiptoken`, the cursor from which the search continues.

Nulls come before all values, as OData defines it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from math import isfinite
from sys import float_info
from typing import Annotated, NamedTuple

import msgspec

from mappings.resource import Resource
from mappings.search_fields import SearchField
from service.errors import InvalidRequest
from service.parameters import MAX_PAGE_SIZE
from service.reso.filter.clauses import MATCH_ALL, MATCH_NONE
from service.reso.protocol import SKIP_TOKEN
from service.search.query import Body, Clause, Selection, lacks_field, match_any
from service.token import TokenVault, decode_base64, encode_base64, is_sealed

SortValue = str | int | float | None


class SortKind(Enum):
    """A type of sort values: the sort value of a record without one, which no value equals, and the greatest value."""

    IDENTIFIER = ("", "\U0010ffff")
    KEYWORD = (None, "\U0010ffff")
    LONG = (-(2**63), 2**63 - 1)
    DOUBLE = (-float_info.max, float_info.max)

    @property
    def null(self) -> SortValue:
        """The sort value of a record without a value."""
        null: SortValue = self.value[0]
        return null

    def limit(self, *, is_upper: bool) -> SortValue:
        """Return the least or the greatest sort value."""
        limit: SortValue = self.value[is_upper]
        return limit

    def accepts(self, value: object) -> bool:
        if self in {SortKind.KEYWORD, SortKind.IDENTIFIER}:
            return isinstance(value, str) or (value is None and self is SortKind.KEYWORD)
        if self is SortKind.DOUBLE and type(value) is float:
            return isfinite(value)
        return type(value) is int and -(2**63) <= value < 2**63


_KIND_BY_MAPPING = {"keyword": SortKind.KEYWORD, "long": SortKind.LONG, "double": SortKind.DOUBLE}


class SortField(NamedTuple):
    """A search field that sorts records. A resource may lack it: then it is null in all of its records."""

    name: str
    kind: SortKind
    is_nullable: bool = True
    is_absent: bool = False

    def clause(self, *, is_descending: bool) -> dict[str, object]:
        """Return the element of `sort`."""
        order = "desc" if is_descending else "asc"
        if not self.is_nullable:
            return {self.name: order}
        missing = ("_last" if is_descending else "_first") if self.kind is SortKind.KEYWORD else self.kind.null
        return {self.name: {"order": order, "missing": missing}}

    def bound(self, value: SortValue, *, is_descending: bool) -> Clause | None:
        """Return the clause for the records at or after a sort value, None for all."""
        if value == self.kind.null:
            return (MATCH_ALL if self.is_absent else lacks_field(self.name)) if is_descending else None
        if self.is_absent:
            return None if is_descending else MATCH_NONE
        within: Clause = {"range": {self.name: {"lte" if is_descending else "gte": value}}}
        return match_any(within, lacks_field(self.name)) if is_descending and self.is_nullable else within


ID = SortField("id", SortKind.IDENTIFIER, is_nullable=False)
CLOCK = SortField("clock", SortKind.LONG, is_nullable=False)


def sort_field(indexed: SearchField) -> SortField | None:
    """Return how a search field sorts records, None if it has no doc values to sort by."""
    kind = _KIND_BY_MAPPING.get(str(indexed.mapping["type"]))
    has_doc_values = indexed.mapping.get("doc_values", True) is not False
    return SortField(indexed.name, kind) if kind is not None and has_doc_values else None


# Increase it when tokens of the previous layout can no longer be read.
_TOKEN_VERSION = 1
_DIGEST_BYTES = 8

# Integers that every JSON reader keeps exactly.
_SafeInteger = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
# The sort values of the last row that was returned.
Position = tuple[str | int | float | None, ...]


async def skip_positions(
    read: Callable[[Position, int], Awaitable[Sequence[Position]]], number: int, at_once: int
) -> Position | None:
    """Return the position after the first `number` rows, None if there are fewer.

    `read` returns at most so many positions after another one. They are read `at_once` by `at_once`, to bound memory.
    """
    position: Position = ()
    for first in range(0, number, at_once):
        wanted = min(at_once, number - first)
        positions = await read(position, wanted)
        if len(positions) < wanted:
            return None
        position = positions[-1]
    return position


class SkipToken(msgspec.Struct, frozen=True, array_like=True):
    """The state of a paged request.

    `query_fingerprint` identifies entity set, filter and order, `rows_sent` counts the rows returned so far, `count` is
    the total of the first page, `floor_event` the last event when reading from the first event began, else 0.
    """

    query_fingerprint: bytes
    page_size: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE_SIZE)]
    rows_sent: _SafeInteger = 0
    count: _SafeInteger | None = None
    position: Position = ()
    floor_event: _SafeInteger = 0
    version: int = _TOKEN_VERSION

    @property
    def contents(self) -> bytes:
        return msgspec.msgpack.encode(self)


_decode = msgspec.msgpack.Decoder(SkipToken).decode


def fingerprint_query(*parts: object) -> bytes:
    """Return the fingerprint of a query: of entity set, filter and order."""
    return sha256(msgspec.json.encode(parts)).digest()[:_DIGEST_BYTES]


async def encode_skip_token(cursor: SkipToken, tokens: TokenVault) -> str:
    """Return a token as base64url text without padding, sealed if it holds the last event of all companies."""
    if cursor.floor_event:
        return await tokens.seal(cursor.contents)
    return encode_base64(cursor.contents)


async def open_skip_token(text: str, tokens: TokenVault) -> bytes:
    """Return the contents of a token; raise InvalidRequest. Tokens of earlier versions are not sealed."""
    return await tokens.open(text, SKIP_TOKEN) if is_sealed(text) else decode_base64(text)


def decode_skip_token(contents: bytes, query_fingerprint: bytes, position_kinds: tuple[SortKind, ...]) -> SkipToken:
    """Decode a token; raise InvalidRequest for a malformed one, or for one that was issued for another query.

    `position_kinds` are the types of the sort values.
    """
    try:
        cursor = _decode(contents)
    except msgspec.DecodeError:
        cursor = None
    if cursor is None or cursor.version != _TOKEN_VERSION or not _fits(cursor.position, position_kinds):
        raise InvalidRequest.of(
            SKIP_TOKEN, "is not a token of this service: follow @odata.nextLink exactly as received."
        )
    if cursor.query_fingerprint != query_fingerprint:
        raise InvalidRequest.of(SKIP_TOKEN, "was issued for another $filter or $orderby: follow @odata.nextLink.")
    return cursor


def _fits(position: Position, kinds: tuple[SortKind, ...]) -> bool:
    return len(position) == len(kinds) and all(kind.accepts(value) for kind, value in zip(kinds, position, strict=True))


class SortKey(NamedTuple):
    """A property to sort by: its field in each resource. An empty mapping is the identifier."""

    kind: SortKind
    is_descending: bool
    by_resource: Mapping[Resource, SortField]

    def field(self, resource: Resource) -> SortField:
        return self.by_resource.get(resource, ID)


@dataclass(frozen=True)
class SortOrder:
    """The sort keys, most significant first; the identifier is the last, so that positions are unique."""

    keys: tuple[SortKey, ...]

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        return tuple(key.kind for key in self.keys)

    @property
    def is_by_key(self) -> bool:
        """Whether it is the order of the feeds."""
        return self.keys == BY_KEY.keys

    def sorted_indices(self, positions: Sequence[Position]) -> list[int]:
        """Return the indices of positions in this order; strings compare by code point, as in Elasticsearch."""
        indices = list(range(len(positions)))
        for at, key in reversed(list(enumerate(self.keys))):
            # None, a keyword that a record lacks, is before every text.
            values = [(position[at] is not None, position[at]) for position in positions]
            indices.sort(key=values.__getitem__, reverse=key.is_descending)
        return indices

    def search_body(self, selection: Selection, after: Position, size: int) -> Body:
        """Return the body for the next `size` records after a position; empty: from the first."""
        body: Body = {"size": size, "track_total_hits": False}
        if self.is_by_key:
            # As in the feeds: within one company a single range of the index sort key.
            identifier = str(after[0]) if after else ""
            body |= {"query": selection.query(identifier), "sort": [selection.sort_field]}
            return body | ({"search_after": [selection.sort_value(identifier)]} if after else {})
        fields = [(key, key.field(selection.resource)) for key in self.keys]
        # A field that the resource lacks, null in all of its records, does not order them.
        body["sort"] = [field.clause(is_descending=key.is_descending) for key, field in fields if not field.is_absent]
        if not after:
            return body | {"query": selection.query()}
        bound = fields[0][1].bound(after[0], is_descending=self.keys[0].is_descending)
        within = selection if bound is None else selection.filtered(bound)
        return body | {"query": within.query(), "search_after": _values_after(fields, after)}

    def up_to(self, selection: Selection, end: Position) -> Selection:
        """Return the records of a selection that may be at or before a position: the first key alone is compared."""
        if self.is_by_key:
            return selection.filtered({"range": {selection.sort_field: {"lte": selection.sort_value(str(end[0]))}}})
        first = self.keys[0]
        bound = first.field(selection.resource).bound(end[0], is_descending=not first.is_descending)
        return selection if bound is None else selection.filtered(bound)

    def position(self, resource: Resource, sort_values: Sequence[SortValue], identifier: str) -> Position:
        if self.is_by_key:
            return (identifier,)
        found, fields = iter(sort_values), [key.field(resource) for key in self.keys]
        return tuple(field.kind.null if field.is_absent else next(found) for field in fields)


def _values_after(fields: Sequence[tuple[SortKey, SortField]], after: Position) -> list[SortValue]:
    """Return the sort values to continue after, of the fields that a resource has.

    A position may have a value of a field that the resource lacks: of the records that are equal up to there, all or
    none are after it, as null is before every value.
    """
    values: list[SortValue] = []
    is_decided = is_after = False
    for (key, field), value in zip(fields, after, strict=True):
        if field.is_absent:
            if not is_decided and value != field.kind.null:
                is_decided, is_after = True, key.is_descending
        elif is_decided:
            values.append(field.kind.limit(is_upper=is_after is key.is_descending))
        else:
            values.append(value)
    return values


BY_KEY = SortOrder((SortKey(ID.kind, is_descending=False, by_resource={}),))
