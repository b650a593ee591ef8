"""The supported OData query options as parameters, and the names of those refused as not implemented."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from marshmallow import Schema, ValidationError

from service.parameters import Parameter
from service.reso.filter.expression import FilterExpression
from service.reso.filter.parser import MalformedFilter, parse_filter
from service.reso.protocol import (
    COUNT,
    EXPAND,
    FILTER,
    FORMAT,
    ORDER_BY,
    SELECT,
    SKIP,
    SKIP_TOKEN,
    TOP,
    OptionNotImplemented,
    OrderBy,
)

MAX_SKIP = 10_000
# Names in `$select`, and in `$orderby`: no entity set has so many properties, or so many to order by.
MAX_SELECTED, MAX_ORDERS = 200, 10
_UNIMPLEMENTED_OPTIONS = frozenset(
    {"$expand", "$search", "$apply", "$compute", "$deltatoken", "$index", "$levels", "$schemaversion", "$id"}
)
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_PROPERTY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_EXPRESSION_SYNTAX = re.compile(r"[()/]| add | sub | mul | div | mod ")
_INTEGER = re.compile(r"[0-9]{1,12}", re.ASCII)
_TOKEN_REGEX = re.compile(r"[A-Za-z0-9_-]{1,2000}", re.ASCII)


class FilterQuery(NamedTuple):
    """A filter: its text as sent, and the parsed expression."""

    text: str
    expression: FilterExpression


class FilterOption(Parameter):
    """`$filter`."""

    def parse_text(self, text: str) -> FilterQuery:
        """Return the filter; raise OptionNotImplemented for unsupported operators and functions."""
        parsed = _parse_once(_checked_text(text))
        if isinstance(parsed, MalformedFilter):
            raise ValidationError(str(parsed))
        return FilterQuery(text, parsed)


@lru_cache(maxsize=16)
def _parse_once(text: str) -> FilterExpression | MalformedFilter:
    """Return the expression or the fault of a filter.

    A refused query is parsed twice (`service.parameters`), and all pages of a reader have the same filter.
    """
    try:
        return parse_filter(text)
    except MalformedFilter as fault:
        return fault.with_traceback(None)


class OrderOption(Parameter):
    """`$orderby`."""

    def parse_text(self, text: str) -> tuple[OrderBy, ...]:
        """Return the properties to order by, most significant first."""
        orders = tuple(_parse_order(part) for part in _split_names(text, MAX_ORDERS))
        if len({order.name for order in orders}) < len(orders):
            raise ValidationError("names a field twice.")
        return orders


def _parse_order(part: str) -> OrderBy:
    if _EXPRESSION_SYNTAX.search(part):
        raise OptionNotImplemented(ORDER_BY, f"the expression {part.strip()[:40]!r}")
    match part.split():
        case [name] if _PROPERTY_NAME.fullmatch(name):
            return OrderBy(name, is_descending=False)
        case [name, direction] if _PROPERTY_NAME.fullmatch(name) and direction.lower() in {"asc", "desc"}:
            return OrderBy(name, is_descending=direction.lower() == "desc")
    raise ValidationError("must be field names separated by commas, each optionally followed by asc or desc.")


class SelectOption(Parameter):
    """`$select`."""

    def parse_text(self, text: str) -> tuple[str, ...] | None:
        """Return the names of the selected properties, None for all."""
        names = tuple(part.strip() for part in _split_names(text, MAX_SELECTED))
        if names == ("*",):
            return None
        if paths := [name for name in names if _EXPRESSION_SYNTAX.search(name)]:
            raise OptionNotImplemented(SELECT, f"the path {paths[0][:40]!r}")
        if not all(map(_PROPERTY_NAME.fullmatch, names)):
            raise ValidationError("must be field names separated by commas, or *.")
        return names


class NonNegativeInteger(Parameter):
    """`$top` and `$skip`."""

    def parse_text(self, text: str) -> int:
        """Return the number."""
        if not _INTEGER.fullmatch(text):
            raise ValidationError("must be a whole number, 0 or greater.")
        return int(text)


class SkipOption(NonNegativeInteger):
    """`$skip`."""

    def parse_text(self, text: str) -> int:
        """Return the number of rows to skip."""
        if (number := super().parse_text(text)) > MAX_SKIP:
            raise ValidationError(f"must be at most {MAX_SKIP:,}: follow @odata.nextLink, which has no such limit.")
        return number


class CountOption(Parameter):
    """`$count`."""

    def parse_text(self, text: str) -> bool:
        if text.lower() not in {"true", "false"}:
            raise ValidationError("must be true or false.")
        return text.lower() == "true"


class SkipTokenOption(Parameter):
    """`$skiptoken`."""

    def parse_text(self, text: str) -> str:
        """Return the token, still encoded."""
        if not _TOKEN_REGEX.fullmatch(text):
            raise ValidationError("must be the token of an @odata.nextLink, exactly as received.")
        return text


class FormatOption(Parameter):
    """`$format`, which is negotiated like `Accept` (`service.reso.protocol`)."""

    def parse_text(self, text: str) -> str:
        return _checked_text(text)


def _split_names(text: str, most: int) -> list[str]:
    if _checked_text(text).count(",") >= most:
        raise ValidationError(f"names more than {most} fields.")
    return text.split(",")


def _checked_text(text: str) -> str:
    if not text.strip() or _CONTROL_CHARACTERS.search(text):
        raise ValidationError("must be a non-empty text without control characters.")
    return text


_SELECT = SelectOption("Properties to return, separated by commas; all when absent.")
_FORMAT = FormatOption("The format of the response: json, or a media type.")
_COLLECTION_FIELDS: dict[str, Parameter] = {
    FILTER: FilterOption("A condition that records must match."),
    ORDER_BY: OrderOption("The order of the records."),
    SELECT: _SELECT,
    TOP: NonNegativeInteger("The maximum number of records in all."),
    SKIP: SkipOption("The number of records to skip."),
    COUNT: CountOption("Whether to count the records.", load_default=False),
    SKIP_TOKEN: SkipTokenOption("Where the next page starts."),
    FORMAT: _FORMAT,
}
COLLECTION_OPTIONS: Schema = Schema.from_dict(dict(_COLLECTION_FIELDS))()
COUNT_OPTIONS: Schema = Schema.from_dict({FILTER: _COLLECTION_FIELDS[FILTER]})()
VALUE_OPTIONS: Schema = Schema.from_dict({FORMAT: _FORMAT})()
ENTITY_OPTIONS: Schema = Schema.from_dict({SELECT: _SELECT, FORMAT: _FORMAT})()
SERVICE_DOCUMENT_OPTIONS: Schema = Schema.from_dict({FORMAT: _FORMAT})()
METADATA_OPTIONS: Schema = Schema.from_dict({FORMAT: FormatOption("The format: xml, json, or a media type.")})()


def refuse_unimplemented(sent: Mapping[str, str], schema: Schema) -> None:
    """Raise OptionNotImplemented for an OData option that the operation does not support."""
    known = _UNIMPLEMENTED_OPTIONS | _COLLECTION_FIELDS.keys()
    for name in sent:
        if name in known and name not in schema.fields:
            raise OptionNotImplemented(name, f"the option {name}")


_MAX_EXPANDED = 10
_ITEM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]{0,127})\s*(?:\(([^()]*)\))?\s*(?:,|\Z)", re.ASCII)
# Paths, all properties at once, and options that have parentheses.
_DEEPER = re.compile(r"[*/]|\([^()]*\(")
_select = SelectOption("")


class ExpandItem(NamedTuple):
    """A navigation property, and the selected properties of its entities, None for all."""

    name: str
    select: tuple[str, ...] | None


class ExpandOption(Parameter):
    """`$expand`."""

    def parse_text(self, text: str) -> tuple[ExpandItem, ...]:
        """Return the items; raise OptionNotImplemented for nested options other than `$select`."""
        items: list[ExpandItem] = []
        at = 0
        while at < len(text) and len(items) <= _MAX_EXPANDED:
            if (match := _ITEM.match(text, at)) is None:
                raise _fault(text)
            items.append(ExpandItem(match[1], _selected(match[1], match[2])))
            at = match.end()
        names = [item.name for item in items]
        if not items or text.rstrip().endswith(",") or len({*names}) < len(names) or len(names) > _MAX_EXPANDED:
            raise _fault(text)
        return tuple(items)


def _fault(text: str) -> Exception:
    if _DEEPER.search(text):
        return OptionNotImplemented(EXPAND, f"the expression {text[:40]!r}")
    return ValidationError(
        f"must be up to {_MAX_EXPANDED} names of navigation properties separated by commas, each once, as in "
        f"Media({SELECT}=MediaURL),ListAgent."
    )


def _selected(name: str, options: str | None) -> tuple[str, ...] | None:
    selected: tuple[str, ...] | None = None
    for option in filter(None, map(str.strip, (options or "").split(";"))):
        given, _, value = option.partition("=")
        if given.strip() != SELECT:
            raise OptionNotImplemented(EXPAND, f"the option {given.strip()[:40]} of {name}")
        selected = _select.parse_text(value)
    return selected


_EXPAND = {EXPAND: ExpandOption("Navigation properties whose entities to include, separated by commas.")}
EXPANDABLE_COLLECTION_OPTIONS: Schema = Schema.from_dict({**COLLECTION_OPTIONS.declared_fields, **_EXPAND})()
EXPANDABLE_ENTITY_OPTIONS: Schema = Schema.from_dict({**ENTITY_OPTIONS.declared_fields, **_EXPAND})()
