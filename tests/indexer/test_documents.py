"""Versions and content hashes: what counts as a change of a record and what does not."""

from __future__ import annotations

import datetime as dt
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappings import AGENT, COMPANY, LISTING, RESOURCES, TEAM, Resource
from mappings.fields import Kind
from tests.indexer.lines import accept
from tests.records import deletion, envelope, record

OTHER_VALUES: dict[Kind, Any] = {
    Kind.DATE: "2020-02-29",
    Kind.DATE_TIME: "2020-02-29T00:00:00Z",
    Kind.INTEGER: 4,
    Kind.UNIX: 1,
    Kind.NUMBER: 0.1,
    Kind.BOOLEAN: False,
    Kind.UNTYPED: {"a": 1},
    Kind.OBJECT: None,
    Kind.STRINGS: [],
    Kind.OBJECTS: [],
    Kind.UNTYPED_LIST: [1],
}
# Rules of their own give these a value.
RULED = {"Status", "OnMarket", "PropertyType", "platform_company_id", "numeric_id"}
MEMBERS = [
    (resource, field)
    for resource in RESOURCES
    for field in resource.stored
    if field.name not in RULED | {resource.identifier}
]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_every_member_but_the_volatile_ones_is_content(resource: Resource) -> None:
    before = accept(resource, envelope(resource)).content
    for field in (field for owner, field in MEMBERS if owner is resource):
        changed = envelope(resource, {field.name: OTHER_VALUES.get(field.kind, "another")})
        assert (accept(resource, changed).content == before) is (field.name in resource.volatile), field.name


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
        (COMPANY, {"parent_company_id": "other"}, True),
    ],
)
def test_the_envelope_is_content_but_for_its_clocks(
    resource: Resource, changes: dict[str, Any], is_content: bool
) -> None:
    changed = accept(resource, envelope(resource, **changes))
    assert (changed.content != accept(resource, envelope(resource)).content) is is_content


def test_volatile_members_are_stored_where_they_belong() -> None:
    values = {"DaysOnMarket": 12, "ModificationTimestamp": None, "SharedPartnerData": {"attribute_1": "\t"}}
    draft = accept(LISTING, envelope(LISTING, values))
    assert draft.record is not None
    expected = record(LISTING, **values) | {"SharedPartnerData": {"attribute_1": "\t", "attribute_2": None}}
    assert orjson.loads(draft.record) == expected
    assert list(orjson.loads(draft.record)) == list(expected)


def test_nested_members_named_like_volatile_ones_are_content() -> None:
    def content(stamp: str) -> int:
        return accept(AGENT, envelope(AGENT, {"client_auths": [{"modification_timestamp": stamp}]})).content

    assert content("one") != content("two")


def test_a_later_envelope_has_a_higher_version_and_a_deletion_beats_an_update_of_the_same_time() -> None:
    first = accept(TEAM, envelope(TEAM)).version
    assert accept(TEAM, envelope(TEAM, updated_at="2026-01-02T03:04:05.678001Z")).version > first
    assert accept(TEAM, deletion(TEAM, "team-1")).version > first
    assert accept(TEAM, deletion(TEAM, "team-1", updated_at="2026-01-02T03:04:05.677Z")).version < first


@settings(max_examples=100, deadline=None)
@given(
    moment=st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2255, 6, 1), timezones=st.just(dt.UTC)),  # noqa: DTZ001
    name=st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_version_and_content_fit_a_signed_long_and_the_version_begins_with_the_time(
    moment: dt.datetime, name: str
) -> None:
    draft = accept(TEAM, envelope(TEAM, {"name": name}, updated_at=moment.isoformat()))
    assert draft.version >> 10 == (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    assert 0 <= draft.version < 2**63
    assert -(2**63) <= draft.content < 2**63
