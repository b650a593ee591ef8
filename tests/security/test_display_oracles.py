"""Nothing that a key with a display licence receives depends on what its view leaves out."""

import hashlib
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from mappings import COMPANY, LISTING, SOLD_LISTING, Resource
from mappings.visibility import ADDRESS_MEMBERS, DisplayLicence
from service import app
from service.keys.store import KeyGrant, KeyStore
from service.operation import Operation
from service.parameters import Text, WholeNumber, at_least, at_most, equals
from service.request_context import RequestContext
from service.resources import OPERATIONS
from service.resources.operations import ListingsParameters
from service.resources.responses import FilterRule, WalkResponse
from service.search.query import Clause, match_none, term
from tests.feed.feed_client import company
from tests.indexer.conftest import Bench, bench, module_bench
from tests.records import envelope
from tests.security.test_guarded_values import SETTINGS, Attacker, everything

__all__ = ["bench", "module_bench"]

JsonObject = dict[str, Any]

_LISTINGS = 12
# Withheld, and with a hidden address.
_WITHHELD, _PLACELESS = {3, 7, 8}, {2, 5, 11}
_OPTED_OUT = "InternetEntireListingDisplayYN", "InternetAddressDisplayYN"
_PAGE = "listings?platform_company_id=a&updated_since=0&market_status=all"
_PATHS = (
    "changes",
    "changes?underscore_response=true&market_status=on-market",
    "snapshot/listings",
    "snapshot/listings?market_status=on-market",
    "snapshot/sold_listings?underscore_response=true",
    "digest/listings",
    "digest/listings?market_status=on-market",
    "digest/sold_listings",
    _PAGE,
    f"{_PAGE}&underscore_response=true",
    f"{_PAGE}&timestamps_only=true",
    *(f"{_PAGE}&page_size=1&last_platform_listing_id=L{number:02}" for number in range(_LISTINGS)),
    "sold_listings?updated_since=0",
    "listings/L02",
    "sold_listings/S05",
    "reso/Property?$count=true",
    "reso/Property?$filter=StandardStatus eq 'Active'&$count=true",
    "reso/Property?$orderby=ModificationTimestamp desc&$top=3",
    "reso/Property?$orderby=ListPrice desc,BedroomsTotal",
    "reso/Property?$filter=contains(City,'it') or Longitude lt 0&$count=true",
    "reso/Property?$filter=contains(ListAgentFullName,'ody') or startswith(ListOfficeName,'No')&$count=true",
    "reso/Property?$filter=OpenHouse/any(o:o/OpenHouseDate eq 2026-11-22)&$count=true",
    "reso/Property('L02')",
    "reso/Property('L04')/Media?$count=true",
    "reso/Property?$select=City,Media&$expand=Media",
    "reso/Media?$count=true",
    "reso/OpenHouse?$filter=OpenHouseDate ge 2026-01-01&$orderby=OpenHouseDate desc&$count=true",
    "reso/OpenHouse?$filter=OpenHouseDate gt 2026-01-02&$orderby=OpenHouseDate&$skip=1",
    "reso/OpenHouse?$orderby=OpenHouseDate&$skip=3&$top=2",
    "reso/OpenHouse/$count?$filter=not (OpenHouseDate eq 2026-11-20)",
    "reso/EntityEvent?$count=true",
)
# By what is accepted. Timestamps have no coordinates, and are refused as features.
_PATHS_OF = {
    "*/*": _PATHS,
    "application/geo+json, */*;q=0.1": tuple(path for path in _PATHS if "timestamps_only" not in path),
}
_GRANTS = {
    "idx": KeyGrant("idx", companies=("a",), rate=None, display=DisplayLicence.IDX),
    "poor": KeyGrant("poor", companies=("a",), rate=None, display=DisplayLicence.IDX, fields=()),
}


