"""`$filter` matches exactly: handwritten cases, and random filters compared with an evaluation of every record."""

from collections.abc import Callable
from typing import Any

import pytest

from service.reso.filter.parser import MAX_COMPARISONS, MAX_NESTING_DEPTH
from tests.contract.world import World
from tests.internals import Internals
from tests.odata.expected_entities import KEYS, expected_entities
from tests.odata.filter_strategies import Searched, comparisons, examples, filter_expressions, quoted
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient

Holds = Callable[[dict[str, Any]], bool]

_DAY = "2026-07-01T00:00:00Z"
_LATE: Holds = lambda row: row["ModificationTimestamp"] > _DAY  # noqa: E731 - a table of them follows
_CLOSED: Holds = lambda row: row["StandardStatus"] == "Closed"  # noqa: E731
_KEY, _STATUS, _TYPE, _CLOSE = "ListingKey", "StandardStatus", "PropertyType", "CloseDate"
_TABLE: list[tuple[str, Holds]] = [
    ("StandardStatus eq 'Active'", lambda row: row[_STATUS] == "Active"),
    ("StandardStatus eq 'ActiveUnderContract'", lambda row: row[_STATUS] == "Active Under Contract"),
    ("StandardStatus ne 'Closed'", lambda row: row[_STATUS] != "Closed"),
    ("StandardStatus in ('Hold')", lambda row: row[_STATUS] == "Hold"),
    (
        "StandardStatus in ('Hold','Closed', 'Coming Soon')",
        lambda row: row[_STATUS] in {"Hold", "Closed", "Coming Soon"},
    ),
    ("StandardStatus eq 'Delete'", lambda _: False),
    ("StandardStatus eq null", lambda row: row[_STATUS] is None),
    ("PropertyType eq 'Residential'", lambda row: row[_TYPE] == "Residential"),
    ("PropertyType ne 'Residential'", lambda row: row[_TYPE] != "Residential"),
    ("PropertyType eq null", lambda row: row[_TYPE] is None),
    ("ModificationTimestamp gt 2026-07-01T00:00:00Z", _LATE),
    ("ModificationTimestamp gt 2026-07-01T02:00:00+02:00", _LATE),
    # As it arrives when `+` is not encoded.
    ("ModificationTimestamp gt 2026-07-01T02:00:00 02:00", _LATE),
    ("not (2026-07-01T00:00:00.000 00:00 ge ModificationTimestamp)", _LATE),
    ("ModificationTimestamp ge 2026-06-30T23:59:59.999999999Z", _LATE),
    ("not (ModificationTimestamp le 2026-07-01T00:00:00.0000Z)", _LATE),
    ("2026-07-01T00:00:00Z lt ModificationTimestamp", _LATE),
    ("ModificationTimestamp gt null", lambda _: False),
    ("ModificationTimestamp eq null", lambda _: False),
    ("ModificationTimestamp ne null", lambda _: True),
    (
        "CloseDate ge 2026-06-01 and CloseDate lt 2026-09-01",
        lambda row: "2026-06-01" <= (row[_CLOSE] or "") < "2026-09-01",
    ),
    ("CloseDate eq null", lambda row: row[_CLOSE] is None),
    ("not (CloseDate gt 2026-06-01)", lambda row: (row[_CLOSE] or "") <= "2026-06-01"),
    ("BuyerAgentKey ne null", lambda row: row["BuyerAgentKey"] is not None),
    (
        "BuyerOfficeKey eq null and StandardStatus eq 'Closed'",
        lambda row: row["BuyerOfficeKey"] is None and _CLOSED(row),
    ),
    ("ListOfficeKey eq 'no such office'", lambda _: False),
    (
        "ListingKey gt '8' and ListingKey le 'c' or StandardStatus eq 'Hold'",
        lambda row: "8" < row[_KEY] <= "c" or row[_STATUS] == "Hold",
    ),
    (
        "ListingKey gt '8' and (ListingKey le 'c' or StandardStatus eq 'Hold')",
        lambda row: row[_KEY] > "8" and (row[_KEY] <= "c" or row[_STATUS] == "Hold"),
    ),
    (
        "NOT (StandardStatus EQ 'Closed') AND not not (PropertyType Eq 'Land')",
        lambda row: not _CLOSED(row) and row[_TYPE] == "Land",
    ),
    (" \t( ( StandardStatus  eq\t'Closed' ) ) ", _CLOSED),
    ("ListingKey eq 'it''s'", lambda _: False),
    ("ListingKey eq ''", lambda _: False),
]


async def _keys(odata: ODataClient, name: str, text: str, key: str = "all") -> list[str]:
    page = await odata.page(name, key, MAX_PAGE_SIZE_PREFERENCE, filter=text, count="true", select=KEYS[name])
    found: list[str] = [row[KEYS[name]] for row in page["value"]]
    while link := page.get("@odata.nextLink"):
        page = await odata.follow(link, key)
        found += [entity[KEYS[name]] for entity in page["value"]]
    assert page["@odata.count"] == len(found)
    return found


@pytest.fixture(autouse=True)
def _filters_of_any_cost(internals: Internals) -> None:
    """Random filters are not cheap; `tests/service/limits/test_costs.py` states the bound."""
    internals(odata_most_cost=10_000)


