"""What programs send, request by request, and what they need of the answers.

Headers and options in the order of each program, from public records of them:

- Power Query (Excel, Power BI): NLstn/go-odata issue 874, microsoft/DataConnectors issue 107; Microsoft's page on query
  folding. Related tables are selected and expanded, or read by path.
- Excel's OData connection of before Power Query, and Tableau: their documentation, and pofider/node-simple-odata-server
  pull request 10.
- The OData client of .NET: `DataServiceClientFormat` in OData/odata.net, which wants full metadata with `$select`.
- UI5's ODataModel of version 4, with `groupId: "$direct"`: `_Requestor` in SAP/openui5, issues 2288, 2686 and 2764.
- DevExtreme's ODataStore: flat3/lodata pull request 82.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from tests.contract.world import World
from tests.odata.expected_entities import expected_entities
from tests.odata.odata_client import ODataClient

_JSON, _XML, _TEXT = "application/json", "application/xml", "text/plain"
_FULL, _MINIMAL = f"{_JSON};odata.metadata=full", f"{_JSON};odata.metadata=minimal"
_LONG = f"{_MINIMAL};IEEE754Compatible=true"
_POWER_QUERY = {
    "Accept": (
        "application/json;odata.metadata=minimal;q=1.0,application/json;odata=minimalmetadata;q=0.9,"
        "application/atomsvc+xml;q=0.8,application/atom+xml;q=0.8,application/xml;q=0.7,text/plain;q=0.7"
    ),
    "OData-MaxVersion": "4.0",
    "MaxDataServiceVersion": "3.0",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "Microsoft.Data.Mashup (https://go.microsoft.com/fwlink/?LinkID=304225)",
}
_EXCEL = {
    "Accept": "application/atom+xml,application/json;q=0.8,*/*;q=0.1",
    "OData-MaxVersion": "4.0",
    "MaxDataServiceVersion": "3.0;NetFx",
}
_TABLEAU = {"Accept": _MINIMAL, "OData-MaxVersion": "4.0"}
_DOTNET = {
    "Accept": _MINIMAL,
    "Accept-Charset": "UTF-8",
    "OData-Version": "4.0",
    "OData-MaxVersion": "4.0",
    "User-Agent": "Microsoft.OData.Client/7.20.0",
}
_UI5 = {
    "Accept": _LONG,
    "Content-Type": "application/json;charset=UTF-8;IEEE754Compatible=true",
    "OData-MaxVersion": "4.0",
    "OData-Version": "4.0",
    "X-CSRF-Token": "Fetch",
    "Origin": "http://localhost:8080",
}
_DEVEXTREME = {
    "Accept": "application/json;odata=verbose,text/plain, */*; q=0.01",
    "X-Requested-With": "XMLHttpRequest",
    "Accept-Language": "es-ES,es;q=0.9,en;q=0.8,fr;q=0.7",
}
_IN_PAGES = {**_POWER_QUERY, "Prefer": "odata.maxpagesize=500"}
_FOUND = "$filter=ListPrice ge 500000 and StandardStatus eq 'Active'"


class _Request(NamedTuple):
    """A request, and what the answer is, in one line; `{key}` is that of a property."""

    headers: Mapping[str, str]
    target: str
    content_type: str
    method: str = "GET"


_REQUESTS = {
    # The service, its types, a preview of 1,000 rows, then the steps of the query as options.
    "Power Query": [
        _Request(_POWER_QUERY, "", _JSON),
        _Request(_POWER_QUERY, "$metadata", _XML),
        _Request({**_POWER_QUERY, "Accept": _XML}, "$metadata", _XML),
        _Request(_POWER_QUERY, "Property?$top=1000", _JSON),
        _Request(_POWER_QUERY, "Property?$select=ListingKey,ListPrice,City&$top=1000", _JSON),
        _Request(_POWER_QUERY, f"Property?{_FOUND}&$orderby=ListPrice desc,ListingKey&$top=20", _JSON),
        _Request(_POWER_QUERY, "Property?$filter=startswith(City,'S') and ListPrice lt 700000&$top=20", _JSON),
        _Request(_POWER_QUERY, "Property?$filter=contains(City,'e') eq true&$select=City&$top=20", _JSON),
        _Request(_POWER_QUERY, "Property?$filter=year(ListingContractDate) eq 2026&$top=20", _JSON),
        _Request(_POWER_QUERY, "Property?$expand=Media($select=MediaURL)&$select=ListingKey,Media&$top=20", _JSON),
        _Request(_POWER_QUERY, "Property?$select=ListingKey,ListAgent&$expand=ListAgent&$top=20", _JSON),
        _Request(_POWER_QUERY, "Property('{key}')/Media?$top=1000", _JSON),
        _Request(_POWER_QUERY, "Property('{key}')/ListOffice", _JSON),
        _Request(_POWER_QUERY, "Property?$count=true&$top=0", _JSON),
        _Request(_POWER_QUERY, f"Property/$count?{_FOUND}", _TEXT),
        _Request(_POWER_QUERY, "Property?$skip=20&$top=20", _JSON),
        _Request(_IN_PAGES, "Property", _JSON),
    ],
    "Excel": [
        _Request(_EXCEL, "", _JSON),
        _Request(_EXCEL, "$metadata", _XML),
        _Request(_EXCEL, "Property?$top=100", _JSON),
    ],
    "Tableau": [
        _Request(_TABLEAU, "", _JSON),
        _Request(_TABLEAU, "$metadata?$format=application/xml", _XML),
        _Request(_TABLEAU, "Property?$format=json&$top=10", _JSON),
        _Request(_TABLEAU, "Property?$count=true&$top=10&$skip=0", _JSON),
    ],
    ".NET": [
        _Request({**_DOTNET, "Accept": _XML}, "$metadata", _XML),
        _Request(_DOTNET, "Property?$filter=ListPrice gt 500000&$orderby=ListPrice&$top=10", _JSON),
        _Request({**_DOTNET, "Accept": _FULL}, "Property?$select=ListingKey,ListPrice&$top=10", _FULL),
        _Request({**_DOTNET, "Accept": _FULL}, "Property?$expand=Media,ListAgent&$select=City,Media&$top=5", _FULL),
        _Request({**_DOTNET, "Accept": _FULL}, "Property('{key}')?$select=ListingKey,ListPrice", _FULL),
        _Request(_DOTNET, "Property('{key}')/Media", _JSON),
        _Request(_DOTNET, "Property('{key}')/ListOffice", _JSON),
        _Request(_DOTNET, "Property('{key}')/ListPrice", _JSON),
        _Request({**_DOTNET, "Accept": _TEXT}, "Property/$count", _TEXT),
        _Request({**_DOTNET, "Accept": _TEXT}, "Property('{key}')/Media/$count", _TEXT),
    ],
    "UI5": [
        _Request(_UI5, "", _LONG, "HEAD"),
        _Request({"Accept": "*/*", "Accept-Language": "en"}, "$metadata", _XML),
        _Request(_UI5, "Property?$count=true&$orderby=City,ListPrice&$select=City,ListPrice&$skip=0&$top=100", _LONG),
        _Request(_UI5, "Property?$filter=ListPrice ge 500000&$select=City,ListingKey&$skip=20&$top=20", _LONG),
        _Request(_UI5, "Property('{key}')?$select=City,ListingKey&$expand=ListAgent($select=MemberKey)", _LONG),
        _Request(_UI5, "Property('{key}')/Media?$select=MediaKey,MediaURL&$skip=0&$top=100", _LONG),
        _Request(_UI5, "Property('{key}')/ListPrice", _LONG),
    ],
    "DevExtreme": [
        _Request(_DEVEXTREME, "Property?$top=20&$count=true", _JSON),
        _Request(_DEVEXTREME, "Property?$orderby=ListPrice desc&$skip=20&$top=20&$select=City,ListPrice", _JSON),
        _Request(_DEVEXTREME, "Property?$filter=(ListPrice ge 500000) and (contains(tolower(City),'e'))&$top=2", _JSON),
    ],
}
_ROWS = {f"{program} {asked.target}": asked for program, requests in _REQUESTS.items() for asked in requests}


@pytest.mark.parametrize("asked", _ROWS.values(), ids=_ROWS)
async def test_requests_of_programs_are_answered(odata: ODataClient, asked: _Request) -> None:
    [row] = (await odata.page("Property", filter="ListAgentKey ne null", top=1))["value"]
    path, _, query = asked.target.replace("{key}", row["ListingKey"]).partition("?")
    url = (odata.root / path if path else odata.root / "").with_query(query)
    key = odata.keys["all"]
    sign_in = {"Authorization": f"Basic {b64encode(f'{key[3:13]}:{key[14:]}'.encode()).decode()}"}
    reply = await odata.request(url, None, {**asked.headers, **sign_in}, asked.method)
    assert reply.status == 200, reply.raw
    assert reply.headers["OData-Version"] == asked.headers.get("OData-MaxVersion", "4.01")
    assert reply.headers["Content-Type"].removesuffix("; charset=utf-8") == asked.content_type
    if asked.content_type.startswith(_JSON) and asked.method == "GET":
        assert reply.body["@odata.context"].startswith(f"{odata.root}/$metadata")
        assert [name for name in _control_names(reply.body) if not name.startswith("@odata.")] == []
    if "Prefer" in asked.headers:
        assert reply.headers["Preference-Applied"] == asked.headers["Prefer"]


def _control_names(value: Any) -> Iterator[str]:
    """Yield the names of control information, without the property that they are about."""
    if isinstance(value, dict):
        yield from (f"@{name.partition('@')[2]}" for name in value if "@" in name)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _control_names(inner)


async def test_a_spreadsheet_loads_every_row_once(world: World, odata: ODataClient) -> None:
    """From the service document over the metadata to the last page, as Power Query does it."""
    document = (await odata.request(odata.root / "", "all", _POWER_QUERY)).body
    [url] = [entry["url"] for entry in document["value"] if entry["name"] == "Property"]
    metadata = ET.fromstring((await odata.request("$metadata", "all", _POWER_QUERY)).raw)  # noqa: S314 - our own service
    columns = {
        str(element.get("Name"))
        for entity in metadata.iter("{http://docs.oasis-open.org/odata/ns/edm}EntityType")
        if entity.get("Name") == "Property"
        for element in entity.iter("{http://docs.oasis-open.org/odata/ns/edm}Property")
    }
    rows = await odata.walk(url, "all", _IN_PAGES)
    assert [row["ListingKey"] for row in rows] == [item["ListingKey"] for item in expected_entities(world, "Property")]
    assert all(value.keys() == columns for value in rows)
