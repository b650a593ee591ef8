"""Versions and content hashes: what counts as a change of a record and what does not."""

import datetime as dt
import math
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.settings import IndexerSettings
from mappings import AGENT, COMPANY, LISTING, RESOURCES, TEAM, Resource
from mappings.fields import FieldKind, TextForm
from mappings.search_fields import SearchField, date_millis, decimal, flag, keyword, presence, timestamp, whole_number
from tests.indexer.parsed_lines import parse_line, search_fields
from tests.records import deletion, envelope, record

OTHER_VALUES: dict[FieldKind, Any] = {
    FieldKind.DATE: "2020-02-29",
    FieldKind.DATE_TIME: "2020-02-29T00:00:00Z",
    FieldKind.INTEGER: 4,
    FieldKind.UNIX: 1,
    FieldKind.NUMBER: 0.1,
    FieldKind.BOOLEAN: False,
    FieldKind.UNTYPED: {"a": 1},
    FieldKind.OBJECT: None,
    FieldKind.STRINGS: [],
    FieldKind.OBJECTS: [],
    FieldKind.UNTYPED_LIST: [1],
}
# Rules of their own give these a value.
OTHER_UUID = "0b0e6d3c-5f0d-4f35-9d3c-222222222222"
RULED = {"Status", "OnMarket", "PropertyType", "platform_company_id", "numeric_id"}
MEMBERS = [
    (resource, field)
    for resource in RESOURCES
    for field in resource.stored
    if field.name not in RULED | {resource.identifier}
]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_every_member_but_the_volatile_ones_is_content(resource: Resource) -> None:
    before = parse_line(resource, envelope(resource)).content
    for field in (field for owner, field in MEMBERS if owner is resource):
        other = OTHER_UUID if field.form is TextForm.UUID else OTHER_VALUES.get(field.kind, "another")
        changed = envelope(resource, {field.name: other})
        assert (parse_line(resource, changed).content == before) is (field.name in resource.volatile), field.name


@pytest.mark.parametrize(
    ("resource", "changes", "is_content"),
    [
        (LISTING, {"updated_at": "2026-05-05T00:00:00Z"}, False),
        (LISTING, {"shared_partner_data_updated_at": "2026-05-05T00:00:00Z"}, False),
        (LISTING, {"property_type_id": 2}, False),
        (LISTING, {"platform_company_id": "4100"}, False),
        (TEAM, {"platform_company_id": "other"}, True),
        (AGENT, {"source_agent_id": "5"}, True),
        (AGENT, {"deactivated_at": "2026-05-05T00:00:00Z"}, True),
        (COMPANY, {"parent_company_id": "other"}, False),
    ],
)
def test_the_envelope_is_content_but_for_its_clocks_and_parents(
    resource: Resource, changes: dict[str, Any], is_content: bool
) -> None:
    changed = parse_line(resource, envelope(resource, **changes))
    assert (changed.content != parse_line(resource, envelope(resource)).content) is is_content


@pytest.mark.parametrize(
    ("resource", "indexed", "value", "expected"),
    [
        (LISTING, keyword("found", "City"), "Kent", "Kent"),
        (LISTING, whole_number("found", "ListPrice"), 500_000, 500_000),
        (LISTING, whole_number("found", "ListPrice"), 0, 0),
        (LISTING, whole_number("found", "ListPrice"), 1.5, 2),  # whole numbers are rounded half up
        (AGENT, decimal("found", "buyer_commission_rate"), 2.25, 2.25),
        (AGENT, decimal("found", "buyer_commission_rate"), 2, 2),
        (LISTING, date_millis("found", "ListingContractDate"), "1970-01-03", 2 * 86_400_000),
        (LISTING, timestamp("found", "ModificationTimestamp"), "1970-01-01T02:00:07.123456+02:00", 7123),
        (AGENT, timestamp("found", "created_timestamp"), 7, 7000),
        (LISTING, flag("found", "PoolYN"), False, False),
        (AGENT, presence("found", "languages"), [1], True),
        (AGENT, presence("found", "languages"), [], False),
    ],
)
def test_a_search_field_holds_what_its_declaration_makes_of_a_member(
    resource: Resource, indexed: SearchField, value: object, expected: object
) -> None:
    declared = replace(resource, search_fields=(*resource.search_fields, indexed))
    found = search_fields(parse_line(declared, envelope(resource, {indexed.sources[0]: value})))
    assert found["found"] == expected
    assert type(found["found"]) is type(expected)


@pytest.mark.parametrize("declare", [keyword, whole_number, decimal, date_millis, timestamp, flag])
def test_a_search_field_of_a_member_without_a_value_is_left_out(declare: Any) -> None:
    indexed = declare(
        "found", {keyword: "City", date_millis: "ListingContractDate"}.get(declare, "VendorModificationTimestamp")
    )
    declared = replace(LISTING, search_fields=(*LISTING.search_fields, indexed))
    assert "found" not in search_fields(parse_line(declared, envelope(LISTING, {indexed.sources[0]: None})))


def test_volatile_members_are_stored_where_they_belong() -> None:
    values = {
        "DaysOnMarket": 12,
        "ModificationTimestamp": "2026-05-05T00:00:00Z",
        "SharedPartnerData": {"attribute_1": "\t"},
    }
    draft = parse_line(LISTING, envelope(LISTING, values))
    assert draft.record is not None
    expected = record(LISTING, **values) | {"SharedPartnerData": {"attribute_1": "\t", "attribute_2": None}}
    assert orjson.loads(draft.record) == expected
    assert list(orjson.loads(draft.record)) == list(expected)


def test_nested_members_named_like_volatile_ones_are_content() -> None:
    def content(stamp: str) -> int:
        return parse_line(AGENT, envelope(AGENT, {"client_auths": [{"modification_timestamp": stamp}]})).content

    assert content("one") != content("two")


def test_a_later_envelope_has_a_higher_version_and_a_deletion_beats_an_update_of_the_same_time() -> None:
    first = parse_line(TEAM, envelope(TEAM)).version
    assert parse_line(TEAM, envelope(TEAM, updated_at="2026-01-02T03:04:05.678001Z")).version > first
    assert parse_line(TEAM, deletion(TEAM, "team-1")).version > first
    assert parse_line(TEAM, deletion(TEAM, "team-1", updated_at="2026-01-02T03:04:05.677Z")).version < first


@settings(max_examples=100, deadline=None)
@given(
    moment=st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2255, 6, 1), timezones=st.just(dt.UTC)),  # noqa: DTZ001
    name=st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_version_and_content_fit_a_signed_long_and_the_version_begins_with_the_time(
    moment: dt.datetime, name: str
) -> None:
    sent = envelope(TEAM, {"name": name}, updated_at=moment.isoformat())
    draft = parse_line(TEAM, sent, settings=IndexerSettings(future_seconds=math.inf))
    assert draft.version >> 10 == (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    assert 0 <= draft.version < 2**63
    assert -(2**63) <= draft.content < 2**63
