"""The stored documents of keys and of their last use, and the index definitions."""

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from mappings.display import DisplayLicence

KEYS_INDEX_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1", "index.refresh_interval": "1s"},
    "mappings": {"dynamic": False, "properties": {"key_id": {"type": "keyword"}, "created": {"type": "date"}}},
}
# When each key was last used, by key id. Written through its alias only: see `service.keys.usage`.
USAGE_INDEX_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
    "mappings": {"dynamic": "strict", "properties": {"last_used": {"type": "date"}}},
}

TIER_PATTERN = r"^[a-z0-9-]{1,32}$"

# Invalid values are rejected when the document is read, not only when a request uses the key.
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
_Moment = Annotated[dt.datetime, msgspec.Meta(tz=True)]
_Tier = Annotated[str, msgspec.Meta(pattern=TIER_PATTERN)]


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored key. Scope: the named companies, the named parent companies with their children, or everything.

    `rate` is in requests per minute, None for unlimited; a `tier` overrides it. `burst` is in requests, None for the
    default of the tier or the service. `fields` are the visible field groups, None for all. `successor` is the id of
    the key that replaces this one. `profile` is `compatible` for clients of similar platforms; a name that this version
    does not know has no effect. Unknown members of newer versions are ignored.
    `display` is the licence by which listings are shown (`mappings.display`); a key with an unknown one is damaged.
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
    profile: str | None = None
    display: DisplayLicence | None = None

    def is_usable(self, now: dt.datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True)
class DamagedKey:
    """An invalid document in the index of keys, which cannot be used; `problem` says why without quoting it."""

    key_id: str
    problem: str


def decode_key(identifier: str, source: object) -> ApiKey | DamagedKey:
    """Decode the document with this id and source."""
    try:
        key = msgspec.convert(source, ApiKey)
    except msgspec.ValidationError as error:
        return DamagedKey(identifier, str(error))
    if key.key_id != identifier:
        # A copy under another id would keep working after the original is revoked.
        return DamagedKey(identifier, "Its `key_id` is not the id of its document")
    return key
