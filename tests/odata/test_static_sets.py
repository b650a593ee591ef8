"""`Lookup` and `Field` say what the other entity sets have: every value of a lookup, every property of the metadata."""

from xml.etree import ElementTree as ET

import pytest

from mappings import AGENT
from service.reso.sets.declarations import ENTITY_SETS
from service.reso.sets.edm_types import EdmType
from service.reso.sets.entity_set import EntityProperty, PropertyColumn
from service.reso.sets.static_sets import static_sets
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient

_EDM = "{http://docs.oasis-open.org/odata/ns/edm}"
_DESCRIBED = ("Property", "Member", "Office", "Teams", "Media", "OpenHouse", "HistoryTransactional", "TeamMembers")


async def test_every_value_of_a_lookup_is_in_the_entity_set(odata: ODataClient) -> None:
    rows = await odata.walk("Lookup", "all", MAX_PAGE_SIZE_PREFERENCE)
    known: dict[str, set[str]] = {}
    for row in rows:
        known.setdefault(row["LookupName"], set()).add(row["LookupValue"])
        assert row["LookupKey"] == f"{row['LookupName']}!{row['LegacyODataValue']}"
    assert {"Active Under Contract", "Closed"} <= known["StandardStatus"]
    assert len({row["LookupKey"] for row in rows}) == len(rows)
    schema = ET.fromstring((await odata.request("$metadata")).raw)  # noqa: S314 - our own service
    for name in _DESCRIBED:
        (entity,) = schema.findall(f".//{_EDM}EntityType[@Name='{name}']")
        lookups = {
            str(element.get("Name")): str(annotation.get("String"))
            for element in entity.findall(f"{_EDM}Property")
            for annotation in element
        }
        assert {*lookups.values()} <= known.keys()
        for entry in await odata.walk(name, "all", MAX_PAGE_SIZE_PREFERENCE) if lookups else ():
            for field, lookup in lookups.items():
                assert entry[field] is None or entry[field] in known[lookup]


async def test_every_property_is_a_field(odata: ODataClient) -> None:
    rows = await odata.walk("Field", "all", {"Prefer": "odata.maxpagesize=50"})
    schema = ET.fromstring((await odata.request("$metadata")).raw)  # noqa: S314 - our own service
    declared = {
        f"{name}!{element.get('Name')}"
        for name in _DESCRIBED
        for element in schema.findall(f".//{_EDM}EntityType[@Name='{name}']/{_EDM}Property")
    }
    assert [row["FieldKey"] for row in rows] == sorted(declared)
    assert int((await odata.get("Field/$count")).raw) == len(rows)
    by_key = {row["FieldKey"]: row for row in rows}
    assert by_key["Property!InternetAddressDisplayYN"]["DisplayName"] == "Internet Address Display YN"
    backwards = await odata.walk("Field", "all", {"Prefer": "odata.maxpagesize=70"}, orderby="FieldKey desc")
    assert backwards == rows[::-1]
    assert (await odata.request("Field('Property!ListPrice')")).body["FieldName"] == "ListPrice"
    assert (await odata.request("Field('Property!Nothing')")).status == 404


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LookupName eq 'MemberStatus'", ["Active", "Inactive"]),
        ("LookupName in ('MemberStatus') and LookupValue ne 'Active'", ["Inactive"]),
        ("startswith(LookupName,'Member') and not contains(LookupValue,'Ina')", ["Active"]),
        ("LookupName eq 'MemberStatus' and (LookupValue lt 'B' or LookupValue eq null)", ["Active"]),
        ("LookupName eq 'MemberStatus' and ModificationTimestamp gt 1980-01-01T00:00:00Z", ["Active", "Inactive"]),
        ("LookupName eq 'MemberStatus' and ModificationTimestamp gt now()", []),
    ],
)
async def test_lookups_are_filtered(odata: ODataClient, text: str, expected: list[str]) -> None:
    found = await odata.page("Lookup", filter=text, count="true")
    assert [row["LookupValue"] for row in found["value"]] == expected
    assert found["@odata.count"] == len(expected)


@pytest.mark.parametrize(
    ("option", "text", "status"),
    [
        ("filter", "LookupName eq 7", 400),
        ("filter", "Nothing eq 'x'", 400),
        ("filter", "ModificationTimestamp gt 'x'", 400),
        ("filter", "year(ModificationTimestamp) eq 2026", 501),
        ("filter", "tolower(LookupName) eq 'x'", 501),
        ("orderby", "LookupName", 501),
        ("orderby", "Nothing", 400),
    ],
)
async def test_what_is_not_answered_is_refused(odata: ODataClient, option: str, text: str, status: int) -> None:
    reply = await odata.get("Lookup", **{option: text})
    assert (reply.status, reply.problem[2]) == (status, f"${option}")


def test_a_key_does_not_see_fields_and_lookups_of_groups_that_it_may_not_see() -> None:
    column = PropertyColumn("access_level", group="access_level", lookup=("office", "company"))
    hidden = EntityProperty("Access", EdmType.STRING, {AGENT: column})
    member = ENTITY_SETS["Member"]
    described = type(member)("Member", "MemberKey", (AGENT,), {**member.properties, "Access": hidden})
    sets = static_sets({"Member": described})
    for name, key in (("Lookup", "Access!office"), ("Field", "Member!Access")):
        of_set = f"{name}Key"
        everything = {row[of_set] for row in sets[name].visible(())}
        assert key in everything
        seen = {row[of_set] for row in sets[name].visible({"access_level"})}
        assert seen == {value for value in everything if "Access!" not in value and "!Access" not in value}
