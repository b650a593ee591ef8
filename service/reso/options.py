"""The query options of OData that are done here, as parameters; and those that are refused by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from marshmallow import Schema, ValidationError

from service.parameters.fields import Parameter
from service.reso.faults import NotImplementedHere
from service.reso.reading import read_filter
from service.reso.tokens import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.reso.expression import Expression

FILTER, ORDER, SELECT, TOP, SKIP, COUNT, TOKEN, FORMAT = (
    *("$filter", "$orderby", "$select", "$top"),
    *("$skip", "$count", "$skiptoken", "$format"),
)
MOST_SKIPPED = 10_000
_ELSEWHERE = frozenset(
    {"$expand", "$search", "$apply", "$compute", "$deltatoken", "$index", "$levels", "$schemaversion", "$id"}
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_BEYOND = re.compile(r"[()/]| add | sub | mul | div | mod ")
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,2000}", re.ASCII)


class Order(NamedTuple):
    """A property to order by, and whether the greatest comes first."""

    name: str
    is_descending: bool


class Filter(NamedTuple):
    """A filter as it was sent, and what it says."""

    text: str
    expression: Expression


class FilterOption(Parameter):
    """`$filter`."""

    def read(self, text: str) -> Filter:
        """Return the filter; raise NotImplementedHere for what is not done."""
        try:
            return Filter(text, read_filter(_readable(text)))
        except Malformed as fault:
            raise ValidationError(str(fault)) from None


class OrderOption(Parameter):
    """`$orderby`."""

    def read(self, text: str) -> tuple[Order, ...]:
        """Return what to order by, in turn."""
        orders = tuple(_order(part) for part in _readable(text).split(","))
        if len({order.name for order in orders}) < len(orders):
            raise ValidationError("names a field twice.")
        return orders


def _order(part: str) -> Order:
    if _BEYOND.search(part):
        raise NotImplementedHere(ORDER, f"the expression {part.strip()[:40]!r}")
    match part.split():
        case [name] if _NAME.fullmatch(name):
            return Order(name, is_descending=False)
        case [name, way] if _NAME.fullmatch(name) and way.lower() in {"asc", "desc"}:
            return Order(name, is_descending=way.lower() == "desc")
    raise ValidationError("must be names of fields, each with asc or desc behind it or nothing, separated by commas.")


class SelectOption(Parameter):
    """`$select`."""

    def read(self, text: str) -> tuple[str, ...] | None:
        """Return the names of the properties to answer, None for all."""
        names = tuple(part.strip() for part in _readable(text).split(","))
        if names == ("*",):
            return None
        if beyond := [name for name in names if _BEYOND.search(name)]:
            raise NotImplementedHere(SELECT, f"the path {beyond[0][:40]!r}")
        if not all(map(_NAME.fullmatch, names)):
            raise ValidationError("must be names of fields separated by commas, or *.")
        return names


class Number(Parameter):
    """`$top` and `$skip`."""

    def read(self, text: str) -> int:
        """Return the number."""
        if not _WHOLE.fullmatch(text):
            raise ValidationError("must be a whole number from 0 on.")
        return int(text)


class SkipOption(Number):
    """`$skip`."""

    def read(self, text: str) -> int:
        """Return the number, of rows that are passed over."""
        if (number := super().read(text)) > MOST_SKIPPED:
            raise ValidationError(f"must be at most {MOST_SKIPPED:,}: follow @odata.nextLink, which has no end.")
        return number


class CountOption(Parameter):
    """`$count`."""

    def read(self, text: str) -> bool:
        """Return whether the count is wanted."""
        if text.lower() not in {"true", "false"}:
            raise ValidationError("must be true or false.")
        return text.lower() == "true"


class TokenOption(Parameter):
    """`$skiptoken`."""

    def read(self, text: str) -> str:
        """Return the token, still encoded."""
        if not _TOKEN.fullmatch(text):
            raise ValidationError("must be that of an @odata.nextLink as it was received.")
        return text


class FormatOption(Parameter):
    """`$format`."""

    def __init__(self, note: str, *accepted: str) -> None:
        """Describe the option; the first format is the default."""
        super().__init__(note, load_default=accepted[0])
        self.accepted = accepted

    def read(self, text: str) -> str:
        """Return the format."""
        if text.partition(";")[0].strip().lower() not in self.accepted:
            raise NotImplementedHere(FORMAT, f"the format {text[:40]!r}")
        return self.accepted[0]


def _readable(text: str) -> str:
    if not text.strip() or _CONTROLS.search(text):
        raise ValidationError("must be a text without control characters.")
    return text


_SELECT = SelectOption("Properties to answer, separated by commas; all when absent.")
_JSON = FormatOption("The format of the answer: json.", "json", "application/json")
_LISTED: dict[str, Parameter] = {
    FILTER: FilterOption("Which records are answered."),
    ORDER: OrderOption("In which order they are."),
    SELECT: _SELECT,
    TOP: Number("How many are answered in all."),
    SKIP: SkipOption("How many are passed over before the first."),
    COUNT: CountOption("Whether they are counted.", load_default=False),
    TOKEN: TokenOption("Where to go on."),
    FORMAT: _JSON,
}
COLLECTION: Schema = Schema.from_dict(dict(_LISTED))()
SINGLE: Schema = Schema.from_dict({SELECT: _SELECT, FORMAT: _JSON})()
DOCUMENT: Schema = Schema.from_dict({FORMAT: _JSON})()
METADATA: Schema = Schema.from_dict({FORMAT: FormatOption("The format: xml.", "xml", "application/xml")})()


def refuse_elsewhere(sent: Mapping[str, str], schema: Schema) -> None:
    """Raise NotImplementedHere for an option that OData knows and the operation does not."""
    known = _ELSEWHERE | _LISTED.keys()
    for name in sent:
        if name in known and name not in schema.fields:
            raise NotImplementedHere(name, f"the option {name}")
