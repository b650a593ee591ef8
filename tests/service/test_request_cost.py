"""What a page costs: one request to Elasticsearch, and little memory beyond the response that comes from there."""

import asyncio
import tracemalloc
from typing import Any

import orjson
import pytest
import uvloop

from mappings import LISTING
from mappings.stored_document import encode_document
from tests.cluster.http.http_responses import chunked
from tests.network.server import Connection, serving
from tests.records import record
from tests.service.raw_http import request
from tests.service.raw_http import serve_raw as serving_over
from tests.service.stand_in import StandIn, hit, read_response, search_response, valid_indices

FEED = "/v1/listings?platform_company_id=acme&updated_since=1"
PAGE = 200
RECORD_BYTES = 20_000
# As Elasticsearch cuts large responses.
CHUNK_BYTES = 262_144
PIECE_BYTES = 65_536
SMALL_BYTES = 100_000  # what any request needs
MARK = {"clock": 1, "sequence": 1, "epoch": 0, "generation": "listings-v0001"}
HEADERS = (b"X-Elastic-Product: Elasticsearch", b"Content-Type: application/json")


def listing(at: int) -> bytes:
    """Return a hit of a large listing."""
    kept = record(LISTING, PlatformListingId=f"L{at}")
    padded = orjson.dumps({**kept, "PublicRemarks": "x" * (RECORD_BYTES - len(orjson.dumps(kept)))})
    fields = b'{"id":"L%d","company":"acme","deleted":false' % at
    return hit("listings-v0001", f"L{at}", encode_document(fields, 1, at, padded))


def encoded(body: bytes) -> memoryview:
    """Return a response in chunks, encoded beforehand: while memory is measured the server needs none."""
    return memoryview(chunked([body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)], *HEADERS))


def prepared(count: int) -> tuple[str, dict[bytes, memoryview]]:
    """Return a key, and the responses of Elasticsearch by the beginning of the path, with so many listings."""
    stand_in = StandIn()
    key = stand_in.grant()
    (granted,) = stand_in.documents.values()
    return key, {
        b"/api_keys": encoded(search_response([hit("api_keys", granted["key_id"], orjson.dumps(granted))])),
        b"/key_usage": encoded(b'{"items":[]}'),
        b"/companies": encoded(search_response([hit("companies", "acme", b'{"id":"acme"}')])),
        b"/control": encoded(orjson.dumps({"_id": "mark-listings", "found": True, "_source": MARK})),
        b"/listings?": encoded(orjson.dumps({"listings-v0001": valid_indices()["listings-v0001"]})),
        b"/listings/": encoded(search_response([listing(at) for at in range(count)], shards=1)),
    }


async def received(port: int, key: str, path: str) -> int:
    """Return the size of a response, of which nothing is kept."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(path, headers={"x-api-key": key}))
    size = 0
    while piece := await reader.read(PIECE_BYTES):
        size += len(piece)
    writer.close()
    return size


async def cost(path: str, key: str, responses: dict[bytes, memoryview]) -> tuple[int, list[bytes]]:
    """Return the most memory that a request needs once key, company and mark are known; and the paths it requests."""

    async def engine(connection: Connection) -> None:
        while True:
            path = (await connection.request()).split(b" ", 2)[1]
            response = next(response for start, response in responses.items() if path.startswith(start))
            for at in range(0, len(response), PIECE_BYTES):
                await connection.send(response[at : at + PIECE_BYTES])

    kept: dict[str, Any] = {"fresh_seconds": 3600.0, "stale_seconds": 3600.0, "deadline_seconds": 60.0}
    async with serving(engine) as server, serving_over(server.url, **kept) as port:
        for _ in range(3):
            assert await received(port, key, path) > 0.9 * len(responses[b"/listings/"])
        server.requests.clear()
        tracemalloc.start()
        try:
            await received(port, key, path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    paths = [sent.split(b" ", 2)[1].partition(b"?")[0] for sent in server.requests]
    return peak, [path for path in paths if path != b"/key_usage/_bulk"]


@pytest.mark.parametrize(
    ("path", "operation", "count"),
    [(FEED, b"_search", PAGE + 1), ("/v1/listings/L0", b"_mget", 1)],
    ids=["page", "show"],
)
def test_a_request_is_one_read_and_needs_little_memory_beyond_its_response(
    path: str, operation: bytes, count: int
) -> None:
    key, responses = prepared(count)
    if operation == b"_mget":
        responses[b"/listings/"] = encoded(read_response([listing(0)], "listings-v0001", ["L0"]))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the loop of production
        peak, paths = runner.run(cost(path, key, responses))
    assert paths == [b"/listings/" + operation]
    print(f"\n{peak / len(responses[b'/listings/']):.3f} of the response")
    # An eighth of room is set aside beyond the size of the response before. A copy, or the parsed page, would show.
    assert peak < (1.125 + 0.15) * len(responses[b"/listings/"]) + SMALL_BYTES
