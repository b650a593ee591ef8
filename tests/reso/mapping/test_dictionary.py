"""The dictionary: what it asks for, what a map changes in it, and with which words a map is refused."""

import pytest

from mappings.data_dictionary import MODIFICATION_TIMESTAMP, load_dictionary
from tests.reso.mapping.record_source import DICTIONARY

PRIVATE = sorted(DICTIONARY.private)


def selected_fields(entity: str, override: str) -> tuple[str, ...]:
    return load_dictionary(override.encode()).requested_fields(entity)


def refusal(override: str) -> str:
    with pytest.raises(ValueError, match=":") as error:
        load_dictionary(override.encode())
    return str(error.value)


def test_of_every_entity_the_key_and_the_time_of_change_are_asked_first_and_nothing_twice() -> None:
    for name, entity in DICTIONARY.entities.items():
        names = DICTIONARY.requested_fields(name)
        assert names[:2] == (entity.key, MODIFICATION_TIMESTAMP)
        assert len({*names}) == len(names)
    assert len(DICTIONARY.requested_fields("Property")) > 90


def test_what_others_look_up_is_asked_too() -> None:
    assert "X_Only" in selected_fields(
        "Office", "Member.fields.title = {of = 'OfficeKey', in = 'Office', field = 'X_Only'}"
    )
    assert DICTIONARY.entities["Member"].refers_to == {"OfficeKey": "Office"}
    assert DICTIONARY.entities["TeamMembers"].refers_to == {"TeamKey": "Teams"}


def test_each_resource_is_made_of_one_entity() -> None:
    aliases = ["listings", "sold_listings", "agents", "offices", "teams"]
    assert [DICTIONARY.entity_for(alias) for alias in aliases] == ["Property", "Property", "Member", "Office", "Teams"]
    with pytest.raises(KeyError):
        DICTIONARY.entity_for("companies")


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ("Property.fields.City = '{}'", "Property.fields.City"),
        ("Property.fields.City = ['City', '{}']", "Property.fields.City"),
        ("Property.fields.Address = {{join = ['StreetName', '{}']}}", "Property.fields.Address"),
        ("Property.fields.PoolYN = {{field = '{}', is = ['Y']}}", "Property.fields.PoolYN"),
        ("Property.fields.ListAgentUUID = {{uuid = '{}'}}", "Property.fields.ListAgentUUID"),
        ("Property.fields.ListingID = {{key = '{}'}}", "Property.fields.ListingID"),
        ("Property.fields.City = {{of = 'ListOfficeKey', in = 'Office', field = '{}'}}", "Property.fields.City"),
        ("Property.fields.City = {{of = '{}', in = 'Office', field = 'OfficeCity'}}", "Property.fields.City"),
        ("Property.features.Owner = '{}'", "Property.features.Owner"),
        ("Property.also = ['{}']", "Property.also"),
        ("Member.source_agent_id = '{}'", "Member.source_agent_id"),
        ("Member.inactive = {{field = '{}', is = ['x']}}", "Member.inactive"),
        ("Media.not_public = {{field = '{}', is = ['x']}}", "Media.not_public"),
        ("Media.key = '{}'", "Media.key"),
        ("Office.refers_to = {{'{}' = 'Member'}}", "Office.refers_to"),
    ],
)
def test_what_is_private_is_refused_wherever_a_map_asks_for_it(override: str, place: str) -> None:
    for name in [*PRIVATE, PRIVATE[0].upper()]:
        assert refusal(override.format(name)) == f"{place}: {name} is private and is never requested"


@pytest.mark.parametrize(
    "name", ["City,OwnerName", "ListAgent/MemberPassword", "*", "", "Owner Name", "City&$expand=x"]
)
def test_what_is_more_than_a_name_is_refused(name: str) -> None:
    assert refusal(f"Property.fields.City = ['{name}']") == f"Property.fields.City: {name!r} is not a valid field name"


def test_a_map_replaces_adds_and_removes_fields() -> None:
    override = "Property.fields = {City = 'PostalCity', BuyerCommissionType = 'X_Title', Community = ''}"
    dictionary, before = load_dictionary(override.encode()), DICTIONARY.entities["Property"].fields
    fields = dictionary.entities["Property"].fields
    assert {name for name in before | fields if before.get(name) != fields.get(name)} == {
        "City",
        "BuyerCommissionType",
        "Community",
    }
    assert (fields["City"], fields["BuyerCommissionType"], "Community" in fields) == ("PostalCity", "X_Title", False)
    assert {*dictionary.requested_fields("Property")} ^ {*DICTIONARY.requested_fields("Property")} == {
        *("City", "PostalCity", "X_Title", "SubdivisionName")
    }
    assert dictionary.fingerprint != DICTIONARY.fingerprint == load_dictionary().fingerprint


