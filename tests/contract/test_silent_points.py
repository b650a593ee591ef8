"""Where the contract leaves a choice: what decision 2 says is what is served, for records without data."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING
from mappings.fields import FieldKind, View
from service.keys.store import KeyGrant
from tests.contract.conftest import open_world
from tests.contract.world import World
from tests.records import COMPANY_KEY, UUID_OF_A_TEST, envelope, write

CHILD = "child"
ALL = {"platform_company_id": COMPANY_KEY, "updated_since": 0, "market_status": "all"}


def _bare(line: dict[str, Any], *kept: str) -> dict[str, Any]:
    """Return an envelope whose record has these members alone."""
    return line | {"record": {name: line["record"][name] for name in kept}}


@pytest.fixture(scope="module")
async def bare(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The service over records that hold little more than their identifiers."""
    child = envelope(COMPANY, {"platform_company_id": CHILD, "numeric_id": "4200"}, parent_company_id=COMPANY_KEY)
    off_market = {"PlatformListingId": "L2", "Status": "Expired", "StatusChangeDate": "2026-01-01"}
    sold = envelope(SOLD_LISTING, {"SoldDate": "2026-01-02"}, platform_company_id=CHILD)
    lines = {
        COMPANY: [_bare(each, "platform_company_id", "numeric_id") for each in (envelope(COMPANY), child)],
        AGENT: [envelope(AGENT)],
        LISTING: [
            _bare(envelope(LISTING), "PlatformListingId", "Status", "StatusChangeDate"),
            _bare(envelope(LISTING, off_market), *off_market),
        ],
        SOLD_LISTING: [sold],
    }
    source: Path = write(tmp_path_factory.mktemp("bare") / "source", lines)
    grants = {
        "all": KeyGrant("all", all_companies=True, rate=None),
        "parent": KeyGrant("parent", parent_companies=(COMPANY_KEY,), rate=None),
    }
    async with open_world(engine_url, source, grants) as opened:
        yield opened


@pytest.mark.parametrize(("path", "view"), [("/agents", View.INDEX), (f"/agents/{UUID_OF_A_TEST}", View.SHOW)])
async def test_optional_blocks_of_agents_are_absent_unless_requested(bare: World, path: str, view: View) -> None:
    wide = {"updated_since": 0} if view is View.INDEX else {}
    flags = AGENT.flags[view]
    for sent in ((), *((flag,) for flag in flags), tuple(flags)):
        answer = await bare.answer(path, **wide, **dict.fromkeys(sent, "true"))
        [record] = answer if isinstance(answer, list) else [answer]
        absent = {field.name for flag, fields in flags.items() if flag not in sent for field in fields}
        assert record.keys() == {field.name for field in AGENT.view(view)} - absent


async def test_an_agent_alone_has_the_blocks_that_have_no_flag_there(bare: World) -> None:
    shown = await bare.answer(f"/agents/{UUID_OF_A_TEST}")
    assert {"bio", "company_programs", "website_base_url"} <= shown.keys()


async def test_booleans_without_data_are_null_and_never_false(bare: World) -> None:
    booleans = [field.name for field in LISTING.fields if field.kind is FieldKind.BOOLEAN and field.name != "OnMarket"]
    for listing in (await bare.answer("/listings", **ALL))["Listings"]:
        assert [listing[name] for name in booleans] == [None] * len(booleans)


@pytest.mark.parametrize("path", ["/companies", f"/companies/{COMPANY_KEY}"])
async def test_the_attributes_of_a_company_are_an_object_also_without_data(bare: World, path: str) -> None:
    answer = await bare.answer(path)
    for company in answer if isinstance(answer, list) else [answer]:
        assert company["public_partner_attrs"] == {"is_nrt": None}


async def test_status_change_date_is_there_and_null_off_the_market(bare: World) -> None:
    dates = {each["Status"]: each["StatusChangeDate"] for each in (await bare.answer("/listings", **ALL))["Listings"]}
    assert dates["Active"]
    assert dates == {"Active": dates["Active"], "Expired": None}
    assert "StatusChangeDate" not in await bare.answer("/listings/L2")


async def test_sold_listings_take_a_parent_company_and_a_single_one_does_not(bare: World) -> None:
    page = await bare.answer("/sold_listings", "parent", parent_company_id=COMPANY_KEY, sold_since=0)
    assert [sold["PlatformListingId"] for sold in page["Listings"]] == ["sold-1"]
    reply = await bare.get("/sold_listings/sold-1", "parent", parent_company_id=COMPANY_KEY)
    assert (reply.status, reply.parameters) == (400, {"parent_company_id"})
