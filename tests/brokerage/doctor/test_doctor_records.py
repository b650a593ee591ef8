"""What `brokerage doctor` finds in indices that earlier versions have filled, or that lost a document."""

import asyncio
from typing import Any

import pytest

from cluster.control_index import TOKEN_KEYS_ID, mark_id
from mappings import AGENT, COMPANY, LISTING, TEAM
from mappings.stored_document import feed_key
from tests.brokerage.doctor.test_doctor_command import findings
from tests.indexer.changes.test_fenced_sessions import apply_updates, expire_lock, team
from tests.indexer.conftest import Bench, bench
from tests.internals import Internals
from tests.records import envelope

__all__ = ["bench"]

# Accepted by earlier versions; the last has 448 bytes.
_OUTSIDE = ["a\u0085b", ".", "..", "\U0001f3e0" * 112]
_INSIDE = ["...", "a.b", "\U0001f3e0" * 111, "\u4e16" * 128, "a" * 128]


@pytest.fixture
def environment(bench: Bench) -> dict[str, str]:
    """The variables of a test's indices."""
    return {"ELASTICSEARCH_URL": bench.connection.url[0], "BROKERAGE_INDEX_PREFIX": bench.connection.prefix}


async def doctor(environment: dict[str, str]) -> dict[str, dict[str, Any]]:
    return await asyncio.to_thread(findings, environment, 0)


async def test_identifiers_that_cannot_be_requested_are_named(bench: Bench, environment: dict[str, str]) -> None:
    await bench.build({TEAM: [envelope(TEAM, {"uuid": name}) for name in ("model", *_INSIDE)]})
    assert "identifiers" not in await doctor(environment)
    model, alias = (await bench.served(TEAM))["model"], bench.connection.alias(TEAM)
    for name in _OUTSIDE:
        document = model | {"id": name, "feed_key": feed_key(model["company"], name)}
        await bench.client.bulk(index=alias, operations=[{"index": {"_id": name}}, document], refresh=True)
    finding = (await doctor(environment))["identifiers"]
    assert (finding["state"], finding["detail"].partition(",")[0]) == ("warning", "teams: 4 or more")
    deleted = model | {"id": ".", "feed_key": feed_key(model["company"], "."), "deleted": True}
    await bench.client.bulk(index=alias, operations=[{"index": {"_id": "."}}, deleted], refresh=True)
    assert (await doctor(environment))["identifiers"]["detail"].startswith("teams: 3 or more")


async def test_missing_keys_of_tokens_are_named_until_the_next_update(
    bench: Bench, environment: dict[str, str]
) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})
    assert "tokens" not in await doctor(environment)
    await bench.client.delete(index=bench.connection.control_index, id=TOKEN_KEYS_ID, refresh=True)
    finding = (await doctor(environment))["tokens"]
    assert (finding["state"], "brokerage index update" in finding["remedy"]) == ("warning", True)
    assert (await bench.update({TEAM: [envelope(TEAM, updated_at="2026-02-02T00:00:00Z")]})).exit_code == 0
    assert "tokens" not in await doctor(environment)


async def test_loaded_resources_without_a_watermark_are_named_until_the_next_update(
    bench: Bench, environment: dict[str, str]
) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})
    mark = mark_id(bench.connection.alias(TEAM))
    await bench.client.delete(index=bench.connection.control_index, id=mark, refresh=True)
    finding = (await doctor(environment))["watermarks"]
    assert (finding["state"], finding["detail"]) == ("warning", "teams.")
    assert (await bench.update({COMPANY: [envelope(COMPANY, updated_at="2026-02-02T00:00:00Z")]})).exit_code == 0
    assert "watermarks" not in await doctor(environment)


async def test_records_of_an_update_that_stopped_before_it_published_are_named_until_the_next(
    bench: Bench, environment: dict[str, str], internals: Internals
) -> None:
    """Whoever begins to read changes then does not see them, nor what they replaced."""
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [team("one", "old"), team("two", "old")]})
    killed = bench.writer()
    await apply_updates(killed, "new")
    await expire_lock(bench)
    await bench.client.indices.refresh(index=bench.connection.alias(TEAM))
    assert "watermarks" not in await doctor(environment)  # it may still be running
    internals(doctor_unpublished_seconds=0)
    finding = (await doctor(environment))["watermarks"]
    assert (finding["state"], finding["detail"]) == ("warning", "teams: 1.")
    assert "brokerage index update" in finding["remedy"]
    await bench.update({TEAM: [team("two", "new")]})
    assert "watermarks" not in await doctor(environment)
    await killed.release()


async def test_records_that_are_not_as_their_source_says_are_named_until_they_are(
    bench: Bench, environment: dict[str, str]
) -> None:
    day = "2026-02-{:02}T00:00:00Z".format
    await bench.build({COMPANY: [envelope(COMPANY)], AGENT: [envelope(AGENT, updated_at=day(1))]})
    await bench.update({AGENT: [envelope(AGENT, updated_at=day(2), deactivated_at="never")]})
    finding = (await doctor(environment))["troubles"]
    assert finding["state"] == "warning"
    assert finding["detail"].startswith("1 record is not served as its source says, since ")
    assert finding["remedy"] == "See `brokerage index troubles`."
    await bench.build({LISTING: [envelope(LISTING, updated_at=day(1))]})
    await bench.update({LISTING: [envelope(LISTING, {"Status": "?"}, updated_at=day(2))]})
    overdue = (await doctor({**environment, "BROKERAGE_TROUBLE_HOURS": "0"}))["troubles"]["detail"]
    assert overdue.startswith("2 records are not served")
    assert "No run has withdrawn the listed records since" in overdue
    await bench.update({LISTING: [envelope(LISTING, updated_at=day(3))]})
    await bench.update({AGENT: [envelope(AGENT, updated_at=day(3))]})
    assert "troubles" not in await doctor(environment)