@dataclass(frozen=True)
class Hidden:
    """What is withheld and hidden in one build."""

    seed: int

    def record(self, resource: Resource, number: int) -> JsonObject:
        """Return the envelope of a listing or a sold listing."""
        record: JsonObject = {"PlatformListingId": f"{resource.name[0]}{number:02}", "ListPrice": number}
        record |= {"Latitude": "47.5", "Longitude": "-122.3", "City": "Kent"}
        if number in _WITHHELD:
            record |= {_OPTED_OUT[0]: False, "ListPrice": self.seed, "City": f"City {self.seed}"}
            record |= {"ListingImages": [{"FullURL": f"City {at}"} for at in range(self.seed)]}
            record |= dict.fromkeys(("ListAgentFullName", "ListOfficeName"), f"Nobody {self.seed}")
            record["OpenHouse"] = [{"Date": f"2026-11-2{day}", "StartTime": "09:00:00"} for day in range(self.seed + 1)]
            if resource is LISTING:
                record["Status"] = ("Active", "Expired", "Pending")[self.seed % 3]
        if number in _PLACELESS:
            record |= {name: f"{name} {self.seed}" for name in ADDRESS_MEMBERS}
            record |= {_OPTED_OUT[1]: False, "Latitude": f"{40 + self.seed}", "Longitude": f"{-100 - self.seed}"}
        return envelope(resource, record, platform_company_id="a")

    async def build(self, bench: Bench, sold: Iterable[int] = range(_LISTINGS)) -> None:
        numbers: dict[Resource, Iterable[int]] = {LISTING: range(_LISTINGS), SOLD_LISTING: sold}
        lines = {resource: [self.record(resource, number) for number in some] for resource, some in numbers.items()}
        assert (await bench.build({COMPANY: [company("a")], **lines}, force=True)).exit_code == 0


async def _keys(bench: Bench) -> dict[str, str]:
    store = KeyStore(bench.client, bench.connection.keys_index)
    return {name: (await store.create(grant)).reveal() for name, grant in _GRANTS.items()}


async def test_installations_that_differ_in_what_is_hidden_look_the_same(bench: Bench) -> None:
    """Bodies and their lengths, ETags, hashes, digests, counts, order and positions, as JSON and as GeoJSON."""
    seen: list[dict[tuple[str, str], dict[str, Any]]] = []
    for seed in (1, 2):
        own = replace(bench, connection=replace(bench.connection, prefix=f"{bench.connection.prefix}{seed}"))
        await Hidden(seed).build(own)
        async with TestClient(TestServer(app.create_app(SETTINGS, own.connection))) as http:
            keys = (await _keys(own)).items()
            seen.append(
                {
                    (name, accept): await everything(Attacker(http, key, accept), paths)
                    for name, key in keys
                    for accept, paths in _PATHS_OF.items()
                }
            )
    for attacker, found in seen[0].items():
        for path in found:
            assert found[path] == seen[1][attacker][path], (attacker, path)
    assert re.search(r"\b(City|Address|TaxParcelId|Community) [12]\b", str(seen)) is None
    assert re.search(r"-10[12]\b", str(seen)) is None


class _Searched(ListingsParameters):
    city = Text("In a city.", clause=equals("city"))
    south = WholeNumber("Latitude or greater.", minimum=-90, maximum=90, clause=at_least("latitude"))
    north = WholeNumber("Latitude or less.", minimum=-90, maximum=90, clause=at_most("latitude"))
    elsewhere = Text("Not in a city.")


async def _elsewhere(call: RequestContext) -> list[Clause]:
    city = call.parameters["elsewhere"]
    return [] if city is None else [match_none(term("city", city))]


@pytest.fixture(scope="module")
async def searched(module_bench: Bench) -> AsyncIterator[Attacker]:
    """The service with filters by city and by latitude, as a later version may declare them; tests only read it."""
    rule = FilterRule(parameters=("elsewhere",), fields=("city",), clauses=_elsewhere)
    operation = Operation("/searched", _Searched(), WalkResponse(LISTING, (rule,)))
    await Hidden(7).build(module_bench, sold={3})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.app.OPERATIONS", (*OPERATIONS, operation))
        served = app.create_app(SETTINGS, module_bench.connection)
    async with TestClient(TestServer(served)) as http:
        yield Attacker(http, (await _keys(module_bench))["idx"])


