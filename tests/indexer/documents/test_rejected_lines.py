"""Every way in which a line can be unusable, reported by field and reason."""

from typing import Any

import orjson
import pytest

from indexer.errors import InvalidRecordError
from mappings import AGENT, COMPANY, LISTING, OFFICE, SOLD_LISTING, TEAM, Resource
from tests.indexer.parsed_lines import parse_line
from tests.records import deletion, envelope

Fault = tuple[dict[str, Any] | bytes, str, str]


def in_record(field: str, value: object, reason: str, place: str = "") -> Fault:
    """Return a listing with one unusable member, and where and why it is refused."""
    return envelope(LISTING, {field: value}), f"record.{place or field}", reason


def in_envelope(field: str, value: Any, reason: str) -> Fault:
    """Return a listing with one unusable member of its envelope, and why it is refused."""
    return envelope(LISTING, **{field: value}), field, reason


def in_company(field: str, value: object, reason: str) -> Fault:
    """Return a company with one unusable member, and why it is refused."""
    return envelope(COMPANY, {field: value}), f"record.{field}", reason


def garbled(place: bytes) -> bytes:
    """Return the bytes of a listing with other bytes inside a string."""
    return orjson.dumps(envelope(LISTING)).replace(b"City of a test", place)


def nested(depth: int) -> Any:
    return orjson.Fragment(b"[" * depth + b"]" * depth)


IMAGES = "ListingImages"
FEATURES = "PropertyFeatures"
NOT_JSON = "is not a JSON object in UTF-8"
LISTINGS: list[Fault] = [
    (b"{", "", NOT_JSON),
    (garbled(b"\xff"), "", NOT_JSON),
    (garbled(b"\\ud800"), "", NOT_JSON),
    (b"[]", "", "expected `object`, got `array`"),
    (b'{"record":{"Address2":' + b"[" * 50_000, "", "is nested too deeply"),
    in_record("Colour", "red", "is not a known field"),
    in_record("listprise", 7, "is not a known field. Did you mean ListPrice?"),
    in_record("VirtualOpenHouseYn", True, "is not a known field. Did you mean VirtualOpenHouseYN?"),
    in_record("ListPrice", "3", "expected `int | float | null`, got `str`"),
    in_record("ListPrice", 1e30, "out of range"),
    in_record("ListPrice", 2**53 + 1, "out of range"),
    in_record(IMAGES, [{}, {"Width": -1e30}], "out of range", f"{IMAGES}[1].Width"),
    in_record(IMAGES, [{}, {"Width": "x"}], "got `str`", f"{IMAGES}[1].Width"),
    in_record(FEATURES, [{"PropertyFeatureValues": [None]}], "got `null`", f"{FEATURES}[0].PropertyFeatureValues[0]"),
    in_record("ListingContractDate", "2026-13-01", "invalid"),
    in_record("ModificationTimestamp", "today", "ISO 8601 date-time with offset"),
    in_record("ModificationTimestamp", "2026-02-30T10:00:00Z", "is not a valid date-time"),
    in_record("PlatformListingId", "a/b", "1 to 128 characters"),
    in_record("PlatformListingId", "", "1 to 128 characters"),
    in_record("Status", "Closed", "'Closed': use one of Active, Pending"),
    in_record("PropertyType", "Castle", "'Castle': use one of Not Found, Residential"),
    (envelope(LISTING) | {"record": {}}, "record.PlatformListingId", "is missing"),
    in_envelope("colour", "red", "is not a known field"),
    in_envelope("property_type_id", 99, "is 99, which is not"),
    in_envelope("property_type_id", 1, "is 1, but PropertyType 'Condo' is 2"),
    in_envelope("updated_at", None, "is missing"),
    in_envelope("updated_at", "2026-01-01T00:00:00", "timezone"),
    in_envelope("updated_at", "1969-12-31T23:59:59Z", "between the years 1970 and 2255"),
    in_envelope("updated_at", "2300-01-01T00:00:00Z", "is 2300-01-01T00:00:00+00:00, more than 86400 s"),
    in_envelope("platform_company_id", None, "is missing"),
    in_envelope("platform_company_id", "unknown", "'unknown' is not a company"),
]
COMPANIES: list[Fault] = [
    in_company("platform_company_id", "a:b", "1 to 64 letters"),
    in_company("platform_company_id", "a\n", "spaces, slashes or control char"),
    in_company("numeric_id", "4 1", "digits only"),
    in_company("numeric_id", "\u0664", "digits only"),
    in_company("numeric_id", "7", "7 already identifies the company other"),
    in_company("numeric_id", "99", "99 already identifies the company 99"),
    (envelope(COMPANY, platform_company_id="other"), "platform_company_id", "but the record is 'acme'"),
]
OTHERS: list[tuple[Resource, Fault]] = [
    (OFFICE, (envelope(OFFICE, source_agent_id="1"), "source_agent_id", "is not a known field")),
    (SOLD_LISTING, (envelope(SOLD_LISTING, {"SharedPartnerData": None}), "record.SharedPartnerData", "not a known")),
    (TEAM, (deletion(TEAM, "t") | {"platform_company_id": "a b"}, "platform_company_id", "'a b' is not a company")),
]
FAULTS = [*((LISTING, fault) for fault in LISTINGS), *((COMPANY, fault) for fault in COMPANIES), *OTHERS]


@pytest.mark.parametrize(
    ("resource", "fault"), FAULTS, ids=[f"{field}-{reason[:24]}" for _, (_, field, reason) in FAULTS]
)
def test_a_fault_is_reported_by_field_and_reason(resource: Resource, fault: Fault) -> None:
    sent, field, reason = fault
    with pytest.raises(InvalidRecordError) as error:
        parse_line(resource, sent)
    assert error.value.field == field
    assert reason in error.value.reason


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"bio": nested(65)}, "record.bio"),
        ({"languages": nested(65)}, "record.languages"),
        ({"available_mls": [{"agent_id": nested(65)}]}, "record.agent_id"),
        ({"agent_website": {"base_url": nested(900)}}, "record.base_url"),
    ],
)
def test_a_value_of_any_shape_has_a_limit_of_depth(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecordError, match=r"nested more than 64 deep: .* BROKERAGE_MAX_RECORD_DEPTH") as error:
        parse_line(AGENT, envelope(AGENT, changes))
    assert error.value.field == field


def test_values_within_the_limits_are_taken() -> None:
    assert parse_line(AGENT, envelope(AGENT, {"bio": nested(64), "languages": nested(64)})).record
    for identifier in ("...", "a" * 128, "\u00e9" * 128, "%2F", "a:b", "''"):
        assert parse_line(TEAM, envelope(TEAM, {"uuid": identifier})).id == identifier


@pytest.mark.parametrize("identifier", [".", "..", "a\x80", "\x9f", "\U0001f600" * 112])
def test_an_identifier_that_could_not_be_requested_is_refused_but_deleted(identifier: str) -> None:
    with pytest.raises(InvalidRecordError, match=r"must be 1 to 128 characters and at most 447 bytes") as error:
        parse_line(TEAM, envelope(TEAM, {"uuid": identifier}))
    assert error.value.field == "record.uuid"
    assert parse_line(TEAM, deletion(TEAM, identifier)).is_tombstone
