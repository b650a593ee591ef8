"""Whatever a page leads to exists, down to the anchor; nothing leads to another host."""

import orjson
import pytest

from service.site.pages import PAGE_BY_PATH, site_assets
from service.site.rendering import encoded_search_index, site_pages
from service.site.tables import field_anchor, field_entries, problem_codes
from tests.site.page_parser import SITE, parse_page

_OUTSIDE_THE_SITE = {"/v1/openapi.json"}
paths = pytest.mark.parametrize("path", site_pages(SITE))


@paths
def test_links_lead_to_what_there_is(path: str) -> None:
    pages = site_pages(SITE)
    there = {
        *pages,
        *(page.markdown_path for page in pages.values()),
        *_OUTSIDE_THE_SITE,
        *(asset.path for asset in site_assets().values()),
    }
    for address in parse_page(path).addresses:
        target, _, anchor = address.partition("#")
        assert (target or path) in there, address
        assert not anchor or anchor in parse_page(target or path).ids, address


@paths
def test_an_anchor_is_unique(path: str) -> None:
    ids = parse_page(path).ids
    assert sorted(ids) == sorted({*ids})


@paths
def test_a_page_has_one_heading_of_its_own_and_closes_what_it_opens(path: str) -> None:
    page = parse_page(path)
    assert page.counts["h1"] == page.counts["main"] == page.counts["title"] == 1
    assert page.open == []


@paths
def test_each_page_is_listed_on_every_other(path: str) -> None:
    assert PAGE_BY_PATH.keys() <= {*parse_page(path).addresses}


def test_pages_load_scripts_of_their_own_only() -> None:
    shared = parse_page("/docs").counts["script"]
    more = {path: count for path in PAGE_BY_PATH if (count := parse_page(path).counts["script"] - shared)}
    assert more == {"/docs/map": 1, "/docs/fields": 1}


def test_a_search_leads_to_what_there_is_and_knows_every_heading_and_field() -> None:
    entries = orjson.loads(encoded_search_index(SITE))
    anchors = {path: {*parse_page(path).ids} for path in site_pages(SITE)}
    targets = [entry["url"].partition("#") for entry in entries]
    assert [(path, anchor) for path, _, anchor in targets if anchor and anchor not in anchors[path]] == []
    assert {path for path, _, anchor in targets if not anchor} == anchors.keys()
    found = {anchor for path, _, anchor in targets if path == "/docs/fields"}
    assert {field_anchor(resource, name) for resource, name, _ in field_entries()} <= found
    assert {*problem_codes()} <= {anchor for path, _, anchor in targets if path == "/docs/problems"}
