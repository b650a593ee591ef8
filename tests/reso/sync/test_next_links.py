"""Where a source puts the link to the next page: in the body, in `Link`, in `next`; and what does not fit together."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from indexer.errors import SourceError
from indexer.reporting.report import ignore_progress
from indexer.reso.client.odata import ODataQuery
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.entity_forms import EntityForm
from indexer.reso.mirror import Mirror
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import BY_LINKS
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
        return Reply(body=orjson.dumps({"value": [], **body}), headers=headers)


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
    pages = Pages([({}, {}), ({}, {})])
    async with client_of(pages) as (web, _):
        port = web._root.rpartition(":")[2].partition("/")[0]
        absolute = f"https://127.0.0.1:{port}/odata/Property?%24skiptoken=a%20b"
        pages.replies = [({"@odata.nextLink": "Property?$skiptoken=a%20b"}, {"next": absolute})]
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


async def test_a_full_page_without_a_link_or_a_count_may_not_be_the_last(tmp_path: Path) -> None:
    """It is read again, and nothing is removed because it has nothing more."""
    row = {"ListingKey": "k1", "ModificationTimestamp": "2026-01-01T00:00:00Z", "City": "Austin"}
    pages = Pages([({"value": [row, row | {"ListingKey": "k2"}]}, {})])
    async with client_of(pages) as (web, _):
        mirror, settings = Mirror(tmp_path / "mirror.sqlite", DICTIONARY), ResoSettings(page_size=2)
        try:
            form = EntityForm(load=BY_LINKS, changes=BY_LINKS)
            source = SourceContext(web, mirror, settings, ignore_progress)
            sync = EntitySync(EntityReader("Property", DICTIONARY.entities["Property"], tuple(row), source, form))
            await sync.load()
            mirror.put("Property", "k3", "2026-01-01T00:00:00Z", row | {"ListingKey": "k3"})
            await sync.compare_keys()
            assert "is unknown whether there are more. None were removed." in (sync.state.refused or "")
            assert mirror.count("record", "Property") == 3
        finally:
            mirror.close()


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
