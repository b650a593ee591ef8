"""The quick way through the intake and the thorough one: which lines take which, and that it never shows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.documents.envelope import strict_decoder
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.errors import InvalidRecordError
from indexer.source.lines import SourceLine
from mappings import AGENT, LISTING, OFFICE, RESOURCES, Resource
from tests.indexer.documents.hostile_lines import MOMENTS, envelopes
from tests.indexer.parsed_lines import COMPANIES
from tests.records import deletion, envelope

_resources = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)


def outcome(intake: LineParser, data: bytes) -> tuple[Any, Any, int]:
    """Return the draft or the fault, and what was counted."""
    chunk = ParsedChunk()
    try:
        made: object = intake.parse(SourceLine("file", 1, data), chunk)
    except InvalidRecordError as error:
        made = (error.field, error.reason)
    return made, chunk.roundings, chunk.corrected


class Refusing:
    """A settled decoder that takes nothing, or every n-th line, and counts how often it was asked."""

    def __init__(self, resource: Resource, taken: int = 0) -> None:
        """Take none unless said otherwise."""
        self._decode = strict_decoder(resource)
        self._taken = taken
        self.asked = 0

    def __call__(self, data: bytes) -> Any:
        """Refuse, or decode."""
        self.asked += 1
        if self._taken and self.asked % self._taken == 0:
            return self._decode(data)
        raise msgspec.ValidationError("refused")


def thorough(resource: Resource) -> LineParser:
    """Return an intake that takes every line the thorough way."""
    intake = LineParser(resource, COMPANIES)
    intake._decode_strictly = Refusing(resource)
    return intake


def is_quick(resource: Resource, sent: dict[str, Any]) -> bool:
    """Whether an envelope takes the quick way."""
    try:
        strict_decoder(resource)(orjson.dumps(sent))
    except msgspec.ValidationError:
        return False
    return True


@given(envelopes())
def test_both_ways_give_the_same_draft_the_same_counts_and_the_same_faults(line: tuple[Resource, bytes]) -> None:
    resource, data = line
    assert outcome(LineParser(resource, COMPANIES), data) == outcome(thorough(resource), data)


@given(st.lists(MOMENTS, min_size=1, max_size=20))
def test_a_moment_that_takes_the_quick_way_is_in_the_calendar(moments: list[str]) -> None:
    for moment in moments:
        if is_quick(LISTING, envelope(LISTING, {"ModificationTimestamp": moment})):
            assert dt.datetime.fromisoformat(moment).tzinfo is not None


def test_every_day_of_a_year_takes_the_quick_way_but_the_leap_day() -> None:
    first = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    days = [(first + dt.timedelta(days=number)).isoformat() for number in range(366)]
    slow = [day for day in days if not is_quick(LISTING, envelope(LISTING, {"ModificationTimestamp": day}))]
    assert slow == ["2024-02-29T00:00:00+00:00"]


@_resources
def test_a_valid_record_and_a_deletion_take_the_quick_way(resource: Resource) -> None:
    assert is_quick(resource, envelope(resource))
    assert is_quick(resource, deletion(resource, "acme"))


@pytest.mark.parametrize(
    ("resource", "changes"),
    [
        (LISTING, {"LotSizeAcres": 0.25, "ListPrice": 350000.5}),
        (LISTING, {"OpenHouse": None, "ListingImages": None, "SharedPartnerData": None}),
        (LISTING, {"PropertyFeatures": [{}], "ListingImages": [{"Width": None}]}),
        (LISTING, {"ModificationTimestamp": "2026-12-31T23:59:59.999999999+14:00"}),
        (LISTING, {"ModificationTimestamp": "2026-04-30T00:00:00Z"}),
        (AGENT, {"client_auths": None, "gci_goal": 1.5}),
        (OFFICE, {"company_programs": None}),
    ],
)
def test_what_is_common_at_the_top_of_a_record_takes_the_quick_way(resource: Resource, changes: dict[str, Any]) -> None:
    assert is_quick(resource, envelope(resource, changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"ListPrice": 2**53 + 1},
        {"ListingImages": [{"Width": 1.5}]},
        {"ListingImages": [{"Width": 2**53 + 1}]},
        {"PropertyFeatures": [{"PropertyFeatureValues": None}]},
        {"ModificationTimestamp": "2026-02-30T00:00:00Z"},
        {"ModificationTimestamp": "2026-01-01T24:00:00Z"},
        {"ModificationTimestamp": "2026-01-01T00:00:00.1234567890Z"},
        {"ModificationTimestamp": "2026-01-01T00:00:00Z\n"},
    ],
)
def test_records_to_normalize_or_refuse_deeper_down_take_the_thorough_path(changes: dict[str, Any]) -> None:
    assert not is_quick(LISTING, envelope(LISTING, changes))


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b'"\xff"', "is not a JSON object in UTF-8"), (b"[" * 100_000 + b"]" * 100_000, "is nested too deeply")],
)
def test_what_no_decoder_can_read_is_a_fault_and_no_crash(value: bytes, reason: str) -> None:
    data = orjson.dumps(envelope(LISTING, {"AssociationFee": "here"})).replace(b'"here"', value)
    (field, text), *_ = outcome(LineParser(LISTING, COMPANIES), data)
    assert (field, text.partition(":")[0]) == ("", reason)


def test_a_source_that_is_never_settled_is_tried_less_and_less_often() -> None:
    intake, refusing = LineParser(LISTING, COMPANIES), Refusing(LISTING)
    intake._decode_strictly = refusing
    data = orjson.dumps(envelope(LISTING))
    for _ in range(64 + 10 * 64):
        outcome(intake, data)
    # At the lines 1, 2, 4, 8, 16, 32 and 64, then at every 64th.
    assert refusing.asked == 7 + 10


def test_a_source_with_an_unsettled_line_now_and_then_is_tried_at_every_line() -> None:
    intake, settled = LineParser(LISTING, COMPANIES), Refusing(LISTING, taken=2)
    intake._decode_strictly = settled
    for _ in range(100):
        outcome(intake, orjson.dumps(envelope(LISTING)))
    assert settled.asked == 100
