"""What cannot be answered is refused in the words of OData, and nothing is ignored."""

import pytest

from service.http.requests import MAX_URL_BYTES as ELSEWHERE
from service.reso.protocol import MAX_RESO_URL_BYTES
from tests.odata.odata_client import ODataClient

_BAD = "invalid-parameter"
_NOT_HERE = "not-implemented"
_REFUSED = [
    # option, value, status, code
    ("$filter", "", 400, _BAD),
    ("$filter", "UnparsedAddress eq 'x'", 501, _NOT_HERE),
    ("$filter", "Heating eq 'Gas'", 400, _BAD),
    ("$filter", "Heating has 1", 400, _BAD),
    ("$filter", "City/any(x:x eq 'Kent')", 400, _BAD),
    ("$filter", "Heating/any(x:y eq 'Gas')", 400, _BAD),
    ("$filter", "Heating/any(x:x eq 1)", 400, _BAD),
    ("$filter", "Heating/all()", 400, _BAD),
    ("$filter", "Heating/any(x:x gt 'Gas')", 501, _NOT_HERE),
    ("$filter", "Heating/any(x:contains(x,'Gas'))", 501, _NOT_HERE),
    ("$filter", "ListAgent/MemberKey eq 'x'", 501, _NOT_HERE),
    ("$filter", "BedroomsTotal eq '3'", 400, _BAD),
    ("$filter", "ListPrice gt 2026-01-01", 400, _BAD),
    ("$filter", "CloseDate gt now()", 400, _BAD),
    ("$filter", "CloseDate gt now", 501, _NOT_HERE),
    ("$filter", "year(CloseDate) eq '2026'", 400, _BAD),
    ("$filter", "year(CloseDate) eq 9999", 400, _BAD),
    ("$filter", "month(CloseDate) eq 1", 501, _NOT_HERE),
    ("$filter", "year(BedroomsTotal) eq 1", 501, _NOT_HERE),
    ("$filter", "contains(City,1)", 400, _BAD),
    ("$filter", f"contains(City,'{'x' * 101}')", 400, _BAD),
    ("$filter", "contains(City,'x') eq 1", 400, _BAD),
    ("$filter", "contains(StandardStatus,'x')", 501, _NOT_HERE),
    ("$filter", "tolower(City) gt 'x'", 501, _NOT_HERE),
    ("$filter", "tolower(City) eq 'ü'", 501, _NOT_HERE),
    ("$filter", "not contains(City,'x') or not City eq 'x'", 400, _BAD),
    ("$filter", "Nothing eq 1", 400, _BAD),
    ("$filter", "listingkey eq 'x'", 400, _BAD),
    ("$filter", "ListingKey eq 1", 400, _BAD),
    ("$filter", "ListingKey eq x", 501, _NOT_HERE),
    ("$filter", "ListingKey = 'x'", 400, _BAD),
    ("$filter", "ListingKey eq 'x", 400, _BAD),
    ("$filter", "ListingKey in ()", 400, _BAD),
    ("$filter", "ListingKey in 'x'", 400, _BAD),
    ("$filter", "ListingKey in ('x', 1)", 400, _BAD),
    ("$filter", "not ListingKey eq 'x'", 400, _BAD),
    ("$filter", "(ListingKey eq 'x'", 400, _BAD),
    ("$filter", "ListingKey eq 'x') or (ListingKey eq 'y'", 400, _BAD),
    ("$filter", "ListingKey eq 'x' and", 400, _BAD),
    ("$filter", "ListingKey eq 3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a", 400, _BAD),
    ("$filter", "ListingKey eq 'a\x00b'", 400, _BAD),
    ("$filter", "StandardStatus eq 'Sold'", 400, _BAD),
    ("$filter", "StandardStatus gt 'Active'", 400, _BAD),
    ("$filter", "CoListAgentKey eq 'x'", 501, _NOT_HERE),
    ("$filter", "ModificationTimestamp gt 'x'", 400, _BAD),
    ("$filter", "ModificationTimestamp gt 2026-01-01", 400, _BAD),
    ("$filter", "ModificationTimestamp gt 2026-01-01T00:00:00", 400, _BAD),
    ("$filter", "ModificationTimestamp gt 2026-02-30T00:00:00Z", 400, _BAD),
    ("$filter", "CloseDate gt 2026-02-30", 400, _BAD),
    ("$filter", "contains(UnparsedAddress,'x')", 501, _NOT_HERE),
    ("$filter", "tolower(UnparsedAddress) eq 'x'", 501, _NOT_HERE),
    ("$filter", "Media/any(m:m/Order eq 1)", 501, _NOT_HERE),
    ("$filter", "ListPrice add 1 eq 2", 501, _NOT_HERE),
    ("$filter", "ListPrice eq 2 sub 1", 501, _NOT_HERE),
    ("$filter", "-ListPrice eq 2", 501, _NOT_HERE),
    ("$filter", "BedroomsTotal has 'x'", 400, _BAD),
    ("$filter", "ListingKey eq @key", 501, _NOT_HERE),
    ("$orderby", "UnparsedAddress", 501, _NOT_HERE),
    ("$orderby", "StandardStatus", 501, _NOT_HERE),
    ("$orderby", "Heating", 501, _NOT_HERE),
    ("$orderby", "Nothing", 400, _BAD),
    ("$orderby", "ListingKey up", 400, _BAD),
    ("$orderby", "ListingKey,ListingKey desc", 400, _BAD),
    ("$orderby", "length(City)", 501, _NOT_HERE),
    ("$orderby", "", 400, _BAD),
    ("$select", "Nothing", 400, _BAD),
    ("$select", "City,", 400, _BAD),
    ("$select", "Media/MediaURL", 501, _NOT_HERE),
    ("$top", "x", 400, _BAD),
    ("$top", "-1", 400, _BAD),
    ("$top", "1.5", 400, _BAD),
    ("$skip", "10001", 400, _BAD),
    ("$skip", "-1", 400, _BAD),
    ("$count", "yes", 400, _BAD),
    ("$skiptoken", "x", 400, _BAD),
    ("$skiptoken", "not a token", 400, _BAD),
    ("$expand", "Nothing", 400, _BAD),
    ("$expand", "Media,Media", 400, _BAD),
    ("$expand", "Media(", 400, _BAD),
    ("$expand", "Media,", 400, _BAD),
    ("$expand", "", 400, _BAD),
    ("$expand", "Media($select=Nothing)", 400, _BAD),
    ("$expand", "Media($top=1)", 501, _NOT_HERE),
    ("$expand", "Media($select=Order;$filter=contains(MediaURL,'x'))", 501, _NOT_HERE),
    ("$expand", "ListAgent($expand=Media)", 501, _NOT_HERE),
    ("$expand", "*", 501, _NOT_HERE),
    ("$expand", "Media/$count", 501, _NOT_HERE),
    ("$format", "xml", 406, "not-acceptable"),
    ("$format", "atom", 406, "not-acceptable"),
    ("$format", "application/json;odata.metadata=full", 406, "not-acceptable"),
    ("$filter", "length(City) gt 3", 501, _NOT_HERE),
    ("$search", "x", 501, _NOT_HERE),
    ("$apply", "aggregate(x)", 501, _NOT_HERE),
    ("$compute", "x", 501, _NOT_HERE),
    ("$nothing", "x", 400, _BAD),
    ("filter", "ListingKey eq 'x'", 400, _BAD),
    ("platform_company_id", "summit-crest", 400, _BAD),
]


