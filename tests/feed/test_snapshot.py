"""Snapshots: complete, resumable after an interruption, and never mistaken for complete."""

import asyncio
import gzip
from typing import Any

import aiohttp
import orjson
import pytest
import zstandard

from mappings import LISTING, OFFICE
from service.changes.snapshot import PointInTime, open_point_in_time
from service.errors import EngineUnavailable
from service.limits.admission import ConcurrencyLimit, RequestKind
from service.scope import Scope
from service.search.query import Selection
from service.services import SERVICES
from tests.feed.feed_client import ConsumerCopy, FeedClient, deleted_listing, listing, office
from tests.internals import Internals
from tests.waiting import until


@pytest.fixture
def two_a_page(internals: Internals) -> None:
    """Let pages be small, so that there are several."""
    internals(snapshot_page=2)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize(("key", "names"), [("a", "024"), ("b", "135"), ("ab", "024135"), ("all", "024135")])
async def test_every_record_of_the_scope_comes_once_in_order(
    unchanged: FeedClient, internals: Internals, key: str, names: str, size: int
) -> None:
    internals(snapshot_page=size)
    head, *lines, tail = await unchanged.snapshot("listings", key)
    assert [each["id"] for each in lines] == [f"L{name}" for name in names]
    assert (head["resource"], head["count"], head["after"]) == ("listings", len(lines), None)
    expected = {each["id"]: (each["content"], each["record"]) for each in lines}
    assert (tail["complete"], tail["count"], tail["digest"]) == (True, *ConsumerCopy.digest(expected))
    assert tail["last"] == f"{lines[-1]['company']}:{lines[-1]['id']}"
    assert await unchanged.summaries(head["token"], key) == []


async def test_a_line_is_what_a_change_says(unchanged: FeedClient) -> None:
    changes, _ = await unchanged.changes(None, "ab", resources="listings")
    _, *lines, _ = await unchanged.snapshot("listings", "ab")
    of_change = {"resource": "listings", "first_seen": lines[0]["time"]}
    assert sorted((line | of_change for line in lines), key=lambda line: line["id"]) == changes


@pytest.mark.usefixtures("two_a_page")
async def test_an_interrupted_snapshot_resumes_after_its_last_line(unchanged: FeedClient) -> None:
    whole = (await unchanged.snapshot("listings", "ab"))[1:-1]
    for at, line in enumerate(whole):
        place = f"{line['company']}:{line['id']}"
        head, *rest, tail = await unchanged.snapshot("listings", "ab", after=place)
        assert rest == whole[at + 1 :]
        assert (head["after"], head["count"], tail["count"]) == (place, len(rest), len(rest))


@pytest.mark.parametrize(("place", "count"), [("0:L0", 3), ("a:L0", 3), ("b:L1", 2), ("b:L9", 0), ("c:L0", 0)])
async def test_a_place_in_another_company_opens_no_door(unchanged: FeedClient, place: str, count: int) -> None:
    lines = (await unchanged.snapshot("listings", "b", after=place))[1:-1]
    assert [each["company"] for each in lines] == ["b"] * count


async def test_it_is_filtered_as_changes_are(feed: FeedClient) -> None:
    await feed.update(listing("L0", "a", 1, status="Expired"), deleted_listing("L2", "a", 1))
    await feed.update(office("O1", "a", 1, deactivated=True), resource=OFFICE)
    asked: list[tuple[str, dict[str, object], list[str]]] = [
        ("listings", {}, ["L0", "L4"]),
        ("listings", {"market_status": "on-market"}, ["L4"]),
        ("offices", {}, []),
        ("offices", {"include_deactivated": True}, ["O1"]),
    ]
    for resource, parameters, names in asked:
        head, *lines, tail = await feed.snapshot(resource, "a", **parameters)
        assert [each["id"] for each in lines] == names
        assert head["count"] == tail["count"] == len(names)
        digest = await feed.json(f"digest/{resource}", "a", **parameters)
        assert (digest["count"], digest["digest"]) == (tail["count"], tail["digest"])


@pytest.mark.parametrize("spelled", ["LotSizeAcres", "lot_size_acres"])
async def test_what_records_round_stands_beside_them_as_the_source_has_it(feed: FeedClient, spelled: str) -> None:
    """In changes, too; other numbers stay rounded, and the content is that of the record."""
    since = await feed.token("a")
    changed = listing("L2", "a", 1)
    changed["record"] |= {"LotSizeAcres": 0.23, "LivingArea": 99.5, "BathroomsTotal": 2}
    await feed.update(changed, listing("L4", "a", 1, price=7))
    form = {"underscore_response": spelled.islower()}
    _, *lines, tail = await feed.snapshot("listings", "a", **form)
    changes, _ = await feed.changes(since, "a", **form)
    for found in ({each["id"]: each for each in lines}, {each["id"]: each for each in changes}):
        assert (found["L2"]["exact"], found["L2"]["record"][spelled]) == ({spelled: 0.23}, 0)
        assert "exact" not in found["L4"]
    assert tail["digest"] == (await feed.json("digest/listings"))["digest"]


