"""A clean source of every resource is built, verified and served; its records are stored byte for byte."""

import datetime as dt
import secrets
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.control_index import ensure_index
from indexer import RunStage
from indexer.bulk import AdaptiveLimit, BulkOptions, BulkResult, BulkSender, BulkWrite
from indexer.documents.companies import Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.source.lines import SourceLine
from mappings import AGENT, COMPANY, LISTING, OFFICE, RESOURCES, SOLD_LISTING, TEAM
from mappings.indices import index_body, schema_fingerprint
from tests.indexer.conftest import Bench
from tests.indexer.raw_documents import get_document
from tests.records import COMPANY_KEY, UPDATED_AT, UUID_OF_A_TEST, deletion, envelope, record

every_resource = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
UPDATED_MILLISECONDS = int(dt.datetime.fromisoformat(UPDATED_AT).timestamp() * 1000)


async def test_a_source_of_every_resource_is_served(bench: Bench) -> None:
    summary = await bench.build({resource: [envelope(resource)] for resource in RESOURCES})
    assert summary.exit_code == 0
    assert [(report.stage, report.read, report.indexed, report.dead) for report in summary.resources] == [
        (RunStage.SWAPPED, 1, 1, 0)
    ] * len(RESOURCES)
    for resource in RESOURCES:
        documents = await bench.served(resource)
        stored = record(resource)
        assert list(documents) == [stored[resource.identifier]]
        assert documents[stored[resource.identifier]]["record"] == stored
        assert await bench.live(resource) == f"{resource.alias}-v0001"


async def test_a_document_carries_the_search_fields_of_its_resource(bench: Bench) -> None:
    await bench.build(
        {
            OFFICE: [envelope(OFFICE, deactivated_at="2026-01-01T00:00:00+01:00")],
            LISTING: [envelope(LISTING, shared_partner_data_updated_at="1970-01-01T00:00:01Z")],
            SOLD_LISTING: [envelope(SOLD_LISTING, {"SoldDate": "1970-01-02", "SecondaryListAgentUUID": None})],
            AGENT: [envelope(AGENT, {"company_programs": ["x"]}, source_agent_id="77")],
        }
    )
    (office,) = (await bench.served(OFFICE)).values()
    assert office["deactivated"] == 1_767_222_000_000
    assert office["modified"] == "2026-01-02T03:04:05.678000Z"
    (listing,) = (await bench.served(LISTING)).values()
    assert listing["partner_clock"] == 1000
    assert listing["property_type_id"] == 2
    assert listing["agents"] == [UUID_OF_A_TEST] * 2
    (sold,) = (await bench.served(SOLD_LISTING)).values()
    assert sold["sold"] == 86_400_000
    assert sold["agents"] == [UUID_OF_A_TEST]
    (agent,) = (await bench.served(AGENT)).values()
    assert agent["has_company_programs"] is True
    assert agent["source_agent_id"] == "77"


async def test_the_bookkeeping_of_a_document_names_its_company_and_its_version(bench: Bench) -> None:
    await bench.build({LISTING: [envelope(LISTING, platform_company_id="4100")]})
    (document,) = (await bench.served(LISTING)).values()
    assert document["company"] == COMPANY_KEY
    assert document["feed_key"] == f"{COMPANY_KEY}:listing-1"
    assert document["clock"] == UPDATED_MILLISECONDS
    assert document["sequence"] == 1
    assert document["deleted"] is False
    assert document["version"] >> 10 == UPDATED_MILLISECONDS * 1000
    assert 0 <= document["version"] & 1023 < 1022
    answer = await get_document(bench.client, bench.connection.alias(LISTING), "listing-1")
    assert answer["_version"] == document["version"]


async def test_a_deletion_leaves_a_tombstone_without_a_record(bench: Bench) -> None:
    summary = await bench.build({TEAM: [envelope(TEAM), deletion(TEAM, "gone")]})
    tombstone = (await bench.served(TEAM))["gone"]
    assert summary.report_for("teams").tombstones == 1
    assert tombstone["deleted"] is True
    assert tombstone["feed_key"] == f"{COMPANY_KEY}:gone"
    assert tombstone["version"] & 1023 == 1023
    assert "record" not in tombstone


async def test_a_generation_serves_with_its_live_settings_and_knows_its_shape(bench: Bench) -> None:
    await bench.build({})
    index = bench.connection.prefix + await bench.live(COMPANY)
    settings = (await bench.client.indices.get_settings(index=index))[index]["settings"]["index"]
    meta = (await bench.client.indices.get_mapping(index=index))[index]["mappings"]["_meta"]
    assert settings["refresh_interval"] == "1s"
    assert settings["auto_expand_replicas"] == "0-1"
    assert meta["fingerprint"] == schema_fingerprint(COMPANY)


hostile = st.text(st.characters(codec="utf-8"), max_size=60) | st.sampled_from(
    ["\t", '"record":\t{}\t', "\\", "\x00", "\u2028\x7f", "}\n{", '"},"DaysOnMarket":\t']
)
untyped = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.tuples(hostile, hostile, untyped), min_size=1, max_size=30))
async def test_hostile_records_lie_byte_for_byte_between_tabs(bench: Bench, texts: list[tuple[str, str, Any]]) -> None:
    index = bench.connection.alias(LISTING)
    await ensure_index(bench.client, index, index_body(LISTING))
    parser, chunk = LineParser(LISTING, Companies({COMPANY_KEY})), ParsedChunk()
    sender = BulkSender(bench.client, index, AdaptiveLimit(bench.settings), bench.settings, BulkOptions())
    for number, (one, two, free) in enumerate(texts):
        identifier = f"l{number}-{secrets.token_hex(4)}"
        sent = envelope(LISTING, {"PlatformListingId": identifier, "Address": one, "City": two, "Address2": free})
        document = parser.parse(SourceLine("listings.ndjson", number, orjson.dumps(sent)), chunk)
        result = await sender.send([BulkWrite(document.id, document.version, document.stamped_source(1, 1), document)])
        assert result == BulkResult()
        raw = await bench.stored_bytes(LISTING, identifier)
        before, between, after = raw.split(b"\t")
        assert before.endswith(b'"record":')
        assert after == b"}"
        assert orjson.loads(between) == orjson.loads(raw.replace(b"\t", b" "))["record"] == sent["record"]
        assert list(orjson.loads(between)) == [field.name for field in LISTING.stored]