@pytest.mark.parametrize(("option", "value", "status", "code"), _REFUSED)
async def test_what_cannot_be_used_is_named(
    odata: ODataClient, option: str, value: str, status: int, code: str
) -> None:
    reply = await odata.request((odata.root / "Property").with_query({option: value}))
    assert reply.problem == (status, code, option)
    error = reply.body["error"]
    assert error["message"].startswith(f"{option}: ")
    assert [each["target"] for each in error["details"]] == [option]
    assert (reply.headers["Content-Type"], reply.headers["OData-Version"]) == (
        "application/json",
        "4.01",
    )


async def test_an_unfilterable_property_is_refused_with_the_filterable_ones(odata: ODataClient) -> None:
    for option, value in (("filter", "UnparsedAddress eq 'x'"), ("orderby", "UnparsedAddress")):
        reply = await odata.get("Property", **{option: value})
        assert "ModificationTimestamp" in reply.body["error"]["message"]
    reply = await odata.get("Property", filter="StandardStatus eq 'Nothing'")
    assert "Active Under Contract" in reply.body["error"]["message"]


@pytest.mark.parametrize("option", ["ResourceRecordUrl eq 'x'", "Nothing eq 'x'", "EntityEventSequence eq 'x'"])
async def test_events_are_found_by_what_they_have(odata: ODataClient, option: str) -> None:
    assert (await odata.get("EntityEvent", filter=option)).problem == (400, _BAD, "$filter")


async def test_a_token_of_another_question_is_refused(odata: ODataClient) -> None:
    page = await odata.page("Property", "all", {"Prefer": "maxpagesize=1"}, filter="ListingKey gt '1'")
    token = page["@odata.nextLink"].rpartition("=")[2]
    for options in ({}, {"filter": "ListingKey gt '2'"}, {"filter": "ListingKey gt '1'", "orderby": "ListingKey desc"}):
        assert (await odata.get("Property", skiptoken=token, **options)).problem == (400, _BAD, "$skiptoken")
    asked = {"filter": "ListingKey gt '1'", "skiptoken": token}
    assert (await odata.get("Member", **asked)).status == 400
    assert (await odata.get("Property", **asked, skip=1)).problem == (400, _BAD, "$skip")
    assert (await odata.get("Property", **asked)).status == 200


