"""From a query string to typed values, or one answer that names everything wrong with it."""

from __future__ import annotations

import difflib
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from marshmallow import INCLUDE, Schema, ValidationError
from webargs.aiohttpparser import AIOHTTPParser

from service.authentication import QUERY as KEY_PARAMETER
from service.errors import Fault, InvalidRequest
from service.parameters.escapes import url_faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aiohttp import web


class QueryParser(AIOHTTPParser):
    """webargs over the query string alone."""

    DEFAULT_LOCATION = "query"

    def handle_error(self, error: ValidationError, *_: Any, **__: Any) -> NoReturn:
        """Leave the error to `parse`, which adds what the schema cannot see."""
        raise error


_PARSER = QueryParser()


async def parse(request: web.Request, schema: Schema, *, tolerate_unknown: bool) -> dict[str, Any]:
    """Return the values of a schema's parameters, or raise InvalidRequest with every fault."""
    is_text = next(url_faults(request), None) is None
    values = _read_sent(request.query, schema) if is_text else None
    return await _judge(request, schema, tolerate_unknown=tolerate_unknown) if values is None else values


def _read_sent(query: Mapping[str, str], schema: Schema) -> dict[str, Any] | None:
    """Read what was sent and leave the rest at its default; None where anything is not as it should be.

    marshmallow visits every field of a schema, which costs a show more than all the rest of its way.
    """
    values, missing = _defaults(schema)
    values = values.copy()
    sent = 0
    for name, text in query.items():
        field = schema.fields.get(name)
        if field is None and name != KEY_PARAMETER:
            return None
        sent += 1
        try:
            values[name] = None if field is None else field.deserialize(text)
        except ValidationError:
            return None
    values.pop(KEY_PARAMETER, None)
    return values if sent == len({*query}) and missing <= query.keys() else None


@cache
def _defaults(schema: Schema) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the values of a schema's parameters when nothing is sent, and the names of those that must be."""
    required = frozenset(name for name, field in schema.fields.items() if field.required)
    return {name: None if name in required else field.load_default for name, field in schema.fields.items()}, required


async def _judge(request: web.Request, schema: Schema, *, tolerate_unknown: bool) -> dict[str, Any]:
    """Read everything by the schema, so that every fault is told at once."""
    faults = [*url_faults(request), *_repeated(request), *([] if tolerate_unknown else _unknown(request, schema))]
    values: dict[str, Any] = {}
    try:
        # Unknown names are judged by `_unknown`, which can suggest the nearest known one.
        values = await _PARSER.parse(schema, request, unknown=INCLUDE)
    except ValidationError as error:
        faults += _of_schema(error)
    if faults:
        raise InvalidRequest(*faults)
    return {name: values[name] for name in schema.fields}


def unknown_names(request: web.Request, schema: Schema) -> list[str]:
    """Return the parameters of a request that the operation does not have."""
    return [name for name in dict.fromkeys(request.query) if name not in schema.fields and name != KEY_PARAMETER]


def _unknown(request: web.Request, schema: Schema) -> Iterable[Fault]:
    for name in unknown_names(request, schema):
        nearest = difflib.get_close_matches(name, schema.fields, n=1)
        hint = f" Did you mean {nearest[0]}?" if nearest else f" Known are: {', '.join(sorted(schema.fields))}."
        yield Fault(name, f"is not a parameter of this operation.{hint}")


def _repeated(request: web.Request) -> Iterable[Fault]:
    for name in dict.fromkeys(request.query):
        if len(request.query.getall(name)) > 1:
            yield Fault(name, "is given more than once.")


def _of_schema(error: ValidationError) -> Iterable[Fault]:
    # webargs files the messages under the location they come from.
    messages = error.normalized_messages().get("query", {})  # type: ignore[no-untyped-call]
    for name, texts in messages.items():
        yield Fault(name, " ".join(texts))
