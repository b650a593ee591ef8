"""How far each replication has come, kept in the control index for `index status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from elasticsearch import ConflictError, NotFoundError

from cluster.control import CONTROL_BODY, ensure_index

if TYPE_CHECKING:
    from indexer.engine import Engine

_ID = "replications"


class Replication(msgspec.Struct, frozen=True):
    """One source of one company. Times are milliseconds since 1970.

    `complete` is the time, by the source's clock, up to which everything that the source showed is served; None before
    the first load is over. `due` is how many records were read and are not told yet.
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

    @property
    def name(self) -> str:
        """What tells it from others."""
        return " ".join(part for part in (self.company, self.prefix, self.source) if part)


async def enter_replication(engine: Engine, replication: Replication) -> None:
    """Write down where a replication stands. Several may do so at once: nobody's word is lost."""
    index = engine.connection.control_index
    await ensure_index(engine.client, index, CONTROL_BODY)
    while True:
        known, terms = await _read(engine)
        document = {**known, replication.name: msgspec.to_builtins(replication)}
        try:
            await engine.client.index(index=index, id=_ID, document=document, refresh=True, **terms)
        except ConflictError:
            continue
        return


async def replications(engine: Engine) -> list[Replication]:
    """Return where every replication stands."""
    known, _ = await _read(engine)
    return [msgspec.convert(each, Replication) for _, each in sorted(known.items())]


async def _read(engine: Engine) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is written down, and the terms under which it may be replaced."""
    try:
        answer = await engine.client.get(index=engine.connection.control_index, id=_ID)
    except NotFoundError:  # nor is there a control index before the first run of all
        return {}, {"op_type": "create"}
    return answer["_source"], {"if_seq_no": answer["_seq_no"], "if_primary_term": answer["_primary_term"]}
