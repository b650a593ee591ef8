"""Never loaded, empty and broken are three states: the first two find nothing, the third is 503."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from brokerage_feed.copy_updater import CopyUpdater
from brokerage_feed.feed import Feed
from brokerage_feed.sqlite_copy import SqliteCopy
from cluster.control_index import CONTROL_BODY
from mappings import AGENT, COMPANY, LISTING, OFFICE, RESOURCES, SOLD_LISTING, TEAM
from service.app import create_app
from service.health.monitor import HEALTH_MONITOR
from service.services import SERVICES
from tests.feed.conftest import SETTINGS, serve_feed
from tests.feed.feed_client import ConsumerCopy, FeedClient, company, listing
from tests.indexer.conftest import Bench
from tests.internals import metric
from tests.records import UUID_OF_A_TEST, envelope
from tests.service_settings import with_settings

WATERMARK = "X-Next-Updated-Since"
LISTINGS_ONLY = {COMPANY: [company("a"), company("b")], LISTING: [listing(f"L{at}", "a") for at in range(3)]}
NEVER_LOADED = (OFFICE, AGENT, TEAM, SOLD_LISTING)
# The first load of these, with times of the source from before any poll of a test.
LATER = {
    resource: [envelope(resource, updated_at="2025-01-02T03:04:05Z", platform_company_id="a")]
    for resource in NEVER_LOADED
}


@asynccontextmanager
async def serve_listings(bench: Bench) -> AsyncIterator[FeedClient]:
    """Run the service of a brokerage that has loaded companies and listings alone."""
    assert (await bench.build(LISTINGS_ONLY)).exit_code == 0
    async with serve_feed(bench, with_settings(SETTINGS, exports=str(bench.folder.parent / "exports"))) as feed:
        yield feed


@pytest.fixture(scope="module")
async def partial(module_bench: Bench) -> AsyncIterator[FeedClient]:
    """The same for tests that only read."""
    async with serve_listings(module_bench) as feed:
        yield feed


@pytest.fixture
async def growing(bench: Bench) -> AsyncIterator[FeedClient]:
    """The same for tests that load more, or take something away."""
    async with serve_listings(bench) as feed:
        yield feed


async def load_the_rest(feed: FeedClient) -> None:
    """Load the other resources for the first time."""
    assert (await feed.bench.build({COMPANY: LISTINGS_ONLY[COMPANY], **LATER})).exit_code == 0


async def delete_alias(feed: FeedClient, alias: str) -> None:
    await feed.bench.client.indices.delete_alias(index=f"{alias}-*", name=alias)


async def check_now(feed: FeedClient) -> None:
    """Let the service find out what is loaded now."""
    await feed.http.server.app[HEALTH_MONITOR].check_now()  # type: ignore[attr-defined]


class Answer(NamedTuple):
    """A response whose body is JSON."""

    status: int
    body: Any
    watermark: str | None
    retry_after: str | None


async def ask(feed: FeedClient, path: str, accept: str = "*/*") -> Answer:
    """Return the response to the key of all companies."""
    headers = {"x-api-key": feed.keys["all"], "Accept": accept}
    async with feed.http.get(f"/v1/{path}", headers=headers) as answer:
        body, sent = orjson.loads(await answer.read()), answer.headers
        return Answer(answer.status, body, sent.get(WATERMARK), sent.get("Retry-After"))


def odata(body: Any) -> tuple[list[str], int | None]:
    """Return the keys of a page, and the count."""
    keys = [next(entity[name] for name in entity if name.endswith("Key")) for entity in body["value"]]
    return keys, body.get("@odata.count")


EMPTY_PAGE = {"FinalPage": True, "Listings": []}
COLLECTIONS: dict[tuple[str, str | None], Any] = {
    ("sold_listings?platform_company_id=a&sold_since=1", "0"): EMPTY_PAGE,
    ("sold_listings?updated_since=0", "0"): EMPTY_PAGE,
    ("sold_listings?timestamps_only=true&underscore_response=true", "0"): {"final_page": True, "listings": []},
    ("sold_listings?last_platform_listing_id=S1", None): EMPTY_PAGE,
    ("agents", "0"): [],
    ("agents?updated_since=0&envelope=true", "0"): {"page_number": 1, "total_pages": 1, "agents": []},
    ("offices?page_number=500&page_size=100", None): {"page_number": 500, "total_pages": 1, "offices": []},
    ("offices?timestamps_only=true", None): {"page_number": 1, "total_pages": 1, "offices": []},
    ("teams", None): [],
    ("teams?page_number=1", None): [],
    (
        "listings?platform_company_id=a&updated_since=0&agent_uuid=" + "0" * 8 + UUID_OF_A_TEST[8:],
        "present",
    ): EMPTY_PAGE,
}


@pytest.mark.parametrize(("path", "watermark"), COLLECTIONS)
async def test_a_collection_of_what_was_never_loaded_is_empty(
    partial: FeedClient, path: str, watermark: str | None
) -> None:
    answer = await ask(partial, path)
    assert (answer.status, answer.body) == (200, COLLECTIONS[path, watermark])
    assert ("present" if (answer.watermark or "0") > "0" else answer.watermark) == watermark


async def test_other_formats_of_what_was_never_loaded_are_empty(partial: FeedClient) -> None:
    features = (await ask(partial, "sold_listings?sold_since=1", "application/geo+json")).body
    assert (features["type"], features["features"]) == ("FeatureCollection", [])
    async with partial.http.get(
        "/v1/agents", headers={"x-api-key": partial.keys["all"]}, params={"page_size": "1"}
    ) as one:
        assert (one.headers["X-Total-Count"], one.headers["X-Total-Pages"]) == ("0", "1")


SHOWS = [
    "sold_listings/S1",
    f"agents/{UUID_OF_A_TEST}",
    "agents/someone?platform_company_id=a",
    "offices/O1",
    "teams/T1",
    "reso/Member('M1')",
    "reso/Media('S1!1')",
    "reso/Property('S1')",
    "exports/teams?platform_company_id=a",
]


@pytest.mark.parametrize("path", SHOWS)
async def test_a_record_of_what_was_never_loaded_does_not_exist(partial: FeedClient, path: str) -> None:
    failed = metric("brokerage_elasticsearch_failures_total", kind="missing")
    assert (await ask(partial, path)).status == 404
    assert metric("brokerage_elasticsearch_failures_total", kind="missing") == failed  # an alert is about them


@pytest.mark.parametrize("reference", ["platform_office_id=O1", "platform_agent_id=someone", "source_agent_id=1"])
async def test_a_reference_to_what_was_never_loaded_is_refused(partial: FeedClient, reference: str) -> None:
    answer = await ask(partial, f"listings?platform_company_id=a&updated_since=0&{reference}")
    assert (answer.status, answer.body["code"]) == (400, "invalid-parameter")


ENTITIES: dict[str, tuple[list[str], int | None]] = {
    "reso/Property?$count=true": (["L0", "L1", "L2"], 3),
    "reso/Property?$orderby=ListPrice desc&$skip=1&$expand=Media,ListAgent,ListOffice&$filter=ListPrice gt 0": (
        ["L1", "L2"],
        None,
    ),
    "reso/Property?$filter=StandardStatus eq 'Closed'&$count=true": ([], 0),
    "reso/Member?$count=true": ([], 0),
    "reso/Office?$filter=OfficeKey eq 'O1'": ([], None),
    "reso/OpenHouse?$count=true&$top=1": (["L0!20260102T133000"], 6),
    "reso/TeamMembers?$count=true": ([], 0),
    "reso/Teams": ([], None),
}


@pytest.mark.parametrize("path", ENTITIES)
async def test_reso_serves_what_there_is(partial: FeedClient, path: str) -> None:
    answer = await ask(partial, path)
    assert answer.status == 200, answer.body
    assert odata(answer.body) == ENTITIES[path]


async def test_reso_counts_and_numbers_what_there_is(partial: FeedClient) -> None:
    assert (await ask(partial, "reso/Property/$count")).body == 3
    assert (await ask(partial, "reso/Member/$count")).body == 0
    assert len((await ask(partial, "reso/Lookup")).body["value"]) > 0
    events = await ask(partial, "reso/EntityEvent?$filter=ResourceRecordKey eq 'L1'&$count=true")
    assert [each["ResourceName"] for each in events.body["value"]] == ["Property"]


@pytest.mark.parametrize("prefixes", [None, "ab,cd", "ab12"])
async def test_a_digest_of_what_was_never_loaded_is_that_of_no_record(
    partial: FeedClient, prefixes: str | None
) -> None:
    digest = await partial.json("digest/teams", "a", prefixes=prefixes)
    assert (digest["count"], digest["digest"], digest["unsettled"], digest["buckets"]) == (0, "0" * 16, 0, [])


async def test_who_has_read_nothing_receives_every_record_of_the_first_load(
    growing: FeedClient, tmp_path: Path
) -> None:
    """By watermark, by the token of a snapshot, of a digest and of changes, and with the client of the product."""
    names = [resource.alias for resource in RESOURCES]
    watermarks = [(await ask(growing, path)).watermark for path in ("sold_listings?sold_since=1", "agents")]
    copies = {resource: ConsumerCopy(resource.alias) for resource in NEVER_LOADED}
    for resource, copy in copies.items():
        copy.load(await growing.snapshot(resource.alias, "all"))
    tokens = [(await growing.json(f"digest/{name}", "all"))["token"] for name in ("agents", "teams")]
    everything = await growing.token("all")
    with SqliteCopy(tmp_path, names, "") as copied:
        await pull(growing, copied)
        assert [len(list(copied.rows(resource.alias))) for resource in NEVER_LOADED] == [0] * 4

        await load_the_rest(growing)
        await pull(growing, copied)
        assert [len(list(copied.rows(resource.alias))) for resource in NEVER_LOADED] == [1] * 4
    assert watermarks == ["0", "0"]
    assert len((await ask(growing, "sold_listings?updated_since=0")).body["Listings"]) == 1
    assert len((await ask(growing, "agents?updated_since=0")).body) == 1
    for resource, copy in copies.items():
        copy.apply((await growing.changes(copy.token, "all"))[0])
        digest = await growing.json(f"digest/{resource.alias}", "all")
        assert copy.digest(copy.records) == (digest["count"], digest["digest"])
    assert [len((await growing.changes(token, "all"))[0]) for token in (*tokens, everything)] == [1, 1, 4]
    assert (await ask(growing, "teams/team-1")).status == 200


async def pull(feed: FeedClient, copy: SqliteCopy) -> None:
    """Catch up with everything, as `brokerage pull` does."""
    names = [resource.alias for resource in RESOURCES]
    async with Feed(str(feed.http.make_url("")), feed.keys["all"], attempts=1) as client:
        updater = CopyUpdater(client, copy, names, lambda _: None)
        await updater.catch_up()
        assert updater.present == names


BROKEN = ["sold_listings", "sold_listings/S1", "reso/Property", "digest/sold_listings", "snapshot/sold_listings"]


async def test_what_was_loaded_and_has_lost_its_alias_is_broken_at_once_and_after_the_check(
    growing: FeedClient,
) -> None:
    await load_the_rest(growing)
    await check_now(growing)
    watermark = (await ask(growing, "sold_listings?updated_since=0")).watermark
    await delete_alias(growing, growing.bench.connection.alias(SOLD_LISTING))
    for _ in range(2):
        for path in [*BROKEN, f"sold_listings?updated_since={watermark}"]:
            answer = await ask(growing, path)
            assert (answer.status, answer.retry_after) == (503, "2"), path
        await check_now(growing)
    assert (await ask(growing, "listings?platform_company_id=a&updated_since=0")).status == 200


async def test_what_a_service_took_for_never_loaded_is_not_empty_once_it_has_read_the_mark(growing: FeedClient) -> None:
    """The alias is lost between the first load and the next check: a page with a watermark must not be empty."""
    settings = with_settings(SETTINGS, fresh_seconds=3600.0, stale_seconds=7200.0)
    async with TestClient(TestServer(create_app(settings, growing.bench.connection))) as http:
        late = FeedClient(http, growing.keys, growing.bench)
        assert (await ask(late, "sold_listings")).watermark == "0"
        await load_the_rest(growing)
        await delete_alias(growing, growing.bench.connection.alias(SOLD_LISTING))
        assert (await ask(late, "sold_listings")).watermark == "0"
        await late.http.server.app[SERVICES].marks[SOLD_LISTING].refresh()  # type: ignore[attr-defined]
        assert (await ask(late, "sold_listings")).status == 503


async def test_without_the_control_index_what_is_missing_may_have_been_loaded(growing: FeedClient) -> None:
    await growing.bench.client.indices.delete(index=growing.bench.connection.control_index)
    await check_now(growing)
    assert (await ask(growing, "teams")).status == 503


@pytest.mark.parametrize("is_prepared", [False, True], ids=["new cluster", "first load was interrupted"])
async def test_where_nothing_was_loaded_requests_say_so(bench: Bench, is_prepared: bool) -> None:
    if is_prepared:
        await bench.client.indices.create(index=bench.connection.control_index, **CONTROL_BODY)
    async with serve_feed(bench) as feed:
        for path in ("companies", "teams/T1", "reso/Member", "listings?platform_company_id=a"):
            answer = await ask(feed, path)
            assert (answer.status, answer.retry_after) == (503, "60"), path
            assert "Nothing has been loaded into this service yet" in orjson.dumps(answer.body).decode(), path
        async with feed.http.get("/readyz") as ready:
            assert (ready.status, (await ready.json())["reason"]) == (503, "control: nothing has been loaded yet")
        assert (await bench.build(LISTINGS_ONLY)).exit_code == 0
        await check_now(feed)
        assert (await ask(feed, "companies")).status == (await ask(feed, "teams")).status == 200