@pytest.mark.usefixtures("two_a_page")
async def test_it_is_of_one_moment_whatever_is_written_meanwhile(feed: FeedClient, internals: Internals) -> None:
    behind_the_first, go_on = asyncio.Event(), asyncio.Event()
    page = internals.present("snapshot_read")

    async def held(point: PointInTime, selection: Any, after: str, size: int) -> Any:
        if after:
            behind_the_first.set()
            await go_on.wait()
        return await page(point, selection, after, size)

    internals(snapshot_read=held)
    taking = asyncio.create_task(feed.snapshot("listings", "a"))
    await behind_the_first.wait()
    assert _snapshot_limit(feed).running == 1
    await feed.update(deleted_listing("L4", "a", 1), listing("L3", "a", 1), listing("L0", "a", 1, price=7))
    go_on.set()
    head, *lines, _ = await taking
    assert [(each["id"], each["record"]["ListPrice"]) for each in lines] == [("L0", 0), ("L2", 2), ("L4", 4)]
    assert await feed.summaries(head["token"]) == [("L4", "deleted"), ("L3", 1), ("L0", 7)]


@pytest.mark.usefixtures("two_a_page")
async def test_what_breaks_in_the_middle_is_cut_and_has_no_last_line(
    unchanged: FeedClient, internals: Internals
) -> None:
    page = internals.present("snapshot_read")

    async def broken(point: PointInTime, selection: Any, after: str, size: int) -> Any:
        if after:
            raise EngineUnavailable("a test")
        return await page(point, selection, after, size)

    internals(snapshot_read=broken)
    with pytest.raises(aiohttp.ClientPayloadError):
        await unchanged.snapshot("listings", "a")


async def test_a_disconnected_client_leaves_no_running_search(unchanged: FeedClient, internals: Internals) -> None:
    page, begun = internals.present("snapshot_read"), list[asyncio.Task[Any] | None]()

    async def endless(point: PointInTime, selection: Selection, after: str, size: int) -> Any:
        begun.append(asyncio.current_task())
        return await (asyncio.Event().wait() if after else page(point, selection, after, size))

    internals(snapshot_read=endless)
    services = unchanged.http.server.app[SERVICES]  # type: ignore[attr-defined]
    async with open_point_in_time(services.engine, services.connection.alias(LISTING)) as point:
        pages = point.pages(Selection(LISTING, Scope(None)), "", 6, 2)
        await anext(pages)
        await pages.aclose()
    first, *ahead = begun
    assert first is not None
    assert ahead
    assert all(task is not None and task.cancelled() for task in ahead)


@pytest.mark.usefixtures("two_a_page")
async def test_what_lacks_a_record_is_cut_and_has_no_last_line(unchanged: FeedClient, internals: Internals) -> None:
    page = internals.present("snapshot_read")

    async def short(point: PointInTime, selection: Any, after: str, size: int) -> Any:
        return await page(point, selection, after, size - 1 if after else size)

    internals(snapshot_read=short)
    with pytest.raises(aiohttp.ClientPayloadError):
        await unchanged.snapshot("listings", "ab")


async def test_a_failure_before_the_first_line_has_an_error_status(unchanged: FeedClient, internals: Internals) -> None:
    async def broken(*_: object) -> int:
        raise EngineUnavailable("a test")

    internals(snapshot_digest=broken)
    assert await unchanged.problem("snapshot/listings") == (503, "temporarily-unavailable")


@pytest.mark.parametrize(
    ("coding", "unpack"),
    [("gzip", gzip.decompress), ("zstd", lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body))],
)
async def test_it_is_packed_on_the_way(unchanged: FeedClient, coding: str, unpack: Any) -> None:
    plain = await unchanged.snapshot("listings", "ab")
    headers = {"x-api-key": unchanged.keys["ab"], "Accept-Encoding": coding}
    url = unchanged.http.make_url("/v1/snapshot/listings")
    async with aiohttp.ClientSession(auto_decompress=False) as http, http.get(url, headers=headers) as answer:
        assert answer.headers["Content-Encoding"] == coding
        assert answer.content_type == "application/x-ndjson"
        lines = [orjson.loads(line) for line in unpack(await answer.read()).splitlines()]
    # The token says when it was made.
    assert lines[1:] == plain[1:]


