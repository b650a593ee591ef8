"""The schemas of parameters against the parser that reads them: the one takes what the other allows, and no more."""

import asyncio
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp.test_utils import make_mocked_request
from apispec import APISpec
from hypothesis import given, settings
from hypothesis import strategies as st
from marshmallow import Schema

from mappings import RESOURCES
from service.changes.capability import CAPABILITY as CHANGES
from service.changes.schemas import PARAMETERS
from service.errors import InvalidRequest
from service.exports.operations import EXPORT_OPERATIONS
from service.openapi.document import ParameterPlugin
from service.operation import Operation
from service.parameters import Parameter, parse_query
from service.resources import OPERATIONS
from tests.openapi.document_validators import GET_OPERATIONS, validator

Query = list[tuple[str, str]]

_HOSTILE = (
    "", " ", "null", "0", "00", "-0", "+5", " 3", "3 ", "1_000", "1e3", "1.0", "٣", "-1", "24", "2", "1,2", "1,,2", ",",
    "23,-1", "[1]", "4102444800", "4102444801", "99999999999", "9" * 40, "NaN", "True", "FALSE", "yes", "on", "ALL",
    "all", "on-market", "\x00", "a\x7f", "a\n", "\n", "x" * 128, "x" * 129, "\U0001f3e0" * 128, "'\"<>;--", "../..",
    "ab", "ab,cd", "cd,ab,ab", "ab,abcd", "abcd", "AB", "abc", ",".join(["ab"] * 64), ",".join(["ab"] * 65),
    "listings", "companies,offices,agents,teams,listings,sold_listings", "listings,listings", "Listings", "listings,",
    ",".join(["teams"] * 7),
    "acme:x", "acme:x:y", ":x", "acme:", "acme", "acme: x", "a" * 128 + ":x", "a" * 129 + ":x", "a:" + "x" * 129,
    "aB-_9", "aB-_9,b", "a=", "a" * 2000, "a" * 2001,
    "01", "1,-01", ",".join(["1"] * 24), ",".join(["1"] * 25), "a\x85", "a\xa0",
    "3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a", "3F0C2B9E-8A51-4A6F-9D3C-1F2E3D4C5B6A",
    "%00", "urn:uuid:3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a",
    "{3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a}", "3f0c2b9e8a514a6f9d3c1f2e3d4c5b6a",
)  # fmt: skip
_TEXTS = st.one_of(
    st.sampled_from(_HOSTILE),
    st.text(st.characters(codec="utf-8"), max_size=140),
    st.integers(-5, 4_102_444_900).map(str),
    st.lists(st.integers(-3, 26), max_size=4).map(lambda numbers: ",".join(map(str, numbers))),
    st.uuids().map(str),
    st.sampled_from(["true", "false", "off-market"]),
)
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_WHOLE = re.compile(r"-?[0-9]{1,10}")
_NO_VALUE = object()
# What becomes of lists.
_LISTS: dict[str, Callable[[list[str]], Any]] = {
    "property_types": lambda sent: sorted({int(number) for number in sent}),
    "since": lambda sent: sent,
    "resources": lambda sent: [resource for resource in RESOURCES if resource.alias in sent],
    "prefixes": lambda sent: sorted({*sent}),
}
_REQUEST = make_mocked_request("GET", "/v1/")
operations = pytest.mark.parametrize(
    "operation", [*OPERATIONS, *CHANGES.operations, *EXPORT_OPERATIONS], ids=lambda operation: operation.path
)


def wire(schema: dict[str, Any], text: str) -> Any:
    """Return the value of a query text by its schema, or `_NO_VALUE`; independent of the parser."""
    if schema["type"] == "boolean":
        return _TRUTHS.get(text.lower(), _NO_VALUE)
    if schema["type"] == "integer":
        return int(text) if _WHOLE.fullmatch(text) else _NO_VALUE
    # `$` of Python's own engine matches before a last newline too; that of the document's dialect does not.
    return text if re.fullmatch(schema.get("pattern", "^.*$")[1:-1], text) else _NO_VALUE


