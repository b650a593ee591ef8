"""The query options of one request, read and checked."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import orjson

from tests.reso.grammar import Node, parse
from tests.reso.ordering import BadOrder, Order, Place, parse_order
from tests.reso.predicates import Filters, Predicate, everything
from tests.reso.problems import Problem, bad_option
from tests.reso.tokens import BadFilter

if TYPE_CHECKING:
    from tests.reso.schema import EntityType
    from tests.reso.settings import Settings

_PREFERRED = re.compile(r"(?:odata\.)?maxpagesize=(\d+)")
# Options of OData that this server does not have: better said than answered wrongly.
_NOT_HERE = frozenset({"$expand", "$search", "$apply", "$compute", "$deltatoken"})


@dataclass(frozen=True)
class Token:
    """What an opaque next link says: the row behind which to go on, the rows owed of $top, and the token's age."""

    place: Place
    owed: int | None
    epoch: int

    def text(self) -> str:
        """Return it as it stands in the link."""
        encoded = orjson.dumps([self.place, self.owed, self.epoch])
        return base64.urlsafe_b64encode(encoded).decode().rstrip("=")


@dataclass(frozen=True)
class Query:
    """What is asked of one resource; `options` are as sent, `preferred` the page size of the Prefer header."""

    options: dict[str, str]
    where: Node | None
    accepts: Predicate
    order: Order
    select: tuple[str, ...] | None
    top: int | None
    skip: int
    token: Token | None
    preferred: int | None


def read_query(entity: EntityType, text: str, prefer: str, settings: Settings) -> Query:
    """Return the query of a URL behind its `?`; raise Problem for what the server refuses."""
    options = dict(parse_qsl(text, keep_blank_values=True))
    if missing := _NOT_HERE & options.keys():
        raise Problem(501, "50100", f"{min(missing)} is not implemented")
    where = _filter(options.get("$filter"))
    preferred = _PREFERRED.search(prefer)
    return Query(
        options=options,
        where=where,
        accepts=_predicate(where, entity, settings),
        order=_order(options.get("$orderby", ""), entity, settings),
        select=_select(options.get("$select"), entity, settings),
        top=_whole(options, "$top"),
        skip=_whole(options, "$skip") or 0,
        token=_token(options.get("$skiptoken")),
        preferred=int(preferred[1]) or None if preferred else None,
    )


def _filter(text: str | None) -> Node | None:
    try:
        return None if text is None else parse(text)
    except BadFilter as error:
        raise bad_option("$filter", str(error)) from error


def _predicate(where: Node | None, entity: EntityType, settings: Settings) -> Predicate:
    try:
        filters = Filters(entity, compares_text=settings.compares_text)
        return everything if where is None else filters.predicate(where)
    except BadFilter as error:
        raise bad_option("$filter", str(error)) from error


def _order(text: str, entity: EntityType, settings: Settings) -> Order:
    try:
        return Order(entity, parse_order(text, entity, strict=settings.strict))
    except BadOrder as error:
        raise bad_option("$orderby", str(error)) from error


def _select(text: str | None, entity: EntityType, settings: Settings) -> tuple[str, ...] | None:
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
        raise Problem(500, "50000", f"{name}: {text}") from error
    if number < 0:
        raise bad_option(name, "must not be negative")
    return number


def _token(text: str | None) -> Token | None:
    if text is None:
        return None
    try:
        place, owed, epoch = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError as error:
        raise bad_option("$skiptoken", "none of this server") from error
    return Token(place, owed, epoch)
