"""Small collections come in full, in as many searches as it takes."""

from bisect import bisect_right
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from mappings import TEAM, Resource
from mappings.fields import View
from mappings.stored_document import encode_document
from service.projection import Variant
from service.scope import Scope
from service.search.pages import all_records
from service.search.query import Selection
from tests.service.stand_in import hit, search_response


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 2_000, 2_001])
async def test_a_collection_of_more_than_one_search_lacks_and_repeats_nothing(count: int) -> None:
    names = [f"team-{number:05}" for number in range(count)]
    hits = [hit("teams", name, encode_document(b'{"id":1', 1, 1, orjson.dumps({"uuid": name}))) for name in names]

    async def search(_: Resource, body: dict[str, Any]) -> bytes:
        (after,) = body.get("search_after", [""])
        at = bisect_right(names, after)
        return search_response(hits[at : at + body["size"]])

    call = cast("Any", SimpleNamespace(search=search, sent=None, is_compatible=False))
    records = await all_records(call, Selection(TEAM, Scope(None)), Variant(TEAM, View.INDEX))
    assert [orjson.loads(record)["uuid"] for record in records] == names
