"""What Excel, Power BI and Tableau send, request by request, and what they need of the answers.

Headers and options as Power Query's `OData.Feed` (Microsoft.OData for .NET), Excel's OData connection of before Power
Query, and Tableau's OData connector send them, in their order.
"""

from collections.abc import Mapping
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from tests.contract.world import World
from tests.odata.expected_entities import expected_entities
from tests.odata.odata_client import ODataClient

_POWER_QUERY = {
    "Accept": (
        "application/json;odata.metadata=minimal;q=1.0,application/json;odata=minimalmetadata;q=0.9,"
        "application/atomsvc+xml;q=0.8,application/atom+xml;q=0.8,application/xml;q=0.7,text/plain;q=0.7"
    ),
    "OData-MaxVersion": "4.0",
    "OData-Version": "4.0",
    "MaxDataServiceVersion": "3.0",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "Microsoft.Data.Mashup (https://go.microsoft.com/fwlink/?LinkID=304225)",
}
_EXCEL = {
    "Accept": "application/atom+xml,application/json;q=0.8,*/*;q=0.1",
    "OData-MaxVersion": "4.0",
    "MaxDataServiceVersion": "3.0;NetFx",
}
_TABLEAU = {"Accept": "application/json;odata.metadata=minimal", "OData-MaxVersion": "4.0"}
_IN_PAGES = {**_POWER_QUERY, "Prefer": "odata.maxpagesize=500"}
_FOUND = "$filter=ListPrice ge 500000 and StandardStatus eq 'Active'"


class _Request(NamedTuple):
    """A request, and what the answer is, in one line."""

    headers: Mapping[str, str]
    target: str
    content_type: str


_REQUESTS = [
    # Power BI and Excel (Power Query): the service, its types, a preview of 1,000 rows, then the query as options.
    _Request(_POWER_QUERY, "", "application/json"),
    _Request(_POWER_QUERY, "$metadata", "application/xml"),
    _Request({**_POWER_QUERY, "Accept": "application/xml"}, "$metadata", "application/xml"),
    _Request(_POWER_QUERY, "Property?$top=1000", "application/json"),
    _Request(_POWER_QUERY, "Property?$select=ListingKey,ListPrice,City&$top=1000", "application/json"),
    _Request(_POWER_QUERY, f"Property?{_FOUND}&$orderby=ListPrice desc,ListingKey&$top=20", "application/json"),
    _Request(_POWER_QUERY, "Property?$filter=startswith(City,'S') and ListPrice lt 700000&$top=20", "application/json"),
    _Request(_POWER_QUERY, "Property?$filter=contains(City,'e') eq true&$select=City&$top=20", "application/json"),
    _Request(_POWER_QUERY, "Property?$filter=year(ListingContractDate) eq 2026&$top=20", "application/json"),
    _Request(_POWER_QUERY, "Property?$count=true&$top=0", "application/json"),
    _Request(_POWER_QUERY, f"Property/$count?{_FOUND}", "text/plain"),
    _Request(_POWER_QUERY, "Property?$skip=20&$top=20", "application/json"),
    _Request(_IN_PAGES, "Property", "application/json"),
    # Excel's OData connection of before Power Query.
    _Request(_EXCEL, "", "application/json"),
    _Request(_EXCEL, "$metadata", "application/xml"),
    _Request(_EXCEL, "Property?$top=100", "application/json"),
    # Tableau.
    _Request(_TABLEAU, "$metadata?$format=application/xml", "application/xml"),
    _Request(_TABLEAU, "Property?$format=json&$top=10", "application/json"),
    _Request(_TABLEAU, "Property?$count=true&$top=10&$skip=0", "application/json"),
]


@pytest.mark.parametrize("asked", _REQUESTS, ids=lambda asked: asked.target or "service document")
async def test_requests_of_spreadsheets_are_answered(odata: ODataClient, asked: _Request) -> None:
    path, _, query = asked.target.partition("?")
    url = (odata.root / path if path else odata.root / "").with_query(query)
    reply = await odata.request(url, "all", asked.headers)
    assert reply.status == 200, reply.raw
    assert reply.headers["OData-Version"] == "4.0"
    assert reply.headers["Content-Type"].partition(";")[0] == asked.content_type
    if asked.content_type == "application/json":
        assert reply.body["@odata.context"].startswith(f"{odata.root}/$metadata")
    if "Prefer" in asked.headers:
        assert reply.headers["Preference-Applied"] == asked.headers["Prefer"]


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
