"""Query parameters: their types, each with its values, its error message and its filter, and the parser of a query.

marshmallow's own number and boolean fields accept too much for a query string: `1_000`, ` 3 `, Arabic digits, `yes`.
"""

import difflib
import re
from binascii import a2b_qp
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NoReturn, Self
from urllib.parse import unquote_plus

from aiohttp import web
from marshmallow import INCLUDE, Schema, ValidationError, fields
from webargs.aiohttpparser import AIOHTTPParser

from mappings.fields import MAX_CHARACTERS, TEXT_PATTERN, TEXT_RULE, UUID_RULE, TextForm
from mappings.listing import PROPERTY_TYPES
from service.errors import MAX_FAULTS, MAX_NAME_LENGTH, InvalidRequest, ParameterFault
from service.http.responses import API_KEY_PARAMETER
from service.search import query
from service.search.query import Clause

_DAY_SECONDS = 24 * 3600


@dataclass(frozen=True)
class ClauseBuilder:
    """The clause of one parameter: its search field, and the function from value to clause.

    `default` supplies the value of an absent parameter, unless one of the parameters `unless` is sent.
    """

    field: str
    build: Callable[[Any], Clause]
    default: Callable[[], Any] | None = None
    unless: tuple[str, ...] = ()

    def clause(self, value: Any, sent: Mapping[str, Any]) -> Clause | None:
        """Return the clause for a value, None to match all records; `sent` holds the values of all parameters.

        An absent parameter is None; a flag that is false does not filter either.
        """
        if value is None or value is False:
            if self.default is None or any(_is_sent(sent[name]) for name in self.unless):
                return None
            value = self.default()
        return self.build(value)


def _is_sent(value: object) -> bool:
    return not (value is None or value is False)


def equals(field: str) -> ClauseBuilder:
    """Match records whose field is the value."""
    return ClauseBuilder(field, partial(query.term, field))


def equals_in_any_case(field: str) -> ClauseBuilder:
    """Match records whose field is the value, with letters a to z in either case."""
    return ClauseBuilder(field, partial(query.term_in_any_case, field))


def any_of(field: str) -> ClauseBuilder:
    """Match records whose field is one of several values."""
    return ClauseBuilder(field, partial(query.terms, field))


def is_true(field: str) -> ClauseBuilder:
    """Match records whose flag is set, if the parameter is true; false matches all records."""
    return ClauseBuilder(field, partial(query.term, field))


def at_least(field: str) -> ClauseBuilder:
    """Match records whose number is the value or greater."""
    return ClauseBuilder(field, partial(_bounded, field, "gte"))


def at_most(field: str) -> ClauseBuilder:
    """Match records whose number is the value or less."""
    return ClauseBuilder(field, partial(_bounded, field, "lte"))


def since(field: str, *, default: Callable[[], int] | None = None, unless: tuple[str, ...] = ()) -> ClauseBuilder:
    """Match records whose time is at or after a Unix second."""
    return ClauseBuilder(field, partial(query.at_or_after, field), default, unless)


def since_day(field: str, *, default: Callable[[], int] | None = None, unless: tuple[str, ...] = ()) -> ClauseBuilder:
    """Match records whose date is the UTC day of a Unix second or later."""
    return ClauseBuilder(field, partial(_since_day, field), default, unless)


def until(field: str) -> ClauseBuilder:
    """Match records whose time is at or before a Unix second, or whose date is its UTC day or earlier."""
    return ClauseBuilder(field, partial(query.at_or_before, field))


def _bounded(field: str, bound: str, value: float) -> Clause:
    return {"range": {field: {bound: value}}}


def _since_day(field: str, second: int) -> Clause:
    return query.at_or_after(field, second - second % _DAY_SECONDS)


# The year 2100: a later value is most likely in milliseconds.
MAX_UNIX_SECOND = 4_102_444_800
# Ten digits, the most that are parsed.
LARGEST_WHOLE_NUMBER = 9_999_999_999

