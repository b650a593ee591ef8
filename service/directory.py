"""The companies as requests need them: keys, numeric ids and who is whose parent, read from the companies index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.answer import hits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.elastic import Engine

_READ_AT_ONCE = 5_000


@dataclass(frozen=True)
class Directory:
    """A snapshot of all companies."""

    keys: dict[str, str] = field(default_factory=dict)  # company key or numeric id -> company key
    children: dict[str, frozenset[str]] = field(default_factory=dict)  # parent's company key -> children's keys

    @classmethod
    def of(cls, documents: Iterable[dict[str, Any]]) -> Directory:
        """Build the snapshot from the documents of the companies index."""
        documents = list(documents)
        keys = {document["numeric_id"]: document["id"] for document in documents if "numeric_id" in document}
        keys |= {document["id"]: document["id"] for document in documents}
        children: dict[str, set[str]] = {}
        for document in documents:
            parent = keys.get(document.get("parent_company_id", ""))
            if parent is not None:
                children.setdefault(parent, set()).add(document["id"])
        return cls(keys, {parent: frozenset(group) for parent, group in children.items()})

    def key(self, company: str) -> str | None:
        """Return the key of a company given by key or numeric id; None for an unknown one."""
        return self.keys.get(company)

    def keys_of(self, companies: Iterable[str]) -> frozenset[str]:
        """Return the keys of those of the given companies that exist."""
        return frozenset(key for key in map(self.key, companies) if key is not None)


async def read_directory(engine: Engine, alias: str) -> Directory:
    """Read every company."""
    documents: list[dict[str, Any]] = []
    after: list[object] | None = None
    while True:
        page = hits(await engine.search(alias, _page_body(after)))
        documents += [hit["_source"] for hit in page]
        if len(page) < _READ_AT_ONCE:
            return Directory.of(documents)
        after = page[-1]["sort"]


def _page_body(after: list[object] | None) -> dict[str, object]:
    body: dict[str, object] = {
        "size": _READ_AT_ONCE,
        "query": {"bool": {"filter": [{"term": {"deleted": False}}]}},
        "sort": ["id"],
        "track_total_hits": False,
        # The list is small and read once in seconds: leaving the record out matters more than the engine's parse.
        "_source": ["id", "numeric_id", "parent_company_id"],
    }
    return body | ({"search_after": after} if after else {})
