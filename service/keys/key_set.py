"""The complete set of keys, and its version, which is cheap to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.keys.record import decode_key
from service.search.search_response import parse_hits, total_hits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.keys.record import ApiKey, DamagedKey
    from service.search.engine import SearchEngine

_PAGE_SIZE = 1_000


@dataclass(frozen=True)
class KeySetVersion:
    """The number of documents and the last one written: changes with every write and deletion.

    Includes the id and primary term, because a recreated index counts sequence numbers from 0 again.
    """

    count: int = 0
    sequence: object = None
    key_id: str = ""
    term: object = None

    @classmethod
    def of(cls, count: int, last: Mapping[str, Any] | None) -> KeySetVersion:
        """Return the version of `count` documents, of which `last` is the hit that was written last."""
        return cls() if last is None else cls(count, last["sort"][0], last["_id"], last.get("_primary_term"))


async def read_version(engine: SearchEngine, index: str) -> KeySetVersion:
    """Return the current version; raise ApiError."""
    response = await engine.search_unshared(index, _version_body())
    return KeySetVersion.of(total_hits(response), next(iter(parse_hits(response)), None))


async def read_keys(engine: SearchEngine, index: str) -> tuple[dict[str, ApiKey | DamagedKey], KeySetVersion]:
    """Return all keys by id, and their version; raise ApiError.

    Sorted by sequence number, so that none is missed: a document written meanwhile appears again on a later page. The
    version is computed from these hits, because another shard copy may lag a refresh behind.
    """
    keys: dict[str, ApiKey | DamagedKey] = {}
    last: dict[str, Any] | None = None
    while True:
        page = parse_hits(await engine.search_unshared(index, _page_body(last)))
        keys |= {hit["_id"]: decode_key(hit["_id"], hit.get("_source")) for hit in page}
        last = page[-1] if page else last
        if len(page) < _PAGE_SIZE:
            return keys, KeySetVersion.of(len(keys), last)


def _version_body() -> dict[str, object]:
    sort = [{"_seq_no": "desc"}]
    return {"size": 1, "sort": sort, "track_total_hits": True, "seq_no_primary_term": True, "_source": False}


def _page_body(last: Mapping[str, Any] | None) -> dict[str, object]:
    body: dict[str, object] = {
        "size": _PAGE_SIZE,
        "sort": ["_seq_no", "key_id"],
        "track_total_hits": False,
        "seq_no_primary_term": True,
    }
    return body | ({"search_after": last["sort"]} if last else {})
