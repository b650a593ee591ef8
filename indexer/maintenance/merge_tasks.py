"""Merges that Elasticsearch runs for `index compact`: they outlive the command that started them.

All that is known of a merge is in Elasticsearch: a task whose X-Opaque-Id names the index. So a command finds the
merge of one that was killed, and follows it to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elasticsearch import NotFoundError

from indexer.errors import ElasticsearchError, error_reason
from indexer.indices.backoff import retry

if TYPE_CHECKING:
    from indexer.context import IndexerContext

_NAME = "brokerage-compact-"
_RUNNING = {
    "actions": "indices:admin/forcemerge",
    "detailed": True,
    "filter_path": "nodes.*.tasks.*.headers,node_failures",
}


class MergeTasks:
    """Starts and follows the merges of the indices under one prefix."""

    def __init__(self, context: IndexerContext) -> None:
        self._client = context.client
        self._seconds = context.settings.retry_seconds
        self._prefix = f"{_NAME}{context.connection.prefix}"

    async def running(self) -> dict[str, str]:
        """Return the task of each index that is being merged, whichever command started it."""
        listed = await retry(lambda: self._client.tasks.list(**_RUNNING), self._seconds)
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

    async def is_running(self, task: str) -> bool:
        """Return whether a merge still runs; raise ElasticsearchError if it failed.

        A task whose node has left is over as well: the wear of the index says whether it is needed again.
        """
        try:
            found = (await retry(lambda: self._client.tasks.get(task_id=task), self._seconds)).body
        except NotFoundError:
            return False
        if not found["completed"]:
            return True
        _check(found)
        return False


def _check(found: dict[str, Any]) -> None:
    failures = found.get("response", {}).get("_shards", {}).get("failures") or []
    reasons = [error_reason(failure.get("reason")) for failure in failures]
    if "error" in found:
        reasons.append(error_reason(found))
    if reasons:
        raise ElasticsearchError(f"Elasticsearch could not merge: {'; '.join(dict.fromkeys(reasons))}.")
