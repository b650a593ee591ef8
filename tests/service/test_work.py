"""What a request costs in work, not in time: requests to Elasticsearch, bytes parsed and copied, memory, calls.

Everything that the service needs to know of key, companies and marks is known when counting begins.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import uvloop

from cluster.framing import Framing
from mappings import LISTING
from mappings.document import document
from service.parts import Parts
from tests.records import record
from tests.service.canned import calls, canned_engine, serving
from tests.service.stand_in import StandIn, hit, search_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.service.canned import Canned, Client

FEED = "/v1/listings?platform_company_id=acme&updated_since=1"
PAGE = 200
RECORD_BYTES = 6_000
# Calls of Python functions of the service and of the packages under it, for one request once everything is warm; not
# those of the standard library, which differ between versions of Python, and not those that receive, of which there
# are as many as the network gives pieces. Counted with Python 3.11 as 384 and 313; a fifth of room for other versions.
CALLS_OF_PAGE = 460
CALLS_OF_SHOW = 376


def listing(at: int) -> bytes:
    """Return one hit of a size as real listings have it."""
    kept = record(LISTING, PlatformListingId=f"L{at}")
    padded = orjson.dumps({**kept, "PublicRemarks": "x" * (RECORD_BYTES - len(orjson.dumps(kept)))})
    return hit("listings-v0001", f"L{at}", document(b'{"id":"L%d"' % at, 1, at, padded))


def brief(at: int) -> bytes:
    """Return one hit of doc values."""
    values = {"id": [f"L{at}"], "clock": [1_000], "modified": ["2026-01-02T03:04:05.678Z"]}
    return b'{"_index":"listings-v0001","_score":null,"fields":%b,"sort":["L%d"]}' % (orjson.dumps(values), at)


MARK = {"clock": 1, "sequence": 1, "epoch": 0, "generation": "listings-v0001"}
LISTINGS = search_answer([listing(at) for at in range(PAGE + 1)])
ONE = search_answer([listing(1)])
BRIEF = search_answer([brief(at) for at in range(PAGE + 1)])


def scenario(listings: bytes, counted: Callable[[Client, Canned], Awaitable[None]]) -> None:
    """Let a warm service, on the loop that it runs on in production, be counted."""
    stand_in = StandIn()
    key = stand_in.grant()
    granted = next(iter(stand_in.documents.values()))
    answers = {
        "/api_keys": search_answer([hit("api_keys", granted["key_id"], orjson.dumps(granted))]),
        "/key_usage": b'{"items":[]}',
        "/companies": search_answer([hit("companies", "acme", b'{"id":"acme"}')]),
        "/control": orjson.dumps({"_id": "mark-listings", "found": True, "_source": MARK}),
        "/listings": listings,
    }

    async def counting() -> None:
        with canned_engine(answers) as engine:
            async with serving(engine, key) as client:
                for path in (FEED, "/v1/listings/L1", f"{FEED}&timestamps_only=true"):
                    if listings is (BRIEF if "only" in path else ONE if "L1" in path else LISTINGS):
                        for _ in range(3):
                            assert (await client.get(path))[0] == 200
                engine.asked.clear()
                await counted(client, engine)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(counting())


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of every text that is parsed as JSON, engine and tests aside."""
    sizes: list[int] = []
    for module in (orjson, json):
        monkeypatch.setattr(module, "loads", _noting(module.loads, sizes))
    return sizes


def _noting(loads: Callable[..., Any], sizes: list[int]) -> Callable[..., Any]:
    def noting(text: Any, **options: Any) -> Any:
        if sys._getframe(1).f_globals["__name__"] != "tests.service.canned":
            sizes.append(len(text))
        return loads(text, **options)

    return noting


def test_a_page_is_one_request_and_is_not_parsed(parsed: list[int]) -> None:
    async def counted(client: Client, engine: Canned) -> None:
        parsed.clear()
        status, size = await client.get(FEED)
        assert (status, size > 0.9 * PAGE * RECORD_BYTES) == (200, True)
        assert [path.partition("?")[0] for path, _ in engine.asked] == ["/listings/_search"]
        assert parsed == []

    scenario(LISTINGS, counted)


def test_a_page_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    moved, joined = list[int](), list[int]()
    body, join = Framing.body, Parts.joined

    def moving(framing: Framing) -> bytearray:
        moved.append(framing.moved)
        return body(framing)

    def joining(parts: Parts) -> bytes:
        joined.append(1)
        return join(parts)

    monkeypatch.setattr(Framing, "body", moving)
    monkeypatch.setattr(Parts, "joined", joining)

    async def counted(client: Client, _: Canned) -> None:
        moved.clear()
        assert (await client.get(FEED))[0] == 200
        assert len(moved) == 1
        assert moved[0] <= 64 * (len(LISTINGS) // 262_144 + 1)
        assert joined == []

    scenario(LISTINGS, counted)


def test_a_page_needs_little_memory_beside_the_answer_itself() -> None:
    async def counted(client: Client, _: Canned) -> None:
        tracemalloc.start()
        try:
            assert (await client.get(FEED))[0] == 200
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # An eighth of room is set aside beyond the size of the answer before.
        assert peak < (1.125 + 0.15) * len(LISTINGS)

    scenario(LISTINGS, counted)


@pytest.mark.parametrize(
    ("listings", "path", "budget"),
    [(LISTINGS, FEED, CALLS_OF_PAGE), (ONE, "/v1/listings/L1", CALLS_OF_SHOW)],
    ids=["page", "show"],
)
def test_a_request_takes_few_calls(listings: bytes, path: str, budget: int) -> None:
    async def counted(client: Client, _: Canned) -> None:
        with calls() as found:
            assert (await client.get(path))[0] == 200
        assert sum(found.values()) <= budget, found

    scenario(listings, counted)


def test_a_show_is_one_request_and_is_not_parsed_as_a_whole(parsed: list[int]) -> None:
    async def counted(client: Client, engine: Canned) -> None:
        parsed.clear()
        assert (await client.get("/v1/listings/L1"))[0] == 200
        assert len(engine.asked) == 1
        assert parsed == []

    scenario(ONE, counted)


def test_timestamps_are_read_without_any_record() -> None:
    async def counted(client: Client, engine: Canned) -> None:
        assert (await client.get(f"{FEED}&timestamps_only=true"))[0] == 200
        ((_, body),) = engine.asked
        assert body["stored_fields"] == "_none_"
        assert "_source" not in body
        assert body["docvalue_fields"] != []

    scenario(BRIEF, counted)
