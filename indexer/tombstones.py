"""Tombstones past their days: no update that old comes any more, and no consumer so far behind is promised anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from indexer.bulk import BULK_HEADERS
from indexer.clocks import now
from indexer.errors import EngineError, reason
from indexer.lifecycle import Lifecycle
from indexer.retry import patiently
from indexer.scan import rows
from indexer.writer import writing

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.engine import Engine
    from indexer.scan import Row
    from indexer.writer import Writer
    from mappings import Resource

_DAY_MILLISECONDS = 86_400_000
_TOGETHER = 1_000


def expired(engine: Engine) -> dict[str, Any]:
    """Return the query for tombstones that are older than BROKERAGE_TOMBSTONE_DAYS."""
    return {"bool": {"filter": [{"term": {"deleted": True}}, {"range": {"clock": {"lt": _first_kept(engine)}}}]}}


def is_expired(engine: Engine, row: Row) -> bool:
    """Whether a row is a tombstone that is no longer kept."""
    return row.deleted and row.clock < _first_kept(engine)


def _first_kept(engine: Engine) -> int:
    return now() - int(engine.settings.tombstone_days * _DAY_MILLISECONDS)


async def forget(engine: Engine, resource: Resource, on_wait: Callable[[str], None]) -> int:
    """Delete the expired tombstones of what is live and return how many there were.

    How far they reach is published before the first is gone.
    """
    lifecycle = Lifecycle(engine, resource)
    live = await lifecycle.live()
    if live is None or not await lifecycle.count(live, expired(engine)):
        return 0
    async with writing(engine, resource, on_wait) as writer:
        found = [row async for page in rows(engine, writer.live, query=expired(engine)) for row in page]
        await writer.forget(max((row.sequence for row in found), default=0))
        for at in range(0, len(found), _TOGETHER):
            await _delete(writer, [row.id for row in found[at : at + _TOGETHER]])
        await lifecycle.refresh(writer.live)
    return len(found)


async def _delete(writer: Writer, identifiers: list[str]) -> None:
    """Delete documents through the fence; while it stands nobody else writes, so no version has to be given.

    Raises EngineError when one cannot be deleted, as when another run has taken the fence away.
    """
    body = b"".join(b'{"delete":{"_id":%b}}\n' % orjson.dumps(identifier) for identifier in identifiers)
    engine, path = writer.engine, f"/{writer.fence}/_bulk?require_alias=true&filter_path=errors,items.*.error"
    send = engine.client.perform_request
    response = await patiently(
        lambda: send("POST", path, headers=BULK_HEADERS, body=body), engine.settings.retry_seconds
    )
    if response.body["errors"]:
        refused = next(item["delete"] for item in response.body["items"] if item)
        raise EngineError(f"Elasticsearch did not delete a tombstone: {reason(refused)}.")
