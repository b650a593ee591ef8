"""The quick way through a query string and the thorough one: the same values, and faults only from the thorough one."""

from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given, settings
from hypothesis import strategies as st
from marshmallow import Schema

from service import parameters as parser
from service.errors import InvalidRequest
from service.resources import OPERATIONS

SCHEMAS = {operation.path: operation.schema for operation in OPERATIONS}
TEXTS = st.sampled_from(
    ["", "0", "1", "7", "-1", "true", "FALSE", "yes", "acme", "1,2,2", "-1,99", "all", "off-market", "1767323045"]
) | st.text(max_size=6)
UUIDS = st.uuids().map(str)
_REQUEST = make_mocked_request("GET", "/")


def queries(schema: Schema) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Return queries of known, unknown, repeated and missing names with values good and bad."""
    known = st.sampled_from([*schema.fields, "api-key"]) if schema.fields else st.just("api-key")
    good = st.tuples(known, st.sampled_from(["1", "true", "acme"]) | UUIDS)
    unique = st.lists(good, max_size=6, unique_by=lambda pair: pair[0])
    return unique | st.lists(st.tuples(known | st.sampled_from(["q", "Page_Size"]), TEXTS | UUIDS), max_size=6)


async def outcome(way: Any, query: list[tuple[str, str]], schema: Schema, *, tolerate: bool) -> Any:
    """Return the values that a way reads, or the faults that it finds."""
    request = _REQUEST.clone(rel_url=f"/?{urlencode(query)}")
    try:
        return await way(request, schema, tolerate_unknown=tolerate)
    except InvalidRequest as refused:
        return sorted((fault.parameter, fault.message) for fault in refused.faults)


@pytest.mark.parametrize("path", SCHEMAS)
@given(data=st.data(), tolerate=st.booleans())
@settings(max_examples=60)
async def test_both_ways_agree(path: str, data: st.DataObject, tolerate: bool) -> None:
    schema = SCHEMAS[path]
    query = data.draw(queries(schema))
    # In most queries nothing that is required is missing.
    required = [(name, "acme") for name, field in schema.fields.items() if field.required]
    query += [pair for pair in required if pair[0] not in dict(query) and data.draw(st.integers(0, 4))]
    quick = await outcome(parser.parse_query, query, schema, tolerate=tolerate)
    assert quick == await outcome(parser._parse_with_faults, query, schema, tolerate=tolerate)


async def test_a_good_query_takes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "_parse_with_faults", None)
    schema = SCHEMAS["/listings"]
    query = [("platform_company_id", "acme"), ("page_size", "7"), ("api-key", "bk_x")]
    read = await outcome(parser.parse_query, query, schema, tolerate=False)
    assert (read["platform_company_id"], read["page_size"], read["coming_soon"]) == ("acme", 7, False)
    assert read.keys() == schema.fields.keys()


async def test_values_do_not_leak_into_the_next_request() -> None:
    schema = SCHEMAS["/companies"]
    sent = await outcome(parser.parse_query, [("page_size", "7")], schema, tolerate=False)
    assert sent["page_size"] == 7
    assert (await outcome(parser.parse_query, [], schema, tolerate=False))["page_size"] is None
