"""What a change says has changed: exact for each reader, filtered, and nothing of what its key may not see."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from indexer.rollback import rollback
from mappings import AGENT, COMPANY, LISTING, OFFICE, Resource
from mappings.stored_document import change_number
from mappings.visibility import DisplayLicence
from service.keys.store import KeyGrant
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import FeedClient, JsonObject, company, deleted_listing, office, source_time
from tests.indexer.conftest import Bench, bench
from tests.indexer.raw_documents import put_document
from tests.records import envelope

__all__ = ["bench"]

_GRANTS = {
    "a": KeyGrant("a", companies=("a",), rate=None),
    "ab": KeyGrant("ab", companies=("a", "b"), rate=None),
    "poor": KeyGrant("poor", companies=("a",), rate=None, fields=()),
    "idx": KeyGrant("idx", companies=("a",), rate=None, display=DisplayLicence.IDX),
}
_AGENT = "0b0e6d3c-5f0d-4f35-9d3c-111111111111"
(ADDRESS,) = (number for number, group in LISTING.change_groups.items() if group.name == "address")
FIRST: JsonObject = {"ListPrice": 100, "Status": "Active"}


def listing(identifier: str, second: int = 0, of: str = "a", /, **record: Any) -> JsonObject:
    named = {"PlatformListingId": identifier, **FIRST, **record}
    return envelope(LISTING, named, updated_at=source_time(second), platform_company_id=of)


def agent(second: int = 0, **record: Any) -> JsonObject:
    return envelope(AGENT, {"agent_uuid": _AGENT, **record}, updated_at=source_time(second), platform_company_id="a")


@pytest.fixture
async def feed(bench: Bench) -> AsyncIterator[FeedClient]:
    lines: dict[Resource, list[JsonObject]] = {
        COMPANY: [company(key) for key in "ab"],
        LISTING: [listing(f"L{at}") for at in range(3)],
        OFFICE: [office("O1", "a")],
        AGENT: [agent()],
    }
    assert (await bench.build(lines)).exit_code == 0
    async with serve_feed(bench, grants=_GRANTS) as feed:
        yield feed


def told(changes: list[JsonObject]) -> list[tuple[str, object, object]]:
    """Return of each change the identifier, what changed or why it has gone, and what was before."""
    return [(each["id"], each.get("reason") or each.get("changed"), each.get("previous")) for each in changes]


async def test_changes_name_their_groups_and_the_values_before(feed: FeedClient) -> None:
    token = await feed.token()
    await feed.update(listing("L0", 1, ListPrice=120), listing("L1", 1, PublicRemarks="new"))
    first, later = await feed.changes(token)
    assert told(first) == [("L0", ["price"], {"ListPrice": 100}), ("L1", ["remarks"], None)]
    await feed.update(listing("L0", 2, ListPrice=130, Status="Pending"))
    both = ["price", "status"]
    assert told((await feed.changes(later))[0]) == [("L0", both, {"ListPrice": 120, "Status": "Active"})]
    await feed.update(listing("L0", 3, ListPrice=130, Status="Pending", City="Elsewhere"))
    assert told((await feed.changes(token))[0]) == [
        ("L1", ["remarks"], None),
        ("L0", [*both, "address"], {"ListPrice": 120, "Status": "Active"}),
    ]
    assert {each["first_seen"] for each in (await feed.changes(token))[0]} == {"2026-01-03T00:00:00.000Z"}


@pytest.mark.parametrize("operation", ["snapshot", "digest"])
async def test_changes_after_a_copy_or_its_digest_name_their_groups(feed: FeedClient, operation: str) -> None:
    await feed.update(listing("L1", 1, ListPrice=110))
    if operation == "snapshot":
        token = (await feed.snapshot("listings"))[0]["token"]
    else:
        token = (await feed.json("digest/listings"))["token"]
    await feed.update(listing("L0", 2, ListPrice=120), listing("L1", 2, ListPrice=110, City="Elsewhere"))
    expected = [("L0", ["price"], {"ListPrice": 100}), ("L1", ["address"], None)]
    assert told((await feed.changes(token))[0]) == expected
    assert told((await feed.changes(token, changed="price"))[0]) == expected[:1]


async def test_previous_has_the_spelling_of_the_record(feed: FeedClient) -> None:
    token = await feed.token()
    await feed.update(listing("L0", 1, ListPrice=None))
    changes, _ = await feed.changes(token, underscore_response=True)
    assert told(changes) == [("L0", ["price"], {"list_price": 100})]
    await feed.update(listing("L0", 2, ListPrice=7))
    assert told((await feed.changes(token))[0]) == [("L0", ["price"], {"ListPrice": None})]


async def test_what_is_new_restored_or_from_another_company_names_nothing(feed: FeedClient) -> None:
    assert {each.get("changed") for each in (await feed.changes(None))[0]} == {None}
    tokens = {key: await feed.token(key) for key in ("a", "ab")}
    await feed.update(listing("L3", 1), deleted_listing("L0", "a", 1), listing("L1", 1, "b", ListPrice=9))
    await feed.update(listing("L0", 2), listing("L1", 3, "a", ListPrice=8))
    for key, token in tokens.items():
        changes = (await feed.changes(token, key))[0]
        assert [each for each in told(changes) if each[1] != "out_of_scope"] == [
            (name, None, None) for name in ("L3", "L0", "L1")
        ]
        assert all(each["first_seen"] == each["time"] for each in changes if "record" in each)


async def test_a_filter_returns_changes_of_its_groups_and_whatever_is_new_or_gone(feed: FeedClient) -> None:
    token = await feed.token()
    await feed.update(listing("L0", 1, ListPrice=7), listing("L1", 1, City="Elsewhere"), listing("L3", 1))
    await feed.update(listing("L0", 2, ListPrice=7, City="Elsewhere"), deleted_listing("L2", "a", 2))
    await feed.update(office("O1", "a", 2), resource=OFFICE)
    expected = [("L3", None, None), ("L0", ["price"], {"ListPrice": 100}), ("L2", "deleted", None)]
    for size in (1, 2, 3, 200):
        assert told((await feed.changes(token, changed="price,status", page_size=size))[0]) == expected
    assert told((await feed.changes(token, changed="remarks"))[0]) == [expected[0], expected[2]]
    assert [each[0] for each in told((await feed.changes(token, changed="details"))[0])] == ["O1", "L3", "L2"]


async def test_a_filter_keeps_copies_complete_whose_other_filters_depend_on_other_groups(feed: FeedClient) -> None:
    asked = {"changed": "price", "market_status": "on-market"}
    token = await feed.token("a", **asked)
    await feed.update(listing("L0", 1, Status="Sold"))
    await feed.update(office("O1", "a", 1, deactivated=True), resource=OFFICE)
    changes, token = await feed.changes(token, **asked)
    assert told(changes) == [("O1", "deactivated", None), ("L0", "off_market", None)]
    await feed.update(listing("L0", 2))
    assert told((await feed.changes(token, **asked))[0]) == [("L0", ["status"], {"Status": "Sold"})]


async def test_a_token_with_all_changes_goes_on_with_some_but_not_the_other_way_round(feed: FeedClient) -> None:
    token = await feed.token(changed="price")
    assert await feed.problem("changes", since=token) == (410, "token-expired")
    assert await feed.problem("changes", since=token, changed="status") == (410, "token-expired")
    assert (await feed.json("changes", since=token, changed="price"))["changes"] == []
    snapshot = (await feed.snapshot("listings"))[0]["token"]
    assert (await feed.json("changes", since=snapshot, changed="price"))["changes"] == []


@pytest.mark.parametrize("names", ["prices", "price,,status", "", "Price"])
async def test_an_unknown_group_is_refused(feed: FeedClient, names: str) -> None:
    status, body = await feed.get("changes", changed=names)
    assert (status, b'"parameter":"changed"' in body) == (400, True)
    assert b"price, status" in body or not names


async def test_records_that_change_while_a_reader_reads_are_named_since_it_began(feed: FeedClient) -> None:
    token = await feed.token()
    await feed.update(listing("L0", 1, ListPrice=7), listing("L1", 1, ListPrice=8))
    page = await feed.json("changes", since=token, page_size=1)
    assert told(page["changes"]) == [("L0", ["price"], {"ListPrice": 100})]
    await feed.update(listing("L1", 2, ListPrice=8, City="Elsewhere"), listing("L0", 2, ListPrice=7, City="Elsewhere"))
    rest, end = await feed.changes(page["next"], page_size=1)
    assert [each[:2] for each in told(rest)] == [("L1", ["price", "address"]), ("L0", ["price", "address"])]
    await feed.update(listing("L0", 3, ListPrice=7, City="Home"))
    assert told((await feed.changes(end))[0]) == [("L0", ["address"], None)]


async def test_a_state_that_an_unpublished_one_hid_is_named_later(feed: FeedClient) -> None:
    """Between a refresh and the mark: the price is published, but what can be found is the next state already."""
    bench, token = feed.bench, await feed.token()
    await feed.update(listing("L0", 1, ListPrice=7))
    published = (await bench.served(LISTING))["L0"]
    later = {**published, "sequence": published["sequence"] + 1, "clock": published["clock"] + 1}
    later["changed"] = [*published["changed"], change_number(ADDRESS, later["sequence"])]
    await put_document(bench.client, bench.connection.alias(LISTING), "L0", later)
    page = await feed.json("changes", since=token)
    assert (page["changes"], page["at_end"]) == ([], True)
    await feed.update(listing("L1", 2, ListPrice=8))
    changes, token = await feed.changes(page["next"])
    assert [each[:2] for each in told(changes)] == [("L0", ["price", "address"]), ("L1", ["price"])]
    assert told((await feed.changes(token))[0]) == []


async def test_rebuilds_and_updates_that_meet_them_name_what_readers_see(feed: FeedClient) -> None:
    token = await feed.token()
    await feed.update(listing("L0", 1, ListPrice=7))
    await feed.rebuild(listing("L0", 1, ListPrice=7), listing("L1", 1, ListPrice=8), listing("L2", 0))
    assert told((await feed.changes(token))[0]) == [
        ("L0", ["price"], {"ListPrice": 100}),
        ("L1", ["price"], {"ListPrice": 100}),
    ]
    await feed.bench.update({LISTING: [listing("L0", 0, ListPrice=500)]})  # late
    await feed.update(listing("L0", 2, ListPrice=9))
    assert told((await feed.changes(token, changed="price"))[0])[-1] == ("L0", ["price"], {"ListPrice": 7})
    await rollback(feed.bench.engine(), LISTING)
    token = await feed.token()
    await feed.update(listing("L0", 3, ListPrice=9, City="Elsewhere"))
    assert told((await feed.changes(token))[0]) == [("L0", ["address"], None)]


async def test_a_guarded_field_is_never_named_and_its_change_is_not_told(feed: FeedClient) -> None:
    tokens = {key: await feed.token(key) for key in ("a", "poor")}
    await feed.update(listing("L0", 1, BuyerCommissionValue="9.9"))
    await feed.update(agent(1, partners=[{"name": "x"}], gci_goal=9), resource=AGENT)
    named = [(_AGENT, ["partner_data", "goals"], None), ("L0", ["commission"], None)]
    assert told((await feed.changes(tokens["a"]))[0]) == named
    assert (await feed.changes(tokens["poor"], "poor"))[0] == []
    await feed.update(listing("L0", 2, BuyerCommissionValue="9.8", ListPrice=7))
    assert told((await feed.changes(tokens["poor"], "poor"))[0]) == [("L0", ["price"], {"ListPrice": 100})]
    assert await feed.problem("changes", "poor", changed="price,commission") == (400, "invalid-parameter")
    assert told((await feed.changes(tokens["a"], changed="commission"))[0]) == [("L0", ["commission"], None)]


async def test_what_sellers_withhold_is_not_named_nor_is_its_change_told(feed: FeedClient) -> None:
    hidden, withheld = {"InternetAddressDisplayYN": False}, {"InternetEntireListingDisplayYN": False}
    await feed.update(listing("L0", 1, **hidden), listing("L1", 1, **withheld))
    token = await feed.token("idx")
    await feed.update(listing("L0", 2, **hidden, City="Elsewhere"), listing("L1", 2, **withheld, ListPrice=7))
    changes, token = await feed.changes(token, "idx")
    assert changes == []
    await feed.update(listing("L0", 3, City="Elsewhere"), listing("L1", 3, ListPrice=7))
    for parameters in ({}, {"changed": "price"}):
        changes, _ = await feed.changes(token, "idx", **parameters)
        assert told(changes) == [("L0", None, None), ("L1", None, None)]
        assert not any("first_seen" in each for each in changes)
