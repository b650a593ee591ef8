"""The audit is written in the background, in bounded memory, and says what it could not record."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from mappings import LISTING
from service.audit.reads import GAP, SENT, SESSION, AuditLog, WrittenAudit
from service.services import Services
from tests.internals import Internals, metric
from tests.service.api_client import services_of
from tests.service.conftest import Open
from tests.service.stand_in import Reply, StandIn, refusal
from tests.waiting import until

NOT_RECORDED = "What keys are sent is not being recorded for the audit: "
RECORDS = 5
_OK = web.Response()


@pytest.fixture
async def api(open_api: Open, stand_in: StandIn) -> TestClient[Any, Any]:
    """The service with an audit that tests write, over a few companies."""
    for at in range(RECORDS):
        stand_in.add("companies", f"c{at}", {"platform_company_id": f"c{at}"})
    opened = await open_api(audit_days=1)
    await until(lambda: bool(documents(stand_in, SESSION)))  # the first write has ended
    return opened


def audit_of(api: TestClient[Any, Any]) -> WrittenAudit:
    """Return the audit of the service."""
    services: Services = services_of(api)
    return services.of(WrittenAudit)


async def asked(api: TestClient[Any, Any], stand_in: StandIn) -> int:
    """Read all companies with a key and return the status."""
    key = stand_in.keys[0] if stand_in.keys else stand_in.grant()
    async with api.get("/v1/companies", headers={"x-api-key": key}) as response:
        return response.status


def documents(stand_in: StandIn, kind: str) -> list[dict[str, Any]]:
    """Return the documents of a kind that were written."""
    return [line for line in stand_in.written if line.get("kind") == kind]


def count(name: str) -> float:
    """Return a counter of this process."""
    return metric(f"brokerage_audit_{name}_total")


async def test_requests_write_nothing_by_themselves(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    before = count("rows")
    for _ in range(3):
        assert await asked(api, stand_in) == 200
    assert documents(stand_in, SENT) == []
    await audit_of(api).flush()
    (row,) = documents(stand_in, SENT)
    assert row["pages"].count("\t") == 3
    assert (row["key_id"], row["first"], row["last"]) == (stand_in.keys[0][3:13], "c0", "c4")
    assert count("rows") == before + 1
    await audit_of(api).flush()
    assert len(documents(stand_in, SENT)) == 1


async def test_without_the_setting_nothing_is_noted_or_written(open_api: Open, stand_in: StandIn) -> None:
    stand_in.add("companies", "c0", {"platform_company_id": "c0"})
    api = await open_api()
    assert await asked(api, stand_in) == 200
    await api.close()
    assert {line.get("kind") for line in stand_in.written} == {None}


async def test_what_is_left_is_written_at_the_end(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    assert await asked(api, stand_in) == 200
    await api.close()
    assert len(documents(stand_in, SENT)) == 1
    assert [session["has_ended"] for session in documents(stand_in, SESSION)][-1]


async def test_it_is_written_in_the_background(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    audit = WrittenAudit(audit_of(api).log, services_of(api).engine, "audit", every_seconds=0.01)
    task = asyncio.create_task(audit.run())
    assert await asked(api, stand_in) == 200
    await until(lambda: len(documents(stand_in, SENT)) == 1)
    task.cancel()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (refusal(403, "security_exception"), "the service's user lacks the privilege `index` on audit."),
        (refusal(503, "unavailable_shards_exception"), "Elasticsearch did not accept the write."),
        (Reply(delay=30.0), "Elasticsearch did not accept the write."),
        (Reply(status=404, body=b"{}"), "there is no alias audit; `brokerage audit create` creates it and its index."),
        (Reply(body=b'{"items":[{"index":{"status":429}}]}'), "Elasticsearch returned 429."),
    ],
)
async def test_a_failure_costs_no_request_is_logged_once_and_made_up_for(
    api: TestClient[Any, Any],
    stand_in: StandIn,
    caplog: pytest.LogCaptureFixture,
    internals: Internals,
    reply: Reply,
    said: str,
) -> None:
    # Only where there is no response: a busy machine may need longer than that.
    internals(audit_write_timeout=0.2 if reply.delay else 60.0)
    stand_in.out(reply, "audit")
    before = count("failures")
    for _ in range(2):
        assert await asked(api, stand_in) == 200
        await audit_of(api).flush()
    assert count("failures") == before + 2
    assert caplog.text.count(NOT_RECORDED) == caplog.text.count(NOT_RECORDED + said) == 1
    internals(audit_write_timeout=60.0)
    stand_in.replies.clear()
    stand_in.written.clear()
    await audit_of(api).flush()
    assert sum(row["pages"].count("\t") for row in documents(stand_in, SENT)) == 2
    assert documents(stand_in, GAP) == []
    assert "is being recorded for the audit again" in caplog.text
    assert audit_of(api).log.pending_bytes == 0


async def test_what_memory_does_not_hold_is_counted_and_reported(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    audit_of(api).log.max_bytes = 100
    stand_in.out(refusal(503, "unavailable_shards_exception"), "audit")
    before = count("lost")
    for _ in range(20):
        assert await asked(api, stand_in) == 200
        await audit_of(api).flush()
    lost = int(count("lost") - before)
    kept = 20 * RECORDS - lost
    assert 0 < kept < 5 * RECORDS
    assert audit_of(api).log.pending_bytes < 200
    stand_in.replies.clear()
    stand_in.written.clear()
    await audit_of(api).flush()
    names = [name for row in documents(stand_in, SENT) for name in row["pages"].splitlines() if name.startswith("c")]
    assert len(names) == kept
    (gap,) = documents(stand_in, GAP)
    assert (gap["lost"], gap["since"] <= gap["until"]) == (lost, True)
    await audit_of(api).flush()
    assert documents(stand_in, GAP) == [gap]


async def test_an_end_in_the_middle_of_a_write_loses_nothing(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    audit = audit_of(api)
    stand_in.out(Reply(delay=30.0), "audit")
    assert await asked(api, stand_in) == 200
    writing = asyncio.create_task(audit.flush())
    await until(lambda: bool(documents(stand_in, SENT)))
    writing.cancel()
    await asyncio.wait([writing])
    stand_in.replies.clear()
    stand_in.written.clear()
    await api.close()
    assert len(documents(stand_in, SENT)) == 1


async def test_a_row_is_closed_before_it_is_large() -> None:
    log = AuditLog()
    for at in range(3):
        request = log.open("k", is_head=False)
        request.names(LISTING, [f"{at}-{name}" for name in range(2000)])
        request.finish(None, _OK)
    log.pack()
    assert [row.count for row in log.take_rows()] == [2000, 2000, 2000]


async def test_what_cannot_be_read_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog()
    request = log.open("k", is_head=False)
    request.changes([b"not a change"], {})
    request.finish(None, _OK)
    log.pack()
    assert (log.gap.lost, log.take_rows()) == (1, [])
    assert "could not be recorded" in caplog.text


async def test_a_gap_keeps_its_beginning_when_an_empty_one_is_given_back() -> None:
    log = AuditLog()
    empty = log.take_gap()
    log.gap.add(1, at=5)
    log.give_gap_back(empty)
    assert (log.gap.lost, log.gap.since, log.gap.until) == (1, 5, 5)
