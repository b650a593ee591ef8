"""The line of a request: what it holds, who gets one, and that nothing in it was chosen by a client."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cluster.control_index import mark_id
from service.settings import AccessLogMode
from tests.internals import running_searches
from tests.security.canary import CanaryKey
from tests.security.canary import exchange as send
from tests.service.raw_http import exchange, request
from tests.service.stand_in import HeldReply, StandIn
from tests.telemetry.conftest import FEED, SHOW, Watched
from tests.waiting import until

MEASURED = {"milliseconds", "upstream_milliseconds", "request_id", "trace_id", "bytes"}


def logged(fields: dict[str, Any]) -> dict[str, Any]:
    """Return what of a line is the same in each run."""
    return {name: value for name, value in fields.items() if name not in MEASURED}


async def test_a_line_shows_key_request_and_cost(watched: Watched, key: str) -> None:
    assert await watched.get(FEED, key) == 200
    ((message, fields),) = watched.lines
    assert message == "GET /v1/listings 200"
    expected = {"method": "GET", "route": "/v1/listings", "status": 200, "rows": 1, "key_id": key[3:13], "tier": "gold"}
    assert logged(fields) == expected
    assert 0 < fields["upstream_milliseconds"] < fields["milliseconds"]
    assert (fields["bytes"] > 40, len(fields["request_id"]), len(fields["trace_id"])) == (True, 16, 32)


async def test_the_id_of_the_line_is_the_one_that_the_client_got_whatever_it_sent(watched: Watched, key: str) -> None:
    sent = {"x-api-key": key, "X-Request-Id": "mine"}
    answered = [await exchange(watched.port, request(path, headers=sent)) for path in (FEED, "/nothing")]
    answered.append(await exchange(watched.port, b"nonsense\r\n\r\n"))
    assert [fields["request_id"] for _, fields in watched.lines] == [one.headers["X-Request-Id"] for (one,) in answered]


async def test_an_address_is_kept_only_where_no_key_was_accepted(
    watch: Callable[..., Awaitable[Watched]], key: str
) -> None:
    watched = await watch(trusted_proxies=("127.0.0.0/8",))
    for sent in (key, None, "bk_wrong"):
        await watched.get(FEED, sent, **{"X-Forwarded-For": "2001:db8::7"})
    await exchange(watched.port, b"nonsense\r\n\r\n")
    assert [fields.get("client") for _, fields in watched.lines] == [None, "2001:db8::7", "2001:db8::7", "127.0.0.1"]


async def test_a_not_modified_line_has_no_rows_and_bytes(watched: Watched, key: str) -> None:
    for headers in ({}, {"If-None-Match": "*"}):
        await watched.get(FEED, key, **headers)
    await watched.get(FEED, key, method="HEAD")
    await watched.get("/v1/listings", method="OPTIONS")
    logged = [(line["method"], line["status"], line["rows"], line["bytes"] > 0) for _, line in watched.lines]
    assert logged == [
        ("GET", 200, 1, True),
        ("GET", 304, 0, False),
        ("HEAD", 200, 0, False),
        ("OPTIONS", 204, 0, False),
    ]


async def test_a_request_that_shares_a_search_is_marked_so(
    watch: Callable[..., Awaitable[Watched]], stand_in: StandIn, key: str
) -> None:
    mark = {"clock": 1_000, "sequence": 1, "epoch": 0, "generation": "listings-v0001"}
    stand_in.documents["control", mark_id("listings")] = mark
    watched = await watch(shared_seconds=5.0)
    held = HeldReply()
    stand_in.out(held, "listings")
    path = f"{FEED}&last_platform_listing_id=L-0"
    asking = [asyncio.create_task(watched.get(path, key)) for _ in range(2)]
    await until(lambda: len(running_searches(watched.services.engine)) == 1 and _passengers(watched) == 2)
    held.release.set()
    await asyncio.gather(*asking)
    assert sorted(fields.get("shared", False) for _, fields in watched.lines) == [False, True]


def _passengers(watched: Watched) -> int:
    return sum(flight.waiters for flight in running_searches(watched.services.engine).values())


async def test_who_leaves_gets_a_line_with_the_status_of_nginx(watched: Watched, stand_in: StandIn, key: str) -> None:
    held = HeldReply()
    stand_in.out(held, "listings")
    await watched.left(FEED, key, stand_in)
    ((_, fields),) = watched.lines
    expected = {"method": "GET", "route": "/v1/listings", "status": 499, "rows": 0, "key_id": key[3:13], "tier": "gold"}
    assert logged(fields) == expected
    held.release.set()


@pytest.mark.parametrize(
    ("access_log", "expected"),
    [
        (AccessLogMode.ALL, ["GET /v1/listings 200", "GET /v1/listings 401", "GET none 404"]),
        (AccessLogMode.ERRORS, ["GET /v1/listings 401", "GET none 404"]),
        (AccessLogMode.NONE, []),
    ],
    ids=list(AccessLogMode),
)
async def test_who_gets_a_line_is_set(
    watch: Callable[..., Awaitable[Watched]], key: str, access_log: AccessLogMode, expected: list[str]
) -> None:
    watched = await watch(access_log=access_log)
    for path, sent in ((FEED, key), (FEED, None), ("/nothing", key), ("/livez", None), ("/startupz", None)):
        await watched.get(path, sent)
    assert [message for message, _ in watched.lines] == expected


async def test_a_probe_gets_a_line_where_it_says_no(watch: Callable[..., Awaitable[Watched]]) -> None:
    watched = await watch(url="http://127.0.0.1:9")
    for path in ("/livez", "/readyz"):
        await watched.get(path)
    assert [message for message, _ in watched.lines] == ["GET /readyz 503"]


async def test_nothing_of_a_key_is_in_any_line_or_span_however_it_is_sent(watched: Watched, key: str) -> None:
    canary = CanaryKey(key)
    ways = [way for way in canary.injections() if not way.name.startswith(("/", "a line of", "a header of"))]
    for at in range(0, len(ways), 6):
        await asyncio.gather(*(asyncio.to_thread(send, watched.port, way) for way in ways[at : at + 6]))
    spans = watched.spans.get_finished_spans()
    written = "\n".join([repr(watched.lines), *(span.to_json() for span in spans)])
    assert (len(watched.lines) > 200, len(spans) > 200) == (True, True)
    assert canary.found_in(written) == []
    assert SHOW not in written


async def test_only_the_methods_that_people_use_are_repeated(watched: Watched) -> None:
    for method in ("PROPFIND", "DELETE"):
        await exchange(watched.port, request("/livez", method))
    assert [message for message, _ in watched.lines] == ["OTHER none 405", "DELETE none 405"]
    assert [fields["method"] for _, fields in watched.lines] == ["OTHER", "DELETE"]
    names = {span.name for span in watched.spans.get_finished_spans()}
    assert names == {"OTHER", "DELETE"}
