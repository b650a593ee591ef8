"""What is stored of a key, and the index that holds it."""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - msgspec reads the annotations
from typing import Any

import msgspec

KEYS_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1", "index.refresh_interval": "1s"},
    "mappings": {"dynamic": False, "properties": {"key_id": {"type": "keyword"}, "created": {"type": "date"}}},
}


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key's record. Scope: the named companies, the children of the named parents and the parents, or everything.

    `rate` is requests a minute, None stands for unlimited. `fields` are the field groups that the key may see, None
    stands for all. Unknown members of newer versions are ignored.
    """

    key_id: str
    name: str
    digest: str
    created: dt.datetime
    companies: tuple[str, ...] = ()
    parent_companies: tuple[str, ...] = ()
    all_companies: bool = False
    rate: int | None = 300
    fields: tuple[str, ...] | None = None
    note: str = ""
    tier: str | None = None
    burst: int | None = None
    expires: dt.datetime | None = None
    revoked: dt.datetime | None = None

    def usable(self, now: dt.datetime) -> bool:
        """Tell whether the key is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)
