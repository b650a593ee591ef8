"""The status of replications in the control index, for operators."""

from typing import Any

import msgspec
from elasticsearch import ConflictError, NotFoundError

from cluster.control_index import CONTROL_BODY, ensure_index
from indexer.control import unchanged
from indexer.settings import IndexerContext

_REPLICATIONS_ID = "replications"


class ReplicationStatus(msgspec.Struct, frozen=True):
    """One source of one company. Times are milliseconds since 1970.

    `complete` is the time, by the source's clock, up to which everything that the source provided is served; None
    during the initial load. `due` is the number of records that were read and are not yet published.
    `missing` has sentences about what the source is expected to give and does not.
    `keys_checked` is when the keys that were compared with the source longest ago were compared; None if some never
    were.
    """

    source: str
    company: str
    resources: list[str]
    at: int
    complete: int | None
    followed_by: str
    records: dict[str, int]
    due: int
    complaint: str | None = None
    prefix: str = ""
    keys_checked: int | None = None
    missing: list[str] = []

    @property
    def name(self) -> str:
        return " ".join(part for part in (self.company, self.prefix, self.source) if part)


async def record_replication(context: IndexerContext, replication: ReplicationStatus) -> None:
    """Record the status of a replication; concurrent writers do not lose each other's entries."""
    index = context.connection.control_index
    await ensure_index(context.client, index, CONTROL_BODY)
    while True:
        entries, condition = await _read_entries(context)
        document = {**entries, replication.name: msgspec.to_builtins(replication)}
        try:
            await context.client.index(index=index, id=_REPLICATIONS_ID, document=document, refresh=True, **condition)
        except ConflictError:
            continue
        return


async def read_replications(context: IndexerContext) -> list[ReplicationStatus]:
    entries, _ = await _read_entries(context)
    return [msgspec.convert(entry, ReplicationStatus) for _, entry in sorted(entries.items())]


async def _read_entries(context: IndexerContext) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the recorded entries, and the condition under which they may be replaced."""
    try:
        response = await context.client.get(index=context.connection.control_index, id=_REPLICATIONS_ID)
    except NotFoundError:  # the control index may not exist yet either
        return {}, {"op_type": "create"}
    return response["_source"], unchanged(response)
