"""Reads by identifier report failures within a response of status 200: none of them becomes a missing record."""

from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient

from tests.service.search.test_engine_failures import refused
from tests.service.stand_in import Reply, StandIn, read_response

PLACE = {"_index": "listings-v0001", "_id": "L1"}
FAILED = {
    "index_not_found_exception": 503,
    "routing_missing_exception": 503,
    "no_shard_available_action_exception": 503,
    "es_rejected_execution_exception": 503,
    "index_closed_exception": 503,
    "node_disconnected_exception": 503,
    "search_timeout_exception": 504,
    "security_exception": 500,
}
MALFORMED = {
    "a document is lacking": b'{"docs":[]}',
    "a document is cut": read_response([], "listings-v0001", ["L1"])[:-4],
    "a source is not an object": orjson.dumps({"docs": [PLACE | {"found": True, "_source": 1}]}),
    "a source is lacking": orjson.dumps({"docs": [PLACE | {"found": True}]}),
    "an error without a type": orjson.dumps({"docs": [PLACE | {"error": {}}]}),
    "a response to something else": b'{"_id":"L1","found":true,"_source":{}}',
}


@pytest.mark.parametrize("kind", FAILED)
async def test_a_document_that_cannot_be_read_is_a_failure(
    api: TestClient[Any, Any], stand_in: StandIn, kind: str
) -> None:
    error = {"root_cause": [{"type": kind, "reason": "in secret-node-7"}], "type": kind, "reason": "in secret-node-7"}
    stand_in.out(Reply(body=orjson.dumps({"docs": [PLACE | {"error": error}]})), "listings")
    assert (await refused(api, stand_in, "/v1/listings/L1")).status == FAILED[kind]


@pytest.mark.parametrize("fault", MALFORMED)
async def test_a_malformed_response_is_a_failure(api: TestClient[Any, Any], stand_in: StandIn, fault: str) -> None:
    stand_in.out(Reply(body=MALFORMED[fault]), "listings")
    assert (await refused(api, stand_in, "/v1/listings/L1")).status == 503
