"""Merges that Elasticsearch runs for `index compact`: they outlive the command that started them.

All that is known of a merge is in Elasticsearch: a task whose X-Opaque-Id names the index. So a command finds the
merge of one that was killed, and follows it to its end.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Any

import orjson
from elasticsearch import NotFoundError

from cluster.http.node_loss import NODE_LOSS_TYPES
from cluster.http.raw_json import RAW_HEADERS
from indexer.context import IndexerContext
from indexer.errors import ElasticsearchError, error_reason
from indexer.indices.backoff import retry

_PATH = "/_tasks"
_NAME = "brokerage-compact-"
_RUNNING = {
    "actions": "indices:admin/forcemerge",
    "detailed": "true",
    "filter_path": "nodes.*.tasks.*.headers,node_failures",
}
# Why a merge fails when a node leaves that has copies, or is the elected master.
_LEFT = NODE_LOSS_TYPES | {"master_not_discovered_exception"}


class MergeState(Enum):
    """Whether a merge runs, has ended, or ended incomplete because a node left."""

    RUNNING = auto()
    DONE = auto()
    LOST = auto()


class MergeTasks:
    """Starts and follows the merges of the indices under one prefix."""

    def __init__(self, context: IndexerContext) -> None:
        self._client = context.client
        self._seconds = context.settings.retry_seconds
        self._prefix = f"{_NAME}{context.connection.prefix}"

    async def running(self) -> dict[str, str]:
        """Return the task of each index that is being merged, whichever command started it."""
        listed = await self._get(_PATH, _RUNNING)
        tasks = [task for node in listed.get("nodes", {}).values() for task in node["tasks"].items()]
        names = {task: headers["headers"].get("X-Opaque-Id", "") for task, headers in tasks}
        return {name.removeprefix(_NAME): task for task, name in names.items() if name.startswith(self._prefix)}

    async def start(self, index: str) -> str:
        """Begin to merge each shard of an index into one segment; return the task."""
        client = self._client.options(opaque_id=f"{_NAME}{index}")
        started = await retry(
            lambda: client.indices.forcemerge(index=index, max_num_segments=1, wait_for_completion=False), self._seconds
        )
        return str(started["task"])

    async def state(self, task: str) -> MergeState:
        """Return whether a merge still runs; raise ElasticsearchError if it failed."""
        try:
            found = await self._get(f"{_PATH}/{task}", {})
        except NotFoundError:
            return MergeState.LOST
        if not found["completed"]:
            return MergeState.RUNNING
        failures = found.get("response", {}).get("_shards", {}).get("failures") or []
        causes = [failure["reason"].get("caused_by") for failure in failures] or [found.get("error")]
        if all(cause and _has_left(cause) for cause in causes):
            return MergeState.LOST
        _check(found, failures)
        return MergeState.DONE

    async def _get(self, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        # The client's own calls for tasks warn that they may change.
        read = self._client.perform_request
        response = await retry(lambda: read("GET", path, params=parameters, headers=RAW_HEADERS), self._seconds)
        parsed: dict[str, Any] = orjson.loads(response.body)
        return parsed


def _has_left(cause: Mapping[str, Any]) -> bool:
    # Other blocks of a cluster have the same type.
    return cause["type"] in _LEFT or "no master" in (cause.get("reason") or "")


def _check(found: Mapping[str, Any], failures: Iterable[Mapping[str, Any]]) -> None:
    reasons = [error_reason(failure.get("reason")) for failure in failures]
    if "error" in found:
        reasons.append(error_reason(found))
    if reasons:
        raise ElasticsearchError(f"Elasticsearch could not merge: {'; '.join(dict.fromkeys(reasons))}.")