async def test_options_of_a_collection_are_none_of_one_entity(odata: ODataClient) -> None:
    key = (await odata.page("Property", top=1))["value"][0]["ListingKey"]
    reply = await odata.request((odata.root / f"Property('{key}')").with_query({"$top": "1"}))
    assert reply.problem == (501, _NOT_HERE, "$top")
    reply = await odata.request((odata.root / f"Property('{key}')").with_query({"$select": "City"}))
    assert reply.body.keys() == {"@odata.context", "ListingKey", "City"}


@pytest.mark.parametrize(
    "path", ["Property('nothing')", "Property(nothing)", "Showing", "Property/x", "EntityEvent(x)"]
)
async def test_what_is_not_there_is_not_found(odata: ODataClient, path: str) -> None:
    assert (await odata.request(path)).problem == (404, "not-found", "")


_PATHS = [
    "",
    "$metadata",
    "EntityEvent",
    "EntityEvent('1')",
    "Property",
    "Property('x')",
    "Member",
    "Office",
    "Teams('x')",
]


@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_nothing_is_written(odata: ODataClient, path: str, method: str) -> None:
    for data in (None, b"{}"):
        reply = await odata.request(path, "all", None, method, data)
        assert reply.problem == (405, "method-not-allowed", "")
        assert reply.headers["Allow"] == "GET, HEAD, OPTIONS"
        assert reply.headers["OData-Version"] == "4.01"


@pytest.mark.parametrize("path", _PATHS)
async def test_without_a_key_nothing_is_returned(odata_over_socket: ODataClient, path: str) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer bk_0000000000_x"},
        {"Authorization": f"Basic {odata_over_socket.keys['all']}"},
    ):
        reply = await odata_over_socket.request(path, None, headers)
        assert reply.problem == (401, "unauthorized", "")
        assert reply.headers["WWW-Authenticate"].startswith("Bearer ")


async def test_a_key_comes_as_a_bearer_token_here_alone(odata_over_socket: ODataClient) -> None:
    key, other = odata_over_socket.keys["all"], odata_over_socket.keys["two"]
    for headers in (
        {"Authorization": f"bearer {key}"},
        {"x-api-key": key},
        {"Authorization": f"Bearer {key}", "x-api-key": key},
    ):
        assert (await odata_over_socket.request("Teams", None, headers)).status == 200
    assert (
        await odata_over_socket.request("Teams", None, {"Authorization": f"Bearer {key}", "x-api-key": other})
    ).status == 401
    assert (
        await odata_over_socket.request((odata_over_socket.root / "Teams").with_query({"api-key": key}), None)
    ).status == 200
    elsewhere = odata_over_socket.root.parent / "teams"
    assert (await odata_over_socket.request(elsewhere, None, {"Authorization": f"Bearer {key}"})).status == 401
    assert (await odata_over_socket.request(elsewhere, None, {"x-api-key": key})).status == 200


async def test_a_client_of_an_earlier_version_gets_that(odata: ODataClient) -> None:
    for path in ("Teams", "nothing"):
        assert (await odata.request(path, "all", {"OData-MaxVersion": "4.0"})).headers["OData-Version"] == "4.0"
        assert (await odata.request(path, "all", {"OData-MaxVersion": "4.01"})).headers["OData-Version"] == "4.01"


@pytest.mark.parametrize(("path", "most"), [("Property", MAX_RESO_URL_BYTES), ("../teams", ELSEWHERE)])
async def test_long_urls_are_taken_here_and_not_elsewhere(odata_over_socket: ODataClient, path: str, most: int) -> None:
    for more, status in ((0, 400), (1, 414)):
        url = odata_over_socket.root / path if path == "Property" else odata_over_socket.root.parent / "teams"
        url = url.with_query({"x": "x" * (most + more - len(url.raw_path) - len("?x="))})
        reply = await odata_over_socket.request(url, None, {"x-api-key": odata_over_socket.keys["all"]})
        assert reply.status == status
        assert ("error" in reply.body) is (path == "Property")


async def test_head_has_the_headers_of_get(odata: ODataClient) -> None:
    reported = await odata.request("Teams", method="GET")
    head = await odata.request("Teams", method="HEAD")
    assert (head.status, head.raw) == (200, b"")
    assert {name: head.headers[name] for name in ("ETag", "OData-Version", "Vary")} == {
        name: reported.headers[name] for name in ("ETag", "OData-Version", "Vary")
    }
    again = await odata.request("Teams", "all", {"If-None-Match": reported.headers["ETag"]})
    assert (again.status, again.headers["OData-Version"]) == (304, "4.01")
