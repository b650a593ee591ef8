"""Three thousand companies below one parent: answers are complete, whatever Elasticsearch limits."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mappings import COMPANY, OFFICE, SOLD_LISTING
from service.keys.store import KeyGrant
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import FeedClient, company, office
from tests.indexer.conftest import Bench
from tests.internals import Internals
from tests.records import envelope

CHILDREN = [f"c{number:04}" for number in range(3_000)]
COMPANIES = ["other", "parent", *CHILDREN]
MOST_TERMS = 1_000
# Of one company in a hundred, which are in all three parts of a query; and one outside.
SOLD = {f"S{number:02}": CHILDREN[number * 100] for number in range(30)}
OFFICES = {f"O{number:02}": CHILDREN[number * 100] for number in range(30)}


def sold(identifier: str, of: str) -> dict[str, Any]:
    """Return the envelope of a sold listing."""
    return envelope(SOLD_LISTING, {"PlatformListingId": identifier}, platform_company_id=of)


@pytest.fixture
async def served(bench: Bench, internals: Internals) -> AsyncIterator[FeedClient]:
    """The companies with their records, in indices that accept fewer terms than there are companies."""
    children = [company(key) | {"parent_company_id": "parent"} for key in CHILDREN]
    lines = {
        COMPANY: [company("other"), company("parent"), *children],
        SOLD_LISTING: [sold(name, of) for name, of in {**SOLD, "X": "other"}.items()],
        OFFICE: [office(name, of) for name, of in {**OFFICES, "X": "other"}.items()],
    }
    assert (await bench.build(lines)).exit_code == 0
    limited = ",".join(bench.connection.alias(resource) for resource in lines)
    await bench.client.indices.put_settings(index=limited, settings={"index.max_terms_count": MOST_TERMS})
    internals(most_terms=MOST_TERMS)
    grants = {
        "all": KeyGrant("all", all_companies=True, rate=None),
        "parent": KeyGrant("parent", parent_companies=("parent",), rate=None),
    }
    async with serve_feed(bench, grants=grants) as feed:
        yield feed


async def walk(served: FeedClient, **parameters: object) -> list[str]:
    """Return the identifiers of a walk of the parent's sold listings."""
    found: list[str] = []
    while True:
        after = found[-1] if found else None
        page = await served.json(
            "sold_listings", "parent", last_platform_listing_id=after, updated_since=1, **parameters
        )
        found += [each["PlatformListingId"] for each in page["Listings"]]
        if page["FinalPage"]:
            return found


async def test_a_parent_of_many_companies_is_read_whole(served: FeedClient) -> None:
    """By walk, numbered page, show, change feed, snapshot and RESO Web API; with nothing of another company."""
    for parameters in ({"parent_company_id": "parent"}, {}):
        assert await walk(served, page_size=7, **parameters) == [*SOLD]
        pages = [await served.json("offices", "parent", page_number=at, page_size=20, **parameters) for at in (1, 2)]
        assert [each["platform_office_id"] for page in pages for each in page["offices"]] == [*OFFICES]
    assert (await served.json("sold_listings/S29", "parent"))["PlatformListingId"] == "S29"
    assert (await served.get("sold_listings/X", "parent"))[0] == 404
    changes, _ = await served.changes(None, "parent", resources="sold_listings,offices")
    assert sorted(each["id"] for each in changes) == sorted([*SOLD, *OFFICES])
    assert [line["id"] for line in (await served.snapshot("offices", "parent"))[1:-1]] == [*OFFICES]
    assert (await served.json("digest/offices", "parent"))["count"] == len(OFFICES)
    answer = await served.json("reso/Office", "parent", **{"$select": "OfficeKey"})
    assert [each["OfficeKey"] for each in answer["value"]] == [*OFFICES]


async def test_all_companies_are_listed_at_once_and_by_page(served: FeedClient) -> None:
    """Those of a key, too."""
    for key, expected in (("all", sorted(COMPANIES)), ("parent", sorted(["parent", *CHILDREN]))):
        every: Any = await served.json("companies", key)
        assert [each["platform_company_id"] for each in every] == expected
        pages: list[Any] = [await served.json("companies", key, page_number=at, page_size=1000) for at in range(1, 5)]
        assert [each for page in pages for each in page] == every


async def test_a_company_that_joins_or_leaves_is_noticed(served: FeedClient) -> None:
    """Although only changes of the companies are read."""
    assert (await served.problem("offices", "parent", platform_company_id="other"))[0] == 403
    await served.update(
        company("other") | {"parent_company_id": "parent", "updated_at": "2026-02-01T00:00:00Z"}, resource=COMPANY
    )
    assert await walk(served) == [*SOLD, "X"]
    await served.update(company("other") | {"updated_at": "2026-03-01T00:00:00Z"}, resource=COMPANY)
    assert await walk(served) == [*SOLD]
