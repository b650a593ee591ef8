"""What becomes of Members, Offices and Teams, and of those that are no more."""

from typing import Any

import pytest

from indexer.errors import InvalidRecordError
from indexer.reso.mapping.fields import IdentifierFactory
from indexer.reso.mapping.record_mapper import RecordMapper
from mappings import AGENT, OFFICE, TEAM, Resource
from mappings.data_dictionary import load_dictionary
from tests.reso.mapping.record_source import CHANGED, DICTIONARY, InMemoryRecords, map_record

UUIDS = IdentifierFactory()
CHANGED_SECONDS = 1795168800
OFFICE_FIELDS = {"OfficeName": "Rye Homes", "OfficePhone": "1", "OfficeAddress1": "1 Elm", "OfficeCity": "Rye"}


def agent(held: InMemoryRecords | None = None, **fields: Any) -> dict[str, Any]:
    """Return the record of a Member of which nothing had to be left out."""
    made = map_record(AGENT, (held or InMemoryRecords()).put("Member", "k", **fields))
    assert made.omitted == ()
    return made.record


def test_the_least_that_an_agent_can_be() -> None:
    made = map_record(AGENT, InMemoryRecords().put("Member", "k"))
    lists = {field.name for field in AGENT.stored if field.kind.is_list}
    assert {name: value for name, value in made.record.items() if name not in lists} == {
        **dict.fromkeys(("agent_uuid", "uuid"), UUIDS.uuid("k")),
        "platform_agent_id": "k",
        **dict.fromkeys(("last_updated", "last_updated_timestamp"), CHANGED_SECONDS),
        "modification_timestamp": CHANGED,
        "profile_visible_online": True,
    }
    assert {name: made.record[name] for name in lists} == {name: [] for name in lists}
    assert made.envelope == {"source_agent_id": "k"}


def test_an_agent_has_a_name_addresses_and_lists() -> None:
    record = agent(
        MemberFirstName="Ann",
        MemberLastName="Bee",
        MemberEmail="a@b",
        MemberLanguages="English, French",
        MemberDesignation=["GRI", "CRS"],
        MemberMlsId=77,
    )
    assert (record["name"], record["languages"], record["designations"]) == (
        "Ann Bee",
        ["English", "French"],
        "GRI, CRS",
    )
    assert record["primary_email_address"] == "a@b"
    assert record["email_addresses"] == {"primary": "a@b"}
    assert record["mls_agent_id"] == 77


def test_an_agent_is_found_by_the_identifier_of_the_source() -> None:
    def found(**fields: Any) -> object:
        return map_record(AGENT, InMemoryRecords().put("Member", "k", **fields)).envelope["source_agent_id"]

    assert found(MemberMlsId=77) == "77"
    assert found(MemberMlsId="***") == found(MemberMlsId="x" * 9000) == "k"


def test_an_agent_has_the_address_of_the_office() -> None:
    held = InMemoryRecords().put("Office", "o", **OFFICE_FIELDS, OfficePostalCode=98101)
    record = agent(held, OfficeKey="o", MemberOfficePhone="2")
    assert {name: record[name] for name in record if name.startswith("office_") and record[name]} == {
        "office_name": "Rye Homes",
        "office_phone_number": "2",
        "office_address_street": "1 Elm",
        "office_address_city": "Rye",
        "office_address_zip": "98101",
    }
    assert record["platform_office_id"] == "o"


@pytest.mark.parametrize("key", ["elsewhere", "***", None])
def test_an_office_that_is_not_there_gives_nothing(key: object) -> None:
    record = agent(InMemoryRecords().put("Office", "o", **OFFICE_FIELDS), OfficeKey=key)
    assert "office_address_city" not in record


def test_faults_of_the_office_are_reported_under_its_name() -> None:
    held = InMemoryRecords().put("Office", "o", OfficeCity={}).put("Member", "k", OfficeKey="o")
    assert map_record(AGENT, held).omitted == (("Office.OfficeCity", "is an object: not a text"),)
    held.put("Member", "k", OfficeKey=1.5)
    assert set(map_record(AGENT, held).omitted) == {("OfficeKey", "is 1.5: not a key")}


