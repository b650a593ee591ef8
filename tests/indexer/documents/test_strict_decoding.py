"""The strict decoder and the lenient one: which lines each decodes, and that both lead to the same document."""

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

UUID = "0b5f4e1e-6a9b-4e37-9a52-9c4c6a0a7f3d"

_resources = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)


def outcome(parser: LineParser, data: bytes) -> tuple[Any, Any, int]:
    """Return the document, also with names that it lacks, or the error; and what was counted."""
    chunk = ParsedChunk()
    try:
        document = parser.parse(SourceLine("file", 1, data), chunk)
        named = document.named and document.named({gap.member: "Ann Oh" for gap in document.gaps})
        made: object = (msgspec.structs.replace(document, named=None), named)
    except InvalidRecordError as error:
        made = (error.field, error.reason)
    return made, chunk.roundings, chunk.corrected


class FailingDecoder:
    """A strict decoder that fails, but for every n-th line if `decoded` is n, and counts its calls."""

    def __init__(self, resource: Resource, decoded: int = 0) -> None:
        self._decode = strict_decoder(resource)
        self._decoded = decoded
        self.calls = 0

    def __call__(self, data: bytes) -> Any:
        self.calls += 1
        if self._decoded and self.calls % self._decoded == 0:
            return self._decode(data)
        raise msgspec.ValidationError("failed")


def lenient_parser(resource: Resource, decode: FailingDecoder | None = None) -> LineParser:
    parser = LineParser(resource, COMPANIES)
    parser._decode_strictly = decode or FailingDecoder(resource)
    return parser


def is_strict(resource: Resource, sent: dict[str, Any]) -> bool:
    """Whether the strict decoder decodes an envelope."""
    try:
        strict_decoder(resource)(orjson.dumps(sent))
    except msgspec.ValidationError:
        return False
    return True


@given(envelopes())
def test_both_decoders_lead_to_the_same_document_counts_and_errors(line: tuple[Resource, bytes]) -> None:
    resource, data = line
    assert outcome(LineParser(resource, COMPANIES), data) == outcome(lenient_parser(resource), data)


def test_both_decoders_lead_to_the_same_document_of_a_listing_without_the_name_of_its_agent() -> None:
    data = orjson.dumps(envelope(LISTING, {"ListAgentUUID": UUID, "ListAgentFullName": None}))
    (document, named), *_ = outcome(LineParser(LISTING, COMPANIES), data)
    assert [gap.member for gap in document.gaps] == ["ListAgentFullName"]
    assert orjson.loads(named.record)["ListAgentFullName"] == "Ann Oh"
    assert outcome(lenient_parser(LISTING), data) == outcome(LineParser(LISTING, COMPANIES), data)


@given(st.lists(MOMENTS, min_size=1, max_size=20))
def test_a_time_that_is_decoded_strictly_is_in_the_calendar(moments: list[str]) -> None:
    for moment in moments:
        if is_strict(LISTING, envelope(LISTING, {"ModificationTimestamp": moment})):
            assert dt.datetime.fromisoformat(moment).tzinfo is not None


def test_every_day_of_a_year_but_the_leap_day_is_decoded_strictly() -> None:
    first = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    days = [(first + dt.timedelta(days=number)).isoformat() for number in range(366)]
    slow = [day for day in days if not is_strict(LISTING, envelope(LISTING, {"ModificationTimestamp": day}))]
    assert slow == ["2024-02-29T00:00:00+00:00"]


@_resources
def test_a_valid_record_and_a_deletion_are_decoded_strictly(resource: Resource) -> None:
    assert is_strict(resource, envelope(resource))
    assert is_strict(resource, deletion(resource, "acme"))


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
def test_what_is_common_at_the_top_of_a_record_is_decoded_strictly(resource: Resource, changes: dict[str, Any]) -> None:
    assert is_strict(resource, envelope(resource, changes))


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
def test_records_to_normalize_or_reject_deeper_down_are_decoded_leniently(changes: dict[str, Any]) -> None:
    assert not is_strict(LISTING, envelope(LISTING, changes))


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b'"\xff"', "is not a JSON object in UTF-8"), (b"[" * 100_000 + b"]" * 100_000, "is nested too deeply")],
)
def test_what_no_decoder_can_read_is_an_error_of_the_line(value: bytes, reason: str) -> None:
    data = orjson.dumps(envelope(LISTING, {"AssociationFee": "here"})).replace(b'"here"', value)
    (field, text), *_ = outcome(LineParser(LISTING, COMPANIES), data)
    assert (field, text.partition(":")[0]) == ("", reason)


def test_after_failures_the_strict_decoder_is_tried_less_often() -> None:
    failing = FailingDecoder(LISTING)
    parser = lenient_parser(LISTING, failing)
    data = orjson.dumps(envelope(LISTING))
    for _ in range(64 + 10 * 64):
        outcome(parser, data)
    # At the lines 1, 2, 4, 8, 16, 32 and 64, then at every 64th.
    assert failing.calls == 7 + 10


def test_after_single_failures_the_strict_decoder_is_tried_at_every_line() -> None:
    failing = FailingDecoder(LISTING, decoded=2)
    parser = lenient_parser(LISTING, failing)
    for _ in range(100):
        outcome(parser, orjson.dumps(envelope(LISTING)))
    assert failing.calls == 100