def test_a_map_replaces_adds_and_removes_features_types_and_statuses() -> None:
    override = """
    Property.features = {View = "X_View", Roof = "", Attic = "X_Attic"}
    Property.type = {Land = 16, "Residential/Townhouse" = "", Castle = 1}
    Property.status = {Hold = "", Sold = "Sold", "Under Agreement" = "Pending"}
    """
    before, after = DICTIONARY.entities["Property"], load_dictionary(override.encode()).entities["Property"]
    assert before.features.items() ^ after.features.items() == {
        *(("View", "View"), ("View", "X_View"), ("Roof", "Roof"), ("Attic", "X_Attic"))
    }
    assert before.type.items() ^ after.type.items() == {
        *(("Land", 3), ("Land", 16), ("Residential/Townhouse", 9), ("Castle", 1))
    }
    assert before.status.items() ^ after.status.items() == {
        *(("Hold", "TempOffMarket"), ("Hold", ""), ("Sold", "Sold"), ("Under Agreement", "Pending"))
    }


def test_a_map_replaces_an_entry_under_another_spelling() -> None:
    after = load_dictionary(
        b'[Property]\nstatus.ActiveUnderContract = "Pending"\ntype."residential/own-your-own" = 1'
    ).entities["Property"]
    assert after.status["ActiveUnderContract"] == "Pending"
    assert "Active Under Contract" not in after.status
    assert (after.type["residential/own-your-own"], "Residential/Own Your Own" in after.type) == (1, False)


def test_a_map_adds_to_the_selected_fields() -> None:
    added = {*selected_fields("Property", "Property.also = ['X_One']")} - {*DICTIONARY.requested_fields("Property")}
    assert added == {"X_One"}
    assert "StandardStatus" in selected_fields("Property", "Property.also = ['X_One']")


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("Property = 3", "Property: is 3, not a table"),
        ("Property.fields = 3", "Property.fields: is 3, not a table"),
        ("Property.fields = []", "Property.fields: is [], not a table"),
        ("Property.City = 'x'", "Property.City: is not a known field: give one of key, aliases, also, fields,"),
        ("House = {}", "House: is not an entity: give one of Property, Member, Office,"),
        ("private = []", "private: the private fields cannot be overridden"),
        ("Property.aliases = ['agents']", "Property.aliases: the resources of an entity cannot be overridden"),
        ("Property.fields.City = 3", "Property.fields.City: expected text | table | list, got number"),
        ("Property.fields.City = {felt = 'x'}", "Property.fields.City: object contains unknown field felt"),
        ("Property.fields.City = {is = ['x']}", "Property.fields.City: give one of: field; field and is; join;"),
        ("Property.fields.City = [{key = 3}]", "Property.fields.City: expected text | null, got number"),
        ("Property.fields.Town = 'City'", "Property.fields.Town: is not a field of listings or sold_listings"),
        ("Media.fields.City = 'City'", "Media.fields.City: is not a field of any resource"),
        (
            "Property.fields.OpenHouse = 'x'",
            "Property.fields.OpenHouse: consists of objects, which no source field has",
        ),
        ("Property.fields.Status = 'MlsStatus'", "Property.fields.Status: follows from [Property.status]"),
        ("Property.fields.PropertyType = 'x'", "Property.fields.PropertyType: follows from [Property.type]"),
        (
            "Property.fields.PlatformListingId = 'ListingId'",
            'Property.fields.PlatformListingId: give { key = "ListingKey" } or { uuid = "ListingKey" }',
        ),
        ("Teams.fields.uuid = ''", 'Teams.fields.uuid: give { key = "TeamKey" } or { uuid = "TeamKey" }'),
        ("Member.key = 'MemberMlsId'", 'Member.fields.agent_uuid: give { key = "MemberMlsId" } or { uuid ='),
        ("Property.status.Gone = 'Away'", "Property.status.Gone: 'Away' is not one of Active, Pending, Contingent,"),
        ("Property.status.Gone = 3", "Property.status.Gone: expected text, got number"),
        ("Property.type.Igloo = 99", "Property.type.Igloo: 99 is not in the legend of property_types"),
        ("Property.type.Igloo = 'Condo'", "Property.type.Igloo: expected number, got text"),
        ("Property.status = {'On Hold' = '', OnHold = ''}", "Property.status.OnHold: is the same as On Hold"),
        ("Property.features.Roof = ['Roof']", "Property.features.Roof: expected text, got list"),
        ("Property.also = 'x'", "Property.also: expected list, got text"),
        ("Member.inactive = 'x'", "Member.inactive: expected table | null, got text"),
        (
            "Property.fields.City = {of = 'ListOfficeKey', in = 'Offices', field = 'OfficeCity'}",
            "Property.fields.City: Offices is not one of Property, Member, Office,",
        ),
        ("Property", "is not valid TOML: Expected '=' after a key"),
    ],
)
def test_a_map_is_refused_with_the_entry_and_the_reason(override: str, reason: str) -> None:
    assert refusal(override).startswith(reason)


def test_invalid_utf_8_is_refused() -> None:
    with pytest.raises(ValueError, match="is not valid TOML: 'utf-8' codec can't decode"):
        load_dictionary(b"\xff")


def test_a_map_that_says_nothing_changes_nothing() -> None:
    assert load_dictionary(b"# nothing\n[Property]\n").entities == DICTIONARY.entities
