"""Whatever a page leads to exists, down to the anchor; nothing leads to another host."""

from __future__ import annotations

import pytest

from service.site.assets import site_assets
from service.site.pages import PAGE_BY_PATH
from tests.site.page_parser import parse_page

_OUTSIDE_THE_SITE = {"/v1/openapi.json"}
paths = pytest.mark.parametrize("path", PAGE_BY_PATH)


@paths
def test_links_lead_to_what_there_is(path: str) -> None:
    there = {*PAGE_BY_PATH, *_OUTSIDE_THE_SITE, *(asset.path for asset in site_assets().values())}
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


def test_nothing_is_loaded_by_pages_that_need_no_script() -> None:
    assert {path for path in PAGE_BY_PATH if parse_page(path).counts["script"]} == {"/docs/reference", "/docs/map"}
