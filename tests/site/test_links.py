"""Whatever a page leads to exists, down to the anchor; nothing leads to another host."""

from __future__ import annotations

import pytest

from service.site.assets import assets
from service.site.pages import PAGES
from tests.site.reading import read

_BESIDE = {"/v1/openapi.json"}
paths = pytest.mark.parametrize("path", PAGES)


@paths
def test_links_lead_to_what_there_is(path: str) -> None:
    there = {*PAGES, *_BESIDE, *(asset.path for asset in assets().values())}
    for address in read(path).addresses:
        target, _, anchor = address.partition("#")
        assert (target or path) in there, address
        assert not anchor or anchor in read(target or path).ids, address


@paths
def test_an_anchor_stands_once(path: str) -> None:
    ids = read(path).ids
    assert sorted(ids) == sorted({*ids})


@paths
def test_a_page_has_one_heading_of_its_own_and_closes_what_it_opens(path: str) -> None:
    page = read(path)
    assert page.counts["h1"] == page.counts["main"] == page.counts["title"] == 1
    assert page.open == []


@paths
def test_each_page_is_listed_on_every_other(path: str) -> None:
    assert PAGES.keys() <= {*read(path).addresses}


def test_nothing_is_loaded_by_pages_that_need_no_script() -> None:
    assert {path for path in PAGES if read(path).counts["script"]} == {"/docs/reference", "/docs/map"}