INVALID_TEXT_MESSAGE = f"{TEXT_RULE}."
# Earlier versions accepted control characters beyond ASCII in identifiers.
_CURSOR_PATTERN = re.compile(rf"[^\x00-\x1f\x7f\ud800-\udfff]{{1,{MAX_CHARACTERS}}}")
# An optional company key or number with a colon, then the text.
_QUALIFIED_PATTERN = re.compile(rf"([A-Za-z0-9_-]{{1,64}}:)?{TEXT_PATTERN.pattern}")
_INTEGER_PATTERN = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_PROPERTY_TYPE_NUMBERS = {str(number): number for number in PROPERTY_TYPES}
_LEGEND = "; ".join(f"{number}: {name}" for number, name in PROPERTY_TYPES.items())
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def is_valid_text(text: str) -> bool:
    """Return whether a string is accepted as an identifier or other short text."""
    return TEXT_PATTERN.fullmatch(text) is not None


class Parameter(fields.Field[Any]):
    """A query parameter, which `parse_text` validates and converts.

    `clause` builds its filter; it is None for scope, paging and form, and if a rule of the operation reads the
    parameter. `group` is the field group that it reveals: keys that may not see the group may not send the parameter.
    """

    group = ""

    def __init__(
        self, note: str, *, required: bool = False, load_default: Any = None, clause: ClauseBuilder | None = None
    ) -> None:
        """Describe the parameter; `load_default` is its value if it is absent."""
        self.clause = clause
        metadata = {"description": note}
        if required:
            super().__init__(required=True, metadata=metadata, error_messages={"required": "is required."})
        else:
            super().__init__(load_default=load_default, metadata=metadata)

    def guarded(self, group: str) -> Self:
        """Return the parameter, refused to keys that may not see a field group."""
        self.group = group
        note = f"{self.metadata['description']} Keys that may not see {group} may not send it."
        self.metadata = {**self.metadata, "description": note}
        return self

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002 - marshmallow's signature
        return self.parse_text(str(value))

    def parse_text(self, text: str) -> Any:
        """Return the value; raise ValidationError for an invalid text."""
        raise NotImplementedError


class Text(Parameter):
    """An identifier or another short string."""

    pattern = TEXT_PATTERN

    def parse_text(self, text: str) -> str:
        """Return the text; raise ValidationError if it is too long or has control characters."""
        if not self.pattern.fullmatch(text):
            raise ValidationError(INVALID_TEXT_MESSAGE)
        return text


class Cursor(Text):
    """The identifier of a record that was received, even if it has a character that new records may not have."""

    pattern = _CURSOR_PATTERN


class QualifiedText(Text):
    """An identifier, possibly behind a company and a colon."""

    pattern = _QUALIFIED_PATTERN


class Uuid(Parameter):
    """A UUID in the text form of RFC 4122, in either case."""

    def parse_text(self, text: str) -> str:
        """Return the UUID in lower case."""
        canonical = TextForm.UUID.canonical(text)
        if canonical is None:
            raise ValidationError(f"{UUID_RULE}.")
        return canonical


class Boolean(Parameter):
    """A boolean."""

    def __init__(self, note: str, *, clause: ClauseBuilder | None = None) -> None:
        super().__init__(note, load_default=False, clause=clause)

    def parse_text(self, text: str) -> bool:
        """Parse `true`, `false`, `1` or `0`, in any case."""
        value = _BOOLEANS.get(text.lower())
        if value is None:
            raise ValidationError("must be true or false.")
        return value


