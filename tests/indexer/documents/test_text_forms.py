"""What is accepted can be requested: UUIDs in one case, references, local times, statuses, times of changes."""

from typing import Any

import orjson
import pytest

from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.errors import InvalidRecordError
from indexer.source.lines import RejectedLine, SourceLine
from mappings import AGENT, LISTING, OFFICE, SOLD_LISTING, TEAM, Resource
from tests.indexer.parsed_lines import COMPANIES, parse_line, search_fields
from tests.records import deletion, envelope

UUID = "0b0e6d3c-5f0d-4f35-9d3c-aaaaaaaaaaaa"


def stored(resource: Resource, changes: dict[str, Any]) -> dict[str, Any]:
    document = parse_line(resource, envelope(resource, changes))
    parsed: dict[str, Any] = orjson.loads(document.record or b"")
    return parsed


def test_uuids_are_stored_in_lower_case_wherever_requests_select_by_them() -> None:
    agent = parse_line(AGENT, envelope(AGENT, {"agent_uuid": UUID.upper()}))
    assert agent.id == UUID
    assert orjson.loads(agent.record or b"")["agent_uuid"] == UUID
    assert parse_line(AGENT, deletion(AGENT, UUID.upper())).id == UUID
    names = ("ListAgentUUID", "SecondaryListAgentUUID", "BuyerAgentUUID")
    sold = parse_line(SOLD_LISTING, envelope(SOLD_LISTING, dict.fromkeys(names, UUID.upper())))
    assert (search_fields(sold)["agents"], search_fields(sold)["buyer_agents"]) == ([UUID, UUID], UUID)
    assert {orjson.loads(sold.record or b"")[name] for name in names} == {UUID}


def test_a_line_in_either_case_is_the_same_document() -> None:
    lower, upper = (envelope(LISTING, {"ListAgentUUID": text}) for text in (UUID, UUID.upper()))
    assert parse_line(LISTING, lower).stamped_source(1, 2) == parse_line(LISTING, upper).stamped_source(1, 2)


@pytest.mark.parametrize(
    ("resource", "changes", "field", "reason"),
    [
        (AGENT, {"agent_uuid": "27056292"}, "agent_uuid", "is '27056292': must be a UUID, for example"),
        (LISTING, {"ListAgentUUID": "NOT-A-UUID"}, "ListAgentUUID", "is 'NOT-A-UUID': must be a UUID, for example"),
        (SOLD_LISTING, {"BuyerAgentUUID": "7"}, "BuyerAgentUUID", "is '7': must be a UUID, for example"),
        (LISTING, {"ListAgentPlatformOfficeID": "o" * 129}, "ListAgentPlatformOfficeID", "must be 1 to 128 characters"),
        (AGENT, {"platform_agent_id": "a\tb"}, "platform_agent_id", "is 'a\\tb': must be 1 to 128 characters without"),
        (
            LISTING,
            {"OpenHouse": [{"Date": "2024-09-22", "StartTime": "September-22-2024 01:30 PM"}]},
            "OpenHouse[0].StartTime",
            "is 'September-22-2024 01:30 PM': must be a local time HH:MM:SS, for example 13:30:00",
        ),
        (LISTING, {"OpenHouse": [{"EndTime": "24:00:00"}]}, "OpenHouse[0].EndTime", "is '24:00:00': must be a local"),
        (LISTING, {"Status": None}, "Status", "is missing: use one of Active, Pending"),
    ],
)
def test_what_no_request_would_find_is_rejected_with_its_value(
    resource: Resource, changes: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(InvalidRecordError) as caught:
        parse_line(resource, envelope(resource, changes))
    assert caught.value.field == f"record.{field}"
    assert reason in caught.value.reason


def test_a_deletion_may_name_a_record_of_an_earlier_version() -> None:
    assert parse_line(AGENT, deletion(AGENT, "27056292")).id == "27056292"


@pytest.mark.parametrize("name", ["ListAgentUUID", "ListAgentPlatformOfficeID"])
@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_reference_is_null(name: str, empty: str | None) -> None:
    assert stored(LISTING, {name: empty})[name] is None


def test_a_time_without_seconds_is_completed_and_null_stays_null() -> None:
    houses = [{"StartTime": "09:30", "EndTime": None}, {"StartTime": "23:59:59", "EndTime": "00:00:00"}]
    times = [(house["StartTime"], house["EndTime"]) for house in stored(LISTING, {"OpenHouse": houses})["OpenHouse"]]
    assert times == [("09:30:00", None), ("23:59:59", "00:00:00")]


def test_teams_and_offices_have_any_identifier() -> None:
    for resource in (TEAM, OFFICE):
        assert parse_line(resource, envelope(resource, {resource.identifier: "Team:7-A"})).id == "Team:7-A"


def test_a_sold_listing_without_a_status_is_not_on_the_market() -> None:
    record = stored(SOLD_LISTING, {"Status": None, "OnMarket": None})
    assert (record["Status"], record["OnMarket"]) == (None, False)


def test_times_of_the_last_change_follow_updated_at_where_the_source_has_none() -> None:
    seconds = ("last_updated", "last_updated_timestamp")
    sent = envelope(
        AGENT, dict.fromkeys((*seconds, "modification_timestamp")), updated_at="2026-01-02T01:00:00.5-02:00"
    )
    agent = parse_line(AGENT, sent)
    record = orjson.loads(agent.record or b"")
    assert record["modification_timestamp"] == search_fields(agent)["modified"] == "2026-01-02T03:00:00.500000Z"
    assert {record[name] for name in seconds} == {1_767_322_800}
    assert record["created_timestamp"] is not None
    for resource in (LISTING, SOLD_LISTING):
        document = parse_line(
            resource, envelope(resource, {"ModificationTimestamp": None}, updated_at="2026-01-02T03:00:00Z")
        )
        assert search_fields(document)["modified"] == "2026-01-02T03:00:00Z"


def test_an_invalid_line_names_its_record_as_it_is_stored() -> None:
    parser, chunk = LineParser(AGENT, COMPANIES), ParsedChunk()
    line = SourceLine("file", 1, orjson.dumps(envelope(AGENT, {"agent_uuid": UUID.upper(), "title": 7})))
    parser.parse_into(line, chunk)
    torn = RejectedLine(line, InvalidRecordError("", "is torn"), AGENT, frozenset({UUID.upper()}))
    parser.parse_into(torn, chunk)
    assert [item.identifiers for item in chunk.rejected] == [frozenset({UUID})] * 2
