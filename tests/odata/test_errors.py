"""What cannot be answered is refused in the words of OData, and nothing is ignored."""

import pytest

from service.http.requests import MAX_URL_BYTES as ELSEWHERE
from service.reso.protocol import MAX_RESO_URL_BYTES
from tests.odata.odata_client import ODataClient

_BAD = "invalid-parameter"
_NOT_HERE = "not-implemented"
# Values by option, status and code.
_REFUSED: dict[tuple[str, int, str], tuple[str, ...]] = {
    ("$filter", 400, _BAD): (
        *("", "Heating eq 'Gas'", "Heating has 1", "City/any(x:x eq 'Kent')", "Heating/any(x:y eq 'Gas')"),
        *("Heating/any(x:x eq 1)", "Heating/all()", "BedroomsTotal eq '3'", "ListPrice gt 2026-01-01"),
        *("CloseDate gt now()", "year(CloseDate) eq '2026'", "year(CloseDate) eq 9999", "contains(City,1)"),
        *(f"contains(City,'{'x' * 101}')", "contains(City,'x') eq 1"),
        *("not contains(City,'x') or not City eq 'x'", "Nothing eq 1", "listingkey eq 'x'", "ListingKey eq 1"),
        *("ListingKey = 'x'", "ListingKey eq 'x", "ListingKey in ()", "ListingKey in 'x'"),
        *("ListingKey in ('x', 1)", "not ListingKey eq 'x'", "(ListingKey eq 'x'"),
        *("ListingKey eq 'x') or (ListingKey eq 'y'", "ListingKey eq 'x' and"),
        *("ListingKey eq 3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a", "ListingKey eq 'a\x00b'"),
        *("StandardStatus eq 'Sold'", "StandardStatus gt 'Active'", "ModificationTimestamp gt 'x'"),
        *("ModificationTimestamp gt 2026-01-01", "ModificationTimestamp gt 2026-01-01T00:00:00"),
        *("ModificationTimestamp gt 2026-02-30T00:00:00Z", "CloseDate gt 2026-02-30", "BedroomsTotal has 'x'"),
    ),
    ("$filter", 501, _NOT_HERE): (
        *("UnparsedAddress eq 'x'", "Heating/any(x:x gt 'Gas')", "Heating/any(x:contains(x,'Gas'))"),
        *("ListAgent/MemberKey eq 'x'", "CloseDate gt now", "month(CloseDate) eq 1"),
        *("year(BedroomsTotal) eq 1", "contains(StandardStatus,'x')", "tolower(City) gt 'x'"),
        *("tolower(City) eq 'ü'", "ListingKey eq x", "CoListAgentKey eq 'x'", "contains(UnparsedAddress,'x')"),
        *("tolower(UnparsedAddress) eq 'x'", "Media/any(m:m/Order eq 1)", "ListPrice add 1 eq 2"),
        *("ListPrice eq 2 sub 1", "-ListPrice eq 2", "ListingKey eq @key", "length(City) gt 3"),
    ),
    ("$orderby", 501, _NOT_HERE): ("UnparsedAddress", "StandardStatus", "Heating", "length(City)"),
    ("$orderby", 400, _BAD): ("Nothing", "ListingKey up", "ListingKey,ListingKey desc", ""),
    ("$select", 400, _BAD): ("Nothing", "City,"),
    ("$select", 501, _NOT_HERE): ("Media/MediaURL",),
    ("$top", 400, _BAD): ("x", "-1", "1.5"),
    ("$skip", 400, _BAD): ("10001", "-1"),
    ("$count", 400, _BAD): ("yes",),
    ("$skiptoken", 400, _BAD): ("x", "not a token"),
    ("$expand", 400, _BAD): ("Nothing", "Media,Media", "Media(", "Media,", "", "Media($select=Nothing)"),
    ("$expand", 501, _NOT_HERE): (
        *("Media($top=1)", "Media($select=Order;$filter=contains(MediaURL,'x'))", "ListAgent($expand=Media)"),
        *("*", "Media/$count"),
    ),
    ("$format", 406, "not-acceptable"): ("xml", "atom", "application/json;odata.metadata=verbose"),
    ("$search", 501, _NOT_HERE): ("x",),
    ("$apply", 501, _NOT_HERE): ("aggregate(x)",),
    ("$compute", 501, _NOT_HERE): ("x",),
    ("$nothing", 400, _BAD): ("x",),
    ("filter", 400, _BAD): ("ListingKey eq 'x'",),
    ("platform_company_id", 400, _BAD): ("summit-crest",),
}
_ROWS = [(option, value, (status, code)) for (option, status, code), values in _REFUSED.items() for value in values]


@pytest.mark.parametrize(("option", "value", "expected"), _ROWS)
async def test_what_cannot_be_used_is_named(
    odata: ODataClient, option: str, value: str, expected: tuple[int, str]
) -> None:
    reply = await odata.request((odata.root / "Property").with_query({option: value}))
    assert reply.problem == (*expected, option)
    error = reply.body["error"]
    assert error["message"].startswith(f"{option}: ")
    assert [row["target"] for row in error["details"]] == [option]
    assert (reply.headers["Content-Type"], reply.headers["OData-Version"]) == ("application/json", "4.01")


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


_PATHS = ["", "$metadata", "EntityEvent", "EntityEvent('1')", "Property('x')", "Member", "Teams('x')"]


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
    for authorization in (None, "Bearer bk_0000000000_x", f"Basic {odata_over_socket.keys['all']}"):
        headers = {"Authorization": authorization} if authorization else {}
        reply = await odata_over_socket.request(path, None, headers)
        assert reply.problem == (401, "unauthorized", "")
        assert reply.headers["WWW-Authenticate"].startswith("Bearer ")


async def test_a_key_comes_as_a_bearer_token_here_alone(odata_over_socket: ODataClient) -> None:
    client = odata_over_socket
    key, other = client.keys["all"], client.keys["two"]
    here, elsewhere, with_key = client.root / "Teams", client.root.parent / "teams", f"Bearer {key}"
    for url, headers, status in (
        (here, {"Authorization": f"bearer {key}"}, 200),
        (here, {"x-api-key": key}, 200),
        (here, {"Authorization": with_key, "x-api-key": key}, 200),
        (here, {"Authorization": with_key, "x-api-key": other}, 401),
        (here.with_query({"api-key": key}), {}, 200),
        (elsewhere, {"Authorization": with_key}, 401),
        (elsewhere, {"x-api-key": key}, 200),
    ):
        assert (await client.request(url, None, headers)).status == status, (url, headers)


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