def test_an_agent_has_its_teams_by_uuid() -> None:
    held = (
        InMemoryRecords()
        .put("Teams", "b", TeamName="Bees")
        .put("Teams", "a", TeamName="***")
        .put("Teams", "c", TeamName={})
    )
    backwards = sorted("abc", key=UUIDS.uuid, reverse=True)
    for team in (*backwards, "gone", None, "b"):
        held.put_part("TeamMembers", "Member", "k", TeamKey=team, TeamMemberType="Team Lead" if team == "b" else None)
    held.put("Member", "k")
    made = map_record(AGENT, held)
    teams: Any = made.record["teams"]
    assert [team["uuid"] for team in teams] == sorted(UUIDS.uuid(key) for key in "abc")
    by_uuid = {team["uuid"]: (team["name"], team.get("member_category")) for team in teams}
    assert by_uuid[UUIDS.uuid("b")] == ("Bees", "Team Lead")
    assert by_uuid[UUIDS.uuid("a")] == by_uuid[UUIDS.uuid("c")] == (None, None)
    assert made.omitted == (("TeamName", "is an object: not a text"),)
    assert UUIDS.uuid("b") == map_record(TEAM, held, "b").record["uuid"]


@pytest.mark.parametrize(
    ("resource", "entity", "field"), [(AGENT, "Member", "MemberStatus"), (OFFICE, "Office", "OfficeStatus")]
)
@pytest.mark.parametrize(
    ("status", "is_gone"), [("Inactive", True), ("INACTIVE", True), ("Active", False), (None, False)]
)
def test_who_is_inactive_is_deactivated_since_the_last_change(
    resource: Resource, entity: str, field: str, status: object, is_gone: bool
) -> None:
    made = map_record(resource, InMemoryRecords().put(entity, "k", **{field: status}))
    assert made.envelope.get("deactivated_at") == (CHANGED if is_gone else None)
    if resource is AGENT:
        assert made.record.get("deactivated_timestamp") == (CHANGED_SECONDS if is_gone else None)
        assert made.record["profile_visible_online"] is not is_gone


@pytest.mark.parametrize("moment", [None, "yesterday"])
def test_an_inactive_member_without_a_time_is_a_fault(moment: object) -> None:
    held = InMemoryRecords().put("Member", "k", MemberStatus="Inactive", ModificationTimestamp=moment)
    with pytest.raises(InvalidRecordError) as fault:
        RecordMapper(DICTIONARY, held).map_record("agents", "k")
    assert fault.value.field == "ModificationTimestamp"


def test_an_office() -> None:
    record = map_record(OFFICE, InMemoryRecords().put("Office", "k", **OFFICE_FIELDS, OfficeMlsId="O1")).record
    wanted = {"platform_office_id": "k", "id": "O1", "name": "Rye Homes", "address": "1 Elm", "city": "Rye"}
    assert record | wanted | {"company_programs": []} == record


@pytest.mark.parametrize(("status", "is_active"), [("Active", True), ("Inactive", False), (None, True), ("***", True)])
def test_a_team_is_active_unless_it_says_otherwise(status: object, is_active: bool) -> None:
    record = map_record(TEAM, InMemoryRecords().put("Teams", "k", TeamStatus=status, TeamDirectPhone="2")).record
    assert (record["active"], record["phone"], record["uuid"]) == (is_active, "2", UUIDS.uuid("k"))


def test_a_map_says_where_the_picture_of_an_agent_stands() -> None:
    dictionary = load_dictionary(b'[Member.fields]\nprofile_image_url = "X_Photo"')
    held = (
        InMemoryRecords().put("Member", "k", X_Photo="https://x").put_part("Media", "Member", "k", MediaURL="https://m")
    )
    record = map_record(AGENT, held, dictionary=dictionary).record
    assert (record["profile_image_url"], record["profile_thumb_url"]) == ("https://x", "https://m")
