"""Health checks of Elasticsearch, for readiness, for requests and for `brokerage doctor`.

They require `view_index_metadata` on the indices, and `monitor` on the cluster for versions and health. Without a
privilege the state of the finding is `unknown`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from cluster.connection import ConnectionSettings
from cluster.supported_versions import unsupported_versions
from mappings import RESOURCES
from service.errors import ApiError, DeadlineExceeded
from service.search.used_fields import MissingFields

# For a single request of a check.
_REQUEST_TIMEOUT_SECONDS = 2.0
# Nodes that do not respond within the timeout are omitted.
_NODES_PATH = "/_nodes/_all/_none?timeout=1s&filter_path=nodes.*.name,nodes.*.version,nodes.*.roles"
CLUSTER_HEALTH_PATH = "/_cluster/health?timeout=1s&master_timeout=1s&filter_path=status,number_of_data_nodes"

ENGINE_SUBJECT, CLUSTER_SUBJECT, KEYS_SUBJECT, CONTROL_SUBJECT = "elasticsearch", "cluster", "keys", "control"


class FindingState(StrEnum):
    """The result of a check."""

    OK = "ok"
    UNKNOWN = "unknown"  # a privilege is missing, or there was no response in time
    ABSENT = "absent"  # nothing was ever loaded: requests for it get 503, but nothing is broken
    WARNING = "warning"
    WRONG = "wrong"  # requests that depend on it get 503


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    `problem` is public: it contains no index, node, version or address. `detail` and `remedy` are for operators.
    """

    subject: str
    state: FindingState = FindingState.OK
    problem: str = ""
    detail: str = ""
    remedy: str = ""
    is_replaced: bool = False  # the data are not those of the mark: the change feed is refused
    missing: frozenset[str] = frozenset()  # search fields that the live index lacks: requests that use them are refused

    @property
    def is_fatal(self) -> bool:
        """Whether a starting replica cannot become ready, and requests for the subject are refused."""
        return self.state is FindingState.WRONG

    @property
    def sentence(self) -> str:
        """The complete finding as one log line."""
        return " ".join(part for part in (f"{self.subject}: {self.problem}.", self.detail, self.remedy) if part)


class StatusReader(Protocol):
    """The part of `service.search.engine.SearchEngine` that checks use."""

    async def get_json(self, target: str) -> tuple[int, Any]:
        """Send a GET; return the status (200, 401, 403 or 404) and the parsed body. Raises ApiError."""


async def get_within_timeout(engine: StatusReader, target: str) -> tuple[int, Any]:
    """Send a GET with a timeout of two seconds; raise ApiError."""
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT_SECONDS):
            return await engine.get_json(target)
    except TimeoutError:
        raise DeadlineExceeded from None


async def cluster_findings(engine: StatusReader) -> list[Finding]:
    """Check versions and health of the cluster; failed checks are `unknown`."""
    return [
        await run_check(ENGINE_SUBJECT, partial(_versions, engine)),
        await run_check(CLUSTER_SUBJECT, partial(_health, engine)),
    ]


async def run_check(subject: str, check: Callable[[], Awaitable[Finding]]) -> Finding:
    """Return the finding of a check, or one with state `unknown` if it fails."""
    try:
        return await check()
    except ApiError as failure:
        reason = str(getattr(failure, "reason", failure.detail))
        return Finding(
            subject=subject, state=FindingState.UNKNOWN, problem="could not be checked in time", detail=reason
        )


def missing_privilege(subject: str, privilege: str) -> Finding:
    """Return the finding that a privilege is missing, such as `monitor` on the cluster."""
    remedy = f"Grant the service's user {privilege}."
    return Finding(
        subject=subject, state=FindingState.UNKNOWN, problem="cannot be checked without a privilege", remedy=remedy
    )


async def _versions(engine: StatusReader) -> Finding:
    status, body = await get_within_timeout(engine, _NODES_PATH)
    if status != 200:
        return missing_privilege(ENGINE_SUBJECT, "`monitor` on the cluster")
    nodes = list(body["nodes"].values())
    if unsupported := unsupported_versions(nodes):
        return Finding(
            subject=ENGINE_SUBJECT,
            state=FindingState.WRONG,
            problem="unsupported version",
            detail=" ".join(unsupported),
            remedy="All requests are refused until every node has a supported version.",
        )
    count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return Finding(subject=ENGINE_SUBJECT, detail=f"{count}, {', '.join(sorted({n['version'] for n in nodes}))}")


async def _health(engine: StatusReader) -> Finding:
    status, body = await get_within_timeout(engine, CLUSTER_HEALTH_PATH)
    if status != 200:
        return missing_privilege(CLUSTER_SUBJECT, "`monitor` on the cluster")
    if body["status"] == "green":
        return Finding(subject=CLUSTER_SUBJECT, detail="green")
    is_red = body["status"] == "red"
    return Finding(
        subject=CLUSTER_SUBJECT,
        state=FindingState.WARNING,
        problem=f"status {body['status']}",
        detail="A primary shard is unassigned: its index cannot be read." if is_red else "A replica is unassigned.",
        remedy="`GET _cluster/allocation/explain` says why.",
    )


def blocked_resources(findings: Iterable[Finding], connection: ConnectionSettings) -> dict[str, str]:
    """Return the titles, by alias, of the resources whose requests are refused because of these findings."""
    blocked = {finding.subject for finding in findings if finding.is_fatal or finding.state is FindingState.ABSENT}
    return {
        connection.alias(resource): resource.title
        for resource in RESOURCES
        if resource.alias in blocked or ENGINE_SUBJECT in blocked
    }


def missing_fields(findings: Iterable[Finding], connection: ConnectionSettings) -> dict[str, MissingFields]:
    """Return, by alias, the search fields that live indices lack."""
    missing = {finding.subject: finding.missing for finding in findings if finding.missing}
    return {
        connection.alias(resource): MissingFields(resource.alias, missing[resource.alias])
        for resource in RESOURCES
        if resource.alias in missing
    }