@pytest.mark.parametrize(("text", "holds"), _TABLE, ids=lambda value: value if isinstance(value, str) else "")
async def test_a_filter_means_what_odata_says(world: World, odata: ODataClient, text: str, holds: Holds) -> None:
    expected = [row["ListingKey"] for row in expected_entities(world, "Property") if holds(row)]
    assert await _keys(odata, "Property", text) == expected


def test_the_table_distinguishes_records(world: World) -> None:
    everything = expected_entities(world, "Property")
    counts = [sum(map(holds, everything)) for _, holds in _TABLE]
    assert sum(0 < count < len(everything) for count in counts) > 20


_PROPERTY = Searched(
    texts=(
        *("StandardStatus", "PropertyType", "ListOfficeKey", "ListAgentKey", "BuyerAgentKey", "BuyerOfficeKey"),
        "ListOfficeMlsId",
    ),
    ordered=("ListingKey",),
    moments=("ModificationTimestamp", "OriginalEntryTimestamp"),
    days=("CloseDate", "ListingContractDate"),
    numbers=("BedroomsTotal", "ListPrice", "ClosePrice", "Latitude", "LotSizeAcres", "YearBuilt"),
    flags=("WaterfrontYN", "PoolPrivateYN", "NewConstructionYN"),
    patterns=("City", "PostalCode", "ListAgentFullName", "ListOfficeName"),
    collections=("Heating", "Appliances"),
)
_MODIFIED = Searched(moments=("ModificationTimestamp",))
_SEARCHED = {
    "Property": _PROPERTY,
    "Member": _MODIFIED._replace(
        texts=(
            *("MemberStatus", "OfficeKey", "MemberMlsId", "MemberStateLicense", "OriginatingSystemName"),
            *("MemberFirstName", "MemberEmail", "OfficeMlsId", "OfficeName"),
        ),
        ordered=("MemberKey",),
        patterns=("MemberFullName", "MemberLastName"),
    ),
    "Office": _MODIFIED._replace(
        texts=("OfficeStatus", "OfficeMlsId", "OfficeEmail"), ordered=("OfficeKey",), patterns=("OfficeName",)
    ),
    "Teams": _MODIFIED._replace(ordered=("TeamKey",)),
}


@pytest.mark.parametrize("name", KEYS)
async def test_random_filters_answer_what_python_finds(
    world: World, odata: ODataClient, name: str, amount: Callable[[int, int], int]
) -> None:
    everything = expected_entities(world, name)
    made = filter_expressions(comparisons(everything, _SEARCHED[name]))
    for text, holds in examples(made, amount(60 if name == "Property" else 20, 2_000)):
        expected = [row[KEYS[name]] for row in everything if holds(row)]
        assert await _keys(odata, name, text) == expected, text


async def test_moments_are_compared_as_finely_as_they_are_given(world: World, odata: ODataClient) -> None:
    everything = expected_entities(world, "Property")
    at = sorted(row["ModificationTimestamp"] for row in everything)[len(everything) // 2]
    later = at.replace("Z", "0005Z")  # half a microsecond behind the record
    for way, holds in (("gt", str.__gt__), ("ge", str.__gt__), ("lt", str.__le__), ("le", str.__le__)):
        expected = [entity["ListingKey"] for entity in everything if holds(entity["ModificationTimestamp"], at)]
        assert await _keys(odata, "Property", f"ModificationTimestamp {way} {later}") == expected
    assert await _keys(odata, "Property", f"ModificationTimestamp eq {later}") == []


async def test_days_are_compared_as_days(world: World, odata: ODataClient) -> None:
    everything = [entry for entry in expected_entities(world, "Property") if entry["CloseDate"] is not None]
    middle = sorted(row["CloseDate"] for row in everything)[len(everything) // 2]
    for way, holds in (("eq", str.__eq__), ("gt", str.__gt__), ("le", str.__le__)):
        expected = [entity["ListingKey"] for entity in everything if holds(entity["CloseDate"], middle)]
        assert await _keys(odata, "Property", f"CloseDate {way} {middle}") == expected


async def test_a_hundred_keys_and_many_more_go_into_one_filter(world: World, odata_over_socket: ODataClient) -> None:
    keys = [row["ListingKey"] for row in expected_entities(world, "Property")]
    for number in (1, 100, 370):
        text = f"ListingKey in ({','.join(map(quoted, keys[:number]))})"
        assert await _keys(odata_over_socket, "Property", text) == keys[:number]
    text = f"ListingKey in ({','.join(quoted(value.ljust(64, 'x')) for value in keys[:100])})"
    reply = await odata_over_socket.get("Property", "all", filter=text)
    assert (reply.status, reply.body["value"]) == (200, [])


async def test_the_deepest_and_the_longest_accepted_filter_return_rows(odata_over_socket: ODataClient) -> None:
    """Elasticsearch bounds how deep clauses lie in each other, and how many there are: these bounds lie below."""
    assert (await odata_over_socket.get("Property", "all", filter=_nested(MAX_NESTING_DEPTH), top=1)).status == 200
    many = " and ".join(f"ListingKey ne '{number}'" for number in range(MAX_COMPARISONS))
    assert (await odata_over_socket.get("Property", "all", filter=many, top=1)).status == 200
    assert (await odata_over_socket.get("Property", "all", filter=f"{many} and ListingKey ne 'x'", top=1)).status == 400


def _nested(levels: int) -> str:
    text = "CloseDate eq null"
    for _ in range(levels):
        text = f"ListingKey gt '1' or ListingKey ne '2' and not ({text})"
    return text
