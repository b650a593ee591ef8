"""The query options of one request, read and checked."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl

import orjson

from tests.reso.query.dialect_rules import check_filter, check_top, expansion
from tests.reso.query.filter_grammar import Node, parse
from tests.reso.query.filter_predicates import Predicate, PredicateBuilder, match_all
from tests.reso.query.filter_tokens import BadFilter
from tests.reso.query.ordering import BadOrder, RowOrder, RowPosition, parse_order
from tests.reso.server.dialect import Dialect
from tests.reso.server.error_responses import ODataError, bad_option
from tests.reso.server.schema import MODIFICATION_FIELD, EntityType
from tests.reso.server.server_settings import ServerSettings

_PREFERRED = re.compile(r"(?:odata\.)?maxpagesize=(\d+)")
# Options of OData that this server does not have: better said than answered wrongly.
_NOT_HERE = frozenset({"$search", "$apply", "$compute", "$deltatoken"})


@dataclass(frozen=True)
class SkipToken:
    """What an opaque next link says: the row behind which to go on, the rows owed of $top, and the token's age."""

    place: RowPosition
    remaining_top: int | None
    epoch: int

    def text(self) -> str:
        """Return it as in the link."""
        encoded = orjson.dumps([self.place, self.remaining_top, self.epoch])
        return base64.urlsafe_b64encode(encoded).decode().rstrip("=")


@dataclass(frozen=True)
class CollectionQuery:
    """The query of one resource; `options` are as sent, `preferred` the page size of the Prefer header."""

    options: dict[str, str]
    where: Node | None
    accepts: Predicate
    order: RowOrder
    select: tuple[str, ...] | None
    top: int | None
    skip: int
    token: SkipToken | None
    preferred: int | None
    expand: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)  # children, and their fields or all
    most: int = 0  # rows of the largest page
    paging: str = ""  # of the server settings, unless the endpoint has its own


def parse_query(entity: EntityType, text: str, prefer: str, settings: ServerSettings) -> CollectionQuery:
    """Return the query of a URL behind its `?`; raise Problem for what the server refuses."""
    options, dialect = dict(parse_qsl(text, keep_blank_values=True)), settings.dialect
    not_here = _NOT_HERE if dialect.expanded else _NOT_HERE | {"$expand"}
    if missing := not_here & options.keys():
        raise ODataError(501, "50100", f"{min(missing)} is not implemented")
    where, top = _filter(options.get("$filter")), _whole(options, "$top")
    preferred = _PREFERRED.search(prefer) if dialect.honours_prefer else None
    select, expand = _select(options.get("$select"), entity, settings), options.get("$expand", "")
    most = _largest_page(entity, select, settings, is_expanded=bool(expand))
    check_top(top, most, dialect)
    query = CollectionQuery(
        options=options,
        where=where,
        accepts=_predicate(where, entity, settings),
        order=_order(options.get("$orderby") or _default_order(entity, dialect), entity, settings),
        select=select,
        top=top,
        skip=_whole(options, "$skip") or 0,
        token=_token(options.get("$skiptoken")),
        preferred=int(preferred[1]) or None if preferred else None,
        expand=expansion(entity.name, expand, dialect) if expand else {},
        most=most,
    )
    return replace(query, top=None, preferred=top) if dialect.top_is_page_size and top else query


def check_dialect(entity: EntityType, query: CollectionQuery, settings: ServerSettings) -> None:
    """Raise ODataError for a query of a collection that a dialect refuses."""
    check_filter(entity.name, query.where, settings.dialect)


def _default_order(entity: EntityType, dialect: Dialect) -> str:
    return {"none": "", "key": entity.key, "time": f"{MODIFICATION_FIELD},{entity.key}"}[dialect.default_order]


def _largest_page(
    entity: EntityType, select: tuple[str, ...] | None, settings: ServerSettings, *, is_expanded: bool
) -> int:
    dialect = settings.dialect
    if is_expanded and dialect.max_page_with_expand is not None:
        return dialect.max_page_with_expand
    if select == (entity.key,) and dialect.max_page_of_keys is not None:
        return dialect.max_page_of_keys
    return settings.max_page


def _filter(text: str | None) -> Node | None:
    try:
        return None if text is None else parse(text)
    except BadFilter as error:
        raise bad_option("$filter", str(error)) from error


def _predicate(where: Node | None, entity: EntityType, settings: ServerSettings) -> Predicate:
    try:
        filters = PredicateBuilder(entity, compares_text=settings.compares_text)
        return match_all if where is None else filters.predicate(where)
    except BadFilter as error:
        raise bad_option("$filter", str(error)) from error


def _order(text: str, entity: EntityType, settings: ServerSettings) -> RowOrder:
    try:
        return RowOrder(entity, parse_order(text, entity, strict=settings.strict))
    except BadOrder as error:
        raise bad_option("$orderby", str(error)) from error


def _select(text: str | None, entity: EntityType, settings: ServerSettings) -> tuple[str, ...] | None:
    if not text or text == "*":
        return None
    named = [name.strip() for name in text.split(",")]
    unknown = [name for name in named if name not in entity.fields]
    if unknown and settings.strict:
        raise bad_option("$select", f"{entity.name} has no field {unknown[0]}")
    return tuple(name for name in entity.fields if name in named or name == entity.key)


def _whole(options: dict[str, str], name: str) -> int | None:
    if (text := options.get(name)) is None:
        return None
    try:
        number = int(text)
    except ValueError as error:  # the reference server breaks on it
        raise ODataError(500, "50000", f"{name}: {text}") from error
    if number < 0:
        raise bad_option(name, "must not be negative")
    return number


def _token(text: str | None) -> SkipToken | None:
    if text is None:
        return None
    try:
        place, owed, epoch = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError as error:
        raise bad_option("$skiptoken", "none of this server") from error
    return SkipToken(place, owed, epoch)