class WholeNumber(Parameter):
    """A whole number within a range."""

    def __init__(
        self,
        note: str,
        *,
        minimum: int = 0,
        maximum: int = LARGEST_WHOLE_NUMBER,
        load_default: int | None = None,
        clause: ClauseBuilder | None = None,
    ) -> None:
        super().__init__(note, load_default=load_default, clause=clause)
        self.minimum, self.maximum = minimum, maximum

    def parse_text(self, text: str) -> int:
        number = int(text) if _INTEGER_PATTERN.fullmatch(text) else None
        if number is None or not self.minimum <= number <= self.maximum:
            raise ValidationError(f"must be a whole number from {self.minimum} to {self.maximum}.")
        return number


class UnixSecond(WholeNumber):
    """A point in time in whole seconds since 1970."""

    def __init__(self, note: str, *, clause: ClauseBuilder | None = None) -> None:
        super().__init__(note, minimum=0, maximum=MAX_UNIX_SECOND, clause=clause)

    def parse_text(self, text: str) -> int:
        """Return the second; the error message names the unit, because milliseconds are the usual mistake."""
        try:
            return super().parse_text(text)
        except ValidationError:
            raise ValidationError(f"must be a Unix time in whole seconds, at most {MAX_UNIX_SECOND}.") from None


class Choice(Parameter):
    """One of several words."""

    def __init__(self, note: str, choices: tuple[str, ...]) -> None:
        super().__init__(note, load_default=choices[0])
        self.choices = choices

    def parse_text(self, text: str) -> str:
        """Return the chosen word."""
        if text not in self.choices:
            raise ValidationError(f"must be one of: {', '.join(self.choices)}.")
        return text


class PropertyTypes(Parameter):
    """Numbers of the property type legend, separated by commas."""

    def __init__(self, note: str, *, clause: ClauseBuilder | None = None) -> None:
        super().__init__(f"{note} {_LEGEND}.", clause=clause)

    def parse_text(self, text: str) -> list[int]:
        """Return the distinct numbers, sorted."""
        parts = text.split(",")
        if len(parts) > len(PROPERTY_TYPES):
            raise ValidationError(f"must be at most {len(PROPERTY_TYPES)} integers from the legend.")
        if invalid := [part for part in parts if part not in _PROPERTY_TYPE_NUMBERS]:
            listed = ", ".join(repr(part[:40]) for part in invalid[:5])
            raise ValidationError(
                f"must be integers from the legend, -1 and 1 to 23, separated by commas; not {listed}."
            )
        return sorted({_PROPERTY_TYPE_NUMBERS[part] for part in parts})


MAX_PAGE_SIZE = 1_000
# The default except for listings, whose pages have 200 records (decisions, Page size).
DEFAULT_PAGE_SIZE = 100


class CompanyScope(Schema):
    """One company."""

    platform_company_id = Text("A company: its key or its numeric id.")


class ParentScope(CompanyScope):
    """One company, or the companies under a parent."""

    parent_company_id = Text("A parent company: its key or its numeric id. Alone: all companies under it.")


class UnderscoreOption(Schema):
    """The spelling of response keys."""

    underscore_response = Boolean("True returns underscored keys, such as list_agent_uuid for ListAgentUUID.")


class TimestampsOption(Schema):
    """The brief form of a collection."""

    timestamps_only = Boolean("True returns only identifiers and times of change.")


def _page_size(default: int) -> WholeNumber:
    return WholeNumber(
        f"Records per page; {default} when absent.", minimum=1, maximum=MAX_PAGE_SIZE, load_default=default
    )


class CursorPaging(Schema):
    """Paging with the last identifier as the cursor."""

    page_size = _page_size(200)
    last_platform_listing_id = Cursor("The PlatformListingId of the last listing received.")


class PageNumber(Schema):
    """The page number."""

    # A generous bound: the result window is checked together with the page size.
    page_number = WholeNumber("The page to return; the first is 1.", minimum=1, maximum=10_000_000)


class NumberedPaging(PageNumber):
    """Paging by number."""

    page_size = _page_size(DEFAULT_PAGE_SIZE)


