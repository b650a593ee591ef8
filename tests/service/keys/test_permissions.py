"""What keys may see of records: forms, refused parameters, and searches that keys of different rights share."""

import asyncio
from itertools import combinations
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient

from mappings import AGENT, COMPANY, FIELD_GROUPS, LISTING, OFFICE, RESOURCES, SOLD_LISTING, TEAM, Resource
from mappings.fields import View
from mappings.stored_document import encode_document
from service.projection import Variant, _compiled, _projection
from service.resources import OPERATIONS
from service.scope import withheld_groups
from tests.internals import Clock, Internals, batched_reads
from tests.service.api_client import app_of
from tests.service.conftest import Open
from tests.service.projection.test_projection import answered, filled
from tests.service.search.test_shared_searches import waiting
from tests.service.stand_in import HeldReply, StandIn, hit, read_response, search_response
from tests.waiting import until

SUBSETS = [frozenset(some) for count in range(5) for some in combinations(sorted(FIELD_GROUPS), count)]
# Not in the form in which it would be written here: decoding and encoding changes it.
SPACED = b'{ "PlatformListingId" : "L1" , "BuyerCommissionValue":"2.50" }'
PATH = "/v1/listings?platform_company_id=acme&updated_since=1"


def test_a_key_without_permissions_of_its_own_may_see_everything() -> None:
    assert withheld_groups(None) == frozenset()
    assert withheld_groups(tuple(FIELD_GROUPS)) == frozenset()


def test_a_key_may_see_the_groups_that_it_names_and_no_other() -> None:
    assert withheld_groups(("goals", "commission")) == {"access_level", "partner_data"}
    assert withheld_groups(()) == FIELD_GROUPS


def test_an_unknown_group_grants_nothing() -> None:
    assert withheld_groups(("comission", "*", "all", "")) == FIELD_GROUPS


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("hidden", SUBSETS, ids=lambda hidden: "+".join(sorted(hidden)) or "nothing")
def test_withheld_fields_are_there_and_empty(resource: Resource, view: View, hidden: frozenset[str]) -> None:
    fields = resource.view(view)
    empty = {field.name: field.empty_value for field in fields if field.group in hidden}
    record = answered(Variant(resource, view, frozenset(resource.flags[view]), withheld=hidden))
    assert record == filled(fields) | empty
    assert list(record) == [field.name for field in fields]


@pytest.mark.parametrize("hidden", SUBSETS, ids=lambda hidden: "+".join(sorted(hidden)) or "nothing")
def test_a_flag_brings_back_nothing_that_is_withheld_and_what_was_not_requested_stays_away(
    hidden: frozenset[str],
) -> None:
    goals = {"gci_goal", "buyer_commission_rate", "seller_commission_rate"}
    assert not goals & answered(Variant(AGENT, View.SHOW, withheld=hidden)).keys()
    assert goals <= answered(Variant(AGENT, View.SHOW, frozenset({"include_gci_goals"}), withheld=hidden)).keys()


@pytest.mark.parametrize("resource", [SOLD_LISTING, OFFICE, TEAM, COMPANY], ids=lambda resource: resource.alias)
def test_what_holds_nothing_guarded_passes_through_untouched_for_any_key(resource: Resource) -> None:
    records = [b"not even parsed"]
    assert Variant(resource, View.INDEX, withheld=FIELD_GROUPS).encode(records) is records


def test_forms_that_come_to_the_same_are_compiled_once() -> None:
    """Bounds what is kept: a client can send every combination of flags with keys of every kind."""
    _projection.cache_clear()
    _compiled.cache_clear()
    for resource, view, hidden in ((one, view, hidden) for one in RESOURCES for view in View for hidden in SUBSETS):
        flags = sorted(resource.flags[view])
        for sent in (frozenset(some) for count in range(len(flags) + 1) for some in combinations(flags, count)):
            for underscored in (False, True):
                _projection(Variant(resource, view, sent, underscored, hidden))
    # The variants of agents: a block in a group is absent, empty or visible, another one absent or visible.
    index, show = 3**2 * 2**4, 3**2 * 2 * 5
    most = {AGENT: index + show, LISTING: 4 + 2, **dict.fromkeys((SOLD_LISTING, OFFICE, TEAM, COMPANY), 2)}
    passing = 5  # the stored forms: of every resource but agents
    assert _compiled.cache_info().currsize <= 2 * sum(most.values()) - passing


