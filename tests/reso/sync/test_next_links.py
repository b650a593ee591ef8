"""Where a source puts the link to the next page: in the body, in `Link`, in `next`; and what does not fit together."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from indexer.errors import SourceError
from indexer.reporting.report import ignore_progress
from indexer.reso.client.odata import ODataQuery, SourceRejectedError
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.entity_forms import EntityForm
from indexer.reso.mirror import Mirror
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import BY_LINKS, BY_TIMES
from indexer.reso.sync.entity_reader import EntityReader, SourceContext
from indexer.reso.sync.entity_sync import EntitySync
from tests.network.http import Reply, Request, http
from tests.network.server import serving
from tests.reso.sync.open_mirror import DICTIONARY

PROPERTIES = ODataQuery("Property", ("ListingKey", "City"), page_size=2)


@dataclass
class Pages:
    """A source whose pages are given; `asked` are their targets."""

    replies: Sequence[tuple[dict[str, Any], Mapping[str, str]]]
    asked: list[str] = field(default_factory=list)

    async def reply(self, request: Request) -> Reply:
        self.asked.append(request.target)
        body, headers = self.replies[min(len(self.asked), len(self.replies)) - 1]
        return Reply(body=orjson.dumps({"value": [], **body}), headers=headers, status=body.get("status", 200))


@asynccontextmanager
async def client_of(pages: Pages, **options: Any) -> AsyncIterator[tuple[ResoClient, list[str]]]:
    waits: list[str] = []
    async with serving(http(pages.reply)) as server:
        web = ResoClient(f"{server.url}/odata", ResoSettings(**{"rate": 100_000.0, **options}), waits.append)
        await web.open()
        try:
            yield web, waits
        finally:
            await web.close()


@pytest.mark.parametrize(
    ("headers", "following"),
    [
        ({"Link": '</odata/Property?$select=A,B&$skiptoken=x;y>; rel="next"'}, "$select=A,B&$skiptoken=x;y"),
        ({"Link": '</odata/Property?a>; rel="prev", </odata/Property?b>; title="b"; rel=next'}, "b"),
        ({"Link": '</odata/Property?c>; rel="last NEXT"'}, "c"),
        ({"next": "/odata/Property?d"}, "d"),
        ({"Next": "/odata/Property?e", "Link": '</odata/Property?e>; rel="next"'}, "e"),
        ({"next": "/odata/Property?" + "f" * 20_000}, "f" * 20_000),
    ],
)
async def test_a_link_in_a_header_leads_to_the_next_page(headers: dict[str, str], following: str) -> None:
    pages = Pages([({}, headers), ({}, {})])
    async with client_of(pages) as (web, _):
        page = await web.fetch_page(PROPERTIES)
        last = await web.fetch_link("Property", page.next_link or "")
    assert pages.asked[1] == f"/odata/Property?{following}"
    assert last.next_link is None


@pytest.mark.parametrize("headers", [{"Link": '</x>; rel="nextish", </y>; rel="prev"'}, {"next": " "}, {"Link": "?"}])
async def test_other_headers_are_no_next_links(headers: dict[str, str]) -> None:
    async with client_of(Pages([({}, headers)])) as (web, _):
        assert (await web.fetch_page(PROPERTIES)).next_link is None


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({"@odata.nextLink": "Property?a"}, {"Link": '</odata/Property?b>; rel="next"'}),
        ({}, {"next": "/odata/Property?a", "Link": '</odata/Property?b>; rel="next"'}),
        ({}, {"Link": '</odata/Property?a>; rel="next", </odata/Property?b>; rel="next"'}),
    ],
)
async def test_two_links_that_differ_are_an_error(body: dict[str, Any], headers: dict[str, str]) -> None:
    async with client_of(Pages([(body, headers)])) as (web, waits):
        with pytest.raises(SourceError, match="Property: the source sends different next links"):
            await web.fetch_page(PROPERTIES)
        assert waits == []


async def test_one_link_may_be_written_in_several_ways() -> None:
    """Encoded or not, with the address of the source or without, as behind a proxy with another scheme."""
    pages = Pages([])
    async with client_of(pages) as (web, _):
        absolute = urlsplit(web.root)._replace(scheme="https", path="/odata/Property", query="%24skiptoken=a%20b")
        pages.replies = [({"@odata.nextLink": "Property?$skiptoken=a%20b"}, {"next": absolute.geturl()})]
        following = (await web.fetch_page(PROPERTIES)).next_link
    assert following == "Property?$skiptoken=a%20b"


@pytest.mark.parametrize("link", ["https://169.254.169.254/odata", "//elsewhere.test/odata", "http://[::"])
async def test_a_header_leads_to_no_other_host(link: str) -> None:
    for headers in ({"next": link}, {"Link": f'<{link}>; rel="next"'}):
        pages = Pages([({}, headers)])
        async with client_of(pages, token="a-token") as (web, _):
            with pytest.raises(SourceError, match=r"to another host|that is not a URL"):
                await web.fetch_link("Property", (await web.fetch_page(PROPERTIES)).next_link or "")
        assert len(pages.asked) == 1


def row(key: str) -> dict[str, str]:
    return {"ListingKey": key, "ModificationTimestamp": "2026-01-01T00:00:00Z", "City": "Austin"}


@asynccontextmanager
async def walk(pages: Pages, folder: Path, load: Any = BY_LINKS) -> AsyncIterator[EntitySync]:
    """Open the synchronisation of listings with a source that is read by its next links, or else, two rows a page."""
    async with client_of(pages) as (web, _):
        mirror, settings = Mirror(folder / "mirror.sqlite", DICTIONARY), ResoSettings(page_size=2)
        source = SourceContext(web, mirror, settings, ignore_progress)
        form = EntityForm(load=load, changes=BY_LINKS)
        try:
            yield EntitySync(EntityReader("Property", DICTIONARY.entities["Property"], tuple(row("")), source, form))
        finally:
            mirror.close()


def page(*keys: str, link: str = "", count: int | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    counted = {} if count is None else {"@odata.count": count}
    return {"value": [row(key) for key in keys], **counted, **({"@odata.nextLink": link} if link else {})}, {}


# Before a load the newest time is asked for.
_NEWEST = page("9")


@pytest.mark.parametrize(
    ("replies", "requests", "keys"),
    [
        ([page("1", count=2), page("1", "2", count=2)], 2, "12"),
        ([page("1", count=2)], 3, "1"),
        (
            [page("1", "2", link="Property?a", count=3), page(), page("1", "2", link="Property?b", count=3), page("3")],
            4,
            "123",
        ),
        ([page(), page("1", "2", count=2)], 2, "12"),
        ([page("1", "2", link="Property?a"), page("3", "4", link="Property?a"), page(link="Property?a")], 3, "1234"),
    ],
    ids=["fewer than counted", "never as many", "an empty second page", "an empty first page", "one link for all"],
)
async def test_a_walk_that_finds_too_few_is_repeated(
    tmp_path: Path, replies: list[Any], requests: int, keys: str
) -> None:
    pages = Pages([_NEWEST, *replies])
    async with walk(pages, tmp_path) as sync:
        await sync.load()
        assert sync.reader.source.mirror.keys("Property", "", 10) == [*keys]
    assert len(pages.asked) == 1 + requests


async def test_an_endpoint_that_does_not_count_is_asked_without(tmp_path: Path) -> None:
    pages = Pages([_NEWEST, ({"status": 400}, {}), page("1", "2", link="Property?a"), page("3")])
    async with walk(pages, tmp_path) as sync:
        await sync.load()
        assert sync.reader.source.mirror.keys("Property", "", 10) == ["1", "2", "3"]
    assert ["$count" in target for target in pages.asked] == [False, True, False, False]


async def test_a_load_whose_link_the_source_has_forgotten_begins_again(tmp_path: Path) -> None:
    """As after a night: the position of a load that was cut is a link, which holds for minutes or hours."""
    gone: tuple[Any, Any] = ({"status": 410}, {})
    first = page("1", "2", link="Property?a")
    async with walk(pages := Pages([_NEWEST, first, gone]), tmp_path) as sync:
        with pytest.raises(SourceRejectedError, match="410"):
            await sync.load()
        pages.replies = [*pages.replies, gone, first, page("3")]
        await sync.load()
        assert sync.reader.source.mirror.keys("Property", "", 10) == ["1", "2", "3"]
    assert [target.rpartition("?")[2] for target in pages.asked[2:]].count("a") == 3


async def test_of_a_source_that_lists_fewer_than_it_counts_nothing_is_removed(tmp_path: Path) -> None:
    async with walk(Pages([_NEWEST, page("1", "2", count=3)]), tmp_path) as sync:
        await sync.load()
        sync.reader.source.mirror.put("Property", "3", "2026-01-01T00:00:00Z", row("3"))
        await sync.compare_keys()
        assert "the source lists 2 of the 3 records that it counts" in (sync.state.refused or "")
        assert sync.reader.source.mirror.count("record", "Property") == 3


async def test_an_empty_page_ends_a_walk_by_time_although_it_has_a_link(tmp_path: Path) -> None:
    pages = Pages([_NEWEST, page("1", "2"), page(link="Property?a")])
    async with walk(pages, tmp_path, BY_TIMES) as sync:
        await sync.load()
        assert sync.state.loaded
    assert len(pages.asked) == 3


async def test_links_that_lead_in_a_circle_end_the_walk(tmp_path: Path) -> None:
    there, back = page("1", "2", link="Property?a"), page("3", "4", link="Property?b")
    async with walk(Pages([_NEWEST, there, back, there, back]), tmp_path) as sync:
        with pytest.raises(SourceError, match="lead to the same pages again"):
            await sync.load()


async def test_a_full_page_without_a_link_or_a_count_may_not_be_the_last(tmp_path: Path) -> None:
    """It is read again, and nothing is removed because it has nothing more."""
    async with walk(Pages([page("k1", "k2")]), tmp_path) as sync:
        await sync.load()
        mirror = sync.reader.source.mirror
        mirror.put("Property", "k3", "2026-01-01T00:00:00Z", row("k3"))
        await sync.compare_keys()
        assert "is unknown whether there are more. None were removed." in (sync.state.refused or "")
        assert mirror.count("record", "Property") == 3


async def test_what_is_waited_for_is_said_without_what_is_in_a_query() -> None:
    pages = Pages([({}, {"next": "/odata/Property?access_token=the-secret"})])
    async with client_of(pages, retry_seconds=0.0) as (web, waits):
        link = (await web.fetch_page(PROPERTIES)).next_link or ""
        pages.replies = [({"value": 1}, {})]
        with pytest.raises(SourceError, match=r"1 requests for /odata/Property failed; BROKERAGE_RESO_PATIENCE") as end:
            await web.fetch_link("Property", link)
        pages.replies = [({}, {"X-Too-Long": "x" * 40_000})]
        with pytest.raises(SourceError, match="no usable response from the source") as long:
            await web.fetch_link("Property", link)
    assert "the-secret" not in f"{end.value} {long.value} {waits}"
