"""The last run of each resource, recorded in the control index for `index status`."""

import msgspec
from elasticsearch import NotFoundError

from indexer.context import IndexerContext
from indexer.indices.backoff import retry


class RunRecord(msgspec.Struct, frozen=True):
    """The last rebuild or update of a resource. Times are milliseconds since 1970.

    `newest` is the latest `updated_at` that it applied; `at` - `newest` is the lag of what is served behind its source.
    """

    verb: str
    at: int
    newest: int
    read: int
    dead: int
    dead_letters: str | None


async def record_last_run(context: IndexerContext, alias: str, entry: RunRecord) -> None:
    """Store the last run of a resource, replacing the one before."""
    index, document = context.connection.control_index, msgspec.to_builtins(entry)
    write = context.client.index
    await retry(lambda: write(index=index, id=f"last-{alias}", document=document), context.settings.retry_seconds)


async def read_last_run(context: IndexerContext, alias: str) -> RunRecord | None:
    """Return the last run, None if there was none."""
    try:
        response = await context.client.get(index=context.connection.control_index, id=f"last-{alias}")
    except NotFoundError:
        return None
    return msgspec.convert(response["_source"], RunRecord)