@pytest.mark.parametrize("fields", [None, sorted(FIELD_GROUPS)], ids=["no permissions", "all groups"])
async def test_a_page_for_a_key_that_may_see_all_is_the_stored_bytes(
    api: TestClient[Any, Any], stand_in: StandIn, fields: list[str] | None
) -> None:
    made = _compiled.cache_info()
    assert SPACED in await page(api, of_one_listing(stand_in, fields=fields))
    assert _compiled.cache_info() == made


async def test_a_page_for_a_restricted_key_is_encoded_separately(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    body = orjson.loads(await page(api, of_one_listing(stand_in, fields=["partner_data"])))
    [listing] = body["Listings"]
    assert listing == {field.name: field.empty_value for field in LISTING.view(View.INDEX)} | {
        "PlatformListingId": "L1"
    }


def of_one_listing(stand_in: StandIn, **granted: Any) -> str:
    """Let there be one listing of one company, and return a key."""
    stand_in.add("companies", "acme", {}, numeric_id="1")
    stand_in.hits["listings"] = [hit("listings-v0001", "L1", encode_document(b'{"id":"L1"', 1, 1, SPACED))]
    return stand_in.grant(**granted)


async def page(api: TestClient[Any, Any], key: str, path: str = PATH) -> bytes:
    """Return the body of an answer that must be a good one."""
    async with api.get(path, headers={"x-api-key": key}) as response:
        assert response.status == 200, await response.text()
        return await response.read()


@pytest.mark.parametrize("hidden", SUBSETS, ids=lambda hidden: "+".join(sorted(hidden)) or "nothing")
async def test_a_parameter_that_reveals_withheld_fields_is_refused_by_name(
    api: TestClient[Any, Any], stand_in: StandIn, hidden: frozenset[str]
) -> None:
    stand_in.add("companies", "acme", {}, numeric_id="1")
    headers = {"x-api-key": stand_in.grant(fields=sorted(FIELD_GROUPS - hidden))}
    for value in ("0", "1700000000"):
        async with api.get(f"{PATH}&shared_partner_data_updated_since={value}", headers=headers) as response:
            body = await response.json()
            assert response.status == (403 if "partner_data" in hidden else 200)
            if response.status == 403:
                assert [error["parameter"] for error in body["errors"]] == ["shared_partner_data_updated_since"]
                assert body["code"] == "forbidden"
    searched = [path for path, _ in stand_in.asked if path == "/listings/_search"]
    assert len(searched) == (0 if "partner_data" in hidden else 2)


def test_these_parameters_are_guarded() -> None:
    guarded = {
        (operation.path, name): group
        for operation in OPERATIONS
        for name, field in operation.schema.fields.items()
        if (group := getattr(field, "group", ""))
    }
    assert guarded == {("/listings", "shared_partner_data_updated_since"): "partner_data"}


@pytest.fixture
async def sharing(open_api: Open, internals: Internals) -> TestClient[Any, Any]:
    """A client of the service that shares searches; marks are settled at once."""
    internals(cache_time=Clock(step=3600.0))
    return await open_api(shared_seconds=3600.0)


@pytest.mark.parametrize("path", [PATH, "/v1/listings/L1"], ids=["a page", "a record"])
async def test_keys_that_may_see_different_fields_share_a_search_and_nothing_else(
    sharing: TestClient[Any, Any], stand_in: StandIn, path: str
) -> None:
    record = {"PlatformListingId": "L1", "BuyerCommissionValue": "2.50", "SharedPartnerData": {"attribute_1": "deal"}}
    stand_in.add("companies", "acme", {}, numeric_id="1")
    stand_in.add("listings", "L1", record)
    searched, read = search_response(hits := stand_in.hits["listings"]), read_response(hits, "listings-v0001", ["L1"])
    held = HeldReply(body=searched if path == PATH else read)
    stand_in.out(held, "listings")
    rights = [None, ["commission"], ["partner_data"], []]
    asking = [asyncio.create_task(page(sharing, stand_in.grant(fields=fields), path)) for fields in rights]
    await until(lambda: waiting_or_gathered(sharing) == len(rights))
    held.release.set()
    bodies = [body.decode() for body in await asyncio.gather(*asking)]
    assert [("deal" in body) for body in bodies] == [True, False, True, False]
    assert [("2.50" in body) for body in bodies] == ([True, True, False, False] if path == PATH else [False] * 4)
    assert len([asked for asked, _ in stand_in.asked if asked.startswith("/listings/")]) == 1


def waiting_or_gathered(api: TestClient[Any, Any]) -> int:
    """Return how many requests wait for a search of listings in flight."""
    return sum(waiting(app_of(api))) + sum(batched_reads(app_of(api)))
