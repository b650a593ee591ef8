"""Parse the query string by a schema, and report several faults at once."""

import difflib
import re
from binascii import a2b_qp
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NoReturn
from urllib.parse import unquote_plus

from aiohttp import web
from marshmallow import INCLUDE, Schema, ValidationError
from webargs.aiohttpparser import AIOHTTPParser

from service.errors import MAX_FAULTS, MAX_NAME_LENGTH, InvalidRequest, ParameterFault
from service.http.responses import API_KEY_PARAMETER
from service.parameters.types import INVALID_TEXT_MESSAGE, is_valid_text

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
