"""One client returns bytes for raw requests and parsed responses for typed calls."""

import pytest
from elasticsearch import AsyncElasticsearch, NotFoundError

from cluster.http.responses import RAW_HEADERS

SOURCE = b'{"a":\t{"b":1.50}\t}'


async def test_one_client_answers_raw_and_typed_requests(client: AsyncElasticsearch, prefix: str) -> None:
    index = f"{prefix}raw"
    await client.indices.create(index=index)
    await client.perform_request("PUT", f"/{index}/_doc/1?refresh=true", headers=RAW_HEADERS, body=SOURCE)
    raw = await client.perform_request(
        "POST", f"/{index}/_search", headers=RAW_HEADERS, body={"query": {"match_all": {}}}
    )
    assert isinstance(raw.body, bytes)
    assert SOURCE in raw.body
    typed = await client.search(index=index)
    assert [hit["_source"] for hit in typed["hits"]["hits"]] == [{"a": {"b": 1.5}}]


async def test_an_error_is_raw_for_a_raw_request_and_parsed_for_a_typed_one(
    client: AsyncElasticsearch, prefix: str
) -> None:
    with pytest.raises(NotFoundError) as raw:
        await client.perform_request("POST", f"/{prefix}absent/_search", headers=RAW_HEADERS, body=b"{}")
    assert raw.value.body.startswith(b'{"error":')
    with pytest.raises(NotFoundError) as typed:
        await client.search(index=f"{prefix}absent")
    assert typed.value.body["error"]["type"] == typed.value.error == "index_not_found_exception"