async def test_few_are_sent_at_a_time_and_the_others_come_back_later(feed: FeedClient) -> None:
    limit = _snapshot_limit(feed)
    limit.running = limit.slots
    assert await feed.problem("snapshot/listings") == (503, "overloaded")
    limit.running = 0
    assert (await feed.snapshot("listings"))[-1]["complete"]
    assert limit.running == 0


def _snapshot_limit(feed: FeedClient) -> ConcurrencyLimit:
    limit: ConcurrencyLimit = feed.http.server.app[SERVICES].limits.admission.limits[RequestKind.SNAPSHOT]  # type: ignore[attr-defined]
    return limit


async def test_of_many_at_once_some_are_sent_and_the_others_refused(feed: FeedClient, internals: Internals) -> None:
    page, go_on = internals.present("snapshot_read"), asyncio.Event()

    async def held(point: PointInTime, selection: Any, after: str, size: int) -> Any:
        await go_on.wait()
        return await page(point, selection, after, size)

    internals(snapshot_read=held)
    asked = {asyncio.create_task(feed.get("snapshot/listings", key)) for _ in range(12) for key in feed.keys}
    refused = set[asyncio.Task[tuple[int, bytes]]]()
    while len(asked) > _snapshot_limit(feed).slots:
        done, asked = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        refused |= done
    problems = {(task.result()[0], orjson.loads(task.result()[1])["code"]) for task in refused}
    assert problems <= {(503, "overloaded"), (429, "too-many-at-once")}
    assert (503, "overloaded") in problems
    go_on.set()
    sent = await asyncio.gather(*asked)
    assert [(status, body.splitlines()[-1][-17:]) for status, body in sent] == [(200, b',"complete":true}')] * len(sent)
    await until(lambda: _snapshot_limit(feed).running == 0)


async def test_a_key_leaves_slots_for_other_keys(feed: FeedClient, internals: Internals) -> None:
    internals(snapshot_read=lambda *_: asyncio.Event().wait())
    limit = _snapshot_limit(feed)
    hoarding = [asyncio.create_task(feed.get("snapshot/listings", "a")) for _ in range(2)]
    await until(lambda: limit.held_by(_key_id(feed, "a")) == 2)
    assert await feed.problem("snapshot/listings", "a") == (429, "too-many-at-once")
    hoarding.append(asyncio.create_task(feed.get("snapshot/listings", "b")))
    await until(lambda: limit.held_by(_key_id(feed, "b")) == 1)
    for task in hoarding:
        task.cancel()
    await until(lambda: limit.running == 0)


def _key_id(feed: FeedClient, name: str) -> str:
    return feed.keys[name][3:13]


async def test_a_snapshot_that_is_never_sent_holds_no_slot(feed: FeedClient, internals: Internals) -> None:
    async def refuse(*_: object) -> Any:
        raise EngineUnavailable("a test")

    internals(encode_response=refuse)
    assert await feed.problem("snapshot/listings") == (503, "temporarily-unavailable")
    assert _snapshot_limit(feed).running == 0


async def test_a_point_in_time_stays_open_while_nothing_is_searched(
    unchanged: FeedClient, internals: Internals
) -> None:
    internals(snapshot_renewal_seconds=0.01)
    search, answers = internals.present("snapshot_search"), list[bytes]()

    async def noted(point: PointInTime, body: Any) -> bytes:
        answers.append(await search(point, body))
        return answers[-1]

    internals(snapshot_search=noted)
    services = unchanged.http.server.app[SERVICES]  # type: ignore[attr-defined]
    async with open_point_in_time(services.engine, services.connection.alias(LISTING)):
        await until(lambda: len(answers) >= 3)
    assert all(orjson.loads(answer)["hits"]["hits"] == [] for answer in answers)


async def test_a_head_request_keeps_no_slot_and_leaves_nothing_open(unchanged: FeedClient) -> None:
    async with unchanged.http.head("/v1/snapshot/listings", headers={"x-api-key": unchanged.keys["a"]}) as answer:
        assert (answer.status, await answer.read()) == (200, b"")
    # It is closed after the response; by itself it would expire only after two minutes.
    async with asyncio.timeout(60):
        while await _held(unchanged):  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.01)


async def _held(feed: FeedClient) -> int:
    stats = await feed.bench.client.nodes.stats(metric="indices", index_metric="search")
    return sum(node["indices"]["search"]["open_contexts"] for node in stats["nodes"].values())


async def test_a_resource_that_is_none_is_not_found_by_name(unchanged: FeedClient) -> None:
    for operation in ("snapshot", "digest"):
        status, body = await unchanged.get(f"{operation}/houses")
        assert status == 404
        assert b"listings, sold_listings" in body
