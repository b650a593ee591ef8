"""Writes of the service in the background: documents through an alias that exists, and why they were not accepted."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from cluster.index_state import write_block
from service.errors import ApiError
from service.search.engine import SearchEngine

# Written, or rejected because the same or a later version is there.
_SUCCESS_STATUSES = {200, 201, 409}
_log = logging.getLogger("service")


def bulk_lines(actions: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> bytes:
    """Return the body of a bulk request: for each document its action's options and itself."""
    lines = (line for options, document in actions for line in ({"index": options}, document))
    return b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


async def bulk_problem(engine: SearchEngine, alias: str, body: bytes, creator: str, seconds: float) -> str:
    """Send a bulk request within `seconds`; return the problem, or an empty text if everything was written.

    `creator` is the command that creates the alias and its index.
    """
    try:
        async with asyncio.timeout(seconds):
            status, response = await engine.bulk(alias, body)
        items = [{"status": status}] if response is None else [item["index"] for item in response["items"]]
        failed = [item for item in items if response is None or item["status"] not in _SUCCESS_STATUSES]
        return _describe(failed, alias, creator) if failed else ""
    except (ApiError, TimeoutError, LookupError, TypeError):
        return "Elasticsearch did not accept the write"


def _describe(failed: list[dict[str, Any]], alias: str, creator: str) -> str:
    if reason := next(filter(None, (write_block(item.get("error")) for item in failed)), ""):
        return f"{alias} is blocked: {reason}. Free disk space or remove the block"
    statuses = {item["status"] for item in failed}
    if 404 in statuses:
        return f"there is no alias {alias}; {creator} creates it and its index"
    if statuses & {401, 403}:
        return f"the service's user lacks the privilege `index` on {alias}"
    return f"Elasticsearch returned {min(statuses)}"


class WriteProblem:
    """The problem of periodic writes, logged when it begins and when it ends."""

    def __init__(self, begun: str, ended: str) -> None:
        """Log `begun`, a format for the problem, or `ended`."""
        self._begun, self._ended = begun, ended
        self._problem = ""

    def changes_to(self, problem: str) -> None:
        """Log a problem that is not the last one, or that there is none any more (an empty text)."""
        if problem and problem != self._problem:
            _log.warning(self._begun, problem)
        elif self._problem and not problem:
            _log.warning(self._ended)
        self._problem = problem
