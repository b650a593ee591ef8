"""`audit`: which key was sent which records, for takedowns (decision 37); off unless BROKERAGE_AUDIT_DAYS is set."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from cluster.index_state import WRITE_BLOCKS
from cluster.settings import setting
from cluster.terminal import counted
from service.audit.reads import AuditLog, WrittenAudit
from service.background import running
from service.capability import Capability, Check
from service.errors import ApiError
from service.health.checks import Finding, FindingState, get_within_timeout, warning
from service.request_context import SentObserver
from service.search.engine import SearchEngine
from service.services import Services
from service.settings import CapabilitySettings


@dataclass(frozen=True)
class AuditSettings(CapabilitySettings):
    """The record of which key was sent which records."""

    audit_days: int = setting(
        "BROKERAGE_AUDIT_DAYS",
        0,
        "Days for which `brokerage audit` can name the keys that were sent a record. 0: nothing is recorded.",
    )


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    if not services.settings.of(AuditSettings).audit_days:
        yield
        return
    audit = WrittenAudit(AuditLog(), services.engine, services.connection.audit_index)
    services.provide(SentObserver, audit)
    services.provide(WrittenAudit, audit)
    try:
        async with running(audit.run):
            yield
    finally:
        await audit.close()


_SUBJECT = "audit"
_ROLE = "Give the service's user also the role `brokerage_service_audit` of docs/elasticsearch-rights.md."
_DAY_MILLISECONDS = 86_400_000
_LEAST_DAYS = 1 / 24
_GROWTH = "Find the keys that read most in the console. Fewer days or lower rates need less: docs/audit.md, Size."
# An index holds the rows of a day, and pruning runs once a day.
_SLACK_DAYS = 3
# On disk, copies included: what one key that reads at its limit all day causes is 9 to 13 GB.
_WARNED_BYTES_A_DAY = 5 * 10**9


async def check_audit(services: Services) -> Finding:
    """Return whether the audit can be written and is pruned."""
    alias, days = services.connection.audit_index, services.settings.of(AuditSettings).audit_days
    if not days:
        return Finding(subject=_SUBJECT, detail="off (BROKERAGE_AUDIT_DAYS)")
    if not await _may_write(services.engine, alias):
        return warning(_SUBJECT, "the service may not write it", f"Missing: `index` on {alias}.", _ROLE)
    status, indices = await get_within_timeout(services.engine, f"/{alias}?flat_settings=true")
    if status == HTTPStatus.NOT_FOUND:
        return warning(_SUBJECT, "it has no index", f"There is no alias {alias}.", "Run `brokerage audit create`.")
    if status != HTTPStatus.OK:
        state = FindingState.UNKNOWN
        return Finding(subject=_SUBJECT, state=state, problem="could not be checked", remedy=_ROLE)
    _, sizes = await get_within_timeout(services.engine, f"/{alias}/_stats/store")
    return _audit_indices(indices, days, {} if sizes is None else sizes["indices"])


async def _may_write(engine: SearchEngine, alias: str) -> bool:
    """Return whether the user has the privilege; also without security, where all have it."""
    asked = orjson.dumps({"index": [{"names": [alias], "privileges": ["index"]}]})
    try:
        status, body = await engine.request("POST", "/_security/user/_has_privileges", asked)
    except ApiError:
        return True
    return status != HTTPStatus.OK or bool(orjson.loads(body)["has_all_requested"])


def _audit_indices(indices: Mapping[str, Any], days: int, sizes: Mapping[str, Any]) -> Finding:
    """Judge the indices; without the privilege `monitor` there are no sizes."""
    growth = 0.0
    for name, facts in indices.items():
        settings = facts["settings"]
        if block := next((write_block for write_block in WRITE_BLOCKS if settings.get(write_block) == "true"), None):
            return warning(_SUBJECT, "its index refuses writes", f"{block} of {name} is true.", "Free disk space.")
        created = int(settings.get("index.creation_date") or 0)
        age = (time.time() * 1000 - created) / _DAY_MILLISECONDS
        if created and age > days + _SLACK_DAYS:
            kept = f"{name} is {counted(round(age), 'day')} old, and BROKERAGE_AUDIT_DAYS is {days}."
            return warning(_SUBJECT, "it is not pruned", kept, "Run `brokerage audit prune` once a day.")
        if name in sizes:
            # An index of a few minutes says nothing about a day.
            growth = max(growth, sizes[name]["total"]["store"]["size_in_bytes"] / max(age, _LEAST_DAYS))
    grows = f"{growth / 1e9:.1f} GB a day" if sizes else "growth unknown without `monitor`"
    if growth > _WARNED_BYTES_A_DAY:
        taken = f"It grew by {grows}, of which {days} days take {growth * days / 1e9:,.0f} GB."
        return warning(_SUBJECT, "it grows fast", taken, _GROWTH)
    return Finding(subject=_SUBJECT, detail=f"{len(indices)} indices, {days} days are kept, {grows}")


CAPABILITY = Capability("audit", settings=AuditSettings, open=_open, checks=(Check(_SUBJECT, check_audit),))
