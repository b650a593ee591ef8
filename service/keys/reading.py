"""Reading the whole set of keys, and telling cheaply whether it is still the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.answer import hits, total
from service.keys.record import read_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.elastic import Engine
    from service.keys.record import ApiKey, DamagedKey

_READ_AT_ONCE = 1_000


@dataclass(frozen=True)
class State:
    """What differs whenever a document was written or deleted: how many there are, and which was written last.

    Numbers alone would be the same again in an index that was made anew.
    """

    count: int = 0
    sequence: object = None
    key_id: str = ""
    term: object = None

    @classmethod
    def of(cls, count: int, last: Mapping[str, Any] | None) -> State:
        """Return the state of so many documents, by the hit that was written last."""
        return cls() if last is None else cls(count, last["sort"][0], last["_id"], last.get("_primary_term"))


async def read_state(engine: Engine, index: str) -> State:
    """Ask for the state alone; raise ApiError."""
    answer = await engine.search_anew(index, _state_body())
    return State.of(total(answer), next(iter(hits(answer)), None))


async def read_set(engine: Engine, index: str) -> tuple[dict[str, ApiKey | DamagedKey], State]:
    """Return every key by its id, and the state that they are of; raise ApiError.

    In the order of writing none is missed: what is written meanwhile comes again, later and newer. The state is that of
    what was read, not of what was asked before: another copy may have answered, a refresh behind.
    """
    found: dict[str, ApiKey | DamagedKey] = {}
    last: dict[str, Any] | None = None
    while True:
        page = hits(await engine.search_anew(index, _page_body(last)))
        found |= {hit["_id"]: read_key(hit["_id"], hit.get("_source")) for hit in page}
        last = page[-1] if page else last
        if len(page) < _READ_AT_ONCE:
            return found, State.of(len(found), last)


def _state_body() -> dict[str, object]:
    sort = [{"_seq_no": "desc"}]
    return {"size": 1, "sort": sort, "track_total_hits": True, "seq_no_primary_term": True, "_source": False}


def _page_body(last: Mapping[str, Any] | None) -> dict[str, object]:
    body: dict[str, object] = {
        "size": _READ_AT_ONCE,
        "sort": ["_seq_no", "key_id"],
        "track_total_hits": False,
        "seq_no_primary_term": True,
    }
    return body | ({"search_after": last["sort"]} if last else {})