_SHOWN = {f"L{number:02}" for number in range(_LISTINGS) if number not in _WITHHELD | _PLACELESS}
_NO_PLACE = {f"L{number:02}" for number in _PLACELESS}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("city=City 7", set()),
        ("city=Kent", _SHOWN),
        ("south=40&north=50", _SHOWN),
        ("south=-90", _SHOWN),
        ("elsewhere=Nowhere", _SHOWN),
        ("elsewhere=City 7", _SHOWN),
        ("", _SHOWN | _NO_PLACE),
    ],
)
async def test_hidden_addresses_match_no_filter_by_address(searched: Attacker, query: str, found: set[str]) -> None:
    path = f"searched?platform_company_id=a&updated_since=0&{quote(query, safe='=&')}"
    body = await searched.json(path)
    identifiers = {record["PlatformListingId"] for record in body["Listings"]}
    assert identifiers == found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("City eq 'City 7'", set()),
        ("City in ('City 7','Kent')", _SHOWN),
        ("City ne 'City 7'", _SHOWN | _NO_PLACE),
        ("City ne 'Kent'", _NO_PLACE),
        ("not (City eq 'City 7')", _SHOWN | _NO_PLACE),
        ("City eq null", _NO_PLACE),
        ("City ne null", _SHOWN),
        ("City eq 'City 7' or ListingKey eq 'L02'", {"L02"}),
        ("City in ('City 7',null)", _NO_PLACE),
        ("contains(City,'City')", set()),
        ("not startswith(City,'City')", _SHOWN | _NO_PLACE),
        ("tolower(City) eq 'city 7'", set()),
        ("tolower(City) ne 'kent'", _NO_PLACE),
        ("Latitude ge 47 and Latitude lt 48", _SHOWN),
        ("Latitude eq null", _NO_PLACE),
    ],
)
async def test_a_hidden_address_is_null_to_an_odata_filter(searched: Attacker, condition: str, found: set[str]) -> None:
    body = await searched.json(f"reso/Property?$count=true&$filter={quote(condition)}")
    assert {row["ListingKey"] for row in body["value"]} == found
    assert body["@odata.count"] == len(found)


@pytest.mark.parametrize("name", ["City", "Latitude desc", "ListPrice,PostalCode"])
async def test_an_order_does_not_tell_where_hidden_addresses_are(searched: Attacker, name: str) -> None:
    async with searched.http.get(
        "/v1/reso/Property", params={"$orderby": name}, headers={"x-api-key": searched.key}
    ) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize("to", ["", "/City", "/Media", "/Media/$count", "/ListAgent"])
async def test_a_withheld_listing_leads_nowhere(searched: Attacker, to: str) -> None:
    for key in ("L03", "S07", "nothing"):
        headers = {"x-api-key": searched.key}
        async with searched.http.get(f"/v1/reso/Property('{key}'){to}", headers=headers) as response:
            message = f"There is no Property with ListingKey '{key}'."
            assert (response.status, (await response.json())["error"]["message"]) == (404, message)


# Questions about a listing and its children, by key; `!` and what follows is the key of a child.
_QUESTIONS = (
    "Property?$filter=ListingKey in ('{key}','L01')&$expand=Media,OpenHouse,ListAgent&$count=true",
    "Property/$count?$filter=ListingKey eq '{key}' and Media/any()",
    "Property/$count?$filter=ListingKey ne '{key}' and not OpenHouse/any(o:o/OpenHouseDate ge 2026-01-01)",
    "Property/$count?$filter=Media/any(m:m/ResourceRecordKey eq '{key}')",
    "Property/$count?$filter=OpenHouse/any(o:o/OpenHouseKey eq '{key}!{house}')",
    "Property('{key}')/OpenHouse/$count?$filter=OpenHouseDate ge 2026-01-01",
    "Media?$filter=ResourceRecordKey eq '{key}'&$count=true",
    "Media?$filter=ResourceRecordKey eq '{key}' or ResourceRecordKey eq 'L01'&$count=true",
    "Media/$count?$filter=not (ResourceRecordKey eq '{key}')",
    "Media/$count?$filter=MediaKey in ('{key}!{photo}','L01!{photo}')",
    "Media/$count?$filter=MediaKey ne '{key}!{photo}'",
    "Media('{key}!{photo}')",
    "OpenHouse?$filter=ListingKey eq '{key}'&$orderby=OpenHouseDate desc&$count=true",
    "OpenHouse/$count?$filter=OpenHouseKey ne '{key}!{house}' and OpenHouseDate ge 2026-01-01",
    "OpenHouse('{key}!{house}')/OpenHouseDate",
)
_REQUEST_ID = re.compile(r'"request_id":"\w+"')
_PHOTO = hashlib.sha256(b"City 0").hexdigest()[:16]


@pytest.mark.parametrize("question", _QUESTIONS)
async def test_a_withheld_listing_and_its_children_look_like_unknown_ones(searched: Attacker, question: str) -> None:
    answers = set()
    for key in ("L03", "S03", "L99"):
        path = question.format(key=key, photo=_PHOTO, house="20261120T090000")
        url = f"/v1/reso/{quote(path, safe='/?&=$')}"
        async with searched.http.get(URL(url, encoded=True), headers={"x-api-key": searched.key}) as response:
            text = _REQUEST_ID.sub("", await response.text())
            answers.add((response.status, text.replace(quote(key), "").replace(key, "")))
    assert len(answers) == 1, answers