class OptionalPaging(PageNumber):
    """Paging by number; the whole collection if neither parameter is sent."""

    page_size = WholeNumber(
        f"Records per page; when absent {DEFAULT_PAGE_SIZE} with page_number, and all records without it.",
        minimum=1,
        maximum=MAX_PAGE_SIZE,
    )


class AgentReferences(Schema):
    """Filters by agent or office."""

    agent_uuid = Uuid("Listings of this agent.")
    platform_agent_id = QualifiedText(
        "Listings of this agent; `[platform_company_id]:[internal_agent_id]` is accepted too."
    )
    source_agent_id = Text("Listings of the agent with this id in the company's own system.")
    platform_office_id = Text("Listings of this office.")


class DeactivationFilter(Schema):
    """The filter for deactivated records."""

    deactivated = Boolean("True returns only deactivated records, which are excluded by default.")
    deactivated_since = UnixSecond(
        "With deactivated: records deactivated at or after this second; seven days ago when absent."
    )


_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_INVALID_ESCAPE_MESSAGE = "has a percent escape that is broken or not valid UTF-8."


def url_faults(request: web.Request) -> Iterator[ParameterFault]:
    """Yield a fault for each identifier in the path and each query parameter that is not valid text.

    As in the query, an identifier in the path has 1 to 128 characters, none of them a control character. The URL
    decoder keeps broken escapes and replaces invalid UTF-8 by U+FFFD: requests would search for the result.
    """
    path, query = request.rel_url.raw_path, request.rel_url.raw_query_string
    is_path_valid = "%" not in path or _is_valid_encoding(path)
    for name, value in request.match_info.items():
        if not is_path_valid:
            yield ParameterFault(name, _INVALID_ESCAPE_MESSAGE)
        elif not is_valid_text(value.replace("''", "'")):  # a key of OData, where a quote is doubled
            yield ParameterFault(name, INVALID_TEXT_MESSAGE)
    if "%" not in query or _is_valid_encoding(query):
        return
    for pair in query.split("&"):
        if not _is_valid_encoding(pair):
            yield ParameterFault.of_sent(unquote_plus(pair.partition("=")[0]), _INVALID_ESCAPE_MESSAGE)


def _is_valid_encoding(raw: str) -> bool:
    if _BROKEN_ESCAPE.search(raw):
        return False
    try:
        # Quoted-printable has the same escapes after another sign; its decoder takes a hundredth of urllib's time.
        a2b_qp(raw.encode().replace(b"=", b"=3D").replace(b"%", b"=")).decode()
    except UnicodeDecodeError:
        return False
    return True


# What jQuery and others add to URLs with `cache: false`.
_CACHE_BUSTER = "_"
_CACHE_BUSTER_HINT = (
    " It looks like a cache buster: switch it off in your client, such as `cache: true` in jQuery. Caches must "
    "revalidate every response."
)


class QueryParser(AIOHTTPParser):
    """The webargs parser, restricted to the query string."""

    DEFAULT_LOCATION = "query"

    def handle_error(self, error: ValidationError, *_: Any, **__: Any) -> NoReturn:
        """Re-raise the error; the caller adds faults that the schema cannot detect."""
        raise error


_PARSER = QueryParser()


async def parse_query(request: web.Request, schema: Schema, *, tolerate_unknown: bool) -> dict[str, Any]:
    """Return the values of all parameters in a schema; raise InvalidRequest with the faults."""
    is_valid = next(url_faults(request), None) is None
    values = _parse_valid_query(request.query, schema) if is_valid else None
    return await _parse_with_faults(request, schema, tolerate_unknown=tolerate_unknown) if values is None else values


async def parse_sent(query: Mapping[str, str], schema: Schema) -> dict[str, Any]:
    """Return the values of all parameters in a schema, of which those in `query` are stored; raise InvalidRequest."""
    if (values := _parse_valid_query(query, schema)) is not None:
        return values
    unknown = [
        ParameterFault(name, "is not a parameter of this operation.") for name in query if name not in schema.fields
    ]
    raise InvalidRequest(*(unknown or [ParameterFault(name, "has an invalid value.") for name in query]))