def allowed(schema: dict[str, Any], text: str) -> bool:
    """Whether a schema allows a text."""
    value = wire(schema, text)
    return value is not _NO_VALUE and bool(validator(schema).is_valid(value))


def kept(name: str, schema: dict[str, Any], text: str) -> Any:
    """Return what the service makes of an allowed text: numbers once and in order, a UUID in lower case."""
    value = wire(schema, text)
    if name in _LISTS:
        return _LISTS[name](value.split(","))
    if name == "after":
        return value.partition(":")[::2]
    return value.lower() if schema.get("format") == "uuid" else value


@st.composite
def queries(draw: st.DrawFn, names: list[str]) -> Query:
    """Make a query of known, unknown and repeated parameters with any text."""
    sent = draw(st.lists(st.sampled_from([*names, "unknown", "Page_Size"]), max_size=8))
    return [(name, draw(_TEXTS)) for name in sent]


def read(operation: Operation, query: Query) -> tuple[dict[str, Any], set[str]]:
    """Return the values that the parser reads, or the parameters that it blames."""
    request = _REQUEST.clone(rel_url=f"/v1/?{urlencode(query)}")
    try:
        return asyncio.run(parse_query(request, operation.schema, tolerate_unknown=False)), set()
    except InvalidRequest as refused:
        return {}, {fault.parameter for fault in refused.faults}


def expected_faults(described: dict[str, dict[str, Any]], query: Query) -> set[str]:
    """Return the parameters that the document does not allow in this form."""
    names = [name for name, _ in query]
    missing = {name for name, parameter in described.items() if parameter["required"] and name not in names}
    # A repeated parameter is only reported as repeated; its values are not checked.
    wrong = {name for name, text in query if name not in described or not allowed(described[name]["schema"], text)}
    return missing | wrong | {name for name in names if names.count(name) > 1}


@operations
def test_the_parser_takes_what_the_document_allows_and_blames_all_else(
    operation: Operation, amount: Callable[[int, int], int]
) -> None:
    described = {
        parameter["name"]: parameter
        for parameter in GET_OPERATIONS[operation.path]["parameters"]
        if parameter["in"] == "query"
    }

    @settings(max_examples=amount(20, 2_000), database=None)
    @given(queries(list(described)))
    def hold(query: Query) -> None:
        values, blamed = read(operation, query)
        assert blamed == expected_faults(described, query)
        if not blamed:
            assert values.keys() == described.keys()
            for name, text in query:
                assert values[name] == kept(name, described[name]["schema"], text)

    hold()


@operations
def test_each_parameter_takes_exactly_the_texts_that_its_schema_allows(operation: Operation) -> None:
    for parameter in GET_OPERATIONS[operation.path]["parameters"]:
        if parameter["in"] == "query":
            name, schema = parameter["name"], parameter["schema"]
            bounds = [str(schema[end] + step) for end in ("minimum", "maximum") if end in schema for step in (-1, 0, 1)]
            taken = {text for text in (*_HOSTILE, *bounds) if name not in read(operation, [(name, text)])[1]}
            assert taken == {text for text in (*_HOSTILE, *bounds) if allowed(schema, text)}


def test_a_parameter_of_an_unknown_kind_is_not_left_undescribed() -> None:
    class Colour(Parameter):
        """Not in the table."""

    with pytest.raises(KeyError, match="Colour"):
        APISpec("", "", "3.1.0", plugins=[ParameterPlugin(PARAMETERS)]).path(
            "/", operations={"get": {"parameters": [_in_query(Colour)]}}
        )


def _in_query(kind: type[Parameter]) -> dict[str, object]:
    return {"in": "query", "schema": Schema.from_dict({"colour": kind("A colour.")})}
