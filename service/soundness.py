"""Whether Elasticsearch is one to answer from: checks for readiness, for requests and for `brokerage doctor`.

They need `view_index_metadata` on the indices, and `monitor` on the cluster for versions and health. Where a right is
missing, the finding says that nothing is known.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from cluster.versions import old_versions
from mappings import RESOURCES
from service.errors import ApiError, DeadlinePassed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from cluster.connection import ConnectionSettings

# One request of a check: far below any patience of those who ask for readiness.
_SECONDS = 2.0
# Of nodes that do not answer nothing is told; the others do not wait for them longer.
_NODES = "/_nodes/_all/_none?timeout=1s&filter_path=nodes.*.name,nodes.*.version,nodes.*.roles"
HEALTH = "/_cluster/health?timeout=1s&master_timeout=1s&filter_path=status,number_of_data_nodes"

ENGINE, CLUSTER, KEYS, CONTROL = "elasticsearch", "cluster", "keys", "control"


class State(StrEnum):
    """How something that was looked at is."""

    OK = "ok"
    UNKNOWN = "unknown"  # a right is missing, or no answer came in time
    ABSENT = "absent"  # nothing was ever loaded: it is not answered, and nothing is out of order
    WARNING = "warning"
    WRONG = "wrong"  # nothing that depends on it is answered


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check found.

    `problem` is fit for anybody who reaches the service: it names no index, node, version or address. `detail` and
    `remedy` are for operators.
    """

    subject: str
    state: State = State.OK
    problem: str = ""
    detail: str = ""
    remedy: str = ""

    @property
    def is_fatal(self) -> bool:
        """Whether it keeps a starting replica from becoming ready, and refuses requests for its subject."""
        return self.state is State.WRONG

    @property
    def sentence(self) -> str:
        """All of it in a line for a log."""
        return " ".join(part for part in (f"{self.subject}: {self.problem}.", self.detail, self.remedy) if part)


class Asks(Protocol):
    """What is asked: `service.elastic.Engine`."""

    async def ask(self, target: str) -> tuple[int, Any]:
        """Return the status of a GET, 200, 401, 403 or 404, and its parsed answer; raise ApiError."""


async def asked(engine: Asks, target: str) -> tuple[int, Any]:
    """Ask within two seconds; raise ApiError."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await engine.ask(target)
    except TimeoutError:
        raise DeadlinePassed from None


async def cluster_findings(engine: Asks) -> list[Finding]:
    """Look at versions and health; what cannot be asked is unknown."""
    return [
        await told(ENGINE, partial(_versions, engine)),
        await told(CLUSTER, partial(_health, engine)),
    ]


async def told(subject: str, check: Callable[[], Awaitable[Finding]]) -> Finding:
    """Return what a check finds, and that nothing is known where it fails."""
    try:
        return await check()
    except ApiError as failure:
        reason = str(getattr(failure, "reason", failure.detail))
        return Finding(subject=subject, state=State.UNKNOWN, problem="could not be looked at in time", detail=reason)


def without_right(subject: str, right: str) -> Finding:
    """Return that nothing is known for want of a right, such as `monitor on the cluster`."""
    remedy = f"Grant the service's user {right}."
    return Finding(subject=subject, state=State.UNKNOWN, problem="may not be looked at", remedy=remedy)


async def _versions(engine: Asks) -> Finding:
    status, answer = await asked(engine, _NODES)
    if status != 200:
        return without_right(ENGINE, "`monitor` on the cluster")
    nodes = list(answer["nodes"].values())
    if refused := old_versions(nodes):
        return Finding(
            subject=ENGINE,
            state=State.WRONG,
            problem="a version that is not supported",
            detail=" ".join(refused),
            remedy="No request is answered until every node has a supported version.",
        )
    return Finding(subject=ENGINE, detail=f"{_counted(nodes)}, {', '.join(sorted({n['version'] for n in nodes}))}")


def _counted(nodes: list[Any]) -> str:
    return "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"


async def _health(engine: Asks) -> Finding:
    status, answer = await asked(engine, HEALTH)
    if status != 200:
        return without_right(CLUSTER, "`monitor` on the cluster")
    if answer["status"] == "green":
        return Finding(subject=CLUSTER, detail="green")
    missing = "no copy of some index, which cannot be read" if answer["status"] == "red" else "no replica of some index"
    return Finding(
        subject=CLUSTER,
        state=State.WARNING,
        problem=f"it is {answer['status']}",
        detail=f"There is {missing}.",
        remedy="`GET _cluster/allocation/explain` says why.",
    )


def refused(findings: Iterable[Finding], connection: ConnectionSettings) -> dict[str, str]:
    """Return the titles of the resources, by alias, that are not answered from with these findings."""
    unanswered = {finding.subject for finding in findings if finding.is_fatal or finding.state is State.ABSENT}
    return {
        connection.alias(resource): resource.title
        for resource in RESOURCES
        if resource.alias in unanswered or ENGINE in unanswered
    }