def _parse_valid_query(query: Mapping[str, str], schema: Schema) -> dict[str, Any] | None:
    """Parse the sent parameters and apply defaults to the rest; None if there is any fault.

    marshmallow visits every field of a schema, which takes more CPU time than all other steps of a show.
    """
    values, missing = _defaults(schema)
    values = values.copy()
    sent = 0
    for name, text in query.items():
        field = schema.fields.get(name)
        if field is None and name != API_KEY_PARAMETER:
            return None
        sent += 1
        try:
            values[name] = None if field is None else field.deserialize(text)
        except ValidationError:
            return None
    values.pop(API_KEY_PARAMETER, None)
    return values if sent == len({*query}) and missing <= query.keys() else None


@cache
def _defaults(schema: Schema) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the default values of a schema's parameters, and the names of the required ones."""
    required = frozenset(name for name, field in schema.fields.items() if field.required)
    return {name: None if name in required else field.load_default for name, field in schema.fields.items()}, required


async def _parse_with_faults(request: web.Request, schema: Schema, *, tolerate_unknown: bool) -> dict[str, Any]:
    """Parse all parameters with marshmallow, to report several faults at once."""
    faults = [
        *url_faults(request),
        *_repeated_faults(request),
        *([] if tolerate_unknown else _unknown_faults(request, schema)),
    ]
    try:
        # `_unknown_faults` reports unknown names with the nearest known one.
        values = await _PARSER.parse(schema, request, unknown=INCLUDE)
    except ValidationError as error:
        raise InvalidRequest(*faults, *_schema_faults(error)) from None
    if faults:
        raise InvalidRequest(*faults)
    return {name: values[name] for name in schema.fields}


def unknown_parameters(request: web.Request, schema: Schema) -> list[str]:
    return [name for name in dict.fromkeys(request.query) if name not in schema.fields and name != API_KEY_PARAMETER]


def _unknown_faults(request: web.Request, schema: Schema) -> Iterable[ParameterFault]:
    for at, name in enumerate(unknown_parameters(request, schema)):
        # A hint takes some 0.3 ms, so only faults that can be listed have one.
        hint = _hint(name, schema, is_first=not at) if at < MAX_FAULTS else ""
        yield ParameterFault.of_sent(name, f"is not a parameter of this operation.{hint}")


def _hint(name: str, schema: Schema, *, is_first: bool) -> str:
    """Return the nearest known name, or all of them if none is near, once in a response."""
    if name == _CACHE_BUSTER:
        return _CACHE_BUSTER_HINT
    nearest = _nearest(name, schema) if len(name) <= MAX_NAME_LENGTH else []
    if nearest:
        return f" Did you mean {nearest[0]}?"
    known = f"Known parameters: {', '.join(sorted(schema.fields))}." if schema.fields else "It takes no parameters."
    return f" {known}" if is_first else ""


def _nearest(name: str, schema: Schema) -> list[str]:
    """Return the name with the prefix that other APIs leave out, or else the most similar one."""
    prefixed = f"platform_{name}"
    return [prefixed] if prefixed in schema.fields else difflib.get_close_matches(name, schema.fields, n=1)


def _repeated_faults(request: web.Request) -> Iterable[ParameterFault]:
    for name in dict.fromkeys(request.query):
        if len(request.query.getall(name)) > 1:
            yield ParameterFault.of_sent(name, "is given more than once.")


def _schema_faults(error: ValidationError) -> Iterable[ParameterFault]:
    # webargs groups the messages by location.
    messages = error.normalized_messages().get("query", {})  # type: ignore[no-untyped-call]
    for name, texts in messages.items():
        yield ParameterFault(name, " ".join(texts))
