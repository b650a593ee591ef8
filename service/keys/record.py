"""What is stored of a key and of its use, and the indices that hold it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

KEYS_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1", "index.refresh_interval": "1s"},
    "mappings": {"dynamic": False, "properties": {"key_id": {"type": "keyword"}, "created": {"type": "date"}}},
}
# When each key was last used, under the key's id. It is written to by its alias only: see `service.keys.usage`.
USAGE_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
    "mappings": {"dynamic": "strict", "properties": {"last_used": {"type": "date"}}},
}

TIER = r"^[a-z0-9-]{1,32}$"

# Whatever would fail only when a request is judged by it is refused when the document is read.
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
_Moment = Annotated[dt.datetime, msgspec.Meta(tz=True)]
_Tier = Annotated[str, msgspec.Meta(pattern=TIER)]


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key's record. Scope: the named companies, the children of the named parents and the parents, or everything.

    `rate` is requests a minute, None stands for unlimited; a `tier` goes before it. `burst` is requests at once, None
    stands for what the tier or the service allows. `fields` names the field groups that the key may see, None stands
    for all. `successor` is the id of the key that replaces this one. Unknown members of newer versions are ignored.
    """

    key_id: str
    name: str
    digest: _Digest
    created: _Moment
    companies: tuple[str, ...] = ()
    parent_companies: tuple[str, ...] = ()
    all_companies: bool = False
    rate: _Count | None = 300
    burst: _Count | None = None
    tier: _Tier | None = None
    fields: tuple[str, ...] | None = None
    note: str = ""
    expires: _Moment | None = None
    revoked: _Moment | None = None
    successor: str | None = None

    def usable(self, now: dt.datetime) -> bool:
        """Tell whether the key is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True)
class DamagedKey:
    """A document among the keys that is none: `problem` says why without quoting it. Nobody can use it."""

    key_id: str
    problem: str


def read_key(identifier: str, source: object) -> ApiKey | DamagedKey:
    """Return the key of the document that has this id and this source."""
    try:
        key = msgspec.convert(source, ApiKey)
    except msgspec.ValidationError as error:
        return DamagedKey(identifier, str(error))
    if key.key_id != identifier:
        # A copy would go on working when the key that it was made of is revoked.
        return DamagedKey(identifier, "Its `key_id` is not the id of its document")
    return key
