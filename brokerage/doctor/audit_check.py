"""The check of `brokerage doctor` of the audit: its indices, whether they accept writes, and the privilege to write."""

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from elastic_transport import TransportError
from elasticsearch import ApiError, AsyncElasticsearch

from brokerage.doctor.privilege_checks import WRITE_PRIVILEGES
from cluster.connection import ConnectionSettings
from cluster.write_blocks import WRITE_BLOCKS
from service.health.checks import Finding, FindingState, StatusReader, get_within_timeout

AUDIT_SUBJECT = "audit"
_ROLE = "Give the service's user also the role `brokerage_service_audit` of docs/elasticsearch-rights.md."
_DAY_MILLISECONDS = 86_400_000
# An index holds the rows of a day, and pruning runs once a day.
_SLACK_DAYS = 3


async def audit_finding(
    client: AsyncElasticsearch, engine: StatusReader, connection: ConnectionSettings, days: int
) -> Finding:
    """Return whether the audit can be written and is pruned; `days` are those that are kept, 0 if it is off."""
    alias = connection.audit_index
    if not days:
        return Finding(subject=AUDIT_SUBJECT, detail="off (BROKERAGE_AUDIT_DAYS)")
    if not await _may_write(client, alias):
        return _problem("the service may not write it", f"Missing: `index` on {alias}.", _ROLE)
    status, indices = await get_within_timeout(engine, f"/{alias}?flat_settings=true")
    if status == HTTPStatus.NOT_FOUND:
        return _problem("it has no index", f"There is no alias {alias}.", "Run `brokerage audit create`.")
    if status != HTTPStatus.OK:
        state = FindingState.UNKNOWN
        return Finding(subject=AUDIT_SUBJECT, state=state, problem="could not be checked", remedy=_ROLE)
    return _of_indices(indices, days)


async def _may_write(client: AsyncElasticsearch, alias: str) -> bool:
    """Return whether the user has the privilege; also without security, where all have it."""
    asked = [{"names": [alias], "privileges": [*WRITE_PRIVILEGES]}]
    try:
        rights = await client.security.has_privileges(index=asked)
    except (ApiError, TransportError):
        return True
    return bool(rights["has_all_requested"])


def _of_indices(indices: Mapping[str, Any], days: int) -> Finding:
    for name, facts in indices.items():
        settings = facts["settings"]
        if block := next((each for each in WRITE_BLOCKS if settings.get(each) == "true"), None):
            return _problem("its index refuses writes", f"{block} of {name} is true.", "Free disk space.")
        created = int(settings.get("index.creation_date") or 0)
        age = (time.time() * 1000 - created) / _DAY_MILLISECONDS
        if created and age > days + _SLACK_DAYS:
            kept = f"{name} is {age:.0f} days old, and BROKERAGE_AUDIT_DAYS is {days}."
            return _problem("it is not pruned", kept, "Run `brokerage audit prune` once a day.")
    return Finding(subject=AUDIT_SUBJECT, detail=f"{len(indices)} indices, {days} days are kept")


def _problem(problem: str, detail: str, remedy: str) -> Finding:
    return Finding(subject=AUDIT_SUBJECT, state=FindingState.WARNING, problem=problem, detail=detail, remedy=remedy)
